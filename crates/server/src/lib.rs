//! The server program: wiring of the parts, command line, start and end.
//!
//! * [`wiring`] - a server made of the crates below
//! * [`start`] - from the command line to running threads; `failure`: how a failed start is reported

mod failure;
pub mod start;
pub mod wiring;
