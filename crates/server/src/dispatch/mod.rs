//! From a request to its reply: finding the command, checking that it may run, running it.
//!
//! * [`table`] - all commands by name
//! * [`core`] - what one thread brings along
//! * [`execute`] - the path of one request
//! * [`guarded`] - holding what a command on keys needs
//! * [`transaction`] - MULTI, EXEC, WATCH

pub mod core;
pub mod execute;
pub mod guarded;
pub mod table;
pub mod transaction;

pub use self::core::{ConnCx, Core};
pub use table::{Cmd, CommandTable, Run, ServerCommand};
