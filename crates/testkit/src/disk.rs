//! A simulated disk with the failure modes of real disks; a seed determines them.
//!
//! Like a page cache, it separates written bytes from safe ones. After a power loss
//! ([`SimDisk::after_power_loss`]):
//!
//! * synced bytes are present;
//! * each page of a file that was not synced may be present or missing, independently of its neighbours,
//!   and the file may have any length from the old one to the new one; missing pages read as zeros;
//! * each change of a name in a directory that was not synced may have happened or not; a rename happens
//!   as a whole.
//!
//! A failed sync loses pages forever, although reads return them and the next sync succeeds. Any call
//! can fail, and a write may take fewer bytes than it got. Each call is a step, and the power can be cut
//! at any of them.
//!
//! This module knows nothing about the code that uses it: a test passes the disk to its subject as
//! its file system.

use crate::rng::Rng;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Bytes of a page. Small, so that a short file has many.
const PAGE: usize = 64;

/// A simulated disk. Clones share its content.
#[derive(Clone, Debug)]
pub struct SimDisk(Arc<Mutex<State>>);

/// An open file. Clones share the write position.
#[derive(Clone, Debug)]
pub struct SimFile {
    disk: SimDisk,
    number: usize,
    /// The position of the next write.
    at: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct State {
    rng: Rng,
    files: Vec<Contents>,
    /// Files by name: the present state and the safe one.
    now: BTreeMap<PathBuf, usize>,
    safe: BTreeMap<PathBuf, usize>,
    dirs: Vec<PathBuf>,
    /// Changes of names that are not safe, in order.
    pending: Vec<Change>,
    steps: u64,
    off_at: u64,
    /// The percentage of failing calls; one call may fail at a given step.
    failing: usize,
    fails_at: u64,
}

#[derive(Clone, Debug, Default)]
struct Contents {
    now: Vec<u8>,
    /// Content at the last sync.
    safe: Vec<u8>,
    /// Pages in this range may have been lost by a failed sync.
    lost: Range<usize>,
}

#[derive(Clone, Debug)]
enum Change {
    Linked(PathBuf, usize),
    Renamed(PathBuf, PathBuf, usize),
    Removed(PathBuf),
}

impl Change {
    fn touches(&self, dir: &Path) -> bool {
        let of = |path: &PathBuf| path.parent() == Some(dir);
        match self {
            Change::Linked(path, _) | Change::Removed(path) => of(path),
            Change::Renamed(from, to, _) => of(from) || of(to),
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Change::Linked(path, file) => {
                names.insert(path.clone(), *file);
            }
            Change::Renamed(from, to, file) => {
                if names.get(from) == Some(file) {
                    names.remove(from);
                }
                names.insert(to.clone(), *file);
            }
            Change::Removed(path) => {
                names.remove(path);
            }
        }
    }
}

impl Contents {
    /// The content of the page from `at` on after a power loss: new, or old.
    fn page(&self, at: usize, end: usize, new: bool) -> Vec<u8> {
        let from = if new { &self.now } else { &self.safe };
        let mut page: Vec<u8> = from.iter().skip(at).take(end - at).copied().collect();
        page.resize(end - at, 0);
        page
    }

    fn survivor(&self, rng: &mut Rng) -> Vec<u8> {
        if self.now == self.safe {
            return self.safe.clone();
        }
        let (short, long) =
            (self.now.len().min(self.safe.len()), self.now.len().max(self.safe.len()));
        let length = match rng.below(4) {
            0 => self.now.len(),
            1 => self.safe.len(),
            2 => (short + rng.below(long - short + 1)).next_multiple_of(PAGE).min(long),
            _ => short + rng.below(long - short + 1),
        };
        // Some runs lose nearly nothing, some nearly all.
        let kept = *rng.pick(&[5, 50, 95, 100]);
        let mut bytes = Vec::new();
        while bytes.len() < length {
            let end = (bytes.len() + PAGE).min(length);
            let page = self.page(bytes.len(), end, rng.percent(kept));
            bytes.extend(page);
        }
        bytes
    }

