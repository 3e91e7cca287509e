//! The log from the view of its producers and readers: through guards, with many threads.
//! [`super::simulation`] tests when readers join and end.

use super::unit::{Arg, Target};
use super::{LogReader, MAX_READERS, seal};
use crate::context::{Deletion, ExecContext};
use crate::db::Db;
use crate::expiry::{SweepState, sweep};
use crate::guard::ShardSet;
use crate::hold::{Outside, SlowLaneThread};
use crate::keyspace::{Keyspace, SHARDS};
use crate::lock::Waiter;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use weft_types::string::{New, record};

fn keyspace(threads: usize) -> Keyspace {
    let ks = Keyspace::new(2, threads, Box::new(|_| {}));
    ks.safepoints().use_up_to(threads);
    ks
}

fn begin(ks: &Keyspace, context: &mut ExecContext) -> LogReader {
    let mut inside = Outside::new(ks, 0).enter();
    let guard = inside.world(context).expect("the slow lane is idle");
    guard.begin_log(Target::ALL, Arc::new(|| {})).expect("there is room")
}

fn end(ks: &Keyspace, context: &mut ExecContext, reader: &LogReader) {
    let mut inside = Outside::new(ks, 0).enter();
    inside.world(context).expect("the slow lane is idle").end_log(&reader.id());
}

/// Reads all available units as text: number and commands.
fn read(reader: &mut LogReader) -> Vec<String> {
    let mut read = Vec::new();
    while let Some(unit) = reader.next() {
        let mut text = unit.number().to_string();
        for entry in unit.entries() {
            let mut bytes = Vec::new();
            entry.append_to(&mut bytes);
            let words = String::from_utf8(bytes).expect("the tests write text");
            let words: Vec<&str> = words.split("\r\n").skip(2).step_by(2).collect();
            text += &format!(" {}:{}", entry.db(), words.join(" "));
        }
        read.push(text);
    }
    read
}

/// Sets `name` as a command would, and logs it in words.
fn set(db: &mut Db<'_>, name: &[u8], at: Option<i64>) {
    let key = db.key(name);
    db.set(&key, record(name, New::Bytes(b"v"), at, 0));
    db.log_words(&mut [b"SET", name, b"v"].iter().map(|word| Arg::Bytes(word)));
}

#[test]
fn words_are_logged_when_a_key_has_changed() {
    let ks = keyspace(1);
    let mut context = ExecContext::new(1000, 1);
    let act = |context: &mut ExecContext, act: &dyn Fn(&mut Db<'_>)| {
        let mut inside = Outside::new(&ks, 0).enter();
        let guard = inside.world(context).expect("the slow lane is idle");
        let mut db = Db::new(&guard, context, 1);
        act(&mut db);
        db.log_words(&mut [Arg::Bytes(b"WORDS")].into_iter());
        crate::commit::settle(&guard, context);
        seal(&guard, context);
        assert!(context.effects.is_empty());
    };
    let put = |db: &mut Db<'_>| {
        let key = db.key(b"k");
        db.set(&key, record(b"k", New::Bytes(b"v"), None, 0));
    };
    act(&mut context, &put);
    assert_eq!((ks.log().last(), context.last_unit()), (0, 0), "there is no reader");
    let mut reader = begin(&ks, &mut context);
    act(&mut context, &put);
    assert_eq!(context.last_unit(), 1);
    act(&mut context, &|db| assert!(!db.delete(&db.key(b"none"))));
    assert_eq!(context.last_unit(), 1, "nothing has changed");
    act(&mut context, &|db| {
        put(db);
        db.log_nothing();
    });
    act(&mut context, &|db| {
        db.log(&[b"ONE"]);
        db.other(0).log(&[b"TWO", b"words"]);
    });
    act(&mut context, &|db| db.log_anyway());
    act(&mut context, &|db| {
        let key = db.key(b"late");
        db.set(&key, record(b"late", New::Bytes(b"v"), Some(1000), 0));
        db.log_nothing();
    });
    act(&mut context, &|db| assert!(!db.contains(&db.key(b"late"))));
    context.deletions.expiry = Deletion::Del;
    // The expired key is removed first, in one unit with the new value.
    for _ in 0..2 {
        act(&mut context, &|db| {
            let key = db.key(b"late");
            db.set(&key, record(b"late", New::Bytes(b"v"), Some(1000), 0));
        });
    }
    assert!(ks.log().pending_bytes() > 0);
    let expected = [
        "1 1:WORDS",
        "2 1:ONE 0:TWO words",
        "3 1:WORDS",
        "4 1:UNLINK late",
        "5 1:WORDS",
        "6 1:DEL late 1:WORDS",
    ];
    assert_eq!(read(&mut reader), expected);
    assert_eq!((reader.position(), ks.log().pending_bytes()), (6, 0));
    assert!(!reader.is_over() && reader.may_sleep());
    act(&mut context, &put);
    end(&ks, &mut context, &reader);
    act(&mut context, &put);
    assert!(!reader.is_over() && !reader.may_sleep(), "there is one more");
    assert_eq!(read(&mut reader), ["7 1:WORDS"]);
    assert!(reader.is_over() && !reader.may_sleep(), "and none any more");
    assert_eq!(context.last_unit(), 7);
}

