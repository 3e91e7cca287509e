//! The state of saves and of loading that all threads share: the running save, the result of the last one, the
//! progress of loading.

use crate::snapshot_waits::Waits;
use std::fs::{File, OpenOptions};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;
use weft_base::rng::seed_from_os;
use weft_persist::storage::Disk;

/// The shared state of saves and of loading.
#[derive(Debug, Default)]
pub struct Persistence {
    pub storage: Disk,
    saves: Mutex<Saves>,
    pub loading: Loading,
    pub waits: Waits,
    /// Numbers temporary files.
    files: AtomicU64,
    first_file: OnceLock<u64>,
    /// The last save before the shutdown is being prepared or is running: no background save begins, and no
    /// other thread shuts the server down.
    pub is_ending: AtomicBool,
    /// The data was dropped for a full sync, and no copy has been received completely since.
    has_dropped_data: AtomicBool,
}

/// The running save, the scheduled one, and results of earlier ones.
#[derive(Debug)]
pub struct Saves {
    running: Option<Running>,
    /// A save begins as soon as none is running.
    pub is_scheduled: bool,
    /// Whether the last background save succeeded.
    pub is_last_ok: bool,
    /// Its duration in seconds; -1: there was none.
    pub last_seconds: i64,
    /// When the last background save began, in monotonic milliseconds.
    pub tried_ms: i64,
    /// Saves that were started; as in Valkey, including failed and cancelled ones.
    pub count: u64,
    /// The peak memory of the last snapshot, without the data itself (bytes).
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

/// A running save.
#[derive(Clone, Debug)]
pub struct Running {
    pub in_background: bool,
    pub since: Instant,
    /// Set to cancel the save.
    pub cancel: Arc<AtomicBool>,
    /// Set by a thread that failed; the other threads of the save then stop too.
    pub failed: Arc<AtomicBool>,
}

impl Running {
    /// A save that begins now, and can be cancelled with `cancel`.
    pub fn new(in_background: bool, cancel: Arc<AtomicBool>) -> Running {
        Running { in_background, since: Instant::now(), cancel, failed: Arc::default() }
    }

    /// Whether the threads of the save must stop.
    pub fn is_over(&self) -> bool {
        self.cancel.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed)
    }
}

/// The running save. Dropping it ends the save.
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

/// The progress of loading.
#[derive(Debug, Default)]
pub struct Loading {
    is_on: AtomicBool,
    /// Unix seconds.
    pub since_s: AtomicI64,
    pub total_bytes: AtomicU64,
    pub loaded_bytes: AtomicU64,
    /// Memory of the data on the server that wrote the file (bytes).
    pub memory: AtomicU64,
    /// Of the last load.
    pub keys_loaded: AtomicU64,
    pub keys_expired: AtomicU64,
}

impl Loading {
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Sets whether a file is being loaded.
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

    /// Registers the caller's save as the running one; `None` if there is one already.
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

    /// Whether the last save before the shutdown is being prepared or is running.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst)
    }

    /// Set when the data is dropped for a full sync; cleared when a copy has arrived.
    pub fn set_hollow(&self, is_so: bool) {
        self.has_dropped_data.store(is_so, Ordering::SeqCst);
    }

    /// Whether the data was dropped for a copy that has not arrived.
    pub fn has_dropped_data(&self) -> bool {
        self.has_dropped_data.load(Ordering::SeqCst)
    }

    /// A file without a name in the data directory. The kernel removes it when its descriptor is closed.
    ///
    /// # Errors
    /// The disk's error.
    pub fn unnamed_file(&self) -> io::Result<File> {
        let name = format!("temp-repl-{}-{}.rdb", std::process::id(), self.next_file());
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&name)?;
        std::fs::remove_file(&name)?;
        Ok(file)
    }

    /// A number that no other temporary file has. The numbers begin at a random value, because servers in
    /// containers that share a directory may have the same process id.
    pub fn next_file(&self) -> u64 {
        let begin = *self.first_file.get_or_init(|| u64::from(seed_from_os() as u32));
        begin + self.files.fetch_add(1, Ordering::Relaxed)
    }
}

impl Saves {
    /// The running save.
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
