//! Cases that the simulation does not cover: one snapshot at a time, the limit, the wait for a long
//! command, and the interest bits of shards.

use super::super::{BeginError, Image, Snapshot, Step};
use super::value::describe;
use crate::context::ExecContext;
use crate::db::Db;
use crate::guard::ShardSet;
use crate::hold::{Outside, SlowLaneThread};
use crate::interest::SNAPSHOT;
use crate::keyspace::{Keyspace, SHARDS};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_types::string::{New, record};

const NOW: i64 = 1000;

fn clock() -> i64 {
    NOW
}

fn keyspace(keys: usize) -> Keyspace {
    let ks = Keyspace::new(2, 1, Box::new(|_| {}));
    (0..keys).for_each(|n| set(&ks, &format!("key:{n}"), "old"));
    ks
}

fn set(ks: &Keyspace, name: &str, value: &str) {
    let mut context = ExecContext::new(NOW, 1);
    let mut inside = Outside::new(ks, 0).enter();
    let key = ks.key(name.as_bytes());
    let guard = inside.guard_one(&mut context, key.shard()).expect("the shard is free");
    let record = record(key.bytes, New::Bytes(value.as_bytes()), None, 0);
    Db::new(&guard, &mut context, 0).set(&key, record);
    super::commit(&guard, &mut context);
    drop(guard);
    context.free_removed();
}

fn shards_with_part(ks: &Keyspace) -> usize {
    (0..SHARDS as u16).filter(|shard| ks.interest(*shard) & SNAPSHOT != 0).count()
}

/// Walks to the end and returns name and value of every image.
fn walk(
    snapshot: &Snapshot<'_>,
    hand: &mut SlowLaneThread<'_>,
    context: &mut ExecContext,
) -> Vec<(String, String)> {
    let mut given = Vec::new();
    let mut visit = |image: Image| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        given.push((text(image.key()), text(&describe(&image))));
    };
    while snapshot.step(hand, context, &mut visit) == Step::More {}
    given.sort();
    given
}

#[test]
fn one_snapshot_at_a_time_and_no_state_is_left() {
    let ks = keyspace(2000);
    let mut context = ExecContext::new(NOW, 1);
    let mut hand = SlowLaneThread::background(&ks, &clock);
    let (snapshot, result) = Snapshot::begin(&mut hand, &mut context, 0, |_| 5).expect("the first");
    assert_eq!((result, snapshot.time_ms()), (5, NOW));
    assert_eq!(shards_with_part(&ks), (0..256).filter(|s| ks.shard_len(*s, 0) > 0).count());
    assert_eq!(snapshot.counts()[0].keys, 2000);
    let second = Snapshot::begin(&mut hand, &mut context, 0, |_| ()).map(|_| ());
    assert_eq!(second, Err(BeginError::Taken));
    set(&ks, "key:1", "new");
    set(&ks, "another", "new");
    let given = walk(&snapshot, &mut hand, &mut context);
    assert_eq!(given.len(), 2000);
    assert!(given.iter().all(|(_, value)| value == "string|old"));
    assert_eq!(shards_with_part(&ks), 0, "each shard is released when it is done");
    assert_eq!(ks.snapshot_progress().expect("it is there").given, 2000);
    drop(snapshot);
    assert!(ks.snapshot_progress().is_none());

    // A cancelled snapshot.
    let (snapshot, ()) = Snapshot::begin(&mut hand, &mut context, 0, |_| ()).expect("it is over");
    set(&ks, "key:1", "newer");
    drop(snapshot);
    assert_eq!(shards_with_part(&ks), 0);

    let mut inside = Outside::new(&ks, 0).enter();
    let guard = inside.world(&mut context).expect("the slow lane is idle");
    let snapshot =
        Snapshot::begin_in(&ks, &guard, &mut context, 0).expect("the last was cancelled");
    drop(guard);
    drop(inside);
    let given = walk(&snapshot, &mut hand, &mut context);
    assert_eq!(given.iter().filter(|(_, value)| value == "string|old").count(), 1999);
}

