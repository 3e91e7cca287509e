//! The writing end: from units of the log to bytes that are safe.
//!
//! ```text
//! unit ─► buffer ─► write ─► file ─► sync ─► safe, and found         numbers of units, each at
//!         fed               written         synced    durable        most the one before
//! ```
//!
//! There is no thread here and no clock. Who drives it feeds it, calls [`Appender::write`], and runs
//! [`SyncJob`]s where and when its policy wants it, also while more is written. What a failure may and
//! may not leave behind:
//!
//! * After a write that failed, the file is cut to where it was, if that can be done, and the whole
//!   buffer is written the next time; else what is missing of it. A unit is never there twice.
//! * After a sync that failed, nobody knows what the disk holds of that file. Units in it do not become
//!   durable by a later sync that succeeds, but by a rewrite, which does not need the file. Until it has
//!   ended nothing should be promised ([`Appender::is_doubtful`]).
//! * A manifest is replaced as a whole, and names only files that were made safe before. Files that it
//!   does not need any more are removed when it is safe itself.
//!
//! An append makes the file longer, so each sync of one has to make the new length safe, too, which takes a
//! file system twice as long as the bytes. Where every unit is synced, zeros are written *ahead* of it, a piece at
//! a time ([`Appender::write_ahead`]), and units go over them. They are cut off when the file is left, and
//! by who loads it; no size that is told counts them. That no zeros can be written is no error: it goes on without.
//!
//! A rewrite is [`Appender::rotate`] at the cut, then the base, written by somebody else, then
//! [`Appender::rebase`]. If the base fails nothing needs to be undone: the log goes on in its new file,
//! and the next rewrite replaces them all.

use super::directory::Directory;
use super::encode::{Annotations, Command, Encoder, Position};
use super::manifest::{Entry, Manifest};
use crate::storage::Output;
use std::io;
use std::sync::Arc;

/// Bytes that the buffer keeps when it is empty.
const KEPT: usize = 1 << 20;

/// How many zeros are written at a time: an eighth of what the file holds, in these bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Bytes; the file ends at a multiple of this.
    pub least: u64,
    pub most: u64,
}

impl Default for Ahead {
    fn default() -> Ahead {
        Ahead { least: 64 << 10, most: 1 << 20 }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Appender {
    dir: Directory,
    manifest: Manifest,
    file: Arc<dyn Output>,
    /// The file is not in the manifest: there is no base yet that it could follow.
    waits: bool,
    encoder: Encoder,
    /// What is not written yet, and how much of it is in the file all the same.
    buffer: Vec<u8>,
    sent: usize,
    /// Bytes of the file before the buffer, and how many of them are safe for sure.
    length: u64,
    safe: u64,
    /// Where zeros end that are written behind that, if there are any.
    end: u64,
    ahead: Option<Ahead>,
    /// When zeros could not be written, it is tried again when the file holds so much.
    ahead_from: u64,
    fed: u64,
    written: u64,
    synced: u64,
    durable: u64,
    /// Bytes of the other files that are to be loaded, and of all when they were last rewritten.
    others: u64,
    rewritten: u64,
    /// Something was written, or names were changed, that no sync has made safe.
    unsynced: bool,
    /// Counts changes of names, and how many of them are safe.
    names: u64,
    names_safe: u64,
    /// Counts the files that were written, this one included.
    files: u64,
    /// What files up to this one hold is doubtful.
    doubt: Option<u64>,
}

/// A sync to be run, by any thread.
#[derive(Debug)]
pub struct SyncJob {
    file: Arc<dyn Output>,
    /// Its directory, if names in it are not safe.
    dir: Option<Directory>,
    names: u64,
    upto: u64,
    /// Bytes of the file.
    length: u64,
    files: u64,
}

impl SyncJob {
    /// Runs it. Takes as long as the disk does.
    ///
    /// # Errors
    /// Those of the storage, to be told to [`Appender::synced`] in any case.
    pub fn run(&self) -> io::Result<()> {
        if let Some(dir) = &self.dir {
            dir.sync()?;
        }
        self.file.sync()
    }
}

/// Files to be removed, by any thread.
#[derive(Debug)]
pub struct Removal {
    dir: Directory,
    history: Vec<Entry>,
}

impl Removal {
    /// Removes them; takes as long as the file system does, for large ones possibly seconds. To be told
    /// to [`Appender::removed`].
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
    /// Goes on behind what `manifest` names, which was loaded: in its last file, or in a new one where
    /// there is none.
    ///
    /// # Errors
    /// Those of the storage.
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
                let file = dir.fresh(&entry.name)?;
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
        let mut appender = Appender::of(dir, manifest, file, annotations);
        (appender.length, appender.others, appender.rewritten) = (length, others, base);
        appender.end = length;
        // Whoever wrote it before may not have synced what we have read.
        appender.unsynced = length > 0;
        Ok(appender)
    }

    /// Begins anew at a cut, of which `base` is an image that is safe already, in a file of this name
    /// in the folder: what was there before is history.
    ///
    /// # Errors
    /// Those of the storage; the old files are still in force then.
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
        let file = dir.fresh(&increment.name)?;
        dir.sync()?;
        manifest.restart(entry, increment);
        dir.put(&manifest)?;
        dir.sync()?;
        let mut appender = Appender::of(dir, manifest, file, annotations);
        (appender.others, appender.rewritten) = (length, length);
        Ok(appender)
    }

