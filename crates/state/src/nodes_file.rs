//! `cluster-config-file`: read once, locked, and replaced as a whole.
//!
//! The lock is `flock(2)` on the file itself, as in Valkey, so that two servers don't share it. A new version is another file,
//! which is locked before it gets the name. So a process that opens the name finds a locked file, or one that has just lost its name.

use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file, locked until this is dropped.
#[derive(Debug)]
pub struct NodesFile {
    path: PathBuf,
    locked: File,
}

impl NodesFile {
    /// Opens, locks and reads the file. Creates an empty one if there is none. `None`: another process has locked it.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(path: &Path) -> io::Result<Option<(NodesFile, Vec<u8>)>> {
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o644);
            let mut locked = options.open(path)?;
            match flock(&locked, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(e) => return Err(e.into()),
            }
            // Another server may have replaced the file before it ended.
            let is_current = fs::metadata(path)
                .is_ok_and(|now| locked.metadata().is_ok_and(|it| it.ino() == now.ino()));
            if is_current {
                let mut content = Vec::new();
                locked.read_to_end(&mut content)?;
                return Ok(Some((NodesFile { path: path.to_path_buf(), locked }, content)));
            }
        }
    }

    /// Replaces the content, durably: after a crash there is the old one or the new one.
    ///
    /// # Errors
    /// Those of the file system. The old content is still there, unless the error is that of the last sync.
    pub fn replace(&mut self, content: &[u8]) -> io::Result<()> {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".tmp-{}", std::process::id()));
        let temporary = PathBuf::from(name);
        let written = self.write_over(&temporary, content);
        if written.is_err() {
            // It may not exist.
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    fn write_over(&mut self, temporary: &Path, content: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o644).open(temporary)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(temporary, &self.path)?;
        self.locked = file;
        match self.path.parent() {
            Some(directory) if !directory.as_os_str().is_empty() => {
                File::open(directory)?.sync_all()
            }
            _ => File::open(".")?.sync_all(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_holds_the_file() {
        let dir = tempfile::tempdir().expect("create a folder");
        let path = dir.path().join("nodes.conf");
        let (mut first, content) = NodesFile::open(&path).unwrap().expect("it is not locked");
        assert!(content.is_empty());
        assert!(NodesFile::open(&path).unwrap().is_none());
        first.replace(b"one").unwrap();
        first.replace(b"two").unwrap();
        assert!(NodesFile::open(&path).unwrap().is_none(), "the new file is locked, too");
        drop(first);
        let (_second, content) = NodesFile::open(&path).unwrap().expect("it is free");
        assert_eq!(content, b"two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn failed_write_keeps_the_old_content() {
        let dir = tempfile::tempdir().expect("create a folder");
        let path = dir.path().join("sub/nodes.conf");
        assert!(NodesFile::open(&path).is_err());
        fs::create_dir(dir.path().join("sub")).unwrap();
        let (mut file, _) = NodesFile::open(&path).unwrap().expect("it is not locked");
        file.replace(b"one").unwrap();
        fs::remove_dir_all(dir.path().join("sub")).unwrap();
        assert!(file.replace(b"two").is_err());
    }
}
