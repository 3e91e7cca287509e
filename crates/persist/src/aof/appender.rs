//! The writer of the log: turns units into durable bytes.
//!
//! ```text
//! unit ─► buffer ─► write ─► file ─► sync ─► durable                numbers of units, each at
//!         fed               written         synced    durable        most the one before
//! ```
//!
//! The appender has no thread and no clock. The caller feeds it, calls [`Appender::write`], and
//! runs [`SyncJob`]s according to its policy, possibly while it writes more. Invariants after a
//! failure:
//!
//! * After a failed write, the file is truncated to its previous length and the next write repeats
//!   the whole buffer. If the truncation fails, the next write continues with the missing bytes. A
//!   unit is never in the file twice.
//! * After a failed sync, the content of that file on disk is unknown. A later successful sync
//!   doesn't make its units durable. Only a rewrite does, because it doesn't need the file. Until
//!   the rewrite ends, the caller must not promise durability ([`Appender::is_doubtful`]).
//! * A manifest is replaced as a whole, and names only files that were synced before. Files that it
//!   no longer needs are removed once the manifest itself is durable.
//!
//! An append extends the file, so each sync must also persist the new length, which takes a file
//! system twice as long as the bytes alone. If every unit is synced, the appender writes zeros
//! *ahead*, a chunk at a time ([`Appender::write_ahead`]), and units overwrite them. The zeros are
//! truncated when the file is closed, or when it is loaded. No reported size includes them. A
//! failure to write zeros is not an error: the log continues without them.
//!
//! A rewrite calls [`Appender::rotate`] at the cut. The caller then writes the base and calls
//! [`Appender::rebase`]. A failed base needs no undo: the log continues in its new file, and the
//! next rewrite replaces all of them.

use super::directory::Directory;
use super::encode::{Annotations, Encoder, Position};
use super::led::Led;
use super::manifest::{Entry, Manifest};
use crate::storage::Output;
use std::io;
use std::sync::Arc;
use weft_resp::Command;

/// Capacity that an empty buffer keeps, in bytes.
const EMPTY_CAPACITY: usize = 1 << 20;

/// How many zeros one write adds: an eighth of the file's content, within these bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Bytes; the file's length is a multiple of this.
    pub least: u64,
    pub most: u64,
}

impl Default for Ahead {
    fn default() -> Ahead {
        Ahead { least: 64 << 10, most: 1 << 20 }
    }
}

/// The writer of the log. See the module documentation.
#[derive(Debug)]
pub struct Appender {
    dir: Directory,
    manifest: Manifest,
    file: Arc<dyn Output>,
    /// The file is not in the manifest, because its base doesn't exist yet.
    waits: bool,
    encoder: Encoder,
    /// Bytes that are not written yet. `sent` counts those already in the file after a partial
    /// write.
    buffer: Vec<u8>,
    sent: usize,
    extent: Extent,
    zeros: Zeros,
    units: Units,
    /// Bytes of the other files to load, and of all files after the last rewrite.
    others: u64,
    rewritten: u64,
    /// Data was written or names were changed since the last sync.
    unsynced: bool,
    names: Names,
    /// Counts the files written, including the current one.
    files: u64,
    /// The content of files up to this count is unknown on disk.
    doubt: Option<u64>,
}

/// The current file, in bytes.
#[derive(Debug, Default)]
struct Extent {
    /// Its length without the buffer.
    length: u64,
    /// How many of them are known to be durable.
    safe: u64,
    /// End of the zeros written ahead; `length` or less if there are none.
    end: u64,
}

/// The zeros to write ahead.
#[derive(Debug, Default)]
struct Zeros {
    ahead: Option<Ahead>,
    /// After zeros could not be written, the length of the file at which the next attempt is made.
    from: u64,
}

/// The numbers of units up to which each step is done; each at most the one before.
#[derive(Debug, Default)]
struct Units {
    fed: u64,
    written: u64,
    synced: u64,
    durable: u64,
}

/// Counts changes of names in the folder.
#[derive(Debug, Default)]
struct Names {
    changes: u64,
    /// The changes that a sync has made durable.
    safe: u64,
}

