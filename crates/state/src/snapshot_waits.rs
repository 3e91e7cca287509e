//! Commands that wait for a snapshot at its memory limit: their counts, and a guard for each wait.

use crate::attention::{Attention, SNAPSHOT};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// The counters of waits that INFO shows, and their shared state.
#[derive(Debug, Default)]
pub struct Waits {
    state: Mutex<State>,
    /// Clients that wait now; changed with `state` locked.
    waiting: AtomicUsize,
    /// Commands that have waited.
    pub delayed: AtomicU64,
    /// Commands that continued because their time was over.
    pub expired: AtomicU64,
    /// The longest wait in milliseconds.
    pub longest_ms: AtomicU64,
    /// DEBUG PAUSE-SNAPSHOT: the threads that walk the keyspace stop.
    pub is_paused: AtomicBool,
}

/// The state that the waits for one snapshot share.
#[derive(Debug, Default)]
pub struct State {
    /// A snapshot is being taken.
    pub is_taken: bool,
    /// The messages already logged for this snapshot.
    pub logged_full: bool,
    pub logged_raised: bool,
}

impl Waits {
    /// Locked while the state and its attention bit change.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Clients that wait now.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// A command waits until this is dropped.
pub struct Wait {
    waits: &'static Waits,
    attention: &'static Attention,
    since: Instant,
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").field("since", &self.since).finish_non_exhaustive()
    }
}

impl Wait {
    /// Begins the wait of a command. Also returns whether it is the first that waits for this snapshot.
    pub fn begin(waits: &'static Waits, attention: &'static Attention) -> (Wait, bool) {
        let mut state = waits.state();
        waits.waiting.fetch_add(1, Ordering::Relaxed);
        attention.set(SNAPSHOT, true);
        let is_first = !std::mem::replace(&mut state.logged_full, true);
        drop(state);
        waits.delayed.fetch_add(1, Ordering::Relaxed);
        (Wait { waits, attention, since: Instant::now() }, is_first)
    }

    /// Milliseconds since the wait began.
    pub fn elapsed_ms(&self) -> i64 {
        self.since.elapsed().as_millis() as i64
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let waits = self.waits;
        waits.longest_ms.fetch_max(self.elapsed_ms() as u64, Ordering::Relaxed);
        let state = waits.state();
        let was_last = waits.waiting.fetch_sub(1, Ordering::Relaxed) == 1;
        if was_last && !state.is_taken {
            self.attention.set(SNAPSHOT, false);
        }
    }
}
