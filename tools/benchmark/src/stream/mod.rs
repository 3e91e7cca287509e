//! Connections as streams of bytes, plain or over TLS: one kind that waits, and one that never
//! does. Which it is, is decided once, and the plain one has nothing of the other in its way but a
//! branch.

mod nonblocking;
mod waiting;

pub use nonblocking::{INPUT, NonBlocking};
pub use waiting::Waiting;
