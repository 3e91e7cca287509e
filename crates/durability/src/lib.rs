//! Data that outlive the process.
//!
//! * [`persistence`] - snapshots in RDB files, and loading them
//! * [`aof`] - the append-only file

pub mod aof;
pub mod persistence;
