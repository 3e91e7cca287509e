//! The files that a configuration reads and writes, as a trait.
//!
//! Loading a configuration touches the disk in few ways: it reads files, lists
//! a directory for an `include` with a pattern, asks whether `dir` exists and
//! whether the log can be opened; `CONFIG REWRITE` replaces a file. [`Disk`]
//! does these; tests use a directory of their own or [`NoFiles`].

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The operations that a configuration needs of a file system.
pub trait Files: Send + Sync {
    /// The content of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Everything up to the end of standard input.
    fn read_stdin(&self) -> io::Result<Vec<u8>>;

    /// The names in a directory, in any order.
    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>>;

    /// The absolute path of an existing directory, symbolic links resolved.
    fn directory(&self, path: &Path) -> io::Result<PathBuf>;

    /// Whether a file can be opened for appending; creates it.
    fn can_append(&self, path: &Path) -> io::Result<()>;

    /// Replaces a file by `content`, durably and as a whole: after a crash there is the old content
    /// or the new one.
    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()>;
}

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn read_stdin(&self) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        io::stdin().lock().read_to_end(&mut content)?;
        Ok(content)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    fn directory(&self, path: &Path) -> io::Result<PathBuf> {
        // After a file, the dot is an error of the right kind.
        fs::canonicalize(path.join("."))
    }

    fn can_append(&self, path: &Path) -> io::Result<()> {
        OpenOptions::new().append(true).create(true).open(path).map(drop)
    }

    /// Writes a new file next to the old one, syncs it, renames it over, and syncs the directory.
    /// The file keeps its permissions: it may hold passwords. A symbolic link is followed, not
    /// replaced.
    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let target = match fs::canonicalize(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => path.to_path_buf(),
            found => found?,
        };
        let mut temporary = target.clone().into_os_string();
        temporary.push(format!(".rewrite-{}", std::process::id()));
        let temporary = PathBuf::from(temporary);
        // One left over from a crash of a process with the same id.
        let _ = fs::remove_file(&temporary);
        let written = write_synced(&temporary, &target, content)
            .and_then(|()| fs::rename(&temporary, &target));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
            return written;
        }
        match target.parent() {
            Some(directory) => File::open(directory)?.sync_all(),
            None => Ok(()),
        }
    }
}

/// Writes `content` to a new file with the permissions of `model`, or for the owner only when there is no `model`: it may
/// hold passwords.
fn write_synced(path: &Path, model: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    if let Ok(known) = fs::metadata(model) {
        file.set_permissions(known.permissions())?;
    }
    file.write_all(content)?;
    file.sync_all()
}

/// No files at all: everything is refused. For text from an untrusted source.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
        Err(ErrorKind::PermissionDenied.into())
    }

    fn read_stdin(&self) -> io::Result<Vec<u8>> {
        Err(ErrorKind::PermissionDenied.into())
    }

    fn list(&self, _: &Path) -> io::Result<Vec<OsString>> {
        Err(ErrorKind::PermissionDenied.into())
    }

    fn directory(&self, _: &Path) -> io::Result<PathBuf> {
        Err(ErrorKind::PermissionDenied.into())
    }

    fn can_append(&self, _: &Path) -> io::Result<()> {
        Err(ErrorKind::PermissionDenied.into())
    }

    fn replace(&self, _: &Path, _: &[u8]) -> io::Result<()> {
        Err(ErrorKind::PermissionDenied.into())
    }
}