    fn synced(&mut self, rng: &mut Rng) {
        // A sync doesn't write the pages that an earlier sync has lost.
        let end = self.lost.end.min(self.now.len());
        self.safe.clone_from(&self.now);
        for at in (self.lost.start..end).step_by(PAGE) {
            if rng.percent(50) {
                self.safe[at..(at + PAGE).min(end)].fill(0);
            }
        }
        self.lost = 0..0;
    }

    /// Writes `bytes` at `at`, over present bytes or after the end.
    fn put(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.now.len() < end {
            self.now.resize(end, 0);
        }
        self.now[at..end].copy_from_slice(bytes);
    }

    /// Bytes written after the cut are new and not lost.
    fn cut(&mut self, length: usize) {
        self.now.resize(length, 0);
        self.lost.end = self.lost.end.min(length);
    }

    /// A sync has failed: bytes that were not safe may never become safe.
    fn lose_unsynced(&mut self) {
        let same = self.now.iter().zip(&self.safe).take_while(|(a, b)| a == b).count();
        let start = if self.lost.is_empty() { same } else { self.lost.start.min(same) };
        self.lost = start..self.now.len();
    }
}

impl State {
    /// Counts a call; returns an error if it must fail.
    fn step(&mut self) -> io::Result<()> {
        self.steps += 1;
        if self.steps > self.off_at {
            return Err(io::Error::other("the power is off"));
        }
        if self.steps == self.fails_at || self.rng.percent(self.failing) {
            let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::Other];
            return Err((*self.rng.pick(&kinds)).into());
        }
        Ok(())
    }

    fn link(&mut self, path: &Path) -> io::Result<usize> {
        if !self.dirs.iter().any(|dir| Some(&**dir) == path.parent()) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if let Some(file) = self.now.get(path) {
            return Ok(*file);
        }
        self.files.push(Contents::default());
        let file = self.files.len() - 1;
        self.change(Change::Linked(path.into(), file));
        Ok(file)
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.now);
        self.pending.push(change);
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        self.now.get(path).copied().ok_or(io::ErrorKind::NotFound.into())
    }
}

