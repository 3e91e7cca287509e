//! Sockets: listening, polling, and output that a socket has not taken yet.
//!
//! * [`listen`] - listening sockets and accepted connections
//! * [`poll`] - readiness of sockets (epoll)
//! * [`lifecycle`] - the states of a connection; [`interest`]: the events that follow from a state
//! * [`backlog`] - replies that the socket has not taken yet

pub mod backlog;
pub mod interest;
pub mod lifecycle;
pub mod listen;
pub mod poll;
