//! A keyspace used by a single thread, which randomly does the work of many: commands, long
//! commands step by step, expiry, eviction, and the steps of a snapshot.

use super::value::{change, describe};
use crate::context::{ExecContext, Rng};
use crate::db::Db;
use crate::defrag;
use crate::evict::{Evictor, MaxmemoryPolicy, Step as Evicted};
use crate::expiry::{SweepState, sweep};
use crate::guard::{Guard, ShardSet};
use crate::hold::{Inside, Outside, SlowLaneThread};
use crate::keyspace::{Keyspace, SHARDS};
use crate::lock::Waiter;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use weft_types::value::duplicate;
use weft_types::{RecordRef, string};

pub(super) const DATABASES: usize = 3;
/// Keys with the same tag share a shard.
const TAGS: u64 = 5;
const NAMES: u64 = 60;
/// Keys that are created and removed together, so that tables grow and shrink.
const BURST: u64 = 900;

/// The content of the keyspace: by database and key, the value and the expiry.
pub(super) type Content = BTreeMap<Name, Value>;
pub(super) type Entry = (Name, Value);
type Name = (usize, Vec<u8>);
type Value = (Vec<u8>, Option<i64>);

/// A slow-lane command in progress.
pub(super) struct Long {
    guard: Guard<'static>,
    context: ExecContext,
    /// The content of its shards when it took them.
    before: Content,
}

pub(super) struct World {
    pub(super) ks: &'static Keyspace,
    pub(super) now: &'static Cell<i64>,
    clock: &'static dyn Fn() -> i64,
    pub(super) rng: Rng,
    pub(super) context: ExecContext,
    long: &'static RefCell<Option<Long>>,
    sweeps: SweepState,
    evictor: Evictor,
    defrag: defrag::Walk,
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

pub(super) fn entry(db: usize, record: &RecordRef<'_>) -> Entry {
    ((db, record.key().to_vec()), (describe(record), record.expiry()))
}

/// Adds the content of `shard`, expired or not.
fn read_shard(guard: &Guard<'_>, context: &mut ExecContext, shard: u16, into: &mut Content) {
    for index in 0..DATABASES {
        let mut db = Db::new(guard, context, index);
        db.sweep_table(shard).for_each(|record| into.extend([entry(index, &record)]));
    }
}

/// Frees the records removed under a guard that was released.
fn tidy(context: &mut ExecContext) {
    drop((context.take_removed(), context.take_detached(), context.take_lost()));
}

impl World {
    /// Leaks everything with a `'static` reference except the keys: a few hundred kilobytes for
    /// each world.
    pub(super) fn new(seed: u64) -> World {
        let now = leak(Cell::new(1_000_000));
        World {
            ks: leak(Keyspace::seeded(DATABASES, 1, seed)),
            now,
            clock: leak(|| now.get()),
            rng: Rng::new(seed),
            context: ExecContext::new(now.get(), seed),
            long: leak(RefCell::new(None)),
            sweeps: SweepState::default(),
            evictor: Evictor::new(),
            defrag: defrag::Walk::default(),
        }
    }

    fn hand(&self, sleep: &'static dyn Fn()) -> SlowLaneThread<'static> {
        SlowLaneThread::new(self.ks, Waiter { thread: 1, token: 0 }, sleep, self.clock)
    }

    /// The hand of a walker: when it would have to sleep, the long command ends.
    pub(super) fn walker(&self) -> SlowLaneThread<'static> {
        let long = self.long;
        self.hand(leak(move || end(long)))
    }

    fn inside(&self) -> Inside<'static> {
        Outside::new(self.ks, 0).enter()
    }

    fn any(&mut self, below: u64) -> u64 {
        self.rng.next() % below
    }

    fn name(&mut self) -> Vec<u8> {
        let (tag, n) = (self.any(TAGS), self.any(NAMES));
        format!("{{{tag}}}{n}").into_bytes()
    }

    /// The content that a snapshot taken now must have.
    pub(super) fn content(&mut self) -> Content {
        let mut content = Content::new();
        let mut inside = self.inside();
        let guard = inside.rest(&mut self.context);
        for shard in (0..SHARDS as u16).filter(|shard| guard.holds(*shard)) {
            read_shard(&guard, &mut self.context, shard, &mut content);
        }
        if let Some(long) = &*self.long.borrow() {
            content.extend(long.before.clone());
        }
        content
    }

