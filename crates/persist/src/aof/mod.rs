//! The append-only log on disk.

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
mod words;

pub use appender::{Appender, Removal, SyncJob};
pub use check::{Operator, Repair, Stopped, check};
pub use directory::{Directory, OpenFault};
pub use encode::{Annotations, Command, Encoder};
pub use load::{Leniency, LoadFault, Rest, Sink, load};
pub use manifest::{Entry, Manifest, ManifestFault, Role};
pub use parse::{Item, ParseFault, Parser, Wrong};
pub use retry::{Permission, Retry};
