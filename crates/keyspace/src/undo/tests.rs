//! Keys after an undo, against a model.

use super::*;
use crate::guard::ShardSet;
use crate::hold::Outside;
use crate::keyspace::Keyspace;
use crate::notice::Classes;
use std::collections::HashMap;
use weft_types::Limits;
use weft_types::list::{self, End};
use weft_types::string::{Digits, New, Str, record};

/// Values and expiries by database and name.
type Model = HashMap<(usize, Vec<u8>), (Vec<u8>, Option<i64>)>;

type Change = fn(Record, &Limits) -> Record;

fn set(db: &mut Db<'_>, name: &[u8], value: &[u8], at: Option<i64>) {
    let key = db.key(name);
    db.set(&key, record(name, New::Bytes(value), at, 0));
}

fn get(db: &mut Db<'_>, name: &[u8]) -> Option<(Vec<u8>, Option<i64>)> {
    let key = db.key(name);
    let found = db.peek(&key)?;
    Some((Str::of(&found)?.bytes(&mut Digits::new()).to_vec(), found.expiry()))
}

/// Changes keys in random ways, and undoes it, or not. A model of the keys has the expected values.
#[test]
fn keys_are_as_before_or_as_changed() {
    let ks = Keyspace::new(2, 1, Box::new(|_| {}));
    let mut context = ExecContext::new(1000, 1);
    context.effects.want(Classes::wanted(|_| true));
    let mut inside = Outside::new(&ks, 0).enter();
    let names: Vec<Vec<u8>> = (0..8).map(|n| format!("k{n}").into_bytes()).collect();
    let mut model = Model::new();
    let mut rng = crate::context::Rng::new(7);
    for round in 0..2000_u32 {
        let all = ShardSet::of(names.iter().map(|name| ks.shard(name)));
        let guard = inside.guard(&mut context, all).expect("no other thread");
        let tally = context.tally;
        guard.begin_undo(&mut context);
        let mut changed = model.clone();
        for _ in 0..rng.next() % 6 {
            let (db, name) = ((rng.next() % 2) as usize, &names[(rng.next() % 8) as usize]);
            let mut through = Db::new(&guard, &mut context, db);
            match rng.next() % 3 {
                0 => {
                    let value = format!("{round}").into_bytes();
                    let at = rng.next().is_multiple_of(2).then_some(5000);
                    set(&mut through, name, &value, at);
                    changed.insert((db, name.clone()), (value, at));
                }
                1 => {
                    let key = through.key(name);
                    through.delete(&key);
                    changed.remove(&(db, name.clone()));
                }
                _ => {
                    let key = through.key(name);
                    through.set_expiry(&key, Some(9000));
                    if let Some((_, at)) = changed.get_mut(&(db, name.clone())) {
                        *at = Some(9000);
                    }
                }
            }
        }
        if rng.next().is_multiple_of(2) {
            guard.undo(&mut context);
            assert!(context.effects.is_empty());
            assert_eq!(context.tally, tally);
        } else {
            guard.end_undo(&mut context);
            crate::commit::settle(&guard, &mut context);
            crate::commit::end_group(&guard, &mut context);
            model = changed;
        }
        for db in 0..2 {
            for name in &names {
                let found = get(&mut Db::new(&guard, &mut context, db), name);
                assert_eq!(found.as_ref(), model.get(&(db, name.clone())), "round {round}");
            }
        }
        assert!(names.iter().all(|name| ks.interest(ks.shard(name)) & UNDO == 0));
        drop(guard);
        context.free_removed();
    }
    let counts = (ks.counts(0).0, ks.counts(1).0);
    assert_eq!(counts.0 + counts.1, model.len());
}

