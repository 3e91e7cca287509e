//! Results of experiments: the record, its durability, and the shipped set.
//!
//! A results file is text, one JSON value on each line. The first line is the [`Header`]: the host,
//! the programs and their versions, the generator, the grid. Each later line is one [`Cell`]: one
//! run of one command at one setting. Lines are only appended, and each is on the disk before the
//! next cell starts, so a power failure loses only the running cell.
//!
//! | content | place |
//! |---|---|
//! | header, cell, measurement | [`model`] |
//! | the grid of an experiment | [`grid`] |
//! | reading, and handling damage | [`file`](mod@file) |
//! | appending: lock, sync, full disk | [`append`] |
//! | this machine | [`host`] |
//! | io-threads and io-threads-do-reads | [`setting`] |
//! | the shipped published sweep | [`published`] |

pub mod append;
pub mod file;
pub mod grid;
pub mod host;
pub mod model;
pub mod published;
pub mod setting;

pub use file::Sweep;
pub use grid::Grid;
pub use model::{Cell, Header, Key, Outcome};
pub use setting::{Reads, Threads};