    /// One random event.
    pub(super) fn happen(&mut self) {
        self.now.set(self.now.get() + (self.any(3) / 2) as i64);
        self.context.raise_time(self.now.get());
        match self.any(100) {
            0..=54 => self.command(),
            55..=69 => self.move_key(),
            70 => self.exchange(),
            71 => self.empty(),
            72..=75 => self.burst(),
            76..=79 => self.expire(),
            80..=82 => self.evict(),
            83..=84 => self.defragment(),
            85 => self.now.set(self.now.get() + 50),
            _ => self.slow_lane(),
        }
        tidy(&mut self.context);
    }

    /// A command on one or two keys, unless one of them must wait for the snapshot. Returns
    /// whether it has run.
    pub(super) fn write_unless_full(&mut self) -> bool {
        let seed = self.rng.next();
        let mut draws = Rng::new(seed);
        let moves = draws.next().is_multiple_of(4);
        // Predicts the draws of the command.
        self.rng = Rng::new(seed);
        let names = match moves {
            true => {
                let names = [self.name(), self.name()];
                let dbs = [0; 2].map(|_| self.any(DATABASES as u64) as usize);
                vec![(dbs[0], names[0].clone()), (dbs[1], names[1].clone())]
            }
            false => {
                let db = self.any(DATABASES as u64) as usize;
                vec![(db, self.name())]
            }
        };
        let waits =
            |(db, name): &(usize, Vec<u8>)| self.ks.must_wait_for_snapshot(*db, &self.ks.key(name));
        if names.iter().any(waits) {
            return false;
        }
        self.rng = Rng::new(seed);
        match moves {
            true => self.move_key(),
            false => self.command(),
        }
        tidy(&mut self.context);
        true
    }

    fn command(&mut self) {
        let (db, name) = (self.any(DATABASES as u64) as usize, self.name());
        let mut inside = self.inside();
        let key = self.ks.key(&name);
        let Ok(guard) = inside.guard_one(&mut self.context, key.shard()) else { return };
        let mut db = Db::new(&guard, &mut self.context, db);
        match self.rng.next() % 4 {
            0 => drop(db.read(&key)),
            _ => change(&mut db, &key, &mut self.rng),
        }
        super::commit(&guard, &mut self.context);
    }

    /// RENAME, MOVE or COPY.
    fn move_key(&mut self) {
        let (from, to) = (self.name(), self.name());
        let (db_from, db_to) =
            (self.any(DATABASES as u64) as usize, self.any(DATABASES as u64) as usize);
        let copies = self.any(2) == 0;
        let (from, to) = (self.ks.key(&from), self.ks.key(&to));
        let mut inside = self.inside();
        let shards = ShardSet::of([from.shard(), to.shard()]);
        let Ok(guard) = inside.guard(&mut self.context, shards) else { return };
        let now = self.context.now_ms;
        let mut db = Db::new(&guard, &mut self.context, db_from);
        let record = match copies {
            true => db.peek(&from).map(|r| duplicate(&r, to.bytes, r.expiry(), r.clock(), now)),
            false => db.remove(&from).map(|r| string::refit(r.with_key(to.bytes))),
        };
        if let Some(record) = record {
            db.other(db_to).put(&to, record);
        }
        super::commit(&guard, &mut self.context);
    }

    /// SWAPDB.
    fn exchange(&mut self) {
        let (a, b) = (self.any(DATABASES as u64) as usize, self.any(DATABASES as u64) as usize);
        let mut inside = self.inside();
        let Some(guard) = inside.world(&mut self.context) else { return };
        Db::new(&guard, &mut self.context, a).swap_with(b);
        super::commit(&guard, &mut self.context);
    }

    /// FLUSHDB or FLUSHALL, rarely.
    fn empty(&mut self) {
        let (only, all) = (self.any(DATABASES as u64) as usize, self.any(4) == 0);
        if self.any(3) > 0 {
            return;
        }
        let mut inside = self.inside();
        let Some(guard) = inside.world(&mut self.context) else { return };
        for index in (0..DATABASES).filter(|index| all || *index == only) {
            drop(Db::new(&guard, &mut self.context, index).take_all());
        }
        super::commit(&guard, &mut self.context);
    }

