//! Snapshots with concurrent threads that move amounts between accounts, in all shards: in every
//! snapshot the sum is unchanged, and each account appears once.
//!
//! I/O threads transfer between two accounts at a time, remove accounts and put them back, and
//! swap databases. A slow-lane thread transfers between many accounts one by one, so that a cut
//! in the middle of it would be inconsistent. `SNAPSHOT_ROUNDS` sets the number of snapshots.
#![cfg(not(loom))]

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_keyspace::commit::{end_group, seal, settle};
use weft_keyspace::snapshot::{Snapshot, Step};
use weft_keyspace::{
    Db, ExecContext, Guard, Key, Keyspace, Outside, Rng, ShardSet, SlowLaneThread,
};
use weft_types::string::{self, Digits, Str};
use weft_types::{Record, value};

const ACCOUNTS: u64 = 3000;
const AMOUNT: i64 = 1000;
const IO_THREADS: usize = 2;
const NOW: i64 = 1_000_000;

fn name(n: u64) -> String {
    format!("account:{n}")
}

fn amount(record: &Record) -> i64 {
    let text = Str::of(record).expect("accounts are strings");
    text.int().expect("accounts are integers")
}

fn add(db: &mut Db<'_>, key: &Key<'_>, n: i64) -> bool {
    let Some(old) = db.peek(key).map(|record| amount(&record)) else { return false };
    db.set(key, string::record_int(key.bytes, old + n, None, 0));
    true
}

fn transfer(db: &mut Db<'_>, from: &Key<'_>, to: &Key<'_>, n: i64) {
    // Each account may be in either database at the moment.
    if from.bytes != to.bytes && db.contains(from) && db.contains(to) {
        assert!(add(db, from, -n) && add(db, to, n));
    }
}

fn commit(guard: &Guard<'_>, context: &mut ExecContext) {
    settle(guard, context);
    seal(guard, context);
    end_group(guard, context);
}

/// Removes the account and puts it back.
fn bounce(db: &mut Db<'_>, key: &Key<'_>) {
    if let Some(record) = db.remove(key) {
        db.set(key, record);
    }
}

fn io_thread(ks: &Keyspace, own: usize, stop: &AtomicBool) {
    let (mut rng, mut context) = (Rng::new(own as u64), ExecContext::new(NOW, own as u64));
    let mut outside = Some(Outside::new(ks, own));
    while !stop.load(Ordering::Relaxed) {
        let mut inside = outside.take().expect("it is given back").enter();
        for _ in 0..16 {
            let (a, b) = (name(rng.next() % ACCOUNTS), name(rng.next() % ACCOUNTS));
            let (a, b) = (ks.key(a.as_bytes()), ks.key(b.as_bytes()));
            if rng.next().is_multiple_of(4096) {
                let Some(guard) = inside.world(&mut context) else { continue };
                Db::new(&guard, &mut context, 0).swap_with(1);
                commit(&guard, &mut context);
                continue;
            }
            let Ok(guard) = inside.guard(&mut context, ShardSet::of([a.shard(), b.shard()])) else {
                continue;
            };
            let mut db = Db::new(&guard, &mut context, (rng.next() % 2) as usize);
            match rng.next() % 8 {
                0 => bounce(&mut db, &a),
                _ => transfer(&mut db, &a, &b, (rng.next() % 10) as i64),
            }
            commit(&guard, &mut context);
            drop(guard);
            context.free_removed();
        }
        outside = Some(inside.leave());
    }
}

/// Long commands: many transfers as one.
fn slow_thread(ks: &Keyspace, stop: &AtomicBool) {
    let (mut rng, mut context) = (Rng::new(77), ExecContext::new(NOW, 77));
    let mut hand = SlowLaneThread::background(ks, &|| NOW);
    while !stop.load(Ordering::Relaxed) {
        let names: Vec<String> = (0..6).map(|_| name(rng.next() % ACCOUNTS)).collect();
        let keys: Vec<Key<'_>> = names.iter().map(|name| ks.key(name.as_bytes())).collect();
        let mut guard = hand.hold(&mut context, &ShardSet::of(keys.iter().map(|key| key.shard())));
        let mut db = Db::new(&guard, &mut context, (rng.next() % 2) as usize);
        if keys.iter().all(|key| db.contains(key)) {
            // Taken from three accounts, and given to three others much later.
            let (from, to) = keys.split_at(3);
            from.iter().for_each(|key| assert!(add(&mut db, key, -7)));
            std::thread::sleep(std::time::Duration::from_micros(rng.next() % 800));
            to.iter().for_each(|key| assert!(add(&mut db, key, 7)));
        }
        guard.begin_commit();
        commit(&guard, &mut context);
        guard.publish();
        drop(guard);
        context.free_removed();
    }
}

fn fill(ks: &Keyspace) {
    let mut context = ExecContext::new(NOW, 0);
    let mut inside = Outside::new(ks, 0).enter();
    let guard = inside.world(&mut context).expect("the slow lane is idle");
    for n in 0..ACCOUNTS {
        let name = name(n);
        let key = ks.key(name.as_bytes());
        let record = string::record_int(name.as_bytes(), AMOUNT, None, 0);
        Db::new(&guard, &mut context, (n % 2) as usize).set(&key, record);
    }
    commit(&guard, &mut context);
}

/// Takes a snapshot with two threads. Returns the number of accounts and their sum.
fn take(ks: &Keyspace) -> (usize, i64) {
    let mut context = ExecContext::new(NOW, 5);
    let mut hand = SlowLaneThread::background(ks, &|| NOW);
    let (snapshot, ()) =
        Snapshot::begin(&mut hand, &mut context, 0, |_| ()).expect("there is no other");
    let walk = || {
        let (mut context, mut seen) = (ExecContext::new(NOW, 6), Vec::new());
        let mut hand = SlowLaneThread::background(ks, &|| NOW);
        let mut visit = |image: weft_keyspace::snapshot::Image| {
            assert_eq!(value::elements(&image), 1);
            let text = Str::of(&image).expect("a string");
            text.bytes(&mut Digits::new());
            seen.push((image.key().to_vec(), amount(&image)));
        };
        while snapshot.step(&mut hand, &mut context, &mut visit) == Step::More {}
        seen
    };
    let seen = std::thread::scope(|scope| {
        let other = scope.spawn(walk);
        let mut seen = walk();
        seen.extend(other.join().expect("a walker"));
        seen
    });
    assert_eq!(snapshot.progress().given, seen.len());
    assert_eq!(snapshot.progress().kept_bytes, 0);
    let names: HashSet<&[u8]> = seen.iter().map(|(name, _)| &name[..]).collect();
    assert_eq!(names.len(), seen.len(), "each once");
    (seen.len(), seen.iter().map(|(_, amount)| amount).sum())
}

#[test]
fn transfers_keep_their_sum() {
    let rounds = std::env::var("SNAPSHOT_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    let ks = Keyspace::new(2, IO_THREADS, Box::new(|_| {}));
    ks.safepoints().use_up_to(IO_THREADS);
    fill(&ks);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Ends the other threads on a failure, too.
        let ends = Ends(&stop);
        for own in 0..IO_THREADS {
            let (ks, stop) = (&ks, &stop);
            scope.spawn(move || io_thread(ks, own, stop));
        }
        scope.spawn(|| slow_thread(&ks, &stop));
        for round in 0..rounds {
            let (accounts, sum) = take(&ks);
            assert_eq!(accounts, ACCOUNTS as usize, "round {round}");
            assert_eq!(sum, ACCOUNTS as i64 * AMOUNT, "round {round}");
        }
        drop(ends);
    });
}

/// Ends the threads when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
