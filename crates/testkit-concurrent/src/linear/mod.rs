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
//! | [`history`] | operations with their times; [`answer`]: their results |
//! | [`time`] | deadlines with known bounds |
//! | [`db`] | keys and values; [`streams`] |
//! | [`commands`] | replies and effects of commands |
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
pub mod clock;
pub mod commands;
pub mod db;
pub mod digest;
pub mod disturb;
pub mod draw;
pub mod history;
pub mod load;
pub mod model;
pub mod scripts;
mod stream_commands;
pub mod streams;
pub mod time;

pub use answer::Answer;
pub use check::{Verdict, check};
pub use disturb::Disturbances;
pub use history::{Event, History, Op};
pub use model::State;
