//! From a request to its reply: finding the command, checking that it may run, running it.
//!
//! * [`table`] - all commands by name
//! * [`core`] - what one thread brings along
//! * [`execute`] - the path of one request

pub mod core;
pub mod execute;
pub mod table;

pub use self::core::{ConnCx, Core};
pub use table::{Cmd, CommandTable, Run, ServerCommand};
