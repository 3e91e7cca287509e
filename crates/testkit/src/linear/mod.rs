//! Were concurrent clients served as if one after the other? Histories and their checker.
//!
//! A *history* is what some clients did: each operation with the moments of its call and its
//! return on one clock, and what came back. It is *linearizable* (Herlihy and Wing, 1990) when
//! every operation can be given a moment between its call and its return so that all of them, in
//! the order of these moments, get what they got from a server with one client. Transactions are
//! single operations here, which makes this strict serializability.
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
//! One more client kills, pauses and unblocks the others. Its operations are events like all, with
//! a meaning of their own in the model:
//!
//! * A connection that ends leaves an operation without an answer, which was executed or was not;
//!   after the KILL that explains it, it can't be. Without a KILL, or a half-close by the client
//!   itself, no connection may end.
//! * Between the reply to PAUSE and the end of the pause nothing runs that it forbids.
//! * A wait ends with nothing only when its time is over or UNBLOCK says so, and UNBLOCK says so
//!   only when the wait does.
//! * A key or field with a deadline is there before it and not after, as far as the clocks of
//!   client and server can be compared ([`time::SLACK`]); in between whoever comes first
//!   decides, and it never comes back.
//!
//! | module | what it is |
//! |---|---|
//! | [`answer`] | what came back |
//! | [`time`] | deadlines, of which only the bounds are known |
//! | [`db`] | keys and values; [`commands`], [`streams`]: what commands answer and leave behind |
//! | [`model`] | the server with one client: databases, watches, kills, pauses |
//! | [`check`](mod@check) | the search for the moments |
//! | [`draw`] | random operations |
//! | [`load`] | clients that make histories on a server; [`disturb`]: who disturbs them |
//! | [`cache`] | clients that keep what they read, and are told when it is no longer so |

pub mod answer;
pub mod cache;
pub mod check;
pub mod commands;
pub mod db;
pub mod disturb;
pub mod draw;
pub mod load;
pub mod model;
pub mod streams;
pub mod time;

pub use answer::Answer;
pub use check::{Verdict, check};
pub use disturb::Disturbances;
pub use model::State;

/// What one client did at once.
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
    /// CLIENT UNBLOCK of one, with an error or as if the time were over.
    Unblock {
        client: usize,
        connection: u32,
        error: bool,
    },
    /// CLIENT PAUSE for so many milliseconds, of everything or of writes.
    Pause {
        ms: u64,
        all: bool,
    },
    Unpause,
}

/// An operation with its moments, in nanoseconds of one clock, and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub op: Op,
    pub call: u64,
    /// Of an operation without an answer: when its client knew that none would come.
    pub ret: u64,
    /// `None`: the connection ended before.
    pub answer: Option<Answer>,
    /// Which of the client's connections, from 0.
    pub connection: u32,
    /// The client had closed its side: the server may end the connection without being told to.
    pub half_closed: bool,
}

/// The events of each client, in their order.
pub type History = Vec<Vec<Event>>;
