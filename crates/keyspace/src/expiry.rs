//! Active expiry: removes expired keys and hash fields that no client accesses any more.
//!
//! Lazy expiry removes keys that a command meets (see [`crate::db`]); other expired keys would
//! occupy memory forever. Each thread therefore sweeps its share of the shards from time to time,
//! in steps:
//!
//! ```text
//!   find a table with expiring keys ─► try its shard's lock ─► visit a few buckets,
//!        ▲       (counters, no lock)     (busy: skip it)         remove expired keys
//!        │                                                             │
//!        └────── drop the removed ◄──── release the lock ◄─────────────┘
//! ```
//!
//! A step takes some tens of microseconds and holds one shard, so commands wait at most that
//! long. Only records with an expiry are touched; a counter lets the sweep skip segments without
//! any. Commands hide expired fields, but only writes to their hash and this sweep remove them;
//! [`fields`] has the steps of that walk.
//!
//! **When to stop.** As in Redis: visiting keys pays as long as a good share of them has expired.
//! The sweep leaves a database when at most 10 % of the last sample were stale. So about that
//! share of the expiring keys may be stale at any time, and the work adapts to the rate of
//! expiry. `active-expire-effort` lowers the share and enlarges the samples. Hashing spreads the
//! keys of a database evenly over its shards, so the share is measured per database and not per
//! shard.
//!
//! Unlike Redis, which samples each database randomly, a sweep continues where the last one
//! stopped. It reaches every key in order and visits none twice before the others.

mod fields;

use crate::commit::commit;
use crate::context::ExecContext;
use crate::db::Db;
use crate::hold::Inside;
use crate::keyspace::Keyspace;
use fields::Progress;
use weft_table::{Verdict, Which};

/// Buckets (of 8 keys) visited per step; a step then continues to the end of its segment.
const BUCKETS_PER_STEP: usize = 16;
/// Keys with an expiry set by clients of a writable replica that are removed per step.
const NOTED_PER_STEP: usize = 64;
/// Databases visited per sweep, as `dbs-per-call` in other implementations.
const DATABASES_PER_SWEEP: usize = 16;

/// The position of a thread's sweeps. It stays valid when the shards of the thread change.
#[derive(Debug, Default)]
pub struct SweepState {
    /// The next walk: over the keys of a database (even) or over the fields of its hashes (odd),
    /// so that neither starves when time is short.
    next: usize,
    keys: Vec<Position>,
    fields: Vec<Progress>,
}

/// A position in the walk over the tables of one database.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    /// Index into the thread's shards, modulo their number.
    nth: usize,
    /// The table's own cursor; 0 is the beginning.
    cursor: u64,
}

impl Position {
    fn next_shard(&mut self, shards: &[u16]) {
        *self = Position { nth: (self.nth + 1) % shards.len(), cursor: 0 };
    }
}

/// Counts of a step or walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Met {
    /// How many entries with an expiry were visited.
    pub examined: u64,
    /// How many of them had expired and were removed.
    pub expired: u64,
}

impl Met {
    fn add(&mut self, other: Met) {
        self.examined += other.examined;
        self.expired += other.expired;
    }
}

/// The result of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub keys: Met,
    /// Fields of hashes.
    pub fields: Met,
    /// Whether time ran out before the share of stale keys was low: sweep again soon.
    pub unfinished: bool,
}

/// `active-expire-effort` as numbers.
#[derive(Clone, Copy)]
struct Effort {
    /// Keys to visit before the share of stale ones is computed.
    sample: u64,
    /// Percentage of stale keys that is tolerated.
    tolerated: u64,
}

impl Effort {
    fn new(effort: u32) -> Effort {
        let more = u64::from(effort.clamp(1, 10)) - 1;
        Effort { sample: 20 + 5 * more, tolerated: 10 - more }
    }
}

