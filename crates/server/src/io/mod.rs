//! From a readable socket to a written reply.
//!
//! * [`worker`] - one thread's event loop
//! * [`read`] - bytes to planned requests; [`batch`]: the requests of one turn;
//!   [`ahead`]: input of clients that are blocked
//! * [`write`] - replies to the socket; [`backlog`]: what it has not taken yet
//! * [`conn`] - one connection; [`state`]: what it is doing; [`interest`]: what its socket is watched
//!   for; [`held`]: what memory it holds;
//!   [`held_back`]: pushes that wait for a reply; [`listen`]: where they come from
//! * [`poll`], [`mailbox`]: the kernel's readiness and other threads' messages; [`look`]: before sleep

pub mod ahead;
pub mod args;
pub mod batch;
pub mod conn;
pub mod cron;
pub mod held;
mod held_back;
pub mod later;
pub mod look;
pub mod mailbox;
pub mod read;
pub mod worker;
pub mod write;

pub use conn::{Conn, ReplyMode, Session};

pub use mailbox::{Mailbox, Message};
