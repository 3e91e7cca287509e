//! Commands to the thread that owns a replica's connection.

use crate::replica_socket::Ticket;

/// A command for a replica's connection; executed in order. From the first one on, the connection is a
/// replica's and stays on its thread.
#[derive(Debug)]
pub enum Order {
    /// Send these bytes.
    Send(Vec<u8>),
    /// Pass the socket to the snapshot thread.
    Lend(Ticket),
    /// Send the replication stream, beginning after this many bytes.
    Stream { from: u64 },
    /// Close the connection; `flush`: after its output is sent.
    Close { flush: bool },
}

/// A message to a thread with connections of replicas.
#[derive(Debug)]
pub enum ReplicaMessage {
    /// A command for the connection of a replica.
    Order { client: u64, order: Order },
    /// The replication stream has more bytes to send to replicas.
    StreamGrown,
}

/// The source of the data that a replica's connection sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// The bytes of [`Order::Send`].
    Lines,
    /// None: the snapshot thread writes to the socket.
    Lent,
    /// The replication stream. `taken`: the bytes of it taken so far.
    Stream { taken: u64 },
    /// The remaining output. Then the connection is closed.
    Last,
}

impl Feed {
    /// Whether the connection's own thread writes to the socket.
    pub fn sends(self) -> bool {
        match self {
            Feed::Lines | Feed::Stream { .. } | Feed::Last => true,
            Feed::Lent => false,
        }
    }
}
