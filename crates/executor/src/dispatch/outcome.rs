//! How the execution of a request can end.

use std::sync::Arc;
use weft_commands::CmdResult;
use weft_keyspace::Busy;
use weft_state::waiting::Waiting;

/// Why a request ends without a reply for now. Unless the variant says otherwise, nothing has happened.
#[derive(Debug)]
pub enum Suspend {
    /// A shard is not free: retry when it is.
    Busy(Busy),
    /// This I/O thread has too many published messages to deliver: retry when it has delivered them.
    MailboxFull(usize),
    /// The command's slot is in transit: its keys must be looked for under their shards. Not returned to callers of
    /// [`crate::dispatch::admit::execute`].
    InTransit,
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
            Suspend::Busy(_) | Suspend::MailboxFull(_) | Suspend::Paused | Suspend::InTransit => {
                true
            }
            Suspend::Slow { has_run } => !has_run,
            Suspend::Blocked(_) => false,
        }
    }
}

/// How an execution ended: with a reply (or with the end of the connection), or suspended.
pub type Flow = Result<(), Suspend>;

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
