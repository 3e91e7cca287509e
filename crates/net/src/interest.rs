//! What a connection's socket is watched for, and how that follows from what the connection does.
//!
//! Like [`crate::lifecycle`] this file knows no sockets: the model of connections that change their thread
//! (`crates/keyspace/tests/loom_moving.rs`) works with it, too.

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    pub read: bool,
    pub write: bool,
}

impl Interest {
    /// Only what is reported whatever one waits for.
    pub const NONE: Interest = Interest { read: false, write: false };
    pub const READ: Interest = Interest { read: true, write: false };

    /// `reads`: what follows from the state; `writes`: output waits for room in the socket.
    pub fn of(reads: bool, writes: bool) -> Interest {
        Interest { read: reads, write: writes }
    }

    /// Whether who watches for `self` hears of everything that `want` names.
    pub fn covers(self, want: Interest) -> bool {
        (self.read || !want.read) && self.write == want.write
    }
}