impl SimDisk {
    /// An empty disk with the directory `root`, whose behaviour `seed` determines.
    pub fn new(seed: u64, root: &Path) -> SimDisk {
        SimDisk(Arc::new(Mutex::new(State {
            rng: Rng::new(seed),
            files: Vec::new(),
            now: BTreeMap::new(),
            safe: BTreeMap::new(),
            dirs: vec![root.into()],
            pending: Vec::new(),
            steps: 0,
            off_at: u64::MAX,
            failing: 0,
            fails_at: u64::MAX,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// From now on this percentage of calls fails.
    pub fn fail(&self, percent: usize) {
        self.state().failing = percent;
    }

    /// The call at this step fails, and no other.
    pub fn fail_at(&self, step: u64) {
        self.state().fails_at = step;
    }

    /// All calls after this step fail: the power is off.
    pub fn cut_power_at(&self, step: u64) {
        self.state().off_at = step;
    }

    pub fn is_off(&self) -> bool {
        let state = self.state();
        state.steps > state.off_at
    }

    /// Calls so far.
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// The disk as it may be when the power is back.
    pub fn after_power_loss(&self) -> SimDisk {
        let mut state = self.state();
        let State { rng, files, safe, pending, .. } = &mut *state;
        let kept = *rng.pick(&[0, 50, 100]);
        for change in pending.iter().filter(|_| rng.percent(kept)).collect::<Vec<_>>() {
            change.apply(safe);
        }
        let files: Vec<Vec<u8>> = files.iter().map(|file| file.survivor(rng)).collect();
        let names = safe.clone();
        state.with_files(names, files)
    }

    /// The disk as a process finds it after another one was killed.
    pub fn after_crash(&self) -> SimDisk {
        let mut state = self.state();
        let files = state.files.iter().map(|file| file.now.clone()).collect();
        let names = state.now.clone();
        state.with_files(names, files)
    }

    /// Creates `dir`, which is safe at once.
    ///
    /// # Errors
    /// Of this and all following functions: requested failures, and the errors of a file system.
    pub fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        if !state.dirs.iter().any(|known| known == dir) {
            state.dirs.push(dir.into());
        }
        Ok(())
    }

    /// Opens `path` for writing at its end; `empty` truncates it.
    pub fn open(&self, path: &Path, empty: bool) -> io::Result<SimFile> {
        let mut state = self.state();
        state.step()?;
        let number = state.link(path)?;
        if empty {
            state.files[number].cut(0);
        }
        let at = Arc::new(AtomicUsize::new(state.files[number].now.len()));
        Ok(SimFile { disk: self.clone(), number, at })
    }

    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut state = self.state();
        state.step()?;
        let number = state.find(path)?;
        Ok(state.files[number].now.clone())
    }

    pub fn length(&self, path: &Path) -> io::Result<u64> {
        let mut state = self.state();
        state.step()?;
        let number = state.find(path)?;
        Ok(state.files[number].now.len() as u64)
    }

    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        let file = state.find(from)?;
        state.change(Change::Renamed(from.into(), to.into(), file));
        Ok(())
    }

    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        state.find(path)?;
        state.change(Change::Removed(path.into()));
        Ok(())
    }

    pub fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.step()?;
        let names = state.now.keys().filter(|path| path.parent() == Some(dir));
        Ok(names.filter_map(|path| Some(path.file_name()?.to_str()?.into())).collect())
    }

    pub fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        let State { pending, safe, .. } = &mut *state;
        pending.retain(|change| {
            let syncs = change.touches(dir);
            if syncs {
                change.apply(safe);
            }
            !syncs
        });
        Ok(())
    }
}

impl State {
    /// A disk with these files, all safe.
    fn with_files(&mut self, names: BTreeMap<PathBuf, usize>, files: Vec<Vec<u8>>) -> SimDisk {
        let contents = |bytes: Vec<u8>| Contents { safe: bytes.clone(), now: bytes, lost: 0..0 };
        SimDisk(Arc::new(Mutex::new(State {
            rng: Rng::new(self.rng.next_u64()),
            files: files.into_iter().map(contents).collect(),
            now: names.clone(),
            safe: names,
            dirs: self.dirs.clone(),
            pending: Vec::new(),
            steps: 0,
            off_at: u64::MAX,
            failing: 0,
            fails_at: u64::MAX,
        })))
    }
}

