//! `activedefrag`: moves records out of sparse slabs to reclaim fragmented memory, in bounded steps.
//!
//! ```text
//!  first thread, once a second    waste over the thresholds? ─► effort in percent, for all threads
//!  each active thread             a step of at most active-defrag-cycle-us ─► sleeps its share
//!    for each of its records      jemalloc: is its slab sparser than the average of its size class?
//!                                 ─► moves it
//! ```
//!
//! While a thread moves records, it turns off its allocator cache (tcache), which would return the places that were
//! just freed in sparse slabs. After a walk that has moved hardly any record, the thread pauses: the remaining waste is in
//! values that don't move (see [`weft_keyspace::defrag`]).

use crate::dispatch::core::Core;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weft_keyspace::Inside;
use weft_keyspace::defrag::{Step, Walk};
use weft_memory::allocator_stats;
use weft_memory::mallctl;
use weft_state::defrag_state::Limits;
use weft_state::server::Server;

/// Steps between two reads of the clock.
const STEPS_PER_LOOK: usize = 4;
/// Pause after a walk that moved too few records (milliseconds).
const REST_MS: i64 = 10_000;
/// A walk must move at least one in this number of records.
const WORTH_ONE_IN: u64 = 100;
/// Minimum pause between two steps (milliseconds).
const LEAST_PAUSE_MS: i64 = 1;
/// Interval between measurements of the waste (milliseconds).
const MEASURE_MS: i64 = 1000;

/// One thread's state.
#[derive(Debug, Default)]
pub struct Mover {
    walk: Walk,
    /// Records examined and moved in this walk.
    examined: u64,
    moved: u64,
    /// Monotonic milliseconds.
    next_ms: i64,
    measured_ms: i64,
}

impl Mover {
    /// Milliseconds until the next step. `None`: there is none.
    pub fn until_due(&self, core: &Core, now_ms: i64) -> Option<i64> {
        let works =
            core.settings.upkeep.defrag.is_on && core.srv.process.background.defrag.effort() > 0;
        works.then(|| (self.next_ms - now_ms).max(0))
    }

    /// Measures the waste once a second. The first thread calls it at each tick.
    pub fn measure(&mut self, srv: &Server, limits: &Limits, now_ms: i64) {
        if !limits.is_on {
            srv.process.background.defrag.set_effort(0);
        } else if now_ms - self.measured_ms >= MEASURE_MS {
            self.measured_ms = now_ms;
            let stats = allocator_stats();
            let effort = limits.effort(stats.allocated as u64, stats.active as u64);
            srv.process.background.defrag.set_effort(effort);
        }
    }

    /// Runs one step, of about `active-defrag-cycle-us`.
    pub fn run(&mut self, core: &mut Core, inside: &mut Inside<'_>, shards: &[u16], now_ms: i64) {
        let limits = core.settings.upkeep.defrag;
        let effort = core.srv.process.background.defrag.effort().clamp(1, 100);
        let piece = Duration::from_micros(limits.piece_us);
        let begin = Instant::now();
        core.begin();
        let had_cache = mallctl::number(b"thread.tcache.enabled", Some(0));
        let mut all = Step::default();
        let mut rests = false;
        while !all.is_last && begin.elapsed() < piece {
            for _ in 0..STEPS_PER_LOOK {
                let step =
                    self.walk.step(inside, &mut core.context, shards, &mut is_in_sparse_slab);
                all.examined += step.examined;
                all.moved += step.moved;
                all.is_last |= step.is_last;
                inside.pass();
            }
        }
        if had_cache.is_ok_and(|was| was != 0) {
            let _ = mallctl::number(b"thread.tcache.enabled", Some(1));
        }
        self.examined += all.examined;
        self.moved += all.moved;
        if all.is_last {
            rests = self.moved * WORTH_ONE_IN < self.examined.max(1);
            (self.examined, self.moved) = (0, 0);
        }
        let spent_us = begin.elapsed().as_micros() as u64;
        let pause_ms = (spent_us * (100 - effort) / effort / 1000) as i64;
        self.next_ms = now_ms + if rests { REST_MS } else { pause_ms.max(LEAST_PAUSE_MS) };
        core.srv.sample_latency("active-defrag-cycle", Some(begin));
        let totals = &core.srv.process.background.defrag;
        totals.moved.fetch_add(all.moved, Ordering::Relaxed);
        totals.left.fetch_add(all.examined - all.moved, Ordering::Relaxed);
        totals.spent_us.fetch_add(spent_us, Ordering::Relaxed);
    }
}

/// Whether an allocation should move to empty its slab. That slab is not the one that is being
/// filled, and is about as sparse as the average of its size class, or sparser.
fn is_in_sparse_slab(at: *const u8, _size: usize) -> bool {
    let Some(slab) = mallctl::slab_of(at) else { return false };
    let worth_it = slab.kind_free >= slab.places;
    let (used, kind_used) = (slab.places - slab.free, slab.kind_places - slab.kind_free);
    worth_it
        && !slab.is_filled_next
        && slab.free > 0
        // Nine eighths of the average: otherwise, half of the evenly scattered records would never move.
        && used * slab.kind_places * 8 <= kind_used * slab.places * 9
}
