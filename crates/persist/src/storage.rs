//! The file system interface for saving and loading.
//!
//! A trait, so that tests can replace the disk by one that fails, tears writes and loses them. The
//! interface guarantees no more than POSIX, and the writers of this crate rely on no more:
//!
//! * Written data is durable once [`Output::sync`] has returned, and not before.
//! * A name (created, renamed, removed) is durable once its directory was synced.
//! * A rename is atomic, even across a power failure.
//! * A power failure preserves any part of the unsynced data, in any order. Where a write overwrote
//!   synced data, each part is the old or the new.
//! * After a failed sync, the durability of the data before it is unknown, and a later successful
//!   sync doesn't change that.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// A file open for appending, or for overwriting zeros written ahead.
pub trait Output: Send + Sync + Debug {
    /// Appends some of `bytes` after the previous writes; returns how many.
    ///
    /// # Errors
    /// Those of `write(2)`. In that case the file has no byte of `bytes`, as far as the system
    /// reports.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Makes all earlier writes durable. One thread may call it while another writes.
    ///
    /// # Errors
    /// Those of `fdatasync(2)`.
    fn sync(&self) -> io::Result<()>;

    /// Writes some of `n` zeros at `at`; returns how many. Doesn't change where the next write
    /// goes.
    ///
    /// # Errors
    /// Those of `pwrite(2)`.
    fn write_zeros(&self, at: u64, n: usize) -> io::Result<usize>;

    /// Truncates the file to `length` bytes. The next write appends there.
    ///
    /// # Errors
    /// Those of `ftruncate(2)`.
    fn truncate(&self, length: u64) -> io::Result<()>;

    /// Appends all of `bytes`.
    ///
    /// # Errors
    /// Those of [`Output::write`]. Some of `bytes` may be written then.
    fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => bytes = &bytes[n..],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// A file among all that ever had its path: a copy has another one. Where the file system reports no birth, it is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub inode: u64,
    /// Nanoseconds of Unix time.
    pub birth: u64,
}

/// A file system. The caller provides full paths; errors are those of the system calls.
pub trait Storage: Send + Sync + Debug {
    /// Creates the directory `dir` unless it exists. Its name is durable after a
    /// [`Storage::sync_dir`] of its parent.
    ///
    /// # Errors
    /// Those of `mkdir(2)`, except `EEXIST`.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Opens `path` for appending; creates it if it is missing. The caller must be the only writer.
    ///
    /// # Errors
    /// Those of `open(2)`.
    fn append(&self, path: &Path) -> io::Result<Arc<dyn Output>>;

    /// Creates `path`, or empties it if it exists.
    ///
    /// # Errors
    /// Those of `open(2)`.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Output>>;

    /// Opens `path` for reading from its beginning.
    ///
    /// # Errors
    /// Those of `open(2)`.
    fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;

    /// The length of `path` in bytes; an error of kind `NotFound` if the file is missing.
    ///
    /// # Errors
    /// Those of `stat(2)`.
    fn length(&self, path: &Path) -> io::Result<u64>;

    /// Renames the file `from` to `to`, replacing any file of that name.
    ///
    /// # Errors
    /// Those of `rename(2)`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes the file `path`.
    ///
    /// # Errors
    /// Those of `unlink(2)`.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The names in `dir`, in any order.
    ///
    /// # Errors
    /// Those of `opendir(3)`.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Makes the names in `dir` durable.
    ///
    /// # Errors
    /// Those of `fsync(2)`.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// The identity of `path`. A storage without files has one for all.
    ///
    /// # Errors
    /// Those of `stat(2)`.
    fn identity(&self, _path: &Path) -> io::Result<Identity> {
        Ok(Identity::default())
    }

    /// Whether the file exists.
    ///
    /// # Errors
    /// Those of `stat(2)`, except `ENOENT`.
    fn exists(&self, path: &Path) -> io::Result<bool> {
        match self.length(path) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Replaces the content of `name` with `bytes` atomically, through the file `temporary` in the
    /// same directory `dir`. Durable on return.
    ///
    /// # Errors
    /// Any of those above. The old content is in place then; if only the last sync failed, possibly
    /// the new content.
    fn replace(&self, dir: &Path, temporary: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = dir.join(temporary);
        let write = || {
            let file = self.create(&path)?;
            file.write_all(bytes)?;
            file.sync()
        };
        if let Err(e) = write().and_then(|()| self.rename(&path, &dir.join(name))) {
            // A remaining file does no harm, because the next attempt overwrites it.
            let _ = self.remove(&path);
            return Err(e);
        }
        self.sync_dir(dir)
    }
}

/// The file system of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

/// Opens a file with these options. Refuses anything that isn't a regular file: opening a pipe
/// would block until its other end is open, and reading a device may never end.
///
/// # Errors
/// Those of `open(2)`, and that it isn't a regular file.
pub fn open_file(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    // Opening a device may already have side effects.
    if let Ok(found) = fs::metadata(path) {
        refuse_others(&found)?;
    }
    // The path may have been replaced since; O_NONBLOCK avoids blocking on a pipe, and has no
    // effect on regular files.
    let file = how.custom_flags(libc::O_NONBLOCK).open(path)?;
    refuse_others(&file.metadata()?)?;
    Ok(file)
}

fn refuse_others(found: &fs::Metadata) -> io::Result<()> {
    match found.file_type() {
        kind if kind.is_file() => Ok(()),
        kind if kind.is_dir() => Err(io::Error::from_raw_os_error(libc::EISDIR)),
        _ => Err(io::Error::other("It is not a regular file")),
    }
}

impl Output for File {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self;
        Write::write(&mut file, bytes)
    }