#[test]
fn readers_in_sequence_see_continuous_numbers() {
    let ks = keyspace(1);
    let mut context = ExecContext::new(1000, 1);
    let log_one = |context: &mut ExecContext, name: &[u8]| {
        let mut inside = Outside::new(&ks, 0).enter();
        let guard = inside.world(context).expect("the slow lane is idle");
        set(&mut Db::new(&guard, context, 0), name, None);
        seal(&guard, context);
        guard.log_position()
    };
    let mut first = begin(&ks, &mut context);
    assert_eq!(log_one(&mut context, b"a"), 1);
    end(&ks, &mut context, &first);
    assert_eq!(read(&mut first), ["1 0:SET a v"]);
    drop(first);
    // A reader that is dropped before it has read everything leaves no units for the next.
    let second = begin(&ks, &mut context);
    assert_eq!(log_one(&mut context, b"b"), 2);
    end(&ks, &mut context, &second);
    drop(second);
    let mut third = begin(&ks, &mut context);
    assert_eq!(third.position(), 2);
    assert_eq!(log_one(&mut context, b"c"), 3);
    assert_eq!(read(&mut third), ["3 0:SET c v"]);
    assert_eq!(ks.log().pending_bytes(), 0);
    // A context that was used with another keyspace.
    let other = keyspace(1);
    let mut fourth = begin(&other, &mut context);
    let mut inside = Outside::new(&other, 0).enter();
    let guard = inside.world(&mut context).expect("the slow lane is idle");
    set(&mut Db::new(&guard, &mut context, 0), b"d", None);
    seal(&guard, &mut context);
    assert_eq!(read(&mut fourth), ["1 0:SET d v"]);
    assert!(read(&mut third).is_empty());
}

