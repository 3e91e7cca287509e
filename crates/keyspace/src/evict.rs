//! Eviction: chooses the key to remove when memory is full.
//!
//! Exact LRU or LFU would need a list through all keys that every access changes. As in Redis it
//! is approximated: each step samples a few random keys, and a pool keeps the 16 best candidates
//! not evicted yet. With five samples per step this comes close to the exact order, since the
//! pool remembers good candidates over many steps.
//!
//! ```text
//!   pick a table, by its number of keys ─► try its shard's lock ─► sample a few keys
//!                                                                       │ release
//!   remove the best one ◄─ it still exists and still ◄─── try its ◄─ pool of 16, by score
//!   of the pool            has the best score: locked     lock
//! ```
//!
//! Every thread has its own evictor. It only tries locks and holds one shard at a time, so
//! eviction never waits. A pool entry may be outdated, so it is checked again under the lock
//! before the key is removed.
//!
//! | policy | evicts |
//! |---|---|
//! | noeviction | nothing |
//! | allkeys-lru, volatile-lru | the least recently used key |
//! | allkeys-lfu, volatile-lfu | the least frequently used key |
//! | allkeys-random, volatile-random | any key |
//! | volatile-ttl | the key that expires first |
//!
//! The volatile policies only consider keys with an expiry. Tables count those, so a step knows
//! without a search when no key can be evicted.

use crate::access::{Access, Policy};
use crate::commit::commit;
use crate::context::{ExecContext, Rng};
use crate::db::Db;
use crate::effect::Cause;
use crate::hold::Inside;
use crate::keyspace::{Hasher, Keyspace};
use std::cell::Cell;
use weft_table::{TableMut, Verdict, Which};
use weft_types::{Record, Values};

/// Candidates that a pool holds.
const POOL: usize = 16;
/// Picks of a table in one step before the step ends as busy: shards may be locked, or empty by
/// now.
const PICKS: usize = 16;
/// Draws of a random record until one with an expiry is found, where most have one.
const DRAWS: usize = 16;
/// Buckets visited by one step of a search for records with an expiry.
const SEARCH_BUCKETS: usize = 8;
/// Steps between two counts of all tables.
const STEPS_PER_WEIGHING: u32 = 256;

/// `maxmemory-policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxmemoryPolicy {
    Noeviction,
    AllkeysLru,
    AllkeysLfu,
    AllkeysRandom,
    VolatileLru,
    VolatileLfu,
    VolatileRandom,
    VolatileTtl,
}

/// How candidates are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EvictionOrder {
    /// By the access clock: time since the last access, or frequency.
    Access,
    /// By expiry.
    Expiry,
    /// By chance.
    Chance,
}

