//! The server as a program: its parts put together, its command line, its start and its end.
//!
//! * [`wiring`] - a server made of the crates below
//! * [`start`] - from the command line to running threads; `failure`: how a failed start is reported

mod failure;
pub mod start;
pub mod wiring;