/// Each reader gets the groups of its time, and a group is logged if any reader wants it.
#[test]
fn several_readers_at_once() {
    let ks = keyspace(1);
    let mut context = ExecContext::new(1000, 1);
    let world = |context: &mut ExecContext, act: &mut dyn FnMut(&crate::Guard<'_>)| {
        let mut inside = Outside::new(&ks, 0).enter();
        act(&inside.world(context).expect("the slow lane is idle"));
    };
    let join = |context: &mut ExecContext, target: Target| {
        let mut reader = None;
        world(context, &mut |guard| reader = guard.begin_log(target, Arc::new(|| {})));
        reader
    };
    let log_one = |context: &mut ExecContext, name: &[u8]| {
        let mut inside = Outside::new(&ks, 0).enter();
        let guard = inside.world(context).expect("the slow lane is idle");
        assert_eq!(guard.is_logged(), ks.log().is_on());
        set(&mut Db::new(&guard, context, 0), name, None);
        seal(&guard, context);
        context.effects.clear_log();
    };
    let wanted = || [Target::AOF, Target::REPLICAS].map(|target| ks.log().wants(target));
    assert_eq!(wanted(), [false, false]);
    let mut file = join(&mut context, Target::AOF).expect("the first");
    assert_eq!(wanted(), [true, false]);
    log_one(&mut context, b"a");
    let mut replicas = join(&mut context, Target::REPLICAS).expect("the second");
    assert_ne!(file.id(), replicas.id());
    assert_eq!(wanted(), [true, true]);
    log_one(&mut context, b"b");
    end(&ks, &mut context, &file);
    end(&ks, &mut context, &file);
    assert_eq!(wanted(), [false, true]);
    log_one(&mut context, b"c");
    assert_eq!((file.last(), replicas.last()), (2, 3));
    assert_eq!(read(&mut replicas), ["2 0:SET b v", "3 0:SET c v"]);
    assert!(!file.is_over() && file.pending_bytes() > 0 && replicas.pending_bytes() == 0);
    assert_eq!(file.pending_bytes(), ks.log().pending_bytes());
    assert_eq!(read(&mut file), ["1 0:SET a v", "2 0:SET b v"]);
    assert!(file.is_over() && !file.may_sleep() && !replicas.is_over() && replicas.may_sleep());
    let name = file.id();
    drop(file);
    world(&mut context, &mut |guard| guard.end_log(&name));
    assert_eq!((wanted(), ks.log().pending_bytes_of(&name)), ([false, true], 0));
    // Ended and dropped readers free their slots.
    for _ in 0..3 {
        let others: Vec<_> = std::iter::from_fn(|| join(&mut context, Target::AOF)).collect();
        assert_eq!(others.len(), MAX_READERS - 1);
        others.iter().for_each(|other| end(&ks, &mut context, other));
    }
    // A dropped reader frees its slot, too, but its target stays active until it is ended.
    let left = join(&mut context, Target::AOF).expect("there is room");
    let name = left.id();
    drop(left);
    assert_eq!(wanted(), [true, true]);
    log_one(&mut context, b"d");
    assert_eq!(read(&mut replicas), ["4 0:SET d v"]);
    assert_eq!(ks.log().pending_bytes(), 0, "nothing is kept for a dropped reader");
    let others: Vec<_> = std::iter::from_fn(|| join(&mut context, Target::REPLICAS)).collect();
    assert_eq!((others.len(), wanted()), (MAX_READERS - 1, [false, true]));
    world(&mut context, &mut |guard| guard.end_log(&name));
    drop(others);
    end(&ks, &mut context, &replicas);
    assert!(ks.log().is_on(), "some readers were not ended");
    drop(replicas);
    log_one(&mut context, b"e");
    assert!(ks.log().pending_bytes() > 0, "no reader collects it");
    let last = join(&mut context, Target::REPLICAS).expect("there is room");
    assert_eq!(ks.log().pending_bytes(), 0);
    end(&ks, &mut context, &last);
}

