//! The latest changes of the number of active I/O threads, with their reasons.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

/// Entries that are kept.
const MOST: usize = 32;

/// One change, or a result that changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadChange {
    /// Counts all changes since the start.
    pub id: u64,
    /// Unix time in milliseconds.
    pub time_ms: i64,
    pub before: usize,
    pub after: usize,
    /// A sentence without a full stop.
    pub reason: String,
}

/// See the module. Only a change takes its mutex, at most a few times a second.
#[derive(Debug, Default)]
pub struct ThreadChanges(Mutex<(u64, VecDeque<ThreadChange>)>);

impl ThreadChanges {
    fn lock(&self) -> MutexGuard<'_, (u64, VecDeque<ThreadChange>)> {
        self.0.lock().unwrap_or_else(|p| p.into_inner())
    }

    pub fn add(&self, time_ms: i64, before: usize, after: usize, reason: String) {
        let (count, changes) = &mut *self.lock();
        *count += 1;
        changes.push_front(ThreadChange { id: *count, time_ms, before, after, reason });
        changes.truncate(MOST);
    }

    /// The latest changes, newest first.
    pub fn latest(&self) -> Vec<ThreadChange> {
        self.lock().1.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_changes_are_kept() {
        let changes = ThreadChanges::default();
        for n in 0..MOST + 3 {
            changes.add(n as i64, n, n + 1, format!("reason {n}"));
        }
        let latest = changes.latest();
        assert_eq!(latest.len(), MOST);
        assert_eq!((latest[0].id, latest[0].after), (MOST as u64 + 3, MOST + 3));
        assert_eq!(latest[MOST - 1].reason, "reason 3");
    }
}