    /// Begins at a cut whose image is yet to be written: what comes goes to a file that counts from
    /// [`Appender::rebase`] on. Until then `manifest` stays in force as it is.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn wait_for_base(
        dir: Directory,
        manifest: Manifest,
        annotations: Annotations,
    ) -> io::Result<Appender> {
        dir.create()?;
        let file = dir.fresh(&dir.waiting_increment())?;
        let mut appender = Appender::of(dir, manifest, file, annotations);
        appender.waits = true;
        Ok(appender)
    }

    /// Puts a base into force for a log that is off: `base` is an image, in a file of this name in the
    /// folder, that is safe already. All other files are history and removed.
    ///
    /// # Errors
    /// Those of the storage; the old files are still in force then, or, if only the last calls have
    /// failed, possibly the new one.
    pub fn only_base(dir: &Directory, base: &str, snapshot: bool) -> io::Result<()> {
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

    fn of(
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
            length: 0,
            safe: 0,
            end: 0,
            ahead: None,
            ahead_from: 0,
            fed: 0,
            written: 0,
            synced: 0,
            durable: 0,
            others: 0,
            rewritten: 0,
            unsynced: false,
            names: 0,
            names_safe: 0,
            files: 1,
            doubt: None,
        }
    }

    /// All units up to this number are safe without having come this way.
    pub fn begin_at(&mut self, number: u64) {
        (self.fed, self.written) = (number, number);
        (self.synced, self.durable) = (number, number);
    }

    /// Changes what is noted beside commands.
    pub fn annotate(&mut self, annotations: Annotations) {
        self.encoder.annotate(annotations, &mut self.buffer);
    }

    /// Whether zeros are written ahead from now on, and how many. Without checksums nobody could tell a unit with
    /// a hole in it from one that is whole, so then none are.
    ///
    /// # Errors
    /// Zeros that are there could not be cut off, which does no harm.
    pub fn write_ahead(&mut self, ahead: Option<Ahead>) -> io::Result<()> {
        self.ahead = ahead;
        if ahead.is_some() { Ok(()) } else { self.trim() }
    }

    /// Says what a batch has to know that begins now.
    fn tell_encoder(&mut self) {
        if self.buffer.is_empty() {
            self.encoder.tell_safe(self.ahead.map(|_| self.safe));
        }
    }

    /// Takes a unit: its number, when it was committed, and its commands. O(bytes).
    pub fn unit<C: Command>(&mut self, number: u64, unix_ms: i64, commands: &[C]) {
        debug_assert!(number > self.fed, "units come in order");
        self.tell_encoder();
        self.encoder.unit(unix_ms, commands, &mut self.buffer);
        self.fed = number;
    }

    /// Notes where the data are behind what was taken so far, in a history of replication.
    pub fn position(&mut self, position: &Position) {
        self.tell_encoder();
        self.encoder.position(position, &mut self.buffer);
    }

    /// Units up to this number, if none of them was given to [`Appender::unit`], had nothing for it.
    pub fn nothing_upto(&mut self, number: u64) {
        self.fed = self.fed.max(number);
        if self.buffer.is_empty() {
            if self.synced == self.written && !self.unsynced && self.doubt.is_none() {
                self.synced = self.fed;
            }
            self.written = self.fed;
            self.count_durable();
        }
    }

    /// Bytes that wait to be written.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.buffer.len() - self.sent
    }

    /// Writes all that waits.
    ///
    /// # Errors
    /// Those of the storage; to be tried again.
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
            self.length += self.buffer.len() as u64;
            self.buffer.clear();
            self.buffer.shrink_to(KEPT);
            self.sent = 0;
            self.end = self.end.max(self.length);
            self.put_zeros();
        }
        self.written = self.fed;
        Ok(())
    }

    /// Writes a piece of zeros, if the last one is used up. The file has become longer then in any case, and the
    /// next sync has to see to that.
    fn put_zeros(&mut self) {
        let Some(ahead) = self.ahead else { return };
        // In front of the first batch of a file there may be a position, behind which nobody expects zeros.
        if !self.encoder.has_told_safe() || self.length < self.end || self.length < self.ahead_from
        {
            return;
        }
        let piece = (self.length / 8).clamp(ahead.least, ahead.most);
        let upto = (self.length + piece).next_multiple_of(ahead.least);
        while self.end < upto {
            match self.file.write_zeros(self.end, (upto - self.end) as usize) {
                Ok(n) if n > 0 => self.end += n as u64,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => {
                    // There may be no space. What is left of it is for those who need it.
                    self.ahead_from = self.length + piece;
                    let _ = self.trim();
                    return;
                }
            }
        }
    }

    /// Cuts zeros off that were written ahead.
    fn trim(&mut self) -> io::Result<()> {
        let holds = self.length + self.sent as u64;
        if self.end > holds {
            self.file.truncate(holds)?;
            self.end = holds;
            self.unsynced = true;
        }
        Ok(())
    }

    /// Writes all that waits, and leaves no zeros behind it: nothing may come for long, or ever. What comes has
    /// zeros ahead of it again.
    ///
    /// # Errors
    /// Those of the storage; to be tried again.
    pub fn write_last(&mut self) -> io::Result<()> {
        let ahead = self.ahead.take();
        let came = self.write().and_then(|()| self.trim());
        self.ahead = ahead;
        came
    }

    /// Takes back what a write has left behind.
    fn failed(&mut self, e: io::Error) -> io::Error {
        if self.sent > 0 {
            self.unsynced = true;
            self.end = self.end.max(self.length + self.sent as u64);
            if self.file.truncate(self.length).is_ok() {
                (self.sent, self.end) = (0, self.length);
            }
        }
        e
    }

    /// All units up to here are in the file.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// All units up to here are in files that were synced. They are lost all the same if the power goes
    /// off while it waits for its base.
    #[must_use]
    pub fn synced_upto(&self) -> u64 {
        self.synced
    }

    /// All units up to here are safe.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Whether a sync would make anything safer.
    #[must_use]
    pub fn wants_sync(&self) -> bool {
        self.unsynced || self.has_unsafe_names()
    }

    /// Whether names were changed that no sync has made safe: files that are not needed any more stay
    /// until that is done.
    #[must_use]
    pub fn has_unsafe_names(&self) -> bool {
        self.names != self.names_safe
    }

    /// Whether no sync can make safe what was written, but only a rewrite.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        self.doubt.is_some()
    }

    /// Whether it waits for its base.
    #[must_use]
    pub fn waits_for_base(&self) -> bool {
        self.waits
    }

    /// A sync of all that is written.
    #[must_use]
    pub fn sync_job(&self) -> SyncJob {
        SyncJob {
            file: self.file.clone(),
            dir: (self.names != self.names_safe).then(|| self.dir.clone()),
            names: self.names,
            upto: self.written,
            length: self.length,
            files: self.files,
        }
    }

    /// What came of a sync.
    pub fn synced(&mut self, job: &SyncJob, came: &io::Result<()>) {
        if came.is_err() {
            self.doubt = self.doubt.max(Some(job.files));
            return;
        }
        self.names_safe = self.names_safe.max(job.names);
        if Arc::ptr_eq(&job.file, &self.file) && job.upto == self.written && self.sent == 0 {
            self.unsynced = false;
        }
        if self.doubt.is_none() {
            self.synced = self.synced.max(job.upto);
            if job.files == self.files {
                self.safe = self.safe.max(job.length);
            }
        }
        self.count_durable();
    }

    /// What was synced is durable if it would be found.
    fn count_durable(&mut self) {
        if self.doubt.is_none() && !self.waits && self.names == self.names_safe {
            self.durable = self.durable.max(self.synced);
        }
    }

    /// Syncs here and now.
    fn sync(&mut self) -> io::Result<()> {
        let job = self.sync_job();
        let came = job.run();
        self.synced(&job, &came);
        came
    }

    /// Begins a rewrite at a cut behind all units that were taken: what comes goes to a new file.
    ///
    /// # Errors
    /// Those of the storage; it goes on in the old file then.
    pub fn rotate(&mut self) -> io::Result<()> {
        self.write_last()?;
        // The file that is left must be whole before there is anything in the next.
        self.sync()?;
        // Somebody may have removed the folder, or the directory of the data is another one now.
        self.dir.create()?;
        if self.waits || self.doubt.is_some() {
            // Nothing may follow a file that is possibly not whole: what comes counts from the base on.
            self.file = self.dir.fresh(&self.dir.waiting_increment())?;
            self.waits = true;
        } else {
            let entry = self.manifest.next_increment(self.dir.stem());
            let path = self.dir.path(&entry.name);
            let file = self.dir.fresh(&entry.name)?;
            let mut manifest = self.manifest.clone();
            manifest.add_increment(entry);
            if let Err(e) = self.dir.sync().and_then(|()| self.dir.put(&manifest)) {
                let _ = self.dir.storage.remove(&path);
                return Err(e);
            }
            self.others += self.length;
            (self.manifest, self.file) = (manifest, file);
        }
        (self.length, self.safe, self.end, self.ahead_from) = (0, 0, 0, 0);
        self.names += 1;
        self.files += 1;
        self.encoder.begin_file();
        Ok(())
    }

    /// Ends a rewrite: `base` is the name, in the folder, of a file that is safe already and holds what
    /// there was at the cut of the last [`Appender::rotate`] or [`Appender::wait_for_base`]. `snapshot`: it begins
    /// with one.
    ///
    /// # Errors
    /// Those of the storage; all files that were in force are it still, and `base` is removed.
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
        self.names += 1;
        // What the doubtful files held is in the base.
        if self.doubt.is_some_and(|doubt| doubt < self.files) {
            self.doubt = None;
            self.unsynced = true;
        }
        Ok(())
    }

    /// Removes a base in a file of this name in the folder that nobody wants.
    pub fn discard(&self, base: Option<&str>) {
        if let Some(base) = base {
            // What is left over is removed at the next start.
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
        self.rewritten = length + self.length;
        Ok(())
    }

    /// Files that the manifest, which is safe, does not need any more.
    #[must_use]
    pub fn removal(&self) -> Option<Removal> {
        if self.names != self.names_safe {
            return None;
        }
        // Somebody may have written a manifest by hand.
        let is_needed = |entry: &&Entry| self.manifest.files().any(|(_, e)| e.name == entry.name);
        let history = self.manifest.history.iter().filter(|entry| !is_needed(entry));
        let history: Vec<Entry> = history.cloned().collect();
        (!history.is_empty()).then(|| Removal { dir: self.dir.clone(), history })
    }

    /// Whether [`Appender::removal`] has something to remove.
    #[must_use]
    pub fn has_superfluous(&self) -> bool {
        !self.manifest.history.is_empty() && self.removal().is_some()
    }

    /// Those have been removed.
    ///
    /// # Errors
    /// Those of the storage. They stay in the manifest then, which does no harm.
    pub fn removed(&mut self, gone: &[Entry]) -> io::Result<()> {
        if gone.is_empty() {
            return Ok(());
        }
        let mut manifest = self.manifest.clone();
        manifest.history.retain(|entry| !gone.contains(entry));
        self.dir.put(&manifest)?;
        self.manifest = manifest;
        self.names += 1;
        Ok(())
    }

    /// Bytes of all files that would be loaded now, and of them after the last rewrite.
    #[must_use]
    pub fn sizes(&self) -> (u64, u64) {
        (self.others + self.length, self.rewritten)
    }

    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.dir
    }

    /// Whether nothing has been written to the last file.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.length == 0
    }

    /// The name of the file that is written.
    #[must_use]
    pub fn file_name(&self) -> String {
        match self.manifest.increments.last() {
            Some(last) if !self.waits => last.name.clone(),
            _ => self.dir.waiting_increment(),
        }
    }
}

/// Faults that a test plants.
#[cfg(test)]
impl Appender {
    /// Takes all that was written for safe.
    pub(super) fn claim_safe(&mut self) {
        self.safe = self.length;
    }

    /// Forgets zeros that were written ahead.
    pub(super) fn forget_zeros(&mut self) {
        self.end = self.length;
    }
}