/// The copy of a large value goes to the freeing thread only if it is the last to hold most of its pieces.
#[test]
fn copies_that_share_their_pieces_are_freed_here() {
    let ks = Keyspace::new(1, 1, Box::new(|_| {}));
    let mut context = ExecContext::new(1000, 1);
    let mut inside = Outside::new(&ks, 0).enter();
    let limits = Limits::default();
    let element = vec![b'e'; 4000];
    let large = |name: &[u8]| {
        let first = list::create(name, 0, End::Right, &[&element], &limits);
        (0..600).fold(first, |list, _| list::push(list, End::Right, &[&element], &limits))
    };
    let guard = inside.guard_one(&mut context, ks.shard(b"k")).expect("no other thread");
    let key = ks.key(b"k");
    Db::new(&guard, &mut context, 0).set(&key, large(b"k"));
    crate::commit::commit(&guard, &mut context);
    let push: Change = |list, limits| list::push(list, End::Left, &[b"v"], limits);
    let replace: Change = |_, limits| list::create(b"k", 0, End::Left, &[b"v"], limits);
    for (is_shared, change) in [(true, push), (false, replace)] {
        guard.begin_undo(&mut context);
        let mut db = Db::new(&guard, &mut context, 0);
        assert!(db.update(&key, |list| change(list, &limits)));
        guard.end_undo(&mut context);
        context.free_removed();
        assert_eq!(context.take_removed().is_none(), is_shared);
        crate::commit::commit(&guard, &mut context);
    }
}

/// A shard that is added later is undone, too; and an expired key is there again.
#[test]
fn shards_added_later_are_undone() {
    let ks = Keyspace::new(1, 1, Box::new(|_| {}));
    let mut context = ExecContext::new(1000, 1);
    let mut inside = Outside::new(&ks, 0).enter();
    let (a, b) = (ks.shard(b"a"), ks.shard(b"b"));
    assert_ne!(a, b);
    let mut guard = inside.guard_one(&mut context, a).expect("no other thread");
    set(&mut Db::new(&guard, &mut context, 0), b"a", b"old", Some(1500));
    context.set_time(2000);
    guard.begin_undo(&mut context);
    assert_eq!(get(&mut Db::new(&guard, &mut context, 0), b"a"), None);
    assert_eq!(context.tally.expired, 1);
    guard.try_extend(&mut context, &ShardSet::one(b)).expect("no other thread");
    set(&mut Db::new(&guard, &mut context, 0), b"b", b"new", None);
    guard.undo(&mut context);
    context.set_time(1200);
    let mut db = Db::new(&guard, &mut context, 0);
    assert_eq!(get(&mut db, b"a"), Some((b"old".to_vec(), Some(1500))));
    assert_eq!(get(&mut db, b"b"), None);
    assert_eq!(context.tally.expired, 0);
    drop(guard);
    context.free_removed();
}

/// A script's time stays, although a shard that it takes has run a later command. It learns which keys that command may
/// have found expired.
#[test]
fn time_stays_while_shards_are_taken() {
    let ks = Keyspace::new(1, 1, Box::new(|_| {}));
    let (mut script, mut other) = (ExecContext::new(1000, 1), ExecContext::new(1000, 2));
    let mut inside = Outside::new(&ks, 0).enter();
    let (own, mortal, immortal) = (ks.key(b"{a}"), ks.key(b"{b}1"), ks.key(b"{b}2"));
    let late = ShardSet::one(mortal.shard());
    let guard = inside.guard(&mut other, late.clone()).expect("no other thread");
    set(&mut Db::new(&guard, &mut other, 0), mortal.bytes, b"v", Some(1500));
    set(&mut Db::new(&guard, &mut other, 0), immortal.bytes, b"v", None);
    crate::commit::commit(&guard, &mut other);
    drop(guard);
    other.set_time(2000);
    drop(inside.guard(&mut other, late.clone()).expect("no other thread"));

    let mut guard = inside.guard(&mut script, ShardSet::one(own.shard())).expect("no other thread");
    guard.begin_undo(&mut script);
    guard.fix_time(&mut script);
    guard.try_extend(&mut script, &late).expect("no other thread");
    assert_eq!((script.now_ms, guard.has_late(&script)), (1000, true));
    assert_eq!(guard.first_late(&script, &ShardSet::one(own.shard())), None);
    assert_eq!(guard.first_late(&script, &late), Some(mortal.shard()));
    assert!(guard.may_have_expired(&mut script, 0, &mortal));
    assert!(!guard.may_have_expired(&mut script, 0, &immortal));
    guard.end_undo(&mut script);
    assert_eq!(script.now_ms, 2000);
}
