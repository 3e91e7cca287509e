//! A request, what the stages pass on, and how an execution can end.

use crate::dispatch::core::Core;
use std::sync::Arc;
use weft_commands::{CmdResult, Lane};
use weft_keyspace::{Busy, Key};
use weft_resp::reply::Mark;
use weft_resp::{Blob, Reply};
use weft_state::command_table::Cmd;
use weft_state::session::Session;
use weft_state::waiting::Waiting;

/// A request, ready to be executed.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub cmd: Option<&'static Cmd>,
    pub args: &'a [&'a [u8]],
    pub blobs: &'a [(usize, Blob)],
    /// Bytes of it on the wire at most: counting them costs as much as looking at the key.
    pub bytes_at_most: usize,
    /// The first key, when the plan has hashed one.
    pub key: Option<Key<'a>>,
    /// The client waited for keys and tries again, with all of them in hand.
    pub retry: Option<&'a Arc<Waiting>>,
    /// How often a shard of it was busy before.
    pub tries: u32,
    /// The command has run before, and was suspended; MONITOR has shown it.
    pub has_run: bool,
}

impl<'a> Request<'a> {
    /// One of these arguments, run for the first time.
    pub fn new(
        cmd: Option<&'static Cmd>,
        args: &'a [&'a [u8]],
        blobs: &'a [(usize, Blob)],
    ) -> Self {
        let bytes_at_most = usize::MAX;
        Request {
            cmd,
            args,
            blobs,
            bytes_at_most,
            key: None,
            retry: None,
            tries: 0,
            has_run: false,
        }
    }

    /// Bytes of it on the wire, as an array of bulk strings: an inline request counts as one. O(arguments).
    pub fn bytes(&self) -> usize {
        let number = |n: usize| "*\r\n".len() + n.checked_ilog10().unwrap_or(0) as usize + 1;
        let arg = |arg: &&[u8]| number(arg.len()) + arg.len() + "\r\n".len();
        let all = number(self.args.len()) + self.args.iter().map(arg).sum::<usize>();
        all.min(self.bytes_at_most)
    }
}

/// Why a request ends without a reply for now. Unless the variant says otherwise, nothing has happened.
#[derive(Debug)]
pub enum Suspend {
    /// A shard is not free: retry when it is.
    Busy(Busy),
    /// This I/O thread has too many published messages to deliver: retry when it has delivered them.
    Crowded(usize),
    /// CLIENT PAUSE, or a snapshot, delays the command.
    Paused,
    /// The slow lane must run the command: it is too long for this thread, or must stop the world.
    Slow {
        /// The command has run: it has read its keys and updated their access times; or it has taken effect, and
        /// only its reply must wait.
        has_run: bool,
    },
    /// The client is blocked. Its wait has begun.
    Blocked(Arc<Waiting>),
}

impl Suspend {
    /// The slow lane must run the command from its beginning.
    pub const SLOW: Suspend = Suspend::Slow { has_run: false };

    /// Whether the command has not begun.
    pub fn is_before_start(&self) -> bool {
        match self {
            Suspend::Busy(_) | Suspend::Crowded(_) | Suspend::Paused => true,
            Suspend::Slow { has_run } => !has_run,
            Suspend::Blocked(_) => false,
        }
    }
}

/// How an execution ended: with a reply (or with the end of the connection), or suspended.
pub type Flow = Result<(), Suspend>;

/// A request of a known command during its execution: what the stages pass on.
pub struct Task<'a> {
    pub core: &'a mut Core,
    pub session: &'a mut Session,
    pub request: &'a Request<'a>,
    pub cmd: &'static Cmd,
    pub reply: &'a mut Reply,
    /// Where its reply begins.
    pub mark: Mark,
    pub lane: Lane,
}

/// The result of running a request.
#[derive(Debug)]
pub enum Outcome {
    /// The command has run. Its reply is complete unless it failed.
    Ended(CmdResult),
    /// EXEC has run. Its commands have replied and were counted one by one.
    EndedInParts {
        /// The tick at which it began.
        from: u64,
    },
    Suspended(Suspend),
    /// The client was killed before the command ran.
    Killed,
}
