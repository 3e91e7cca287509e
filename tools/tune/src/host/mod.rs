//! A host by the kernel's files, for several commands.
//!
//! Everything is read below a root folder, which tests replace.

mod files;
pub mod limits;
pub mod net;

pub use files::Host;

use std::path::PathBuf;

/// A root folder by its name, for the command line. A missing folder would look like a host without
/// files.
///
/// # Errors
/// If it is not a folder.
pub fn folder(name: &str) -> Result<PathBuf, String> {
    let folder = PathBuf::from(name);
    if folder.is_dir() { Ok(folder) } else { Err("there is no such folder".into()) }
}