#[test]
fn a_snapshot_of_an_empty_keyspace_is_done_at_once() {
    let ks = keyspace(0);
    let mut context = ExecContext::new(NOW, 1);
    let mut hand = SlowLaneThread::background(&ks, &clock);
    let (snapshot, ()) = Snapshot::begin(&mut hand, &mut context, 0, |_| ()).expect("the first");
    set(&ks, "later", "new");
    assert!(walk(&snapshot, &mut hand, &mut context).is_empty());
}

/// At the limit, only writers of keys that are not given yet wait; a walker makes room.
#[test]
fn writers_of_unsaved_keys_wait_at_the_limit() {
    let ks = keyspace(500);
    let mut context = ExecContext::new(NOW, 1);
    let mut hand = SlowLaneThread::background(&ks, &clock);
    let limit = 20_000;
    let (snapshot, ()) =
        Snapshot::begin(&mut hand, &mut context, limit, |_| ()).expect("the first");
    let waits = |name: &str| ks.must_wait_for_snapshot(0, &ks.key(name.as_bytes()));
    let mut n = 0;
    while !waits(&format!("key:{n}")) {
        set(&ks, &format!("key:{n}"), "new");
        n += 1;
    }
    assert!(n < 500 && snapshot.progress().kept_bytes <= limit, "{n} {:?}", snapshot.progress());
    assert!(ks.is_snapshot_full() && !ks.is_snapshot_relieved());
    assert!(!waits("key:0"), "it is kept already");
    assert!(waits("no such key"), "its name would be kept");
    // A writer that can't wait continues, and its old value is kept.
    let before = snapshot.progress().kept_bytes;
    set(&ks, "key:499", "new");
    assert!(snapshot.progress().kept_bytes > before);
    let mut given = Vec::new();
    let mut visit = |image: Image| given.push(describe(&image));
    while !ks.is_snapshot_relieved() {
        assert_eq!(snapshot.step(&mut hand, &mut context, &mut visit), Step::More);
    }
    assert!(!ks.is_snapshot_relieved(), "it says so once");
    assert!(!waits("key:498") && snapshot.progress().kept_bytes <= limit * 5 / 8);
    while snapshot.step(&mut hand, &mut context, &mut visit) == Step::More {}
    assert!(given.len() == 500 && given.iter().all(|value| value == b"string|old"));
    drop(snapshot);
    assert_eq!(shards_with_part(&ks), 0);
    assert!(!ks.is_snapshot_full());
}

/// A writer that has waited long enough continues, and the limit is raised.
#[test]
fn a_raised_limit_has_room() {
    let ks = keyspace(500);
    let mut context = ExecContext::new(NOW, 1);
    let mut hand = SlowLaneThread::background(&ks, &clock);
    let (snapshot, ()) =
        Snapshot::begin(&mut hand, &mut context, 20_000, |_| ()).expect("the first");
    for n in 0..400 {
        set(&ks, &format!("key:{n}"), "new");
    }
    let waits = || ks.must_wait_for_snapshot(0, &ks.key(b"key:499"));
    assert!(waits() && snapshot.progress().kept_bytes > 20_000);
    ks.raise_snapshot_limit();
    assert!(!waits() && snapshot.progress().limit_bytes > snapshot.progress().kept_bytes);
    drop(snapshot);
    let (snapshot, ()) =
        Snapshot::begin(&mut hand, &mut context, 20_000, |_| ()).expect("the next");
    assert_eq!(snapshot.progress().limit_bytes, 20_000, "for one snapshot");
}

/// Under pressure, the walkers relieve the shard that keeps most.
#[test]
fn the_shard_that_keeps_most_is_walked_first() {
    let ks = keyspace(3000);
    let mut context = ExecContext::new(NOW, 1);
    let mut hand = SlowLaneThread::background(&ks, &clock);
    let limit = 4 << 20;
    let (snapshot, ()) =
        Snapshot::begin(&mut hand, &mut context, limit, |_| ()).expect("the first");
    // Keys that are created and removed have no image, but their names are kept.
    let mut n = 0;
    while snapshot.progress().kept_bytes < limit / 2 {
        set(&ks, &format!("{{key:7}}{n}"), &"v".repeat(100));
        n += 1;
    }
    let mut steps = 0;
    while snapshot.progress().kept_bytes > 1 << 20 {
        let _ = snapshot.step(&mut hand, &mut context, &mut |_| ());
        steps += 1;
    }
    // Only keys of that shard.
    let given = snapshot.progress().given;
    assert!(steps > 1 && given <= ks.shard_len(ks.shard(b"key:7"), 0) - n, "{steps} {given}");
    drop(snapshot);
}

