//! The append-only log on disk: every change in order, replayed when a server starts.
//!
//! ```text
//!  <dir>/appendonlydir/NAME.manifest           which files, in which order
//!                      NAME.2.base.rdb         all data at a cut
//!                      NAME.5.incr.aof         later writes
//!                      NAME.6.incr.aof         ... the last one takes the writes
//! ```
//!
//! Files and log lines are those of Valkey 9.1, so each server reads the other's files. This module
//! has no thread, clock or keyspace. All disk access goes through
//! [`Storage`](crate::storage::Storage), so tests check the guarantees on a disk that fails, tears
//! writes and loses them (`sim.rs`). `docs/design/aof.md` has the reasons.
//!
//! | file | holds |
//! |---|---|
//! | `manifest`, `words` | the manifest as text |
//! | `directory` | file operations: names, the upgrade of a single file |
//! | `encode` | encodes units: time stamps, checksums, positions; `weft_resp::unit` does the commands |
//! | `appender` | the writer: write, sync, rewrite |
//! | `retry` | when to retry a failed rewrite |
//! | `parse`, `load` | decodes commands; handles an incomplete end |
//! | `tail` | examines the end where zeros were written ahead |
//! | `led` | the mark of a cluster's primary in the manifest |
//! | `check` | reports damage to an operator, and repairs it |

mod appender;
mod check;
mod directory;
mod encode;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
mod led;
mod load;
mod manifest;
mod parse;
mod retry;
#[cfg(test)]
mod sim;
mod tail;
mod words;

pub use appender::{Ahead, Appender, Removal, SyncJob};
pub use check::{Operator, Repair, Stopped, check};
pub use directory::{Directory, LOCK, OpenFault};
pub use encode::{Annotations, Encoder, Position};
pub use led::Led;
pub use load::{EndPolicy, LoadFault, Loaded, Rest, Sink, load};
pub use manifest::{Entry, Manifest, ManifestFault, Role};
pub use parse::{Item, ParseFault, Parser, Wrong};
pub use retry::{Permission, Retry};
