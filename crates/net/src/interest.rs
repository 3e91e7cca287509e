//! What a connection's socket is watched for, and how that follows from what the connection does.
//!
//! Like [`crate::lifecycle`] this file knows no sockets: the model of connections that change their thread
//! (`crates/keyspace/tests/loom_moving.rs`) works with it, too.

use crate::lifecycle::Watched;

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    pub read: bool,
    pub write: bool,
    /// That the peer hangs up is reported, although nothing is read.
    pub hangup: bool,
}

impl Interest {
    /// Only what is reported whatever one waits for.
    pub const NONE: Interest = Interest { read: false, write: false, hangup: false };
    pub const READ: Interest = Interest { read: true, write: false, hangup: false };

    /// What follows from the state; `writes`: output waits for room in the socket.
    pub fn of(watched: Watched, writes: bool) -> Interest {
        Interest { read: watched.input, write: writes, hangup: watched.hangup }
    }

    /// Whether who watches for `self` hears of everything that `want` names.
    pub fn covers(self, want: Interest) -> bool {
        (self.read || !want.read)
            && self.write == want.write
            && (self.read || self.hangup || !want.hangup)
    }
}
