//! Which commands wait for a snapshot at its memory limit: counts, and the mark of one that waits.

use crate::attention::{Attention, SNAPSHOT};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// What INFO tells of waits, and who takes part.
#[derive(Debug, Default)]
pub struct Waits {
    state: Mutex<State>,
    /// Clients that wait now; changed with the state in hand.
    waiting: AtomicUsize,
    /// Commands that have waited.
    pub delayed: AtomicU64,
    /// Of these, how many went on since their time was over.
    pub expired: AtomicU64,
    /// Milliseconds of the longest wait.
    pub longest_ms: AtomicU64,
    /// DEBUG PAUSE-SNAPSHOT: the walkers stand still.
    pub is_paused: AtomicBool,
}

/// What the waits for one snapshot share.
#[derive(Debug, Default)]
pub struct State {
    /// A snapshot is being taken.
    pub is_taken: bool,
    /// What was said in the log of the present snapshot.
    pub told_full: bool,
    pub told_raised: bool,
}

impl Waits {
    /// Held while the state and the attention for it change.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Clients that wait now.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// That a command waits; it does so no longer when this is dropped.
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
    /// A command begins to wait. Whether it is the first that waits for this snapshot.
    pub fn begin(waits: &'static Waits, attention: &'static Attention) -> (Wait, bool) {
        let mut state = waits.state();
        waits.waiting.fetch_add(1, Ordering::Relaxed);
        attention.set(SNAPSHOT, true);
        let is_first = !std::mem::replace(&mut state.told_full, true);
        drop(state);
        waits.delayed.fetch_add(1, Ordering::Relaxed);
        (Wait { waits, attention, since: Instant::now() }, is_first)
    }

    /// Milliseconds since it began.
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