/// A slow-lane command that is running at a cut comes after it, as a whole; one that is running
/// when the log ends is not logged at all.
#[test]
fn a_running_slow_lane_command_comes_after_the_cut() {
    let ks = keyspace(1);
    let (mut context, mut slow) = (ExecContext::new(1000, 1), ExecContext::new(1000, 2));
    let mut hand = SlowLaneThread::new(&ks, Waiter { thread: 1, token: 0 }, &|| {}, &|| 1000);
    let rest = |context: &mut ExecContext, act: &mut dyn FnMut(&crate::Guard<'_>)| {
        let mut inside = Outside::new(&ks, 0).enter();
        act(&inside.rest(context));
    };
    let everything = ShardSet::of(0..SHARDS as u16);
    let mut reader = begin(&ks, &mut context);
    let id = reader.id();
    for (name, goes_on) in [(&b"a"[..], true), (b"b", false)] {
        let mut guard = hand.hold(&mut slow, &everything);
        let mut db = Db::new(&guard, &mut slow, 0);
        assert!(db.is_logged());
        set(&mut db, name, None);
        rest(&mut context, &mut |guard| {
            assert_eq!(guard.log_position(), if goes_on { 0 } else { 1 });
            if !goes_on {
                guard.end_log(&id);
            }
        });
        set(&mut Db::new(&guard, &mut slow, 0), b"c", None);
        guard.begin_commit();
        crate::commit::settle(&guard, &mut slow);
        seal(&guard, &mut slow);
        guard.publish();
    }
    assert_eq!(read(&mut reader), ["1 0:SET a v 0:SET c v"]);
    assert!(reader.is_over());
}

#[test]
fn each_step_of_expiry_is_a_unit() {
    let ks = keyspace(1);
    let mut context = ExecContext::new(1000, 1);
    {
        let mut inside = Outside::new(&ks, 0).enter();
        let guard = inside.world(&mut context).expect("the slow lane is idle");
        for n in 0..100 {
            set(&mut Db::new(&guard, &mut context, 1), n.to_string().as_bytes(), Some(1000));
        }
        context.effects.clear_log();
    }
    let mut reader = begin(&ks, &mut context);
    let shards: Vec<u16> = (0..SHARDS as u16).collect();
    let mut inside = Outside::new(&ks, 0).enter();
    let mut state = SweepState::default();
    while ks.counts(1).0 > 0 {
        sweep(&mut inside, &mut context, &mut state, &shards, 10, &mut || true);
    }
    let units = read(&mut reader);
    let mut gone: Vec<&str> = units
        .iter()
        .flat_map(|unit| unit.split(' ').skip(1))
        .filter(|word| *word != "1:UNLINK")
        .collect();
    gone.sort_unstable_by_key(|name| name.parse::<u32>().expect("a number"));
    let all: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    assert_eq!(gone, all);
    assert!(units.len() > 1, "in steps");
}

const THREADS: usize = 4;
const ROUNDS: usize = 20_000;
const KEYS: usize = 40;

/// One thread's writes: to one key or two, each time with the thread's next number.
fn write_much(ks: &Keyspace, n: usize, stopped: &AtomicUsize) {
    let mut context = ExecContext::new(1000, n as u64 + 1);
    let mut outside = Outside::new(ks, n);
    let mut last = 0;
    for round in 0..ROUNDS {
        let mut inside = outside.enter();
        let draw = context.random();
        let names = [draw as usize % KEYS, (draw >> 32) as usize % KEYS].map(|k| format!("k{k}"));
        let names = &names[..1 + round % 2];
        let shards = ShardSet::of(names.iter().map(|name| ks.shard(name.as_bytes())));
        let value = format!("{n}.{round}");
        let guard = loop {
            if let Ok(guard) = inside.guard(&mut context, shards.clone()) {
                break guard;
            }
            std::thread::yield_now();
        };
        let mut db = Db::new(&guard, &mut context, 0);
        for name in names {
            let key = db.key(name.as_bytes());
            db.set(&key, record(name.as_bytes(), New::Bytes(value.as_bytes()), None, 0));
            db.log_words(&mut [name, &value].map(|word| Arg::Bytes(word.as_bytes())).into_iter());
        }
        crate::commit::settle(&guard, &mut context);
        seal(&guard, &mut context);
        drop(guard);
        assert!(context.last_unit() > last, "numbers of a thread grow");
        last = context.last_unit();
        context.ring(ks.log());
        context.free_removed();
        outside = inside.leave();
    }
    stopped.fetch_add(1, Ordering::SeqCst);
}

