//! `activedefrag`: memory that is held only for holes in it is won back, in bounded steps.
//!
//! ```text
//!  first thread, once a second    waste over the thresholds? ─► effort in percent, for all
//!  each active thread             a piece of at most active-defrag-cycle-us ─► sleeps its share
//!    for each of its records      jemalloc: is its slab emptier than most of its kind?
//!                                 ─► move it
//! ```
//!
//! While a thread moves, it does without its cache of freed places, which would hand out the very
//! holes it tries to leave. After a walk that has moved next to nothing it rests: what is left lies
//! in values that do not move (see [`weft_keyspace::defrag`]), and no effort would change that.

use crate::dispatch::Core;
use crate::server::Server;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weft_config::{Config, Id};
use weft_keyspace::Inside;
use weft_keyspace::defrag::{Step, Walk};
use weft_memory::allocator_stats;
use weft_memory::mallctl;

/// Steps between two looks at the clock.
const STEPS_PER_LOOK: usize = 4;
/// How long a thread rests after a walk that was not worth it (milliseconds).
const REST_MS: i64 = 10_000;
/// A walk that moves fewer than one record in so many was not worth it.
const WORTH_ONE_IN: u64 = 100;
/// A piece is not repeated sooner (milliseconds).
const LEAST_PAUSE_MS: i64 = 1;
/// How often the waste is measured (milliseconds).
const MEASURE_MS: i64 = 1000;

/// The directives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub is_on: bool,
    ignore_bytes: u64,
    /// Percent of waste.
    lower: u64,
    upper: u64,
    /// Percent of a processor.
    least: u64,
    most: u64,
    piece_us: u64,
}

impl Limits {
    pub fn of(config: &Config) -> Limits {
        let number = |id| config.int(id).max(0) as u64;
        Limits {
            is_on: config.bool(Id::ACTIVEDEFRAG),
            ignore_bytes: config.memory(Id::ACTIVE_DEFRAG_IGNORE_BYTES),
            lower: number(Id::ACTIVE_DEFRAG_THRESHOLD_LOWER),
            upper: number(Id::ACTIVE_DEFRAG_THRESHOLD_UPPER),
            least: number(Id::ACTIVE_DEFRAG_CYCLE_MIN),
            most: number(Id::ACTIVE_DEFRAG_CYCLE_MAX),
            piece_us: number(Id::ACTIVE_DEFRAG_CYCLE_US).max(1),
        }
    }

    /// The effort, in percent of a processor, for an allocator that has handed out `allocated` bytes
    /// of `active` ones.
    fn effort(&self, allocated: u64, active: u64) -> u64 {
        let waste = active.saturating_sub(allocated);
        let percent = (waste * 100).checked_div(allocated).unwrap_or(0);
        if !self.is_on || waste < self.ignore_bytes || percent < self.lower {
            return 0;
        }
        let (least, most) = (self.least.min(self.most), self.most);
        let over = (percent - self.lower).min(self.upper.saturating_sub(self.lower));
        let range = self.upper.saturating_sub(self.lower).max(1);
        least + (most - least) * over / range
    }
}

/// What all threads have done, and how hard they are to try.
#[derive(Debug, Default)]
pub struct Defrag {
    /// Percent of a processor; 0: nothing is to be moved.
    effort: AtomicU64,
    pub moved: AtomicU64,
    pub left: AtomicU64,
    /// Microseconds spent.
    pub spent_us: AtomicU64,
}

impl Defrag {
    /// `active_defrag_running`.
    pub fn effort(&self) -> u64 {
        self.effort.load(Ordering::Relaxed)
    }
}

/// One thread's part.
#[derive(Debug, Default)]
pub struct Mover {
    walk: Walk,
    /// Of this walk.
    examined: u64,
    moved: u64,
    /// Monotonic milliseconds.
    next_ms: i64,
    measured_ms: i64,
}

impl Mover {
    /// Milliseconds until there is something to do, if there is.
    pub fn until_due(&self, core: &Core, now_ms: i64) -> Option<i64> {
        let works = core.settings.defrag.is_on && core.srv.defrag.effort() > 0;
        works.then(|| (self.next_ms - now_ms).max(0))
    }

    /// On the first thread, at each tick: measures the waste now and then.
    pub fn measure(&mut self, srv: &Server, limits: &Limits, now_ms: i64) {
        if !limits.is_on {
            srv.defrag.effort.store(0, Ordering::Relaxed);
        } else if now_ms - self.measured_ms >= MEASURE_MS {
            self.measured_ms = now_ms;
            let stats = allocator_stats();
            let effort = limits.effort(stats.allocated as u64, stats.active as u64);
            srv.defrag.effort.store(effort, Ordering::Relaxed);
        }
    }

    /// One piece of the work, of about `active-defrag-cycle-us`.
    pub fn run(&mut self, core: &mut Core, inside: &mut Inside<'_>, shards: &[u16], now_ms: i64) {
        let limits = core.settings.defrag;
        let effort = core.srv.defrag.effort().clamp(1, 100);
        let piece = Duration::from_micros(limits.piece_us);
        let begin = Instant::now();
        core.begin();
        let had_cache = mallctl::number(b"thread.tcache.enabled", Some(0));
        let mut all = Step::default();
        let mut rests = false;
        while !all.is_last && begin.elapsed() < piece {
            for _ in 0..STEPS_PER_LOOK {
                let step = self.walk.step(inside, &mut core.turn, shards, &mut lies_badly);
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
        let totals = &core.srv.defrag;
        totals.moved.fetch_add(all.moved, Ordering::Relaxed);
        totals.left.fetch_add(all.examined - all.moved, Ordering::Relaxed);
        totals.spent_us.fetch_add(spent_us, Ordering::Relaxed);
    }
}

/// Whether moving an allocation would help to empty its slab: it is not the one that is being
/// filled, and is about as empty as the average of its kind, or more.
fn lies_badly(at: *const u8, _size: usize) -> bool {
    let Some(slab) = mallctl::slab_of(at) else { return false };
    let worth_it = slab.kind_free >= slab.places;
    let (used, kind_used) = (slab.places - slab.free, slab.kind_places - slab.kind_free);
    worth_it
        && !slab.is_filled_next
        && slab.free > 0
        // Nine eighths of the average: else half of what is scattered evenly would never move.
        && used * slab.kind_places * 8 <= kind_used * slab.places * 9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effort_grows_with_the_waste() {
        let limits = Limits {
            is_on: true,
            ignore_bytes: 1000,
            lower: 10,
            upper: 100,
            least: 1,
            most: 25,
            piece_us: 500,
        };
        let effort = |waste: u64| limits.effort(10_000, 10_000 + waste);
        assert_eq!([0, 999, 1000, 10_000, 50_000].map(effort), [0, 0, 1, 25, 25]);
        assert!((2..25).contains(&effort(5000)));
        assert_eq!(Limits { is_on: false, ..limits }.effort(10_000, 90_000), 0);
        assert_eq!(Limits { upper: 5, ..limits }.effort(10_000, 90_000), 1);
    }
}
