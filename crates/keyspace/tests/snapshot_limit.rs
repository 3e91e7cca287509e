//! A large value that changes everywhere while a snapshot writes it. A separate program, since
//! bytes copied by writers are counted per process.
#![cfg(not(loom))]

use weft_keyspace::commit::{end_group, seal, settle};
use weft_keyspace::db::Rework;
use weft_keyspace::snapshot::{Image, Snapshot, Step};
use weft_keyspace::{Db, ExecContext, Key, Keyspace, Outside, SlowLaneThread};
use weft_types::string::{New, record};
use weft_types::{Limits, hash};

const NOW: i64 = 1000;

fn with_db(ks: &Keyspace, name: &[u8], act: impl FnOnce(&mut Db<'_>, &Key<'_>)) {
    let mut context = ExecContext::new(NOW, 1);
    let mut inside = Outside::new(ks, 0).enter();
    let key = ks.key(name);
    let guard = inside.guard_one(&mut context, key.shard()).expect("the shard is free");
    act(&mut Db::new(&guard, &mut context, 0), &key);
    settle(&guard, &mut context);
    seal(&guard, &mut context);
    end_group(&guard, &mut context);
    drop(guard);
    context.free_removed();
}

fn set(ks: &Keyspace, name: &str) {
    with_db(ks, name.as_bytes(), |db, key| {
        db.set(key, record(key.bytes, New::Bytes(b"value"), None, 0));
    });
}

fn hash_set(ks: &Keyspace, name: &str, fields: std::ops::Range<usize>, value: &[u8]) {
    let limits = Limits::default();
    with_db(ks, name.as_bytes(), |db, key| {
        db.rework(key, |record, clock| {
            let mut hash = record.unwrap_or_else(|| hash::create(key.bytes, &[], clock, &limits));
            for n in fields {
                hash = hash::set(hash, n.to_string().as_bytes(), value, None, NOW, &limits).0;
            }
            (Rework::Changed(hash), ())
        });
    });
}

/// Its writers wait and those of other keys don't. It is written first, and then the copied bytes
/// are free.
#[test]
fn writers_of_a_value_that_is_being_written_wait() {
    const FIELDS: usize = 20_000;
    let ks = Keyspace::new(2, 1, Box::new(|_| {}));
    (0..2000).for_each(|n| set(&ks, &format!("key:{n}")));
    hash_set(&ks, "hash", 0..FIELDS, &[b'o'; 50]);
    let mut context = ExecContext::new(NOW, 1);
    let clock = || NOW;
    let mut hand = SlowLaneThread::background(&ks, &clock);
    let limit = 1 << 20;
    let (snapshot, ()) =
        Snapshot::begin(&mut hand, &mut context, limit, |_| ()).expect("the first");
    let waits = |name: &str| ks.must_wait_for_snapshot(0, &ks.key(name.as_bytes()));
    let held = || snapshot.progress().kept_bytes;
    let mut n = 0;
    while !waits("hash") {
        hash_set(&ks, "hash", n % FIELDS..n % FIELDS + 1, b"new");
        n += 97;
        assert!(n < 97 * FIELDS, "it never waits: {:?}", snapshot.progress());
    }
    assert!(held() <= limit, "{:?}", snapshot.progress());
    assert!(!waits("key:1") && !waits("no such key"), "others have room");
    let mut is_there = false;
    let mut visit = |image: Image| {
        if image.key() == b"hash" {
            is_there = true;
            assert!(waits("hash"), "until it is written");
        }
    };
    while !ks.is_snapshot_relieved() {
        assert_eq!(snapshot.step(&mut hand, &mut context, &mut visit), Step::More);
    }
    assert!(is_there && !waits("hash"), "it comes first");
    assert!(snapshot.progress().given < 100 && held() < limit / 8, "{:?}", snapshot.progress());
    // Pieces that are not shared with the snapshot don't count.
    hash_set(&ks, "hash", 0..FIELDS, b"newer");
    assert!(held() < limit / 8 && !waits("hash"), "{:?}", snapshot.progress());
}
