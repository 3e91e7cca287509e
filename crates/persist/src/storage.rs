//! Where files are kept: the few things that saving and loading ask of a file system.
//!
//! Behind a trait, so that tests can put a disk there that fails, tears and forgets. It says no more
//! than POSIX promises, and the writers of this crate rely on no more:
//!
//! * what was written is safe when [`Output::sync`] has returned, and not before;
//! * a name (created, renamed, removed) is safe when its directory was synced;
//! * a rename is seen whole or not at all, even after a power loss;
//! * of what was not synced, any part may be there after a power loss, in any order; where something was
//!   written over what was synced, each part is the old or the new;
//! * when a sync has failed, nobody knows what of the data before it is safe, and a second sync that
//!   succeeds says nothing about it.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// A file that one writes at its end, or over zeros that were written there ahead.
pub trait Output: Send + Sync + Debug {
    /// Writes some of `bytes` behind what was there when the file was opened and what was written since;
    /// answers how many.
    ///
    /// # Errors
    /// Those of `write(2)`; nothing of `bytes` was written then, as far as anybody can tell.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Makes all that was written before the call safe. May be called by one thread while another
    /// writes.
    ///
    /// # Errors
    /// Those of `fdatasync(2)`.
    fn sync(&self) -> io::Result<()>;

    /// Writes some of `n` zeros at `at`; answers how many. The next write goes where it would have gone
    /// without.
    ///
    /// # Errors
    /// Those of `pwrite(2)`.
    fn write_zeros(&self, at: u64, n: usize) -> io::Result<usize>;

    /// Cuts the file to `length` bytes, behind which the next write goes.
    ///
    /// # Errors
    /// Those of `ftruncate(2)`.
    fn truncate(&self, length: u64) -> io::Result<()>;

    /// Appends all of `bytes`.
    ///
    /// # Errors
    /// Those of [`Output::write`]. Some of `bytes` may be there then.
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

/// A file system. All paths are the caller's; errors are those of the calls of the same name.
pub trait Storage: Send + Sync + Debug {
    /// Creates the directory `dir` unless it is there. Its own name is safe after a
    /// [`Storage::sync_dir`] of its parent.
    ///
    /// # Errors
    /// Those of `mkdir(2)`, but that it exists.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Opens `path` for writing at its end; creates it when it is missing. Who writes it is alone.
    ///
    /// # Errors
    /// Those of `open(2)`.
    fn append(&self, path: &Path) -> io::Result<Arc<dyn Output>>;

    /// Creates `path`, empty even if there was something.
    ///
    /// # Errors
    /// Those of `open(2)`.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Output>>;

    /// Opens `path` for reading from its beginning.
    ///
    /// # Errors
    /// Those of `open(2)`.
    fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;

    /// The length of `path` in bytes; an error of kind `NotFound` when there is no such file.
    ///
    /// # Errors
    /// Those of `stat(2)`.
    fn length(&self, path: &Path) -> io::Result<u64>;

    /// Gives the file `from` the name `to`, whatever had that name before.
    ///
    /// # Errors
    /// Those of `rename(2)`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes the file `path`.
    ///
    /// # Errors
    /// Those of `unlink(2)`.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The names in `dir`, in no order.
    ///
    /// # Errors
    /// Those of `opendir(3)`.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Makes the names in `dir` safe.
    ///
    /// # Errors
    /// Those of `fsync(2)`.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Whether there is a file of that name.
    ///
    /// # Errors
    /// Those of `stat(2)`, but that there is none.
    fn exists(&self, path: &Path) -> io::Result<bool> {
        match self.length(path) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Puts `bytes` into the place of `path`, whole or not at all, by way of the file `temporary` in
    /// the same directory `dir`; safe when it returns.
    ///
    /// # Errors
    /// Any of those above. The old content is in place then, or, if only the last sync has failed,
    /// possibly the new one.
    fn replace(&self, dir: &Path, temporary: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = dir.join(temporary);
        let write = || {
            let file = self.create(&path)?;
            file.write_all(bytes)?;
            file.sync()
        };
        if let Err(e) = write().and_then(|()| self.rename(&path, &dir.join(name))) {
            // What is left over harms nobody: the next attempt overwrites it.
            let _ = self.remove(&path);
            return Err(e);
        }
        self.sync_dir(dir)
    }
}

/// The file system of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

/// Opens a file as `how` says. What only looks like one is refused: a pipe would keep whoever opens it
/// waiting for its other end, and a device can be read for ever.
///
/// # Errors
/// Those of `open(2)`, and that it is no regular file.
pub fn open_file(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    // To open a device may do something already.
    if let Ok(found) = fs::metadata(path) {
        refuse_others(&found)?;
    }
    // It may have become another one since, which is not waited for either. To files this flag means nothing.
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
        // Not O_APPEND: what is written over zeros does not go to the end of the file.
        let mut file =
            open_file(path, OpenOptions::new().write(true).create(true).truncate(false))?;
        file.seek(SeekFrom::End(0))?;
        Ok(Arc::new(file))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn Output>> {
        // It is emptied when it is known to be a file.
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
    fn the_disk_does_what_is_promised() {
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
        file.write_all(b"y").expect("behind the cut");
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

    /// Opening the pipe would wait for its other end.
    #[test]
    fn what_is_no_file_is_refused() {
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
                let words = opened.expect("it is no file").to_string();
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
