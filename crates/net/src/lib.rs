//! Sockets: listening, polling, and unsent output.
//!
//! * [`listen`] - listening sockets and accepted connections
//! * [`stream`] - a connection's socket, plain or with TLS on it
//! * [`poll`] - readiness of sockets (epoll)
//! * [`lifecycle`] - the states of a connection; [`interest`]: the events that follow from a state
//! * [`backlog`] - replies that the socket has not accepted yet

pub mod backlog;
pub mod interest;
pub mod lifecycle;
pub mod listen;
pub mod poll;
pub mod stream;
