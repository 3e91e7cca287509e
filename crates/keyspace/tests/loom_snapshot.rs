//! Model of a snapshot with concurrent writers: in every interleaving it holds all of a command
//! or nothing of it, and each key once.
//!
//! Two keys in two shards (in models there are no more), whose sum never changes: an I/O thread
//! or a long command moves an amount from one to the other.
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use weft_keyspace::commit::{end_group, seal, settle};
use weft_keyspace::snapshot::planted::{Fault, plant};
use weft_keyspace::snapshot::{Image, Snapshot, Step};
use weft_keyspace::{
    Db, ExecContext, Guard, Key, Keyspace, Outside, SHARDS, ShardSet, SlowLaneThread, Waiter,
};
use weft_types::Record;
use weft_types::string::{Str, record_int};

const NOW: i64 = 1000;

/// Keys in different shards.
fn keys(ks: &Keyspace) -> [Key<'static>; 2] {
    assert_eq!(SHARDS, 2);
    let names: [&'static [u8]; 4] = [b"a", b"b", b"c", b"d"];
    let of = |shard| names.into_iter().map(|name| ks.key(name)).find(|key| key.shard() == shard);
    [of(0).expect("one in each"), of(1).expect("one in each")]
}

fn amount(record: &Record) -> i64 {
    Str::of(record).and_then(Str::int).expect("an integer")
}

fn add(db: &mut Db<'_>, key: &Key<'_>, n: i64) {
    let old = db.peek(key).map_or(0, |record| amount(&record));
    db.set(key, record_int(key.bytes, old + n, None, 0));
}

fn commit(guard: &Guard<'_>, context: &mut ExecContext) {
    settle(guard, context);
    seal(guard, context);
    end_group(guard, context);
}

fn fill(ks: &Keyspace) {
    let mut context = ExecContext::new(NOW, 0);
    let mut inside = Outside::new(ks, 0).enter();
    for key in keys(ks) {
        let guard = inside.guard_one(&mut context, key.shard()).expect("the shard is free");
        add(&mut Db::new(&guard, &mut context, 0), &key, 10);
        commit(&guard, &mut context);
        drop(guard);
        context.free_removed();
    }
}

/// A command of an I/O thread, retried until the shards are free.
fn transfer(ks: &Keyspace) {
    let mut context = ExecContext::new(NOW, 1);
    let [from, to] = keys(ks);
    loop {
        let mut inside = Outside::new(ks, 0).enter();
        if let Ok(guard) = inside.guard(&mut context, ShardSet::of([0, 1])) {
            let mut db = Db::new(&guard, &mut context, 0);
            add(&mut db, &from, -3);
            add(&mut db, &to, 3);
            commit(&guard, &mut context);
            break;
        }
        drop(inside.leave());
        thread::yield_now();
    }
    context.free_removed();
}

fn hand(ks: &Keyspace, thread: u32) -> SlowLaneThread<'_> {
    SlowLaneThread::new(ks, Waiter { thread, token: 0 }, &thread::yield_now, &|| NOW)
}

/// A slow-lane command.
fn long(ks: &Keyspace) {
    let mut context = ExecContext::new(NOW, 2);
    let mut hand = hand(ks, 2);
    let [from, to] = keys(ks);
    let mut guard = hand.hold_only(&mut context, &ShardSet::of([0, 1]));
    let mut db = Db::new(&guard, &mut context, 0);
    add(&mut db, &from, -4);
    add(&mut db, &to, 4);
    guard.begin_commit();
    commit(&guard, &mut context);
    guard.publish();
    drop(guard);
    context.free_removed();
}

/// Takes a snapshot and checks its content.
fn take(ks: &Keyspace) {
    let mut context = ExecContext::new(NOW, 3);
    let mut hand = hand(ks, 3);
    let (snapshot, ()) = Snapshot::begin(&mut hand, &mut context, 0, |_| ()).expect("the only one");
    let mut given = Vec::new();
    let mut visit = |image: Image| given.push((image.key().to_vec(), amount(&image)));
    while snapshot.step(&mut hand, &mut context, &mut visit) == Step::More {}
    drop(snapshot);
    given.sort();
    let names: Vec<&[u8]> = given.iter().map(|(name, _)| &name[..]).collect();
    let mut expected = keys(ks).map(|key| key.bytes);
    expected.sort_unstable();
    assert_eq!(names, expected, "each once");
    let sum: i64 = given.iter().map(|(_, amount)| amount).sum();
    assert_eq!(sum, 20, "a command was torn: {given:?}");
}

fn run(writer: fn(&Keyspace)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.max_branches = 100_000;
    model.check(move || {
        let ks = Arc::new(Keyspace::seeded(1, 1, 7));
        fill(&ks);
        let other = {
            let ks = ks.clone();
            thread::spawn(move || writer(&ks))
        };
        take(&ks);
        other.join().unwrap();
    });
}

#[test]
fn loom_a_command_of_an_io_thread_is_not_torn() {
    run(transfer);
}

#[test]
fn loom_a_long_command_is_not_torn() {
    run(long);
}

/// The announcement of the wish is needed.
#[test]
#[should_panic(expected = "a command was torn")]
fn loom_a_long_command_that_ignores_the_wish_is_detected() {
    plant::set(Some(Fault::WishesIgnored));
    run(long);
}
