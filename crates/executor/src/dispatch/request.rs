//! A request on its way through the stages, and how that can end.

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
    /// It has been run before, until it saw how much it has to do; MONITOR has shown it.
    pub looked: bool,
}

impl<'a> Request<'a> {
    /// One of these arguments, run for the first time.
    pub fn new(
        cmd: Option<&'static Cmd>,
        args: &'a [&'a [u8]],
        blobs: &'a [(usize, Blob)],
    ) -> Self {
        let bytes_at_most = usize::MAX;
        Request { cmd, args, blobs, bytes_at_most, key: None, retry: None, tries: 0, looked: false }
    }

    /// Bytes of it on the wire, as an array of bulk strings: an inline request counts as one. O(arguments).
    pub fn bytes(&self) -> usize {
        let number = |n: usize| "*\r\n".len() + n.checked_ilog10().unwrap_or(0) as usize + 1;
        let arg = |arg: &&[u8]| number(arg.len()) + arg.len() + "\r\n".len();
        let all = number(self.args.len()) + self.args.iter().map(arg).sum::<usize>();
        all.min(self.bytes_at_most)
    }
}

/// How an execution ended.
#[derive(Debug)]
pub enum Flow {
    Done,
    /// A shard was not free: nothing has happened, try again when it is.
    Busy(Busy),
    /// That thread is behind with what was published: nothing has happened, try again when it
    /// has caught up.
    Crowded(usize),
    /// CLIENT PAUSE holds the command back: nothing has happened.
    Paused,
    /// It is too much for this thread, or the world can't be stopped from here: nothing has
    /// happened, the slow lane is to run it.
    Slow {
        /// The command has been run: it has seen its keys, and touched their access clocks; or it
        /// has taken effect, and only its answer must wait.
        looked: bool,
    },
    /// The client waits for keys.
    Blocked(Arc<Waiting>),
}

/// A request of a known command in the middle of its execution: what the stages pass on.
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

/// What came of running it.
#[derive(Debug)]
pub enum Outcome {
    /// It has run, and its reply is there unless it failed.
    Ended(CmdResult),
    /// EXEC has run: its commands were counted and answered one by one.
    EndedInParts {
        /// The tick at which it began.
        from: u64,
    },
    /// Nothing has happened.
    Not(Flow),
}
