//! What all threads know of saves and of loading: which save is under way, how the last one ended, how far loading is.

use crate::snapshot_waits::Waits;
use std::fs::{File, OpenOptions};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;
use weft_base::rng::seed_from_os;
use weft_persist::storage::Disk;

/// What all threads may know of saving and loading.
#[derive(Debug, Default)]
pub struct Persistence {
    pub storage: Disk,
    saves: Mutex<Saves>,
    pub loading: Loading,
    pub waits: Waits,
    /// Libraries of functions that came with a file. Nobody here runs them; they go into the next
    /// file as they came.
    functions: Mutex<Vec<Vec<u8>>>,
    /// Numbers files on their way to their place.
    files: AtomicU64,
    first_file: OnceLock<u64>,
    /// The last save is being prepared or made: no other begins, and nobody else ends the server.
    pub is_ending: AtomicBool,
    /// The data were dropped for a copy of a primary's, and none has come whole since.
    is_hollow: AtomicBool,
}

/// The saves that were, the one that is and the one that will be.
#[derive(Debug)]
pub struct Saves {
    running: Option<Running>,
    /// One is to begin as soon as none is under way.
    pub is_scheduled: bool,
    /// How the last one in the background has ended.
    pub is_last_ok: bool,
    /// Seconds that it took; -1: there was none.
    pub last_seconds: i64,
    /// When the last one in the background began, in monotonic milliseconds.
    pub tried_ms: i64,
    /// Saves that were begun: as in the reference those that fail or are cancelled, too.
    pub count: u64,
    /// The most bytes that a snapshot has kept beside the data, of the last one.
    pub last_kept: usize,
}

impl Default for Saves {
    fn default() -> Self {
        Saves {
            running: None,
            is_scheduled: false,
            is_last_ok: true,
            last_seconds: -1,
            tried_ms: i64::MIN,
            count: 0,
            last_kept: 0,
        }
    }
}

/// A save that is under way.
#[derive(Clone, Debug)]
pub struct Running {
    pub in_background: bool,
    pub since: Instant,
    /// Set to have it end without a result.
    pub cancel: Arc<AtomicBool>,
    /// Set by a thread that can't go on: those that walk with it need not, either.
    pub failed: Arc<AtomicBool>,
}

impl Running {
    /// One that begins now, and goes on until `cancel` says otherwise.
    pub fn new(in_background: bool, cancel: Arc<AtomicBool>) -> Running {
        Running { in_background, since: Instant::now(), cancel, failed: Arc::default() }
    }

    /// Whether who works for it is to stop.
    pub fn is_over(&self) -> bool {
        self.cancel.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed)
    }
}

/// That this save is the one that is under way, until it is dropped.
#[derive(Debug)]
pub struct Own<'p> {
    of: &'p Persistence,
    pub running: Running,
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        self.of.saves().running = None;
    }
}

/// How far loading has come.
#[derive(Debug, Default)]
pub struct Loading {
    is_on: AtomicBool,
    /// Unix seconds.
    pub since_s: AtomicI64,
    pub total_bytes: AtomicU64,
    pub loaded_bytes: AtomicU64,
    /// Bytes of memory that the data took where the file was made.
    pub memory: AtomicU64,
    /// Of the last time.
    pub keys_loaded: AtomicU64,
    pub keys_expired: AtomicU64,
}

impl Loading {
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Says whether a file is being loaded.
    pub fn set(&self, on: bool) {
        self.is_on.store(on, Ordering::SeqCst);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|p| p.into_inner())
}

impl Persistence {
    pub fn saves(&self) -> MutexGuard<'_, Saves> {
        lock(&self.saves)
    }

    pub fn functions(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        lock(&self.functions)
    }

    /// Makes the calling save the one that is under way; `None` if there is one.
    pub fn begin(&self, in_background: bool) -> Option<Own<'_>> {
        let mut saves = self.saves();
        let must_not = in_background && self.is_ending.load(Ordering::SeqCst);
        if saves.running.is_some() || must_not {
            return None;
        }
        let cancel = Arc::new(AtomicBool::new(false));
        let running = Running::new(in_background, cancel);
        saves.running = Some(running.clone());
        Some(Own { of: self, running })
    }

    /// Whether the last save is being prepared or made.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst)
    }

    /// The data go for a copy of a primary's, or one has come.
    pub fn set_hollow(&self, is_so: bool) {
        self.is_hollow.store(is_so, Ordering::SeqCst);
    }

    /// Whether the data were dropped for a copy that has not come.
    pub fn is_hollow(&self) -> bool {
        self.is_hollow.load(Ordering::SeqCst)
    }

    /// A file in the folder of the data, of which nobody knows but who holds it: it goes with him.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn nameless_file(&self) -> io::Result<File> {
        let name = format!("temp-repl-{}-{}.rdb", std::process::id(), self.next_file());
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&name)?;
        std::fs::remove_file(&name)?;
        Ok(file)
    }

    /// A number that no other file on its way has had. It begins anywhere: servers in containers that share a
    /// folder may have the same process id.
    pub fn next_file(&self) -> u64 {
        let begin = *self.first_file.get_or_init(|| u64::from(seed_from_os() as u32));
        begin + self.files.fetch_add(1, Ordering::Relaxed)
    }
}

impl Saves {
    /// The save that is under way.
    pub fn running(&self) -> Option<&Running> {
        self.running.as_ref()
    }
}

/// The result of BGSAVE CANCEL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    Running,
    Scheduled,
    Nothing,
}
