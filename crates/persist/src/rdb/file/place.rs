//! Replaces a file atomically.
//!
//! ```text
//!  temp-PID-N.rdb: create, write ..., sync ─► rename over the other ─► sync the folder
//! ```
//!
//! A reader finds the old file or the new one at any time. An unfinished file is removed.
//!
//! A separate thread can sync the file every few megabytes. So the disk never has to flush all of
//! it at once, which would delay the writes of other processes.

use crate::storage::{Output, Storage};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Bytes between two syncs.
const SYNC_EVERY: u64 = 8 << 20;

/// A file that will replace another.
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
    /// Begins a file that will be `folder/name`. `number` must be unique among the unfinished files
    /// of this process. `incremental`: sync the file while it is written.
    ///
    /// # Errors
    ///
    /// The file can't be created.
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

    /// Syncs the file and renames it to its final name.
    ///
    /// # Errors
    ///
    /// A write, the sync or the rename failed. The old file remains, unless only the sync of the
    /// folder failed.
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
            // The file is useless, and drop can't report an error.
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
        // One request may be queued while a sync runs, so the writer is at most that far ahead of
        // the disk.
        let (to, asked) = sync_channel(1);
        let thread = std::thread::Builder::new().name("weft-save-sync".into());
        let thread = thread.spawn(move || asked.iter().try_for_each(|()| file.sync()))?;
        Ok(Syncer { to, thread })
    }

    /// Requests a sync. Blocks while the previous request is still queued.
    fn ask(&self) {
        // After an error the thread has ended. [`Syncer::end`] reports the error.
        let _ = self.to.send(());
    }

    fn end(self) -> io::Result<()> {
        drop(self.to);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the syncing thread failed")))
    }
}