/// Removes expired keys of `shards` at the time `context.now_ms`, and expired fields of their
/// hashes; counts both in `context.tally`. `shards` are those that this thread is responsible for.
/// `effort` is `active-expire-effort`, 1 to 10. `keep_going` is called after each step, which
/// takes some tens of microseconds: `false` ends the sweep. At least one step is made if any key
/// or field can expire.
///
/// Another thread may stop the world between two steps, so it waits for a step and not for a
/// sweep. `keep_going` is called after that point, so that its answer takes account of changes
/// made meanwhile, for example that removal is now forbidden. Removed records, and all else in
/// the deferred free list, are dropped here with no lock held.
pub fn sweep(
    inside: &mut Inside<'_>,
    context: &mut ExecContext,
    state: &mut SweepState,
    shards: &[u16],
    effort: u32,
    keep_going: &mut dyn FnMut() -> bool,
) -> Swept {
    let ks = inside.keyspace();
    let mut total = Swept::default();
    if shards.is_empty() {
        return total;
    }
    let effort = Effort::new(effort);
    state.keys.resize(ks.databases(), Position::default());
    state.fields.resize_with(ks.databases(), Progress::default);
    let (mut of, mut expirable) = (None, Expirable::default());
    for _ in 0..2 * ks.databases().min(DATABASES_PER_SWEEP) {
        let db = state.next / 2 % ks.databases();
        let walk = Walk { ks, shards, db };
        if of.replace(db) != Some(db) {
            expirable = walk.find_expirable();
        }
        let done = match state.next % 2 {
            0 if !expirable.keys => true,
            1 if !expirable.fields && state.fields[db].is_between_hashes() => true,
            0 => walk.repeat(
                inside,
                context,
                effort,
                &mut total.keys,
                keep_going,
                |inside, context| walk.keys_step(inside, context, &mut state.keys[db]),
            ),
            _ => walk.repeat(
                inside,
                context,
                effort,
                &mut total.fields,
                keep_going,
                |inside, context| walk.fields_step(inside, context, &mut state.fields[db]),
            ),
        };
        if !done {
            total.unfinished = true;
        }
        state.next = (state.next + 1) % (2 * ks.databases());
        if !done {
            return total;
        }
    }
    total
}

/// Removes expired keys of `shards` that got their expiry from clients of this writable replica.
/// `keep_going` is called after each step, which removes up to [`NOTED_PER_STEP`] keys of one
/// shard. Removed records are dropped here with no lock held. O(shards + removed keys).
pub fn expire_noted(
    inside: &mut Inside<'_>,
    context: &mut ExecContext,
    shards: &[u16],
    keep_going: &mut dyn FnMut() -> bool,
) {
    let ks = inside.keyspace();
    for &shard in shards {
        while !ks.noted.due(shard, context.now_ms, 1).is_empty() {
            // Skip a busy shard.
            let Ok(guard) = inside.guard_one(context, shard) else { break };
            for (index, name) in ks.noted.due(shard, context.now_ms, NOTED_PER_STEP) {
                let (key, mut db) = (ks.key(&name), Db::new(&guard, context, index));
                if db.is_expired(&key) {
                    db.expire(&key);
                } else {
                    ks.noted.removed(shard, index, &name);
                }
            }
            commit(&guard, context);
            drop(guard);
            context.free_removed();
            inside.pass();
            if !keep_going() {
                return;
            }
        }
    }
}

/// Whether keys or fields can expire in a thread's shards of one database.
#[derive(Clone, Copy, Default)]
struct Expirable {
    keys: bool,
    fields: bool,
}

/// The sweep of one database.
struct Walk<'a> {
    ks: &'a Keyspace,
    shards: &'a [u16],
    db: usize,
}