    fn write_zeros(&self, at: u64, n: usize) -> io::Result<usize> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        self.write_at(&ZEROS[..n.min(ZEROS.len())], at)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.set_len(length)?;
        let mut file = self;
        file.seek(SeekFrom::Start(length)).map(drop)
    }
}

impl Storage for Disk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        match fs::create_dir(dir) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
            made => made,
        }
    }

    fn append(&self, path: &Path) -> io::Result<Arc<dyn Output>> {
        // Not O_APPEND, because writes over zeros don't go to the end of the file.
        let mut file =
            open_file(path, OpenOptions::new().write(true).create(true).truncate(false))?;
        file.seek(SeekFrom::End(0))?;
        Ok(Arc::new(file))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn Output>> {
        // Truncated only once it is known to be a regular file.
        let file = open_file(path, OpenOptions::new().write(true).create(true).truncate(false))?;
        file.set_len(0)?;
        Ok(Arc::new(file))
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(open_file(path, OpenOptions::new().read(true))?))
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        fs::metadata(path).map(|data| data.len())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match fs::metadata(path) {
            Ok(found) => Ok(found.is_file()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        let found = fs::metadata(path)?;
        let since = found.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let birth = since.map_or(0, |since| since.as_nanos() as u64);
        Ok(Identity { inode: found.ino(), birth })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        fs::read_dir(dir)?.map(|e| Ok(e?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_implements_the_storage_interface() {
        let folder = tempfile::tempdir().expect("a directory");
        let dir = folder.path().join("sub");
        let disk = Disk;
        for _ in 0..2 {
            disk.create_dir(&dir).expect("there or not");
        }
        let path = dir.join("a");
        assert!(!disk.exists(&path).expect("stat"));
        let file = disk.append(&path).expect("created");
        file.write_all(b"hello").expect("room");
        file.truncate(2).expect("cut");
        file.write_all(b"y").expect("after the cut");
        file.sync().expect("synced");
        let file = disk.append(&path).expect("opened again");
        assert_eq!(disk.length(&path).expect("stat"), 3);
        assert_eq!(file.write_zeros(3, 100).expect("room"), 100);
        file.write_all(b"!").expect("over a zero");
        assert_eq!(disk.length(&path).expect("stat"), 103);
        file.truncate(4).expect("cut");
        drop(file);
        disk.replace(&dir, "temp", "b", b"other").expect("replaced");
        disk.rename(&path, &dir.join("b")).expect("renamed");
        assert_eq!(disk.list(&dir).expect("listed"), ["b"]);
        let mut text = String::new();
        disk.read(&dir.join("b")).expect("opened").read_to_string(&mut text).expect("read");
        assert_eq!(text, "hey!");
        disk.create(&dir.join("b")).expect("emptied");
        assert_eq!(disk.length(&dir.join("b")).expect("stat"), 0);
        disk.remove(&dir.join("b")).expect("removed");
        disk.sync_dir(&dir).expect("synced");
        let missing = disk.read(&path).err().map(|e| e.kind());
        assert_eq!(missing, Some(io::ErrorKind::NotFound));
    }

    /// Opening the pipe would block until its other end is open.
    #[test]
    fn files_other_than_regular_ones_are_refused() {
        let folder = tempfile::tempdir().expect("a directory");
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.is_ok_and(|made| made.success()), "mkfifo");
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket"));
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("zero")).expect("a link");
        std::os::unix::fs::symlink(&pipe, folder.path().join("link")).expect("a link");
        for name in ["pipe", "socket", "zero", "link", "."] {
            let path = folder.path().join(name);
            for opened in
                [Disk.read(&path).err(), Disk.append(&path).err(), Disk.create(&path).err()]
            {
                let words = opened.expect("it isn't a regular file").to_string();
                let wanted = if name == "." {
                    "Is a directory (os error 21)"
                } else {
                    "It is not a regular file"
                };
                assert_eq!(words, wanted, "{name}");
            }
            assert!(!Disk.exists(&path).expect("stat"));
        }
    }
}