    /// Creates or removes many keys of one shard.
    fn burst(&mut self) {
        let (db, tag, adds) =
            (self.any(DATABASES as u64) as usize, self.any(TAGS), self.any(2) == 0);
        let (first, n) = (self.any(BURST), self.any(BURST));
        let mut inside = self.inside();
        let shard = self.ks.key(format!("{{{tag}}}").as_bytes()).shard();
        let Ok(guard) = inside.guard_one(&mut self.context, shard) else { return };
        let mut db = Db::new(&guard, &mut self.context, db);
        for n in first..(first + n).min(BURST) {
            let name = format!("{{{tag}}}burst{n}").into_bytes();
            let key = db.key(&name);
            match adds {
                true => db.set(&key, string::record_int(&name, n as i64, None, 0)),
                false => drop(db.delete(&key)),
            }
        }
        super::commit(&guard, &mut self.context);
    }

    fn expire(&mut self) {
        let mut inside = self.inside();
        let shards: Vec<u16> = (0..SHARDS as u16).collect();
        let mut left = 1 + self.rng.next() % 5;
        let mut go_on = || {
            left -= 1;
            left > 0
        };
        sweep(&mut inside, &mut self.context, &mut self.sweeps, &shards, 10, &mut go_on);
    }

    fn evict(&mut self) {
        let mut inside = self.inside();
        let policy = match self.rng.next() % 2 {
            0 => MaxmemoryPolicy::AllkeysRandom,
            _ => MaxmemoryPolicy::VolatileTtl,
        };
        match self.evictor.step(&mut inside, &mut self.context, policy, 5) {
            Evicted::Evicted { record, .. } => drop(record),
            Evicted::Busy | Evicted::Nothing => {}
        }
    }

    fn defragment(&mut self) {
        let mut inside = self.inside();
        let shards: Vec<u16> =
            (0..TAGS).map(|tag| self.ks.key(format!("{{{tag}}}").as_bytes()).shard()).collect();
        self.defrag.step(&mut inside, &mut self.context, &shards, &mut |_, _| true);
    }

    /// Begins, continues or ends a long command.
    fn slow_lane(&mut self) {
        if self.long.borrow().is_none() {
            let tags: Vec<u64> = (0..=self.any(2)).map(|_| self.any(TAGS)).collect();
            let shards =
                tags.iter().map(|tag| self.ks.key(format!("{{{tag}}}").as_bytes()).shard());
            let shards = ShardSet::of(shards);
            // Must live as long as its guard, which is stored elsewhere.
            let hand =
                Box::leak(Box::new(self.hand(&|| unreachable!("no other thread holds a shard"))));
            let mut context = ExecContext::new(self.now.get(), self.rng.next());
            let guard = hand.hold(&mut context, &shards);
            let mut before = Content::new();
            shards.iter().for_each(|shard| read_shard(&guard, &mut context, shard, &mut before));
            *self.long.borrow_mut() = Some(Long { guard, context, before });
            return;
        }
        let (db, name, what) = (self.any(DATABASES as u64) as usize, self.name(), self.any(16));
        let key = self.ks.key(&name);
        if what == 0 {
            return end(self.long);
        }
        let mut long = self.long.borrow_mut();
        let Some(long) = long.as_mut() else { return };
        if what == 1 && !long.guard.holds(key.shard()) {
            // As when it serves a client blocked on a key.
            let added = ShardSet::one(key.shard());
            if long.guard.try_extend(&mut long.context, &added).is_ok() {
                read_shard(&long.guard, &mut long.context, key.shard(), &mut long.before);
            }
        } else if what == 2 {
            // Commits, but continues to write.
            super::commit(&long.guard, &mut long.context);
        }
        if long.guard.holds(key.shard()) && what > 5 {
            change(&mut Db::new(&long.guard, &mut long.context, db), &key, &mut self.rng);
        }
    }

    /// Ends a long command in progress.
    pub(super) fn calm(&self) {
        end(self.long);
    }

    /// Removes all keys.
    pub(super) fn clear(&mut self) {
        self.calm();
        let mut inside = self.inside();
        let guard = inside.world(&mut self.context).expect("the slow lane is idle");
        for index in 0..DATABASES {
            drop(Db::new(&guard, &mut self.context, index).take_all());
        }
        super::commit(&guard, &mut self.context);
        tidy(&mut self.context);
    }
}

/// Commits and ends the long command, if there is one.
fn end(long: &RefCell<Option<Long>>) {
    if let Some(Long { mut guard, mut context, .. }) = long.take() {
        guard.begin_commit();
        super::commit(&guard, &mut context);
        guard.publish();
        drop(guard);
        tidy(&mut context);
    }
}
