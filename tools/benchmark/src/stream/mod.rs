//! Connections as streams of bytes, plain or over TLS: blocking and non-blocking ones. The kind is
//! decided once; a plain connection pays one branch for the choice.

mod nonblocking;
mod waiting;

pub use nonblocking::{INPUT, NonBlocking};
pub use waiting::Waiting;
