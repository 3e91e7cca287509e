//! The scripts and functions that run in the slow lane, for SCRIPT KILL, FUNCTION KILL and FUNCTION STATS.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

/// A running function.
#[derive(Clone, Debug)]
pub struct Called {
    pub name: Box<[u8]>,
    /// The words of its client.
    pub command: Vec<Box<[u8]>>,
    pub since: Instant,
}

/// A running script or function, as other threads see it.
#[derive(Debug)]
pub struct Run {
    state: AtomicU8,
    /// `None`: a script.
    function: Option<Called>,
}

/// It has only read so far. One step leads from here to one of the other two, so that no killed script has written.
const READS: u8 = 0;
const WRITES: u8 = 1;
const KILLED: u8 = 2;

impl Run {
    fn become_one(&self, state: u8) -> bool {
        let changed =
            self.state.compare_exchange(READS, state, Ordering::Relaxed, Ordering::Relaxed);
        changed.is_ok() || changed == Err(state)
    }

    /// Whether SCRIPT KILL or FUNCTION KILL has ended it. The script's thread checks it every few instructions.
    pub fn is_killed(&self) -> bool {
        self.state.load(Ordering::Relaxed) == KILLED
    }

    fn kind(&self) -> Kind {
        if self.function.is_some() { Kind::Function } else { Kind::Script }
    }

    fn has_written(&self) -> bool {
        self.state.load(Ordering::Relaxed) == WRITES
    }

    /// It is about to write. Returns false if it was killed and must not.
    pub fn begin_write(&self) -> bool {
        self.become_one(WRITES)
    }
}

/// The running scripts.
#[derive(Debug, Default)]
pub struct Running(Mutex<Vec<Arc<Run>>>);

/// The kind of runs that a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Script,
    Function,
}

/// The result of SCRIPT KILL and FUNCTION KILL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    /// Nothing runs.
    NotBusy,
    /// Everything that runs has written.
    Unkillable,
    /// The other command must end what runs.
    Other,
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

    /// Adds a run, until the entry is dropped. `function`: `None` for a script.
    pub fn begin(&self, function: Option<Called>) -> Entry<'_> {
        let run = Arc::new(Run { state: AtomicU8::new(READS), function });
        self.lock().push(run.clone());
        Entry { running: self, run }
    }

    /// Ends all runs of this kind that have written nothing.
    pub fn kill(&self, kind: Kind) -> Kill {
        let runs = self.lock();
        let is_killed = |run: &&Arc<Run>| run.kind() == kind && run.become_one(KILLED);
        match runs.iter().filter(is_killed).count() {
            0 if runs.is_empty() => Kill::NotBusy,
            0 if runs.iter().all(|run| run.has_written()) => Kill::Unkillable,
            0 => Kill::Other,
            _ => Kill::Killed,
        }
    }

    /// Whether one of the runs has written.
    pub fn has_writer(&self) -> bool {
        self.lock().iter().any(|run| run.has_written())
    }

    /// The function that has run for the longest time.
    pub fn function(&self) -> Option<Called> {
        self.lock().iter().find_map(|run| run.function.clone())
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
        assert_eq!(running.kill(Kind::Script), Kill::NotBusy);
        let writer = running.begin(None);
        assert!(writer.run.begin_write() && writer.run.begin_write());
        assert_eq!(running.kill(Kind::Script), Kill::Unkillable);
        let reader = running.begin(None);
        assert_eq!(running.kill(Kind::Script), Kill::Killed);
        assert!(reader.run.is_killed() && !writer.run.is_killed());
        assert!(!reader.run.begin_write());
        drop((reader, writer));
        assert_eq!(running.kill(Kind::Script), Kill::NotBusy);
    }

    #[test]
    fn each_command_kills_its_kind() {
        let running = Running::default();
        let called = Called { name: b"f"[..].into(), command: Vec::new(), since: Instant::now() };
        let function = running.begin(Some(called));
        assert_eq!(running.kill(Kind::Script), Kill::Other);
        assert!(running.function().is_some_and(|called| *called.name == *b"f"));
        let script = running.begin(None);
        assert_eq!(running.kill(Kind::Function), Kill::Killed);
        assert!(function.run.is_killed() && !script.run.is_killed());
    }
}