impl MaxmemoryPolicy {
    pub const ALL: [MaxmemoryPolicy; 8] = [
        MaxmemoryPolicy::Noeviction,
        MaxmemoryPolicy::AllkeysLru,
        MaxmemoryPolicy::AllkeysLfu,
        MaxmemoryPolicy::AllkeysRandom,
        MaxmemoryPolicy::VolatileLru,
        MaxmemoryPolicy::VolatileLfu,
        MaxmemoryPolicy::VolatileRandom,
        MaxmemoryPolicy::VolatileTtl,
    ];

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            MaxmemoryPolicy::Noeviction => "noeviction",
            MaxmemoryPolicy::AllkeysLru => "allkeys-lru",
            MaxmemoryPolicy::AllkeysLfu => "allkeys-lfu",
            MaxmemoryPolicy::AllkeysRandom => "allkeys-random",
            MaxmemoryPolicy::VolatileLru => "volatile-lru",
            MaxmemoryPolicy::VolatileLfu => "volatile-lfu",
            MaxmemoryPolicy::VolatileRandom => "volatile-random",
            MaxmemoryPolicy::VolatileTtl => "volatile-ttl",
        }
    }

    /// The policy of that name, ignoring case.
    pub fn by_name(name: &str) -> Option<MaxmemoryPolicy> {
        Self::ALL.into_iter().find(|policy| policy.name().eq_ignore_ascii_case(name))
    }

    /// The meaning of access clocks that this policy needs.
    pub fn clock(self) -> Policy {
        match self {
            MaxmemoryPolicy::AllkeysLfu | MaxmemoryPolicy::VolatileLfu => Policy::Lfu,
            MaxmemoryPolicy::Noeviction
            | MaxmemoryPolicy::AllkeysLru
            | MaxmemoryPolicy::AllkeysRandom
            | MaxmemoryPolicy::VolatileLru
            | MaxmemoryPolicy::VolatileRandom
            | MaxmemoryPolicy::VolatileTtl => Policy::Lru,
        }
    }

    /// Whether only keys with an expiry are evicted.
    pub fn volatile(self) -> bool {
        match self {
            MaxmemoryPolicy::VolatileLru
            | MaxmemoryPolicy::VolatileLfu
            | MaxmemoryPolicy::VolatileRandom
            | MaxmemoryPolicy::VolatileTtl => true,
            MaxmemoryPolicy::Noeviction
            | MaxmemoryPolicy::AllkeysLru
            | MaxmemoryPolicy::AllkeysLfu
            | MaxmemoryPolicy::AllkeysRandom => false,
        }
    }

    /// `None` for the policy that evicts nothing.
    fn order(self) -> Option<EvictionOrder> {
        match self {
            MaxmemoryPolicy::Noeviction => None,
            MaxmemoryPolicy::AllkeysLru
            | MaxmemoryPolicy::AllkeysLfu
            | MaxmemoryPolicy::VolatileLru
            | MaxmemoryPolicy::VolatileLfu => Some(EvictionOrder::Access),
            MaxmemoryPolicy::VolatileTtl => Some(EvictionOrder::Expiry),
            MaxmemoryPolicy::AllkeysRandom | MaxmemoryPolicy::VolatileRandom => {
                Some(EvictionOrder::Chance)
            }
        }
    }
}

/// The result of a step.
#[derive(Debug)]
pub enum Step {
    /// This record was removed from that database. Drop it outside of all locks.
    Evicted { db: usize, record: Record },
    /// The tried shards are busy. Other keys may be evictable, so try again.
    Busy,
    /// The policy allows no key to be evicted.
    Nothing,
}

impl EvictionOrder {
    /// The eviction score of `record`: a higher score is evicted earlier. `chance` gives the
    /// score of random policies.
    fn score(self, record: &Record, access: &Access, chance: impl FnOnce() -> u64) -> u64 {
        match self {
            EvictionOrder::Access => access.idleness(record.clock()),
            EvictionOrder::Expiry => record.expiry().map_or(0, |at| i64::MAX.abs_diff(at)),
            EvictionOrder::Chance => chance(),
        }
    }
}

/// The evictor of one thread.
#[derive(Debug, Default)]
pub struct Evictor {
    pool: Pool,
    weights: Weights,
    /// The policy of the pool and the weights.
    policy: Option<MaxmemoryPolicy>,
}

impl Evictor {
    pub fn new() -> Self {
        Evictor::default()
    }

    /// Removes one key as `policy` demands and counts it in `context.tally.evicted`. `samples` is
    /// `maxmemory-samples`. `context.access` must be the clock of the policy, see
    /// [`MaxmemoryPolicy::clock`].
    ///
    /// O(samples); from time to time O(shards * databases) to count the tables.
    pub fn step(
        &mut self,
        inside: &mut Inside<'_>,
        context: &mut ExecContext,
        policy: MaxmemoryPolicy,
        samples: usize,
    ) -> Step {
        let ks = inside.keyspace();
        let Some(order) = policy.order() else {
            return Step::Nothing;
        };
        if self.policy != Some(policy) {
            *self = Evictor { policy: Some(policy), ..Evictor::default() };
        }
        let volatile = policy.volatile();
        // Shards that were busy in this step. They are not tried again: each try spins, and a
        // lock held for longer than the spin is likely held for long.
        let mut busy = Vec::new();
        for _ in 0..PICKS {
            let Some((shard, db)) = self.weights.pick(ks, volatile, context.random()) else {
                return Step::Nothing;
            };
            if busy.contains(&shard) {
                continue;
            }
            let sampling = Sampling { shard, db, volatile, order };
            if !sampling.fill(inside, context, samples, &mut self.pool) {
                busy.push(shard);
            }
            if let Some((db, record)) =
                self.remove_best(inside, context, volatile, order, &mut busy)
            {
                context.tally.evicted += 1;
                return Step::Evicted { db, record };
            }
        }
        match self.weights.weigh(ks, volatile) {
            0 => Step::Nothing,
            _ => Step::Busy,
        }
    }

