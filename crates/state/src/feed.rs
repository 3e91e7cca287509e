//! What the thread of a replica's connection is told to do.

use crate::replica_socket::Ticket;

/// In this order. A connection that gets the first of these is a replica's from then on, and stays on its
/// thread.
#[derive(Debug)]
pub enum Order {
    /// Send this.
    Send(Vec<u8>),
    /// Give the socket to the thread of a snapshot.
    Lend(Ticket),
    /// From now on send the stream, from behind this many bytes on.
    Stream { from: u64 },
    /// Close it; `flush`: when what was to be sent is.
    Close { flush: bool },
}

/// What the connection of a replica sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// What it is told to, line by line.
    Lines,
    /// Nothing: the thread of a snapshot writes to its socket.
    Lent,
    /// The stream, of which it has taken this many bytes so far.
    Stream { taken: u64 },
    /// What is left, and then it is closed.
    Last,
}

impl Feed {
    /// Whether its own thread writes to the socket.
    pub fn sends(self) -> bool {
        match self {
            Feed::Lines | Feed::Stream { .. } | Feed::Last => true,
            Feed::Lent => false,
        }
    }
}
