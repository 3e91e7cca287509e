//! Histories of concurrent clients, and a checker of linearizability.
//!
//! A *history* records each operation of some clients, with the times of its call and its return on
//! one clock, and its result. It is *linearizable* (Herlihy and Wing, 1990) if each operation can
//! be assigned a time between its call and its return, so that all operations, in the order of
//! these times, get the results of a server with one client. Transactions are single operations
//! here, so the property is strict serializability.
//!
//! ```text
//!  client 0   ├─SET a 1─┤        ├──GET a → 2──┤
//!  client 1        ├───MULTI SET a 2, SET b 2 EXEC───┤
//!  client 2                  ├─GET b → 1─┤  ├─GET a → 2─┤
//!  disturber     ├─KILL 2─┤                  ├─PAUSE WRITE─┤
//! ```
//!
//! # Disturbances
//!
//! One more client kills, pauses and unblocks the others. Its operations are events like all
//! others, with a meaning of their own in the model:
//!
//! * A connection that ends leaves an operation without a reply. It was executed before the KILL
//!   that explains the end, or not at all. Without a KILL, or a half-close by the client itself, no
//!   connection may end.
//! * Between the reply to PAUSE and the end of the pause, no command runs that the pause forbids.
//! * A wait ends without an element only if its time is over or UNBLOCK reports that it ended the
//!   wait, and UNBLOCK reports that only if it did.
//! * A key or field with a deadline exists before the deadline and not after it, as far as the
//!   clocks of client and server can be compared ([`time::SLACK`]). In between, the first operation
//!   that touches it decides, and it never comes back.
//!
//! | module | contents |
//! |---|---|
//! | [`answer`] | results |
//! | [`time`] | deadlines with known bounds |
//! | [`db`] | keys and values; [`commands`], [`streams`]: replies and effects of commands |
//! | [`scripts`] | scripts: what they do, and their text |
//! | [`model`] | the server with one client: databases, watches, kills, pauses |
//! | [`check`](mod@check) | the search for an order |
//! | [`draw`] | random operations |
//! | [`load`] | clients that record histories on a server; [`disturb`]: the client that disturbs
//! them |
//! | [`cache`] | clients that cache, and their invalidations |

pub mod answer;
pub mod cache;
pub mod check;
pub mod commands;
pub mod db;
pub mod disturb;
pub mod draw;
pub mod load;
pub mod model;
pub mod scripts;
pub mod streams;
pub mod time;

pub use answer::Answer;
pub use check::{Verdict, check};
pub use disturb::Disturbances;
pub use model::State;

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