    /// Removes the best candidate that is still valid. Candidates of busy shards, which are added
    /// to `busy`, stay in the pool.
    fn remove_best(
        &mut self,
        inside: &mut Inside<'_>,
        context: &mut ExecContext,
        volatile: bool,
        order: EvictionOrder,
        busy: &mut Vec<u16>,
    ) -> Option<(usize, Record)> {
        let mut postponed = Vec::new();
        let mut evicted = None;
        while let Some(mut best) = self.pool.0.pop() {
            let shard = inside.keyspace().key(&best.key).shard();
            if busy.contains(&shard) {
                postponed.push(best);
                continue;
            }
            let second = self.pool.0.last().map_or(0, |candidate| candidate.score);
            match best.evict(inside, context, volatile, order, second) {
                Outcome::Evicted(record) => {
                    evicted = Some((best.db, record));
                    break;
                }
                Outcome::Absent => {}
                Outcome::Busy => {
                    busy.push(shard);
                    postponed.push(best);
                }
                Outcome::Better(score) => {
                    best.score = score;
                    self.pool.insert(best);
                }
            }
        }
        postponed.into_iter().for_each(|candidate| self.pool.insert(candidate));
        evicted
    }
}

/// A key that may be evicted.
#[derive(Debug)]
struct Candidate {
    score: u64,
    db: usize,
    key: Vec<u8>,
}

/// The result of checking a candidate under its shard's lock.
enum Outcome {
    Evicted(Record),
    /// The key is gone, or can no longer be evicted.
    Absent,
    Busy,
    /// The key was accessed or got a later expiry, so that another candidate has a higher score.
    /// Carries the new score.
    Better(u64),
}

impl Candidate {
    /// Removes the key unless its score has fallen below that of the `second` best.
    fn evict(
        &self,
        inside: &mut Inside<'_>,
        context: &mut ExecContext,
        volatile: bool,
        order: EvictionOrder,
        second: u64,
    ) -> Outcome {
        let key = inside.keyspace().key(&self.key);
        let Ok(guard) = inside.guard_one(context, key.shard()) else {
            return Outcome::Busy;
        };
        let access = context.access;
        let mut db = Db::new(&guard, context, self.db);
        db.before_write(&key);
        let mut table = db.sweep_table(key.shard());
        let Some(slot) = table.find_mut(key.hash, key.bytes) else {
            return Outcome::Absent;
        };
        if volatile && !slot.record().has_expiry() {
            return Outcome::Absent;
        }
        let score = order.score(&slot.record(), &access, || self.score);
        if score < self.score && score < second {
            return Outcome::Better(score);
        }
        let dead = slot.remove();
        db.note_removed(&key, dead.expiry(), Cause::Eviction);
        commit(&guard, context);
        Outcome::Evicted(dead)
    }
}

/// The best candidates seen, in ascending order of their scores.
#[derive(Debug, Default)]
struct Pool(Vec<Candidate>);

impl Pool {
    /// Adds a key if it is better than the worst or there is room. O(POOL).
    fn offer(&mut self, score: u64, db: usize, key: &[u8]) {
        if let Some(at) = self.0.iter().position(|c| c.db == db && c.key == key) {
            let known = self.0.remove(at);
            self.insert(Candidate { score, ..known });
        } else if self.0.len() < POOL || self.0[0].score < score {
            self.insert(Candidate { score, db, key: key.to_vec() });
        }
    }

    fn insert(&mut self, candidate: Candidate) {
        let place = self.0.partition_point(|c| c.score < candidate.score);
        self.0.insert(place, candidate);
        if self.0.len() > POOL {
            self.0.remove(0);
        }
    }
}

/// One table to sample.
struct Sampling {
    shard: u16,
    db: usize,
    volatile: bool,
    order: EvictionOrder,
}

