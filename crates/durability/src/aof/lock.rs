//! The lock on a set of append-only files, so that only one process writes them.
//!
//! Two servers that append to the same files destroy both data sets: each writes at its own
//! offsets, and each removes files that the other's manifest names. So a server locks the set
//! before it reads or writes any of it.
//!
//! The lock is `flock(2)` on `<appendfilename>.lock` in the folder of the files. The kernel
//! releases it however the process ends, so no stale lock can keep a server from starting. The lock
//! file is never removed: a second process could then lock a new file of that name while the first
//! one still holds the old one. The file has the process id of its last owner, for the error
//! message only.
//!
//! A server keeps its locks until it ends. After the log is switched off, its files and their data
//! still belong to the same server.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use weft_persist::aof::{Directory, LOCK};
use weft_persist::storage;
use weft_process::log_warning;

/// The locks that this process holds.
#[derive(Debug, Default)]
pub struct Locks {
    held: Mutex<Vec<Held>>,
    /// The file system doesn't support locks.
    is_impossible: AtomicBool,
}

/// A locked file, until it is dropped.
#[derive(Debug)]
struct Held {
    device: u64,
    inode: u64,
    _file: File,
}

impl Locks {
    /// Locks the files of `dir` for this process, and creates its folder if it is missing. Succeeds
    /// at once if the process already holds them. Call it before the first access to any of the
    /// files.
    ///
    /// # Errors
    /// Another process holds them, or the lock file can't be opened: a line for the operator.
    pub fn lock(&self, dir: &Directory) -> Result<(), String> {
        let path = dir.lock_path();
        let failed = |e: io::Error| {
            format!("Can't open the lock file {}: {}", path.display(), super::base::told(&e))
        };
        dir.create().map_err(failed)?;
        let mut how = OpenOptions::new();
        how.read(true).write(true).create(true).truncate(false);
        let mut file = storage::open_file(&path, &mut how).map_err(failed)?;
        let (device, inode) = identity(&file).map_err(failed)?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.iter().any(|held| (held.device, held.inode) == (device, inode)) {
            return Ok(());
        }
        match file.try_lock() {
            Ok(()) => note_owner(&mut file),
            Err(TryLockError::WouldBlock) => return Err(in_use(&path, &mut file)),
            // Some network file systems don't support locks. Refusing to start there would protect
            // no data.
            Err(TryLockError::Error(e)) => {
                self.is_impossible.store(true, Ordering::SeqCst);
                log_warning!(
                    "Can't lock {}: {}. A second server could write the same files.",
                    path.display(),
                    weft_process::errors::words(&e)
                );
            }
        }
        held.push(Held { device, inode, _file: file });
        Ok(())
    }
}

impl Locks {
    /// Whether a second process is kept from writing the files.
    pub fn are_real(&self) -> bool {
        !self.is_impossible.load(Ordering::SeqCst)
    }
}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    file.metadata().map(|data| (data.dev(), data.ino()))
}

/// Writes the process id. On a full disk, the file stays empty, and the message has no process id.
fn note_owner(file: &mut File) {
    let _ = file.set_len(0);
    let _ = writeln!(file, "{}", std::process::id());
}

/// The error text for the second process.
fn in_use(path: &Path, file: &mut File) -> String {
    let mut text = String::new();
    let read = file.read_to_string(&mut text).ok();
    let owner = read.and_then(|_| text.trim().parse::<u32>().ok());
    let owner = owner.map_or_else(|| "another process".into(), |pid| format!("process {pid}"));
    let folder = path.parent().unwrap_or(Path::new("."));
    format!(
        "The append-only files in '{}' are in use by {owner}, which holds {}.\nTwo servers can't \
         write the same files. Set another dir, appenddirname or appendfilename, or stop that \
         process.",
        folder.display(),
        path.display()
    )
}

/// Locks the set of files that `path`, a manifest or a file of a log, belongs to, for a tool that
/// changes them. The lock lasts until the returned files are dropped. Creates no lock file: if
/// there is none, no server has written the set.
///
/// # Errors
/// A process holds the files: a line for the operator.
pub fn lock_for_repair(path: &Path) -> Result<Vec<File>, String> {
    let mut locks = Vec::new();
    for lock in lock_files_of(path) {
        let Ok(mut file) = storage::open_file(&lock, OpenOptions::new().read(true)) else {
            continue;
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(in_use(&lock, &mut file)),
            Ok(()) | Err(TryLockError::Error(_)) => locks.push(file),
        }
    }
    Ok(locks)
}

/// The lock files in the folder of `path` whose set it may belong to: those whose `appendfilename`
/// is a prefix of its name.
fn lock_files_of(path: &Path) -> Vec<PathBuf> {
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        Some(_) | None => Path::new("."),
    };
    let own = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_lock = |name: &String| {
        name.strip_suffix(LOCK)
            .and_then(|stem| own.strip_prefix(stem))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    names.filter(is_lock).map(|name| folder.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use weft_persist::storage::Disk;

    fn directory(root: &Path, stem: &str) -> Directory {
        Directory::new(Arc::new(Disk), root, "log", stem)
    }

    /// `flock` locks belong to open files, so two `Locks` in one process exclude each other as two
    /// processes do.
    #[test]
    fn set_of_files_has_one_owner_at_a_time() {
        let root = tempfile::tempdir().expect("a folder");
        let dir = directory(root.path(), "a.aof");
        let (first, second) = (Locks::default(), Locks::default());
        assert_eq!(first.lock(&dir), Ok(()));
        assert_eq!(first.lock(&dir), Ok(()), "the process holds the lock already");
        let refusal = second.lock(&dir).expect_err("the lock is in use");
        assert!(refusal.contains(&format!("process {},", std::process::id())), "{refusal}");
        assert_eq!(second.lock(&directory(root.path(), "b.aof")), Ok(()), "other files");
        drop(first);
        assert_eq!(second.lock(&dir), Ok(()), "the owner has released it");
    }

    #[test]
    fn repair_finds_lock_of_its_files() {
        let root = tempfile::tempdir().expect("a folder");
        let dir = directory(root.path(), "a.aof");
        let locks = Locks::default();
        let path = |name: &str| root.path().join("log").join(name);
        assert!(lock_for_repair(&path("a.aof.manifest")).is_ok_and(|locks| locks.is_empty()));
        assert_eq!(locks.lock(&dir), Ok(()));
        for name in ["a.aof", "a.aof.manifest", "a.aof.3.incr.aof"] {
            assert!(lock_for_repair(&path(name)).is_err(), "{name}");
        }
        assert!(lock_for_repair(&path("a.aof2.manifest")).is_ok());
        drop(locks);
        assert!(lock_for_repair(&path("a.aof.manifest")).is_ok());
    }
}