/// Replays the units of one reader until it is over: keys and values.
fn replay(mut reader: LogReader, from: u64) -> (HashMap<Vec<u8>, Vec<u8>>, u64) {
    let mut replayed = HashMap::new();
    let mut position = from;
    while !reader.is_over() {
        while let Some(unit) = reader.next() {
            position += 1;
            assert_eq!(unit.number(), position);
            for entry in unit.entries() {
                assert!(entry.target().has(Target::AOF));
                let mut bytes = Vec::new();
                entry.append_to(&mut bytes);
                let words: Vec<&[u8]> = bytes.split(|b| *b == b'\n').collect();
                replayed.insert(words[2].to_vec(), words[4].to_vec());
            }
        }
        if reader.may_sleep() {
            std::thread::park();
        }
    }
    (replayed, position)
}

/// Four threads write to few keys, a fifth reads. Replaying the log gives the final data, so it
/// has the order in which each key was written, and no duplicates. Meanwhile other readers join,
/// read for a while, and are ended: each gets the units of its time.
#[test]
fn a_replay_reproduces_the_data() {
    let ks = keyspace(THREADS + 1);
    let mut context = ExecContext::new(1000, 1);
    let world = |context: &mut ExecContext, act: &mut dyn FnMut(&crate::Guard<'_>)| {
        let mut inside = Outside::new(&ks, THREADS).enter();
        act(&inside.world(context).expect("the slow lane is idle"));
    };
    let join = |context: &mut ExecContext| {
        let sleeper: Arc<OnceLock<Thread>> = Arc::default();
        let woken = sleeper.clone();
        let wake = Arc::new(move || woken.get().into_iter().for_each(Thread::unpark));
        let mut reader = None;
        world(context, &mut |guard| reader = guard.begin_log(Target::ALL, wake.clone()));
        (reader.expect("there is room"), sleeper)
    };
    let (reader, sleeper) = join(&mut context);
    let id = reader.id();
    let stopped = AtomicUsize::new(0);
    let replayed = std::thread::scope(|scope| {
        for n in 0..THREADS {
            let (ks, stopped) = (&ks, &stopped);
            scope.spawn(move || write_much(ks, n, stopped));
        }
        let reading = |reader: LogReader, sleeper: Arc<OnceLock<Thread>>| {
            scope.spawn(move || {
                sleeper.set(std::thread::current()).expect("once");
                let from = reader.position();
                replay(reader, from)
            })
        };
        let first = reading(reader, sleeper);
        // At least one of them, and as many as time allows.
        loop {
            let (other, sleeper) = join(&mut context);
            let (id, from) = (other.id(), other.position());
            let other = reading(other, sleeper);
            while stopped.load(Ordering::SeqCst) < THREADS && ks.log().last() < from + 5000 {
                std::thread::yield_now();
            }
            let mut upto = 0;
            world(&mut context, &mut |guard| {
                guard.end_log(&id);
                upto = guard.log_position();
            });
            let (_, position) = other.join().expect("it does not panic");
            assert_eq!(position, upto, "from {from}");
            if stopped.load(Ordering::SeqCst) == THREADS {
                break;
            }
        }
        world(&mut context, &mut |guard| guard.end_log(&id));
        let (replayed, position) = first.join().expect("it does not panic");
        assert_eq!(position, (THREADS * ROUNDS) as u64);
        replayed
    });
    let mut inside = Outside::new(&ks, THREADS).enter();
    let guard = inside.world(&mut context).expect("the slow lane is idle");
    let mut db = Db::new(&guard, &mut context, 0);
    assert_eq!(replayed.len(), db.len());
    for (name, value) in &replayed {
        let name = name.strip_suffix(b"\r").expect("a line");
        let key = db.key(name);
        let found = db.peek(&key).expect("a logged key exists");
        let mut digits = weft_types::string::Digits::new();
        let text = weft_types::string::Str::of(&found).expect("a string");
        assert_eq!(text.bytes(&mut digits), value.strip_suffix(b"\r").expect("a line"));
    }
    assert_eq!(ks.log().pending_bytes(), 0);
}
