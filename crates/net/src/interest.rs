//! The events for which a connection's socket is watched, derived from the connection's state.
//!
//! Like [`crate::lifecycle`], this file uses no sockets. So the model of moving connections
//! (`crates/keyspace/tests/loom_moving.rs`) can use it too.

/// The events for which a socket is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    pub read: bool,
    pub write: bool,
}

impl Interest {
    /// Only errors and hang-ups, which epoll always reports.
    pub const NONE: Interest = Interest { read: false, write: false };
    pub const READ: Interest = Interest { read: true, write: false };

    /// `reads` follows from the state. `writes` is set while output waits for space in the socket's
    /// buffer.
    pub fn of(reads: bool, writes: bool) -> Interest {
        Interest { read: reads, write: writes }
    }

    /// Whether a watch for `self` reports all events of `want`.
    pub fn covers(self, want: Interest) -> bool {
        (self.read || !want.read) && self.write == want.write
    }
}