impl Names {
    fn are_safe(&self) -> bool {
        self.changes == self.safe
    }
}

/// A sync that any thread can run.
#[derive(Debug)]
pub struct SyncJob {
    file: Arc<dyn Output>,
    /// The directory, if names in it are not durable yet.
    dir: Option<Directory>,
    names: u64,
    upto: u64,
    /// Length of the file in bytes.
    length: u64,
    files: u64,
}

impl SyncJob {
    /// Syncs the file. Blocks until the disk has finished.
    ///
    /// # Errors
    /// Storage errors. The caller passes the result to [`Appender::synced`] in any case.
    pub fn run(&self) -> io::Result<()> {
        if let Some(dir) = &self.dir {
            dir.sync()?;
        }
        self.file.sync()
    }
}

/// Files to remove; any thread can do it.
#[derive(Debug)]
pub struct Removal {
    dir: Directory,
    history: Vec<Entry>,
}

impl Removal {
    /// Removes the files. Large files can take seconds. The caller passes the result to
    /// [`Appender::removed`].
    #[must_use]
    pub fn run(&self) -> Vec<Entry> {
        self.dir.remove(&self.history)
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.history.iter().map(|entry| &*entry.name)
    }
}

impl Appender {
    /// Continues the log that `manifest` names, which was loaded: in its last file, or in a new one
    /// if it names none.
    ///
    /// # Errors
    /// Storage errors.
    pub fn open(
        dir: Directory,
        mut manifest: Manifest,
        annotations: Annotations,
    ) -> io::Result<Appender> {
        let sum = |entries: &[Entry]| {
            let lengths = entries.iter().map(|e| dir.storage.length(&dir.path(&e.name)));
            lengths.sum::<io::Result<u64>>()
        };
        let base = sum(manifest.base.as_slice())?;
        let file = match manifest.increments.last() {
            Some(last) => dir.storage.append(&dir.path(&last.name))?,
            None => {
                let entry = manifest.next_increment(dir.stem());
                let file = dir.create_empty(&entry.name)?;
                dir.sync()?;
                manifest.add_increment(entry);
                dir.put(&manifest)?;
                dir.sync()?;
                file
            }
        };
        let (last, before) = manifest.increments.split_last().expect("one was made");
        let others = base + sum(before)?;
        let length = dir.storage.length(&dir.path(&last.name))?;
        let mut appender = Appender::with_file(dir, manifest, file, annotations);
        (appender.others, appender.rewritten) = (others, base);
        appender.extent = Extent { length, safe: 0, end: length };
        // The previous process may not have synced the bytes that were loaded.
        appender.unsynced = length > 0;
        Ok(appender)
    }

    /// Starts a new log at a cut. `base` is the name, in the folder, of a durable image at that
    /// cut. All earlier files become history.
    ///
    /// # Errors
    /// Storage errors; the old files are still in force then.
    pub fn create(
        dir: Directory,
        mut manifest: Manifest,
        annotations: Annotations,
        base: &str,
        snapshot: bool,
    ) -> io::Result<Appender> {
        let entry = manifest.next_base(dir.stem(), snapshot);
        let increment = manifest.next_increment(dir.stem());
        let length = dir.storage.length(&dir.path(base))?;
        dir.storage.rename(&dir.path(base), &dir.path(&entry.name))?;
        let file = dir.create_empty(&increment.name)?;
        dir.sync()?;
        manifest.restart(entry, increment);
        dir.put(&manifest)?;
        dir.sync()?;
        let mut appender = Appender::with_file(dir, manifest, file, annotations);
        (appender.others, appender.rewritten) = (length, length);
        Ok(appender)
    }