impl Sampling {
    /// Offers about `samples` keys to the pool, none if the shard has none; `false` if the shard
    /// is busy.
    fn fill(
        &self,
        inside: &mut Inside<'_>,
        context: &mut ExecContext,
        samples: usize,
        pool: &mut Pool,
    ) -> bool {
        let Ok(guard) = inside.guard_one(context, self.shard) else {
            return false;
        };
        let mut rng = Rng::new(context.random());
        let mut chance = Rng::new(context.random());
        let access = context.access;
        let offered = Cell::new(false);
        let offer = &mut |record: &Record| {
            if record.has_expiry() || !self.volatile {
                offered.set(true);
                let score = self.order.score(record, &access, || chance.next());
                pool.offer(score, self.db, record.key());
            }
        };
        let mut db = Db::new(&guard, context, self.db);
        let mut table = db.sweep_table(self.shard);
        match self.order {
            EvictionOrder::Chance => draw(&table, &mut rng, self.volatile, offer),
            // Samples twice as many where some have no expiry.
            EvictionOrder::Access | EvictionOrder::Expiry => {
                let samples = if self.volatile { 2 * samples } else { samples };
                table.sample(samples, &mut || rng.next(), |record| offer(&record));
            }
        }
        match offered.get() {
            true => {}
            false if self.volatile => search(&mut table, &mut rng, offer),
            false => draw(&table, &mut rng, false, offer),
        }
        true
    }
}

type ShardTable<'t> = TableMut<'t, Values, Hasher>;

/// Offers a randomly drawn record; if `volatile`, one with an expiry, unless those are so rare
/// that no draw finds one.
fn draw(table: &ShardTable<'_>, rng: &mut Rng, volatile: bool, offer: &mut dyn FnMut(&Record)) {
    let drawn = (0..DRAWS).find_map(|_| {
        let record = table.random(&mut || rng.next())?;
        (record.has_expiry() || !volatile).then_some(record)
    });
    if let Some(record) = drawn {
        offer(&record);
    }
}

/// Offers records with an expiry where they are rare: all of the first segment that has some,
/// starting at a random place. O(segments) at worst.
fn search(table: &mut ShardTable<'_>, rng: &mut Rng, offer: &mut dyn FnMut(&Record)) {
    let mut found = false;
    let mut cursor = rng.next() >> 32;
    let mut rounds = 0;
    // The second round starts at the beginning and covers the whole table.
    while !found && rounds < 2 {
        cursor = table.sweep(
            cursor,
            SEARCH_BUCKETS,
            Which::Expiring,
            |record| {
                found = true;
                offer(&record);
                Verdict::Keep
            },
            drop,
        );
        rounds += usize::from(cursor == 0);
    }
}

/// How many keys each table has, to pick a table in proportion. Counted every
/// [`STEPS_PER_WEIGHING`] steps: the sizes of thousands of tables change little in between.
#[derive(Debug, Default)]
struct Weights {
    /// Tables that have keys, each with the sum of the weights up to and including it.
    tables: Vec<(u64, u16, usize)>,
    /// Picks until the next count.
    left: u32,
}

impl Weights {
    /// A shard and a database; `None` when no table has keys. O(log tables).
    fn pick(&mut self, ks: &Keyspace, volatile: bool, random: u64) -> Option<(u16, usize)> {
        if self.left == 0 {
            self.weigh(ks, volatile);
        }
        let (shard, db) = match self.at(random) {
            Some((shard, db)) if weight(ks, shard, db, volatile) > 0 => (shard, db),
            // The weights are outdated.
            Some(_) | None => {
                self.weigh(ks, volatile);
                self.at(random)?
            }
        };
        self.left -= 1;
        Some((shard, db))
    }

    fn at(&self, random: u64) -> Option<(u16, usize)> {
        let total = self.tables.last()?.0;
        let nth = random % total;
        let at = self.tables.partition_point(|(sum, ..)| *sum <= nth);
        let (_, shard, db) = self.tables[at];
        Some((shard, db))
    }

    /// Counts all tables and returns the sum of their weights. O(shards * databases in use).
    fn weigh(&mut self, ks: &Keyspace, volatile: bool) -> u64 {
        self.left = STEPS_PER_WEIGHING;
        self.tables.clear();
        let mut sum = 0;
        for db in ks.occupied_databases() {
            for shard in ks.occupied_shards(db) {
                let weight = weight(ks, shard, db, volatile);
                if weight > 0 {
                    sum += weight;
                    self.tables.push((sum, shard, db));
                }
            }
        }
        sum
    }
}

