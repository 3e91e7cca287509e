//! Counters by hash slot, for CLUSTER SLOT-STATS: `cluster-slot-stats-enabled`.
//!
//! As in [`crate::stats`], each thread writes its own counters. A reset remembers the sums to subtract. If a thread is in the
//! middle of a command then, the result is off by that command.

use crate::counter::Counter;
use std::sync::{Mutex, OnceLock};
use weft_base::limits::SLOTS;

/// The counters of one slot on one thread.
#[derive(Debug, Default)]
struct SlotCounters {
    cpu_ns: Counter,
    bytes_in: Counter,
    bytes_out: Counter,
}

/// The counters of one thread, once it has counted something.
#[derive(Debug, Default)]
pub struct ThreadSlots(OnceLock<Box<[SlotCounters]>>);

impl ThreadSlots {
    /// The memory of one thread's counters (bytes).
    pub const BYTES: usize = SLOTS * size_of::<SlotCounters>();

    /// Whether this thread has counted something.
    pub fn is_used(&self) -> bool {
        self.0.get().is_some()
    }

    /// Adds to the counters of a slot. Only the owner thread may call this.
    pub fn add(&self, slot: u16, more: SlotTotals) {
        let all = self.0.get_or_init(|| (0..SLOTS).map(|_| SlotCounters::default()).collect());
        let counters = &all[usize::from(slot)];
        counters.cpu_ns.add(more.cpu_ns);
        counters.bytes_in.add(more.bytes_in);
        counters.bytes_out.add(more.bytes_out);
    }
}

/// The counts of one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotTotals {
    /// Nanoseconds in which threads executed commands.
    pub cpu_ns: u64,
    /// Bytes of requests.
    pub bytes_in: u64,
    /// Bytes of replies, and of messages to subscribers of shard channels.
    pub bytes_out: u64,
}

/// The sums at the last reset of each slot; empty before the first reset.
#[derive(Debug, Default)]
pub struct SlotBases(Mutex<Vec<SlotTotals>>);

impl SlotBases {
    /// The counts of all threads since the last reset, by slot. O(threads * slots).
    pub fn totals<'a>(&self, threads: impl Iterator<Item = &'a ThreadSlots>) -> Vec<SlotTotals> {
        let mut totals = sums(threads);
        for (total, base) in totals.iter_mut().zip(&*self.lock()) {
            total.cpu_ns = total.cpu_ns.saturating_sub(base.cpu_ns);
            total.bytes_in = total.bytes_in.saturating_sub(base.bytes_in);
            total.bytes_out = total.bytes_out.saturating_sub(base.bytes_out);
        }
        totals
    }

    /// Makes these slots count from zero. O(threads * slots), if any thread has counted something.
    pub fn reset<'a>(
        &self,
        threads: impl Iterator<Item = &'a ThreadSlots> + Clone,
        slots: impl Iterator<Item = u16>,
    ) {
        if !threads.clone().any(|thread| thread.is_used()) {
            return;
        }
        let now = sums(threads);
        let mut bases = self.lock();
        bases.resize(SLOTS, SlotTotals::default());
        for slot in slots.map(usize::from) {
            bases[slot] = now[slot];
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<SlotTotals>> {
        self.0.lock().unwrap_or_else(|p| p.into_inner())
    }
}

fn sums<'a>(threads: impl Iterator<Item = &'a ThreadSlots>) -> Vec<SlotTotals> {
    let mut sums = vec![SlotTotals::default(); SLOTS];
    for counters in threads.filter_map(|thread| thread.0.get()) {
        for (sum, counters) in sums.iter_mut().zip(counters) {
            sum.cpu_ns += counters.cpu_ns.get();
            sum.bytes_in += counters.bytes_in.get();
            sum.bytes_out += counters.bytes_out.get();
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_concerns_its_slots_only() {
        let threads = [ThreadSlots::default(), ThreadSlots::default()];
        let bases = SlotBases::default();
        let more = SlotTotals { cpu_ns: 5, bytes_in: 7, bytes_out: 9 };
        bases.reset(threads.iter(), [1].into_iter());
        threads[0].add(1, more);
        threads[1].add(1, more);
        threads[1].add(16383, more);
        let totals = bases.totals(threads.iter());
        assert_eq!(totals[1], SlotTotals { cpu_ns: 10, bytes_in: 14, bytes_out: 18 });
        assert_eq!(totals[16383], more);
        assert_eq!(totals[0], SlotTotals::default());
        bases.reset(threads.iter(), [1].into_iter());
        threads[0].add(1, more);
        let totals = bases.totals(threads.iter());
        assert_eq!((totals[1], totals[16383]), (more, more));
    }
}
