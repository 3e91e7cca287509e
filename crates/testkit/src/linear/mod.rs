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
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`model`] | the server with one client: a small store, in a few lines |
//! | [`check`](mod@check) | the search for the moments |
//! | [`load`] | clients that make histories on a server |

pub mod check;
pub mod load;
pub mod model;

pub use check::{Verdict, check};
pub use model::{Answer, State};

/// What one client did at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// One command.
    Command(Vec<String>),
    /// WATCH of these keys.
    Watch(Vec<String>),
    /// MULTI, these commands, EXEC.
    Exec(Vec<Vec<String>>),
}

/// An operation with its moments, in nanoseconds of one clock, and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub op: Op,
    pub call: u64,
    pub ret: u64,
    pub answer: Answer,
}

/// The events of each client, in their order.
pub type History = Vec<Vec<Event>>;