/// How many keys of a table can be evicted now; may be outdated at once.
fn weight(ks: &Keyspace, shard: u16, db: usize, volatile: bool) -> u64 {
    (if volatile { ks.shard_expiring(shard, db) } else { ks.shard_len(shard, db) }) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Db;
    use crate::hold::Outside;
    use std::collections::HashSet;
    use weft_types::string::{New, record};

    const NOW: i64 = 1_000_000_000_000;

    fn setup(policy: MaxmemoryPolicy) -> (Keyspace, ExecContext) {
        let mut context = ExecContext::new(NOW, 7);
        context.access = Access::new(policy.clock(), NOW, 10, 1);
        (Keyspace::new(4, 1, Box::new(|_| {})), context)
    }

    /// Stores keys `prefix0`, `prefix1` ... with this expiry and access clock.
    fn fill(
        ks: &Keyspace,
        context: &mut ExecContext,
        db: usize,
        prefix: &str,
        n: usize,
        form: impl Fn(usize) -> (Option<i64>, u32),
    ) {
        let mut inside = Outside::new(ks, 0).enter();
        let guard = inside.world(context).expect("the slow lane is idle");
        let mut db = Db::new(&guard, context, db);
        for i in 0..n {
            let name = format!("{prefix}{i}").into_bytes();
            let (at, clock) = form(i);
            db.set(&ks.key(&name), record(&name, New::Bytes(b"value"), at, clock));
        }
    }

    /// Evicts up to `n` keys and returns them.
    fn evict(
        ks: &Keyspace,
        context: &mut ExecContext,
        policy: MaxmemoryPolicy,
        n: usize,
    ) -> Vec<String> {
        let mut evictor = Evictor::new();
        let mut names = Vec::new();
        while names.len() < n {
            match evictor.step(&mut Outside::new(ks, 0).enter(), context, policy, 5) {
                Step::Evicted { record, .. } => {
                    names.push(String::from_utf8(record.key().to_vec()).expect("ASCII"));
                }
                Step::Nothing => break,
                Step::Busy => panic!("no shard is held"),
            }
        }
        assert_eq!(context.tally.evicted, names.len() as u64);
        names
    }

    fn count(names: &[String], prefix: &str) -> usize {
        names.iter().filter(|name| name.starts_with(prefix)).count()
    }

    #[test]
    fn lru_evicts_the_idle() {
        let policy = MaxmemoryPolicy::AllkeysLru;
        let (ks, mut context) = setup(policy);
        let (idle, fresh) = (context.access.clock_for_idle(1000), context.access.fresh());
        fill(&ks, &mut context, 0, "idle", 500, |_| (None, idle));
        fill(&ks, &mut context, 2, "idle", 500, |_| (None, idle));
        fill(&ks, &mut context, 0, "used", 1000, |_| (None, fresh));
        let names = evict(&ks, &mut context, policy, 500);
        assert_eq!(names.len(), 500);
        assert!(count(&names, "idle") >= 450, "{}", count(&names, "idle"));
        assert_eq!(ks.counts(0).0 + ks.counts(2).0, 1500);
        let distinct: HashSet<_> = names.iter().collect();
        assert!(distinct.len() >= 250, "a name can be in both databases, not more often");
    }

    #[test]
    fn lfu_evicts_the_rarely_used() {
        let policy = MaxmemoryPolicy::VolatileLfu;
        let (ks, mut context) = setup(policy);
        let fresh = context.access.fresh();
        let (rare, often) = (fresh & !0xff | 1, fresh & !0xff | 200);
        fill(&ks, &mut context, 0, "rare", 1000, |_| (Some(NOW + 1000), rare));
        fill(&ks, &mut context, 0, "often", 1000, |_| (Some(NOW + 1000), often));
        let names = evict(&ks, &mut context, policy, 500);
        assert!(count(&names, "rare") >= 450, "{}", count(&names, "rare"));
    }

    #[test]
    fn volatile_policies_spare_persistent_keys() {
        for policy in MaxmemoryPolicy::ALL.into_iter().filter(|policy| policy.volatile()) {
            let (ks, mut context) = setup(policy);
            // So few keys have an expiry that samples rarely find one.
            fill(&ks, &mut context, 0, "kept", 20_000, |_| (None, 0));
            fill(&ks, &mut context, 1, "kept", 100, |_| (None, 0));
            fill(&ks, &mut context, 0, "volatile", 50, |_| (Some(NOW + 1000), 0));
            let names = evict(&ks, &mut context, policy, 1000);
            assert_eq!((names.len(), count(&names, "volatile")), (50, 50), "{policy:?}");
            assert_eq!((ks.counts(0).0, ks.counts(1).0), (20_000, 100));
        }
    }

    #[test]
    fn allkeys_policies_evict_to_the_last_key() {
        for policy in MaxmemoryPolicy::ALL.into_iter().filter(|policy| !policy.volatile()) {
            let (ks, mut context) = setup(policy);
            fill(&ks, &mut context, 0, "a", 300, |_| (None, 0));
            fill(&ks, &mut context, 3, "b", 300, |_| (Some(NOW + 1000), 0));
            let evicts = policy != MaxmemoryPolicy::Noeviction;
            let names = evict(&ks, &mut context, policy, usize::MAX);
            let distinct: HashSet<_> = names.iter().collect();
            assert_eq!((names.len(), distinct.len()), if evicts { (600, 600) } else { (0, 0) });
        }
    }

    #[test]
    fn ttl_prefers_the_nearest() {
        let policy = MaxmemoryPolicy::VolatileTtl;
        let (ks, mut context) = setup(policy);
        fill(&ks, &mut context, 0, "soon", 1000, |i| (Some(NOW + 1 + i as i64), 0));
        fill(&ks, &mut context, 0, "late", 1000, |i| (Some(NOW + 1_000_000 + i as i64), 0));
        let names = evict(&ks, &mut context, policy, 500);
        assert!(count(&names, "soon") >= 450, "{}", count(&names, "soon"));
    }

    #[test]
    fn a_candidate_that_was_used_again_is_spared() {
        let policy = MaxmemoryPolicy::AllkeysLru;
        let (ks, mut context) = setup(policy);
        let idle = context.access.clock_for_idle(1000);
        // One shard, so that the first step meets all keys.
        fill(&ks, &mut context, 0, "{x}", 8, |_| (None, idle));
        let mut evictor = Evictor::new();
        assert!(matches!(
            evictor.step(&mut Outside::new(&ks, 0).enter(), &mut context, policy, 8),
            Step::Evicted { .. }
        ));
        let used = evictor.pool.0.last().expect("the others").key.clone();
        {
            let mut inside = Outside::new(&ks, 0).enter();
            let guard = inside.world(&mut context).expect("the slow lane is idle");
            let key = ks.key(&used);
            assert!(Db::new(&guard, &mut context, 0).read(&key).is_some());
        }
        for _ in 0..6 {
            match evictor.step(&mut Outside::new(&ks, 0).enter(), &mut context, policy, 1) {
                Step::Evicted { record, .. } => assert_ne!(record.key(), used),
                other => panic!("{other:?}"),
            }
        }
        match evictor.step(&mut Outside::new(&ks, 0).enter(), &mut context, policy, 1) {
            Step::Evicted { record, .. } => assert_eq!(record.key(), used, "the last one"),
            other => panic!("{other:?}"),
        }
        assert!(matches!(
            evictor.step(&mut Outside::new(&ks, 0).enter(), &mut context, policy, 1),
            Step::Nothing
        ));
    }

    #[test]
    fn busy_shards_differ_from_an_empty_keyspace() {
        let policy = MaxmemoryPolicy::AllkeysRandom;
        let (ks, mut context) = setup(policy);
        fill(&ks, &mut context, 0, "{x}", 10, |_| (None, 0));
        let mut evictor = Evictor::new();
        let mut other = ExecContext::new(NOW, 8);
        let guard = ks.lock_one(&mut other, ks.key(b"{x}0").shard()).expect("free");
        assert!(matches!(
            evictor.step(&mut Outside::new(&ks, 0).enter(), &mut context, policy, 5),
            Step::Busy
        ));
        drop(guard);
        assert!(matches!(
            evictor.step(&mut Outside::new(&ks, 0).enter(), &mut context, policy, 5),
            Step::Evicted { db: 0, .. }
        ));
    }

    #[test]
    fn names() {
        for policy in MaxmemoryPolicy::ALL {
            assert_eq!(MaxmemoryPolicy::by_name(policy.name()), Some(policy));
        }
        assert_eq!(MaxmemoryPolicy::by_name("ALLKEYS-LRU"), Some(MaxmemoryPolicy::AllkeysLru));
        assert_eq!(MaxmemoryPolicy::by_name("lru"), None);
    }
}
