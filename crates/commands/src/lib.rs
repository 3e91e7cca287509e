//! The commands: one file for each small family, and one table of all commands.
//!
//! A command is a [`Spec`](weft_command_spec::Spec), its locks and a function. The spec has the data
//! for COMMAND, ACL, the lock plan, the docs and the fuzz seeds. The function gets a [`Ctx`]: its arguments, its database seen
//! through a guard that holds the shards of its keys, and the reply to write. It never sees a
//! socket, a lock or another client.
//!
//! To add a command, write the spec and the function in `src/<group>/` and list it in [`registry`].

pub mod bitmap;
pub mod blocking;
pub mod collection_scan;
pub mod ctx;
pub mod error;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
pub mod generic;
pub mod geo;
pub mod hash;
pub mod hyperloglog;
pub mod keyspace_wide;
pub mod list;
pub mod lock;
#[cfg(test)]
mod notifications;
pub mod queued;
pub mod registry;
pub mod set;
pub mod sort;
pub mod stream;
pub mod string;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod zset;

pub use ctx::{Block, CommandSettings, Ctx, FAST_WORK, Lane, Meter, Pause};
pub use error::{CmdResult, Error};
pub use lock::Lock;
pub use registry::{Command, REGISTRY};
