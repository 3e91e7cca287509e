//! Machines that exist only as files: the content of `/proc` and `/sys`.
//!
//! Code that reads a machine takes a root folder, and tests pass it one of these. A short
//! [`Layout`] describes a machine and is written as the hundreds of files of a kernel. So a machine
//! can have 1152 CPUs without 7000 files in the repository. The machines themselves are in
//! [`known`]: those of published measurements of CPU binding, and those on which programs that
//! count CPUs tend to fail.
//!
//! ```no_run
//! let machine = weft_testkit::machines::known::two_sockets(true).build();
//! machine.write("proc/sys/vm/swappiness", "60\n");
//! // ... read it below machine.root()
//! ```

pub mod known;
mod layout;
mod network;

pub use layout::{Group, Layout, Place};
pub use network::{Interface, Irq};

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The files of a machine, in a folder that is removed with this value.
#[derive(Debug)]
pub struct Machine(tempfile::TempDir);

impl Machine {
    /// A machine without files.
    ///
    /// # Panics
    /// Like the other functions here, if the file system fails.
    pub fn empty() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    /// The folder that replaces `/`.
    pub fn root(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file, and creates its folders.
    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.folder_of(path);
        fs::write(&path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }

    /// Writes some files.
    pub fn write_all<'a>(&self, files: impl IntoIterator<Item = (&'a str, &'a str)>) {
        for (path, text) in files {
            self.write(path, text);
        }
    }

    /// The text of a file.
    pub fn text(&self, path: &str) -> String {
        let path = self.root().join(path);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// Removes a file, or a folder with its content.
    pub fn remove(&self, path: &str) {
        let path = self.root().join(path);
        let removed =
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }

    /// Makes `path` a symbolic link.
    pub fn link(&self, path: &str, target: &str) {
        let path = self.folder_of(path);
        symlink(target, &path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }

    fn folder_of(&self, path: &str) -> std::path::PathBuf {
        let path = self.root().join(path);
        let folder = path.parent().expect("a path below the root");
        fs::create_dir_all(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        path
    }
}
