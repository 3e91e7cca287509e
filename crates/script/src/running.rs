//! The scripts that run in the slow lane, for SCRIPT KILL.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// A running script, as other threads see it.
#[derive(Debug, Default)]
pub struct Run(AtomicU8);

/// It has only read so far. One step leads from here to one of the other two, so that no killed script has written.
const READS: u8 = 0;
const WRITES: u8 = 1;
const KILLED: u8 = 2;

impl Run {
    fn become_one(&self, state: u8) -> bool {
        let changed = self.0.compare_exchange(READS, state, Ordering::Relaxed, Ordering::Relaxed);
        changed.is_ok() || changed == Err(state)
    }

    /// Whether SCRIPT KILL has ended it. The script's thread checks it every few instructions.
    pub fn is_killed(&self) -> bool {
        self.0.load(Ordering::Relaxed) == KILLED
    }

    /// It is about to write. Returns false if it was killed and must not.
    pub fn begin_write(&self) -> bool {
        self.become_one(WRITES)
    }
}

/// The running scripts.
#[derive(Debug, Default)]
pub struct Running(Mutex<Vec<Arc<Run>>>);

/// The result of SCRIPT KILL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    /// No script runs.
    NotBusy,
    /// All running scripts have written.
    Unkillable,
    Killed,
}

/// Ends the entry of a run.
#[derive(Debug)]
pub struct Entry<'r> {
    running: &'r Running,
    pub run: Arc<Run>,
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Run>>> {
        self.0.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Adds a run, until the entry is dropped.
    pub fn begin(&self) -> Entry<'_> {
        let run = Arc::new(Run::default());
        self.lock().push(run.clone());
        Entry { running: self, run }
    }

    /// Ends all runs that have written nothing.
    pub fn kill(&self) -> Kill {
        let runs = self.lock();
        if runs.is_empty() {
            return Kill::NotBusy;
        }
        let killed = runs.iter().filter(|run| run.become_one(KILLED)).count();
        if killed == 0 { Kill::Unkillable } else { Kill::Killed }
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.running.lock().retain(|run| !Arc::ptr_eq(run, &self.run));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_scripts_that_have_not_written_are_killed() {
        let running = Running::default();
        assert_eq!(running.kill(), Kill::NotBusy);
        let writer = running.begin();
        assert!(writer.run.begin_write() && writer.run.begin_write());
        assert_eq!(running.kill(), Kill::Unkillable);
        let reader = running.begin();
        assert_eq!(running.kill(), Kill::Killed);
        assert!(reader.run.is_killed() && !writer.run.is_killed());
        assert!(!reader.run.begin_write());
        drop((reader, writer));
        assert_eq!(running.kill(), Kill::NotBusy);
    }
}