/// A snapshot waits for a long command that had written before the wish; it does not wait for one
/// that begins to write later.
#[test]
fn a_snapshot_waits_only_for_long_commands_that_have_begun_to_write() {
    let ks = keyspace(100);
    let (early, late) = (ks.key(b"key:1"), ks.key(b"key:2"));
    assert_ne!(early.shard(), late.shard());
    let began = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut context = ExecContext::new(NOW, 1);
        let mut hand = SlowLaneThread::background(&ks, &clock);
        let long = hand.hold(&mut context, &ShardSet::one(early.shard()));
        let new = |key: &crate::Key<'_>| record(key.bytes, New::Bytes(b"new"), None, 0);
        Db::new(&long, &mut context, 0).set(&early, new(&early));

        let snapshot = scope.spawn(|| {
            let mut context = ExecContext::new(NOW, 2);
            let mut hand = SlowLaneThread::background(&ks, &clock);
            let begun = Snapshot::begin(&mut hand, &mut context, 0, |_| ());
            began.store(true, Ordering::SeqCst);
            let (snapshot, ()) = begun.expect("there is no other");
            walk(&snapshot, &mut hand, &mut context)
        });
        while ks.snapshots.wish().is_none() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(50));
        assert!(!began.load(Ordering::SeqCst), "the cut is in the middle of a command");

        // Other threads continue, and another long command begins to write.
        set(&ks, "key:3", "new");
        let mut other_context = ExecContext::new(NOW, 3);
        let mut other_hand = SlowLaneThread::background(&ks, &clock);
        let other = other_hand.hold(&mut other_context, &ShardSet::one(late.shard()));
        Db::new(&other, &mut other_context, 0).set(&late, new(&late));

        super::commit(&long, &mut context);
        drop(long);
        while !began.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        // The cut was made during that command: the command comes after the cut, as a whole.
        super::commit(&other, &mut other_context);
        drop(other);
        let given = snapshot.join().expect("the walk");
        let value =
            |name: &str| given.iter().find(|(key, _)| key == name).map(|(_, value)| &value[..]);
        assert_eq!(value("key:1"), Some("string|new"));
        assert_eq!(value("key:2"), Some("string|old"));
        assert_eq!(value("key:3"), Some("string|new"));
        context.free_removed();
        other_context.free_removed();
    });
}

#[test]
fn waiting_for_a_long_command_can_be_cancelled() {
    let ks = keyspace(10);
    let key = ks.key(b"key:1");
    let mut context = ExecContext::new(NOW, 1);
    let mut hand = SlowLaneThread::background(&ks, &clock);
    let long = hand.hold(&mut context, &ShardSet::one(key.shard()));
    Db::new(&long, &mut context, 0).delete(&key);
    let mut other = SlowLaneThread::background(&ks, &clock);
    let mut cancelled = ExecContext::new(NOW, 2);
    cancelled.cancel = Some(Arc::new(AtomicBool::new(true)));
    let begun = Snapshot::begin(&mut other, &mut cancelled, 0, |_| ()).map(|_| ());
    assert_eq!(begun, Err(BeginError::Cancelled));
    assert!(ks.snapshots.wish().is_none() && ks.snapshot_progress().is_none());
    super::commit(&long, &mut context);
    drop(long);
    let (snapshot, ()) =
        Snapshot::begin(&mut other, &mut cancelled, 0, |_| ()).expect("it is over");
    assert_eq!(walk(&snapshot, &mut other, &mut cancelled).len(), 9);
    context.free_removed();
}