    /// Starts a log at a cut whose image is still to be written. New units go to a file that takes
    /// effect with [`Appender::rebase`]. Until then `manifest` stays in force.
    ///
    /// # Errors
    /// Storage errors.
    pub fn wait_for_base(
        dir: Directory,
        mut manifest: Manifest,
        annotations: Annotations,
    ) -> io::Result<Appender> {
        // It is true of the old files only.
        manifest.led = None;
        dir.create()?;
        let file = dir.create_empty(&dir.waiting_increment())?;
        let mut appender = Appender::with_file(dir, manifest, file, annotations);
        appender.waits = true;
        Ok(appender)
    }

    /// Puts a base into force while the log is off. `base` is the name, in the folder, of a durable
    /// image. All other files become history and are removed.
    ///
    /// # Errors
    /// Storage errors. The old files are still in force then; if only the last calls failed,
    /// possibly
    /// failed, possibly the new one.
    pub fn put_base_alone(dir: &Directory, base: &str, snapshot: bool) -> io::Result<()> {
        let manifest = dir.manifest().map_err(|fault| io::Error::other(fault.to_string()))?;
        let entry = manifest.next_base(dir.stem(), snapshot);
        dir.storage.rename(&dir.path(base), &dir.path(&entry.name))?;
        dir.sync()?;
        let mut manifest = manifest;
        manifest.replace_all(entry);
        dir.put(&manifest)?;
        dir.sync()?;
        let gone = dir.remove(&manifest.history);
        manifest.history.retain(|entry| !gone.contains(entry));
        dir.put(&manifest)?;
        dir.sync()
    }

    fn with_file(
        dir: Directory,
        manifest: Manifest,
        file: Arc<dyn Output>,
        annotations: Annotations,
    ) -> Appender {
        Appender {
            dir,
            manifest,
            file,
            waits: false,
            encoder: Encoder::new(annotations),
            buffer: Vec::new(),
            sent: 0,
            extent: Extent::default(),
            zeros: Zeros::default(),
            units: Units::default(),
            others: 0,
            rewritten: 0,
            unsynced: false,
            names: Names::default(),
            files: 1,
            doubt: None,
        }
    }

    /// All units up to this number are durable by other means.
    pub fn begin_at(&mut self, number: u64) {
        self.units = Units { fed: number, written: number, synced: number, durable: number };
    }

    /// Changes the annotations written with commands.
    pub fn annotate(&mut self, annotations: Annotations) {
        self.encoder.annotate(annotations, &mut self.buffer);
    }

    /// Sets whether zeros are written ahead, and how many. Without checksums a unit with a hole is
    /// not distinguishable from a complete one, so no zeros are written then.
    ///
    /// # Errors
    /// Existing zeros could not be truncated, which does no harm.
    pub fn write_ahead(&mut self, ahead: Option<Ahead>) -> io::Result<()> {
        self.zeros.ahead = ahead;
        if ahead.is_some() { Ok(()) } else { self.trim() }
    }

    /// Passes the durable length to the encoder before a batch begins.
    fn pass_durable_length(&mut self) {
        if self.buffer.is_empty() {
            self.encoder.set_durable_length(self.zeros.ahead.map(|_| self.extent.safe));
        }
    }

    /// Takes a unit: its number, its commit time and its commands. O(bytes).
    pub fn unit<C: Command>(&mut self, number: u64, unix_ms: i64, commands: &[C]) {
        debug_assert!(number > self.units.fed, "units come in order");
        self.pass_durable_length();
        self.encoder.unit(unix_ms, commands, &mut self.buffer);
        self.units.fed = number;
    }

    /// Records the position in the replication history after all units taken so far.
    pub fn position(&mut self, position: &Position) {
        self.pass_durable_length();
        self.encoder.position(position, &mut self.buffer);
    }

    /// Units up to this number that [`Appender::unit`] didn't get contain nothing for the log.
    pub fn skip_upto(&mut self, number: u64) {
        self.units.fed = self.units.fed.max(number);
        if self.buffer.is_empty() {
            if self.units.synced == self.units.written && !self.unsynced && self.doubt.is_none() {
                self.units.synced = self.units.fed;
            }
            self.units.written = self.units.fed;
            self.count_durable();
        }
    }