impl Walk<'_> {
    /// One look at each root, in the order of memory, for both walks: most databases of most
    /// servers have nothing that expires, and an idle server would spend its time on steps that
    /// find that out.
    fn find_expirable(&self) -> Expirable {
        let mut expirable = Expirable::default();
        for &shard in self.shards {
            expirable.keys |= self.ks.shard_expiring(shard, self.db) > 0;
            expirable.fields |= self.ks.shard_timed(shard, self.db) > 0;
            if expirable.keys && expirable.fields {
                break;
            }
        }
        expirable
    }

    /// Repeats steps until few stale entries are left (`true`) or time is up (`false`).
    fn repeat(
        &self,
        inside: &mut Inside<'_>,
        context: &mut ExecContext,
        effort: Effort,
        total: &mut Met,
        keep_going: &mut dyn FnMut() -> bool,
        mut step: impl FnMut(&mut Inside<'_>, &mut ExecContext) -> Option<Met>,
    ) -> bool {
        let mut sample = Met::default();
        loop {
            let Some(met) = step(inside, context) else { return true };
            context.free_removed();
            total.add(met);
            sample.add(met);
            if sample.examined >= effort.sample {
                if sample.expired * 100 <= sample.examined * effort.tolerated {
                    return true;
                }
                sample = Met::default();
            }
            inside.pass();
            if !keep_going() {
                return false;
            }
        }
    }

    /// Visits a few buckets of the next table that has expiring keys and whose shard is free.
    /// `None`, after O(shards), if there is none.
    fn keys_step(
        &self,
        inside: &mut Inside<'_>,
        context: &mut ExecContext,
        position: &mut Position,
    ) -> Option<Met> {
        // One more than the number of shards: the first visit may be to the rest of a table.
        for _ in 0..=self.shards.len() {
            let shard = self.shards[position.nth % self.shards.len()];
            let expiring = self.ks.shard_expiring(shard, self.db) > 0;
            if expiring && let Ok(guard) = inside.guard_one(context, shard) {
                let now = context.now_ms;
                let (mut examined, mut dead) = (0, Vec::new());
                let mut db = Db::new(&guard, context, self.db);
                let cursor = db.sweep_table(shard).sweep(
                    position.cursor,
                    BUCKETS_PER_STEP,
                    Which::Expiring,
                    |record| {
                        examined += 1;
                        match record.expiry() {
                            Some(at) if at <= now => Verdict::Remove,
                            Some(_) | None => Verdict::Keep,
                        }
                    },
                    |record| dead.push(record),
                );
                dead.iter().for_each(|record: &weft_types::Record| db.note_swept(record));
                commit(&guard, context);
                drop(guard);
                position.cursor = cursor;
                if cursor == 0 {
                    position.next_shard(self.shards);
                }
                let expired = dead.len() as u64;
                context.tally.expired += expired;
                dead.into_iter().for_each(|record| context.discard(record));
                if examined > 0 {
                    return Some(Met { examined, expired });
                }
            } else {
                position.next_shard(self.shards);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hold::Outside;
    use crate::keyspace::SHARDS;
    use weft_types::string::{New, record};

    const NOW: i64 = 1_000_000;

    fn keyspace() -> Keyspace {
        Keyspace::new(16, 1, Box::new(|_| {}))
    }

    fn all_shards() -> Vec<u16> {
        (0..SHARDS as u16).collect()
    }

    /// Stores `n` keys that expire at `at` in a database.
    fn fill(
        ks: &Keyspace,
        context: &mut ExecContext,
        db: usize,
        prefix: &str,
        n: usize,
        at: Option<i64>,
    ) {
        let mut inside = Outside::new(ks, 0).enter();
        let guard = inside.world(context).expect("the slow lane is idle");
        let mut db = Db::new(&guard, context, db);
        for i in 0..n {
            let name = format!("{prefix}{i}").into_bytes();
            let key = ks.key(&name);
            db.set(&key, record(&name, New::Bytes(b"value"), at, 0));
        }
    }

    #[test]
    fn removes_only_expired_keys() {
        let (ks, mut context) = (keyspace(), ExecContext::new(NOW, 1));
        fill(&ks, &mut context, 0, "dead", 5000, Some(NOW));
        fill(&ks, &mut context, 0, "kept", 500, None);
        fill(&ks, &mut context, 3, "dead", 700, Some(NOW - 5));
        fill(&ks, &mut context, 3, "later", 20, Some(NOW + 1));
        let mut state = SweepState::default();
        for _ in 0..1000 {
            sweep(
                &mut Outside::new(&ks, 0).enter(),
                &mut context,
                &mut state,
                &all_shards(),
                10,
                &mut || true,
            );
        }
        assert_eq!(ks.counts(0), (500, 0));
        assert_eq!(ks.counts(3), (20, 20));
        assert_eq!(context.tally.expired, 5700);
        assert!(context.take_removed().is_none(), "removed records are dropped");
    }

    #[test]
    fn sweeps_while_many_keys_are_stale_and_then_stops() {
        let (ks, mut context) = (keyspace(), ExecContext::new(NOW, 1));
        fill(&ks, &mut context, 0, "dead", 20_000, Some(NOW));
        fill(&ks, &mut context, 0, "live", 20_000, Some(NOW + 1));
        let mut state = SweepState::default();
        let first = sweep(
            &mut Outside::new(&ks, 0).enter(),
            &mut context,
            &mut state,
            &all_shards(),
            1,
            &mut || true,
        );
        assert!(!first.unfinished);
        let left = 20_000 - first.keys.expired;
        assert!(left < 8000, "{first:?}");
        // A database without stale keys is left after one sample.
        let (ks, mut context) = (keyspace(), ExecContext::new(NOW, 1));
        fill(&ks, &mut context, 0, "live", 20_000, Some(NOW + 1));
        let idle = sweep(
            &mut Outside::new(&ks, 0).enter(),
            &mut context,
            &mut SweepState::default(),
            &all_shards(),
            1,
            &mut || true,
        );
        assert_eq!(idle.keys.expired, 0);
        assert!(idle.keys.examined >= 20 && idle.keys.examined < 2000, "{idle:?}");
    }

    #[test]
    fn resumes_where_it_was_stopped() {
        let (ks, mut context) = (keyspace(), ExecContext::new(NOW, 1));
        fill(&ks, &mut context, 0, "dead", 3000, Some(NOW));
        let mut state = SweepState::default();
        let mut sweeps = 0;
        while ks.counts(0).1 > 0 {
            let before = ks.counts(0).1;
            let swept = sweep(
                &mut Outside::new(&ks, 0).enter(),
                &mut context,
                &mut state,
                &all_shards(),
                1,
                &mut || false,
            );
            assert!(swept.keys.expired > 0 && swept.unfinished, "{swept:?}");
            assert_eq!(before - ks.counts(0).1, swept.keys.expired as usize);
            sweeps += 1;
        }
        assert!(sweeps > 10);
    }

    #[test]
    fn sweeps_its_own_shards_and_skips_busy_ones() {
        let (ks, mut context) = (keyspace(), ExecContext::new(NOW, 1));
        fill(&ks, &mut context, 0, "dead", 10_000, Some(NOW));
        let mine: Vec<u16> = (0..SHARDS as u16 / 2).collect();
        let mut other = ExecContext::new(NOW, 2);
        let busy = ks.lock_one(&mut other, 7).expect("it is free");
        sweep(
            &mut Outside::new(&ks, 0).enter(),
            &mut context,
            &mut SweepState::default(),
            &mine,
            1,
            &mut || true,
        );
        drop(busy);
        for shard in 0..SHARDS as u16 {
            let swept = mine.contains(&shard) && shard != 7;
            assert_eq!(ks.shard_len(shard, 0) == 0, swept, "shard {shard}");
        }
    }

    #[test]
    fn nothing_to_do() {
        let (ks, mut context) = (keyspace(), ExecContext::new(NOW, 1));
        fill(&ks, &mut context, 0, "kept", 1000, None);
        let mut asked = 0;
        let mut state = SweepState::default();
        let mut count = || {
            asked += 1;
            true
        };
        assert_eq!(
            sweep(
                &mut Outside::new(&ks, 0).enter(),
                &mut context,
                &mut state,
                &all_shards(),
                1,
                &mut count
            ),
            Swept::default()
        );
        assert_eq!(
            sweep(&mut Outside::new(&ks, 0).enter(), &mut context, &mut state, &[], 1, &mut count),
            Swept::default()
        );
        assert_eq!(asked, 0);
    }
}
