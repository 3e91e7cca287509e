//! The append-only log on disk: every change in order, to be repeated when a server starts.
//!
//! ```text
//!  <dir>/appendonlydir/NAME.manifest           which files, in which order
//!                      NAME.2.base.rdb         all there was at a cut
//!                      NAME.5.incr.aof         what came since
//!                      NAME.6.incr.aof         ... the last one is being written
//! ```
//!
//! Files and words are those of Valkey 9.1, so that each server reads the other's. Nothing here has a
//! thread, a clock or a keyspace, and all that touches a disk does so through
//! [`Storage`](crate::storage::Storage): what is promised is tested on a disk that fails, tears and
//! forgets (`sim.rs`). `docs/design/aof.md` has the reasons.
//!
//! | file | holds |
//! |---|---|
//! | `manifest`, `words` | the manifest as text |
//! | `directory` | the files as files: names, the upgrade of a single file |
//! | `encode` | units as bytes: databases, transactions, time stamps, checksums |
//! | `appender` | the writing end: write, sync, rewrite |
//! | `retry` | when a rewrite that failed is tried again |
//! | `parse`, `load` | bytes as commands; what is done about an end that is not whole |
//! | `tail` | what is behind that, where zeros were written ahead |
//! | `check` | what an operator is told, and repairs |

mod appender;
mod check;
mod directory;
mod encode;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
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
pub use encode::{Annotations, Command, Encoder, Position};
pub use load::{Leniency, LoadFault, Rest, Sink, load};
pub use manifest::{Entry, Manifest, ManifestFault, Role};
pub use parse::{Item, ParseFault, Parser, Wrong};
pub use retry::{Permission, Retry};