    /// Bytes that are not written yet.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.buffer.len() - self.sent
    }

    /// Writes the whole buffer.
    ///
    /// # Errors
    /// Storage errors; the caller retries.
    pub fn write(&mut self) -> io::Result<()> {
        self.encoder.seal(&mut self.buffer);
        while self.sent < self.buffer.len() {
            match self.file.write(&self.buffer[self.sent..]) {
                Ok(0) => return Err(self.failed(io::ErrorKind::WriteZero.into())),
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.failed(e)),
            }
        }
        if !self.buffer.is_empty() {
            self.unsynced = true;
            self.extent.length += self.buffer.len() as u64;
            self.buffer.clear();
            self.buffer.shrink_to(EMPTY_CAPACITY);
            self.sent = 0;
            self.extent.end = self.extent.end.max(self.extent.length);
            self.put_zeros();
        }
        self.units.written = self.units.fed;
        Ok(())
    }

    /// Writes a chunk of zeros if the last one is used up. The file has grown in that case anyway,
    /// and the next sync persists its length.
    fn put_zeros(&mut self) {
        let Some(ahead) = self.zeros.ahead else { return };
        // A file's first batch may follow a position, after which the reader expects no zeros.
        if !self.encoder.expects_zeros()
            || self.extent.length < self.extent.end
            || self.extent.length < self.zeros.from
        {
            return;
        }
        let piece = (self.extent.length / 8).clamp(ahead.least, ahead.most);
        let upto = (self.extent.length + piece).next_multiple_of(ahead.least);
        while self.extent.end < upto {
            match self.file.write_zeros(self.extent.end, (upto - self.extent.end) as usize) {
                Ok(n) if n > 0 => self.extent.end += n as u64,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => {
                    // The disk may be full. The remaining space is for data.
                    self.zeros.from = self.extent.length + piece;
                    let _ = self.trim();
                    return;
                }
            }
        }
    }

    /// Truncates the zeros written ahead.
    fn trim(&mut self) -> io::Result<()> {
        let holds = self.extent.length + self.sent as u64;
        if self.extent.end > holds {
            self.file.truncate(holds)?;
            self.extent.end = holds;
            self.unsynced = true;
        }
        Ok(())
    }

    /// Writes the whole buffer and truncates the zeros: the next write may be far away, or never
    /// happen. The next write adds zeros again.
    ///
    /// # Errors
    /// Storage errors; the caller retries.
    pub fn write_and_trim(&mut self) -> io::Result<()> {
        let ahead = self.zeros.ahead.take();
        let came = self.write().and_then(|()| self.trim());
        self.zeros.ahead = ahead;
        came
    }

    /// Undoes a partial write.
    fn failed(&mut self, e: io::Error) -> io::Error {
        if self.sent > 0 {
            self.unsynced = true;
            self.extent.end = self.extent.end.max(self.extent.length + self.sent as u64);
            if self.file.truncate(self.extent.length).is_ok() {
                (self.sent, self.extent.end) = (0, self.extent.length);
            }
        }
        e
    }

    /// All units up to this number are in the file.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.units.written
    }

    /// All units up to this number are in synced files. While the appender waits for its base, a
    /// power failure still loses them.
    #[must_use]
    pub fn synced_upto(&self) -> u64 {
        self.units.synced
    }

    /// All units up to this number are durable.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.units.durable
    }

    /// Whether a sync would make more data durable.
    #[must_use]
    pub fn wants_sync(&self) -> bool {
        self.unsynced || self.has_unsafe_names()
    }

    /// Whether changed names are not durable yet. Obsolete files stay until they are.
    #[must_use]
    pub fn has_unsafe_names(&self) -> bool {
        !self.names.are_safe()
    }

    /// Whether only a rewrite, and no sync, can make the written data durable.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        self.doubt.is_some()
    }

    /// Whether the appender waits for its base.
    #[must_use]
    pub fn waits_for_base(&self) -> bool {
        self.waits
    }

    /// Returns a sync of everything written so far.
    #[must_use]
    pub fn sync_job(&self) -> SyncJob {
        SyncJob {
            file: self.file.clone(),
            dir: (!self.names.are_safe()).then(|| self.dir.clone()),
            names: self.names.changes,
            upto: self.units.written,
            length: self.extent.length,
            files: self.files,
        }
    }

    /// Takes the result of a sync.
    pub fn synced(&mut self, job: &SyncJob, came: &io::Result<()>) {
        if came.is_err() {
            self.doubt = self.doubt.max(Some(job.files));
            return;
        }
        self.names.safe = self.names.safe.max(job.names);
        if Arc::ptr_eq(&job.file, &self.file) && job.upto == self.units.written && self.sent == 0 {
            self.unsynced = false;
        }
        if self.doubt.is_none() {
            self.units.synced = self.units.synced.max(job.upto);
            if job.files == self.files {
                self.extent.safe = self.extent.safe.max(job.length);
            }
        }
        self.count_durable();
    }

    /// Synced units are durable if a restart would find their file.
    fn count_durable(&mut self) {
        if self.doubt.is_none() && !self.waits && self.names.are_safe() {
            self.units.durable = self.units.durable.max(self.units.synced);
        }
    }

    /// Syncs on this thread.
    fn sync(&mut self) -> io::Result<()> {
        let job = self.sync_job();
        let came = job.run();
        self.synced(&job, &came);
        came
    }

    /// Begins a rewrite at a cut after all units taken so far: later units go to a new file.
    ///
    /// # Errors
    /// Storage errors; the log continues in the old file then.
    pub fn rotate(&mut self) -> io::Result<()> {
        self.write_and_trim()?;
        // The old file must be complete before the next one has any data.
        self.sync()?;
        // An operator may have removed the folder, or `dir` may have changed.
        self.dir.create()?;
        if self.waits || self.doubt.is_some() {
            // No file may follow one that is possibly incomplete: later units take effect with the
            // base.
            self.file = self.dir.create_empty(&self.dir.waiting_increment())?;
            self.waits = true;
        } else {
            let entry = self.manifest.next_increment(self.dir.stem());
            let path = self.dir.path(&entry.name);
            let file = self.dir.create_empty(&entry.name)?;
            let mut manifest = self.manifest.clone();
            manifest.add_increment(entry);
            if let Err(e) = self.dir.sync().and_then(|()| self.dir.put(&manifest)) {
                let _ = self.dir.storage.remove(&path);
                return Err(e);
            }
            self.others += self.extent.length;
            (self.manifest, self.file) = (manifest, file);
        }
        (self.extent, self.zeros.from) = (Extent::default(), 0);
        self.names.changes += 1;
        self.files += 1;
        self.encoder.begin_file();
        Ok(())
    }

    /// Ends a rewrite. `base` is the name, in the folder, of a durable file with the data at the
    /// cut of the last [`Appender::rotate`] or [`Appender::wait_for_base`]. `snapshot`: the file
    /// begins with a snapshot.
    ///
    /// # Errors
    /// Storage errors. All files that were in force still are, and `base` is removed.
    pub fn rebase(&mut self, base: &str, snapshot: bool) -> io::Result<()> {
        let storage = self.dir.storage.clone();
        let entry = self.manifest.next_base(self.dir.stem(), snapshot);
        let path = self.dir.path(&entry.name);
        if let Err(e) = storage.rename(&self.dir.path(base), &path) {
            let _ = storage.remove(&self.dir.path(base));
            return Err(e);
        }
        if let Err(e) = self.put_base(entry) {
            let _ = storage.remove(&path);
            return Err(e);
        }
        self.names.changes += 1;
        // The base contains the data of the doubtful files.
        if self.doubt.is_some_and(|doubt| doubt < self.files) {
            self.doubt = None;
            self.unsynced = true;
        }
        Ok(())
    }

    /// Removes an unneeded base, a file of this name in the folder.
    pub fn discard(&self, base: Option<&str>) {
        if let Some(base) = base {
            // The next start removes a file that remains here.
            let _ = self.dir.storage.remove(&self.dir.path(base));
        }
    }

    /// Puts a manifest with this base into force.
    fn put_base(&mut self, base: Entry) -> io::Result<()> {
        let storage = &self.dir.storage;
        let length = storage.length(&self.dir.path(&base.name))?;
        let mut manifest = self.manifest.clone();
        if self.waits {
            let increment = manifest.next_increment(self.dir.stem());
            let waiting = self.dir.path(&self.dir.waiting_increment());
            let listed = self.dir.path(&increment.name);
            storage.rename(&waiting, &listed)?;
            manifest.restart(base, increment);
            if let Err(e) = self.dir.sync().and_then(|()| self.dir.put(&manifest)) {
                let _ = storage.rename(&listed, &waiting);
                return Err(e);
            }
        } else {
            manifest.rebase(base);
            self.dir.sync().and_then(|()| self.dir.put(&manifest))?;
        }
        self.manifest = manifest;
        self.waits = false;
        self.others = length;
        self.rewritten = length + self.extent.length;
        Ok(())
    }

    /// Returns the files that the durable manifest no longer needs.
    #[must_use]
    pub fn removal(&self) -> Option<Removal> {
        if !self.names.are_safe() {
            return None;
        }
        // A manifest edited by hand may list a needed file as history, too.
        let is_needed = |entry: &&Entry| self.manifest.files().any(|(_, e)| e.name == entry.name);
        let history = self.manifest.history.iter().filter(|entry| !is_needed(entry));
        let history: Vec<Entry> = history.cloned().collect();
        (!history.is_empty()).then(|| Removal { dir: self.dir.clone(), history })
    }

    /// Whether [`Appender::removal`] would return files.
    #[must_use]
    pub fn has_superfluous(&self) -> bool {
        !self.manifest.history.is_empty() && self.removal().is_some()
    }

    /// Takes the names of the removed files out of the manifest.
    ///
    /// # Errors
    /// Storage errors. The names stay in the manifest then, which does no harm.
    pub fn removed(&mut self, gone: &[Entry]) -> io::Result<()> {
        if gone.is_empty() {
            return Ok(());
        }
        let mut manifest = self.manifest.clone();
        manifest.history.retain(|entry| !gone.contains(entry));
        self.dir.put(&manifest)?;
        self.manifest = manifest;
        self.names.changes += 1;
        Ok(())
    }

    /// The mark in the manifest.
    #[must_use]
    pub fn led(&self) -> Option<Led> {
        self.manifest.led
    }

    /// Sets or removes the mark: the files have every write that this primary confirmed, and will have. Durable on return.
    ///
    /// # Errors
    /// Storage errors; the mark on disk is the earlier or the new one then.
    ///
    /// # Panics
    /// If it is set while a restart would not find all units.
    pub fn set_led(&mut self, led: Option<Led>) -> io::Result<()> {
        if led.is_some() {
            assert!(!self.waits && self.doubt.is_none(), "the files are not complete");
            // Data that an earlier process has written may not be on disk.
            self.sync()?;
        }
        let mut manifest = self.manifest.clone();
        manifest.led = led;
        self.dir.put(&manifest)?;
        self.dir.sync()?;
        self.manifest = manifest;
        Ok(())
    }

    /// Bytes of all files that a start would load now, and the same after the last rewrite.
    #[must_use]
    pub fn sizes(&self) -> (u64, u64) {
        (self.others + self.extent.length, self.rewritten)
    }

    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.dir
    }

    /// Whether the last file is empty.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.extent.length == 0
    }

    /// The name of the current file.
    #[must_use]
    pub fn file_name(&self) -> String {
        match self.manifest.increments.last() {
            Some(last) if !self.waits => last.name.clone(),
            _ => self.dir.waiting_increment(),
        }
    }
}

/// Faults that tests inject.
#[cfg(test)]
impl Appender {
    /// Marks all written bytes as durable.
    pub(super) fn claim_safe(&mut self) {
        self.extent.safe = self.extent.length;
    }

    /// Forgets the zeros written ahead.
    pub(super) fn forget_zeros(&mut self) {
        self.extent.end = self.extent.length;
    }
}
