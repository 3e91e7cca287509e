//! The scripts that have run for longer than `busy-reply-threshold`. A client whose command would have to wait for one
//! of them gets an error.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// No shard has this number.
pub const RUNNING: u16 = u16::MAX;

/// A script that has run for long.
#[derive(Debug)]
struct Run {
    number: u64,
    /// The client that runs it.
    client: u64,
    /// The shards that it holds.
    shards: Vec<u16>,
    /// The command that ends it.
    killer: &'static str,
}

/// The scripts that have run for long.
#[derive(Debug, Default)]
pub struct BusyScripts {
    /// Their number, for threads that don't take the lock while it is 0.
    count: AtomicUsize,
    runs: Mutex<(u64, Vec<Run>)>,
}

/// A script counts as busy until this is dropped.
#[derive(Debug)]
pub struct Entry<'b> {
    busy: &'b BusyScripts,
    number: u64,
}

impl BusyScripts {
    fn runs(&self) -> MutexGuard<'_, (u64, Vec<Run>)> {
        self.runs.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Whether there is one.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Their number.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Adds a script of `client` that holds these shards. `killer`: the command that ends it.
    pub fn begin(&self, client: u64, shards: Vec<u16>, killer: &'static str) -> Entry<'_> {
        let mut runs = self.runs();
        runs.0 += 1;
        let number = runs.0;
        runs.1.push(Run { number, client, shards, killer });
        self.count.store(runs.1.len(), Ordering::Release);
        Entry { busy: self, number }
    }

    /// The command that ends the busy script that holds one of the shards that satisfy `needs`. Each script also counts as
    /// holding [`RUNNING`], since commands on all keys wait for its end, even if it holds no shard.
    pub fn killer(&self, needs: impl Fn(u16) -> bool) -> Option<&'static str> {
        let runs = self.runs();
        let run = runs
            .1
            .iter()
            .find(|run| run.shards.iter().chain([&RUNNING]).any(|shard| needs(*shard)))?;
        Some(run.killer)
    }

    /// The command that ends the busy script of a client that satisfies `is`.
    pub fn killer_of_client(&self, is: impl Fn(u64) -> bool) -> Option<&'static str> {
        self.runs().1.iter().find(|run| is(run.client)).map(|run| run.killer)
    }
}

impl Entry<'_> {
    /// The script has taken more shards.
    pub fn add(&self, shards: impl IntoIterator<Item = u16>) {
        let mut runs = self.busy.runs();
        if let Some(run) = runs.1.iter_mut().find(|run| run.number == self.number) {
            run.shards.extend(shards);
        }
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let mut runs = self.busy.runs();
        runs.1.retain(|run| run.number != self.number);
        self.busy.count.store(runs.1.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_busy_with_its_shards_until_it_ends() {
        let busy = BusyScripts::default();
        assert!(!busy.is_any());
        let first = busy.begin(7, vec![1, 2], "SCRIPT KILL");
        let second = busy.begin(8, vec![9], "FUNCTION KILL");
        second.add([10]);
        assert_eq!(busy.killer(|shard| shard == 2), Some("SCRIPT KILL"));
        assert_eq!(busy.killer(|shard| shard == 10), Some("FUNCTION KILL"));
        assert_eq!(busy.killer(|shard| shard == 3), None);
        assert_eq!(busy.killer_of_client(|client| client == 8), Some("FUNCTION KILL"));
        assert_eq!(busy.killer_of_client(|client| client == 9), None);
        let third = busy.begin(9, Vec::new(), "SCRIPT KILL");
        drop(first);
        assert_eq!(busy.killer(|shard| shard == 2), None);
        drop(third);
        assert!(busy.is_any() && busy.count() == 1);
        drop(second);
        assert!(!busy.is_any());
        let _without_shards = busy.begin(9, Vec::new(), "SCRIPT KILL");
        assert_eq!(busy.killer(|_| true), Some("SCRIPT KILL"));
        assert_eq!(busy.killer(|shard| shard == 0), None);
    }
}
