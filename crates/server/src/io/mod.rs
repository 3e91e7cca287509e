//! From a readable socket to a written reply.
//!
//! * [`worker`] - one thread's event loop
//! * [`read`] - bytes to planned requests; [`batch`]: the requests of one turn
//! * [`write`] - replies to the socket, and what slow readers cause
//! * [`conn`] - one connection; [`listen`]: where they come from
//! * [`poll`], [`mailbox`]: the kernel's readiness and other threads' messages

pub mod batch;
pub mod conn;
pub mod cron;
pub mod listen;
pub mod mailbox;
pub mod poll;
pub mod read;
pub mod worker;
pub mod write;

pub use conn::{Conn, ReplyMode, Session};
pub use listen::{Accepted, Listener};
pub use mailbox::{Mailbox, Message};