impl SimFile {
    /// Appends some of `bytes` after the last write; returns their number.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.state();
        state.step()?;
        let short = state.failing > 0 && state.rng.percent(30);
        let n = if short { 1 + state.rng.below(bytes.len()) } else { bytes.len() };
        let at = self.at.fetch_add(n, Ordering::Relaxed);
        state.files[self.number].put(at, &bytes[..n]);
        Ok(n)
    }

    /// Writes some of `n` zeros at `at`, without moving the position of the next write; returns
    /// their number.
    pub fn write_zeros(&self, at: u64, n: usize) -> io::Result<usize> {
        let mut state = self.disk.state();
        state.step()?;
        let short = state.failing > 0 && state.rng.percent(30);
        let n = if short { 1 + state.rng.below(n) } else { n };
        state.files[self.number].put(at as usize, &vec![0; n]);
        Ok(n)
    }

    pub fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let step = state.step();
        let State { rng, files, .. } = &mut *state;
        let file = &mut files[self.number];
        match step {
            Ok(()) => file.synced(rng),
            Err(_) => file.lose_unsynced(),
        }
        step
    }

    pub fn truncate(&self, length: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.step()?;
        state.files[self.number].cut(length as usize);
        self.at.store(length as usize, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survivors(seed: u64, synced: bool) -> (Option<Vec<u8>>, Vec<String>) {
        let root = Path::new("d");
        let disk = SimDisk::new(seed, root);
        let file = disk.open(&root.join("a"), true).expect("no faults");
        file.write(&[1; 200]).expect("no faults");
        if synced {
            file.sync().expect("no faults");
            disk.sync_dir(root).expect("no faults");
        }
        file.write(&[2; 200]).expect("no faults");
        disk.rename(&root.join("a"), &root.join("b")).expect("it is there");
        let after = disk.after_power_loss();
        let names = after.list(root).expect("no faults");
        (names.first().map(|name| after.read(&root.join(name)).expect("listed")), names)
    }

    #[test]
    fn synced_bytes_survive_and_others_may() {
        let (mut kinds, mut holes) = (std::collections::BTreeSet::new(), 0);
        for seed in 0..200 {
            let (bytes, names) = survivors(seed, true);
            let bytes = bytes.expect("its name was synced");
            assert!(bytes.starts_with(&[1; 200]) && bytes.len() <= 400);
            holes += usize::from(bytes[200..].contains(&0));
            kinds.insert(names.concat());
            kinds.insert(survivors(seed, false).1.concat());
        }
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["", "a", "b"]);
        assert!(holes > 20);
    }

    #[test]
    fn failed_sync_loses_pages_forever() {
        let root = Path::new("d");
        let lost = (0..50).filter(|seed| {
            let disk = SimDisk::new(*seed, root);
            let file = disk.open(&root.join("a"), true).expect("no faults");
            disk.sync_dir(root).expect("no faults");
            file.write(&[1; 300]).expect("no faults");
            disk.fail_at(disk.steps() + 1);
            file.sync().expect_err("ordered");
            file.sync().expect("the second sync succeeds");
            assert_eq!(disk.read(&root.join("a")).expect("there"), [1; 300]);
            disk.after_power_loss().read(&root.join("a")).expect("safe") != [1; 300]
        });
        let lost = lost.count();
        assert!(lost > 10, "{lost} of 50");
    }

    #[test]
    fn overwritten_pages_are_lost_one_by_one() {
        let root = Path::new("d");
        let kinds = (0..200).map(|seed| {
            let disk = SimDisk::new(seed, root);
            let file = disk.open(&root.join("a"), true).expect("no faults");
            file.write(&[1; 32]).expect("no faults");
            assert_eq!(file.write_zeros(32, 224).expect("no faults"), 224);
            file.sync().expect("no faults");
            disk.sync_dir(root).expect("no faults");
            file.write(&[2; 160]).expect("no faults");
            let bytes = disk.after_power_loss().read(&root.join("a")).expect("safe");
            assert!(bytes.len() == 256 && bytes[..32] == [1; 32] && bytes[192..] == [0; 64]);
            bytes[32..192].chunk_by(|a, b| a == b).map(|part| part[0]).collect::<Vec<_>>()
        });
        let kinds: std::collections::BTreeSet<_> = kinds.collect();
        for wanted in [&[0][..], &[2], &[0, 2], &[2, 0], &[2, 0, 2], &[0, 2, 0]] {
            assert!(kinds.contains(wanted), "{wanted:?} of {kinds:?}");
        }
    }

    #[test]
    fn calls_fail_on_request() {
        let root = Path::new("d");
        let disk = SimDisk::new(1, root);
        disk.cut_power_at(1);
        let file = disk.open(&root.join("a"), true).expect("the first step");
        assert!(file.write(b"x").is_err() && disk.is_off());
        assert_eq!(disk.after_crash().length(&root.join("a")).expect("there"), 0);
        let missing = SimDisk::new(1, root).open(Path::new("e/a"), true);
        assert_eq!(missing.err().map(|e| e.kind()), Some(io::ErrorKind::NotFound));
    }
}
