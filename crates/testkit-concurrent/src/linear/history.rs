//! Operations, and histories of them: see [the module](super).

use super::answer::Answer;

/// One operation of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// One command.
    Command(Vec<String>),
    /// WATCH of these keys.
    Watch(Vec<String>),
    /// MULTI, these commands, EXEC.
    Exec(Vec<Vec<String>>),
    /// CLIENT KILL of a connection of another client.
    Kill {
        client: usize,
        connection: u32,
    },
    /// CLIENT UNBLOCK of a client, with an error or with a timeout.
    Unblock {
        client: usize,
        connection: u32,
        error: bool,
    },
    /// CLIENT PAUSE for this many milliseconds, of all commands or of writes.
    Pause {
        ms: u64,
        all: bool,
    },
    Unpause,
}

/// An operation with its call and return, in nanoseconds of one clock, and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub op: Op,
    pub call: u64,
    /// For an operation without a reply: the time at which its client noticed that none will come.
    pub ret: u64,
    /// `None`: the connection ended before the reply.
    pub answer: Option<Answer>,
    /// The number of the client's connection, from 0.
    pub connection: u32,
    /// The client had closed its writing side, so the server may end the connection.
    pub half_closed: bool,
}

/// The events of each client, in their order.
pub type History = Vec<Vec<Event>>;
