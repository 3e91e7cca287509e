//! A file that takes the place of another one, whole or not at all.
//!
//! ```text
//!  temp-PID-N.rdb: create, write ..., sync ─► rename over the other ─► sync the folder
//! ```
//!
//! Whoever looks at any moment finds the old file or the new one. What is not brought to its end is
//! removed.
//!
//! On the way the file can be synced every few megabytes, by a thread of its own: so the disk is
//! never asked for all of it at once, which would make everybody else's writes wait.

use crate::storage::{Output, Storage};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Bytes from one sync to the next.
const SYNC_EVERY: u64 = 8 << 20;

/// A file on its way to its place.
#[derive(Debug)]
pub struct Place<'s> {
    storage: &'s dyn Storage,
    file: Arc<dyn Output>,
    folder: PathBuf,
    temporary: PathBuf,
    to: PathBuf,
    syncer: Option<Syncer>,
    unsynced: u64,
    is_done: bool,
}

impl<'s> Place<'s> {
    /// Begins a file that will be `folder/name`. `number`: of this process no other file on its way
    /// has it. `incremental`: it is synced on the way.
    ///
    /// # Errors
    ///
    /// It can't be created.
    pub fn begin(
        storage: &'s dyn Storage,
        folder: &Path,
        name: &str,
        number: u64,
        incremental: bool,
    ) -> io::Result<Place<'s>> {
        let temporary = folder.join(format!("temp-{}-{number}.rdb", std::process::id()));
        let file = storage.create(&temporary)?;
        let mut place = Place {
            storage,
            file,
            folder: folder.into(),
            temporary,
            to: folder.join(name),
            syncer: None,
            unsynced: 0,
            is_done: false,
        };
        if incremental {
            place.syncer = Some(Syncer::start(place.file.clone())?);
        }
        Ok(place)
    }

    /// Makes all of it safe and puts it in its place.
    ///
    /// # Errors
    ///
    /// It can't be written, synced or renamed. The file that was there is still there, unless it is
    /// the folder that can't be synced.
    pub fn finish(mut self) -> io::Result<()> {
        if let Some(syncer) = self.syncer.take() {
            syncer.end()?;
        }
        self.file.sync()?;
        self.storage.rename(&self.temporary, &self.to)?;
        self.is_done = true;
        self.storage.sync_dir(&self.folder)
    }
}

impl Write for Place<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.unsynced += written as u64;
        if self.unsynced >= SYNC_EVERY
            && let Some(syncer) = &self.syncer
        {
            self.unsynced = 0;
            syncer.ask();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            drop(self.syncer.take().map(Syncer::end));
            // There is nobody to tell; and it is only in the way.
            let _ = self.storage.remove(&self.temporary);
        }
    }
}

/// A thread that syncs a file.
#[derive(Debug)]
struct Syncer {
    to: SyncSender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl Syncer {
    fn start(file: Arc<dyn Output>) -> io::Result<Syncer> {
        // One waits while one is done: who writes is so much ahead of the disk, and no more.
        let (to, asked) = sync_channel(1);
        let thread = std::thread::Builder::new().name("weft-save-sync".into());
        let thread = thread.spawn(move || asked.iter().try_for_each(|()| file.sync()))?;
        Ok(Syncer { to, thread })
    }

    /// Has the file be synced soon. Waits while that has not been done the last time but one.
    fn ask(&self) {
        // After an error nobody receives it; the error is told at the end.
        let _ = self.to.send(());
    }

    fn end(self) -> io::Result<()> {
        drop(self.to);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the syncing thread failed")))
    }
}
