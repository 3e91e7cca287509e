//! The append-only log on disk.

mod appender;
mod directory;
mod encode;
mod manifest;
mod parse;
mod words;

pub use appender::{Appender, Removal, SyncJob};
pub use directory::{Directory, OpenFault};
pub use encode::{Annotations, Command, Encoder};
pub use manifest::{Entry, Manifest, ManifestFault, Role};
pub use parse::{Item, ParseFault, Parser};
