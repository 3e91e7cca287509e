//! Model tests of the effect log: drawing a number, publishing, collecting and sleeping, in every
//! interleaving of two producers with a reader, or of one producer with two readers, one of which
//! joins or is ended meanwhile.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-keyspace --release --test loom_log`
#![cfg(loom)]

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Mutex, Notify};
use std::sync::Arc as StdArc;
use weft_keyspace::log::draft::Draft;
use weft_keyspace::log::unit::{Arg, Target};
use weft_keyspace::{Log, LogReader};

/// More preemptions find no further faults here, and take hours.
const PREEMPTIONS: usize = 3;

/// The limit of steps of one run: the reader checks every thread log each time it is woken.
const BRANCHES: usize = 20_000;

/// For the models with two readers, which have more steps: it detects every fault that was
/// injected into the fan-out, and is ten times as fast.
const PREEMPTIONS_OF_TWO: usize = 2;

fn model(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = BRANCHES;
    builder.check(test);
}

/// Logs `text`.
fn publish(log: &StdArc<Log>, draft: &mut Draft, text: &str) -> u64 {
    draft.push(0, Target::ALL, &mut [Arg::Bytes(text.as_bytes())].into_iter());
    log.publish(draft, 0)
}

fn begin(log: &StdArc<Log>, woken: &Arc<Notify>) -> LogReader {
    let woken = woken.clone();
    log.begin(Target::ALL, StdArc::new(move || woken.notify())).expect("there is room")
}

/// Reads `units` units and sleeps in between. A lost wake-up is a deadlock, which loom reports.
fn read(reader: &mut LogReader, woken: &Notify, units: usize) -> Vec<u64> {
    read_until(reader, woken, |_, numbers| numbers == units)
}

/// The same, until `is_all` returns true for the reader and the number of units.
fn read_until(
    reader: &mut LogReader,
    woken: &Notify,
    is_all: impl Fn(&LogReader, usize) -> bool,
) -> Vec<u64> {
    let mut numbers = Vec::new();
    loop {
        while let Some(unit) = reader.next() {
            assert_eq!(unit.entries().len(), 1);
            let entry = unit.entries().next().expect("one entry");
            assert_eq!(entry.len(), 4 + 4 + 2 + 2, "one word of two letters");
            numbers.push(unit.number());
        }
        if is_all(reader, numbers.len()) {
            return numbers;
        }
        if reader.may_sleep() {
            woken.wait();
        }
    }
}

#[test]
fn loom_every_unit_is_read_once_and_in_order() {
    model(PREEMPTIONS, || {
        let (log, woken) = (StdArc::<Log>::default(), Arc::new(Notify::new()));
        let mut reader = begin(&log, &woken);
        // The shard that both write to, with the numbers of its writes.
        let shard = Arc::new(Mutex::new(Vec::new()));
        let producers: Vec<_> = ["aa", "bb"]
            .map(|text| {
                let (log, shard) = (log.clone(), shard.clone());
                loom::thread::spawn(move || {
                    let mut draft = Draft::default();
                    let mut shard = shard.lock().unwrap();
                    shard.push(publish(&log, &mut draft, text));
                    drop(shard);
                    log.ring();
                })
            })
            .into_iter()
            .collect();
        assert_eq!(read(&mut reader, &woken, 2), [1, 2]);
        producers.into_iter().for_each(|p| p.join().unwrap());
        assert_eq!(*shard.lock().unwrap(), [1, 2], "in the order in which the shard was held");
        assert_eq!(log.pending_bytes(), 0);
    });
}

#[test]
fn loom_a_thread_log_is_emptied_while_it_fills() {
    model(PREEMPTIONS, || {
        let (log, woken) = (StdArc::<Log>::default(), Arc::new(Notify::new()));
        let mut reader = begin(&log, &woken);
        let producer = {
            let log = log.clone();
            loom::thread::spawn(move || {
                let mut draft = Draft::default();
                for text in ["aa", "bb", "cc"] {
                    publish(&log, &mut draft, text);
                    log.ring();
                }
            })
        };
        assert_eq!(read(&mut reader, &woken, 3), [1, 2, 3]);
        producer.join().unwrap();
    });
}

/// A client that writes after it saw a reply comes later in the log.
#[test]
fn loom_log_order_agrees_with_real_time() {
    model(PREEMPTIONS, || {
        let (log, woken) = (StdArc::<Log>::default(), Arc::new(Notify::new()));
        let mut reader = begin(&log, &woken);
        let reply = Arc::new(AtomicU32::new(0));
        let first = {
            let (log, reply) = (log.clone(), reply.clone());
            loom::thread::spawn(move || {
                let number = publish(&log, &mut Draft::default(), "aa");
                reply.store(number as u32, Ordering::Release);
                log.ring();
            })
        };
        let second = {
            let (log, reply) = (log.clone(), reply.clone());
            loom::thread::spawn(move || {
                let seen = reply.load(Ordering::Acquire);
                let number = publish(&log, &mut Draft::default(), "bb");
                log.ring();
                assert!(number > u64::from(seen));
            })
        };
        assert_eq!(read(&mut reader, &woken, 2), [1, 2]);
        first.join().unwrap();
        second.join().unwrap();
    });
}

/// A thread with a batch of two commands, which holds `world` while it executes each of them: a
/// thread that takes `world` has stopped the world.
fn producer(log: &StdArc<Log>, world: &Arc<Mutex<()>>) -> loom::thread::JoinHandle<()> {
    let (log, world) = (log.clone(), world.clone());
    loom::thread::spawn(move || {
        let mut draft = Draft::default();
        for text in ["aa", "bb"] {
            let _world = world.lock().unwrap();
            publish(&log, &mut draft, text);
        }
        log.ring();
    })
}

#[test]
fn loom_two_readers_get_the_same() {
    model(PREEMPTIONS_OF_TWO, || {
        let (log, world) = (StdArc::<Log>::default(), Arc::new(Mutex::new(())));
        let woken = [Arc::new(Notify::new()), Arc::new(Notify::new())];
        let [mut first, mut second] = [0, 1].map(|n| begin(&log, &woken[n]));
        let producer = producer(&log, &world);
        let other = {
            let woken = woken[1].clone();
            loom::thread::spawn(move || assert_eq!(read(&mut second, &woken, 2), [1, 2]))
        };
        assert_eq!(read(&mut first, &woken[0], 2), [1, 2]);
        other.join().unwrap();
        producer.join().unwrap();
    });
}

#[test]
fn loom_a_reader_joins_while_another_reads() {
    model(PREEMPTIONS_OF_TWO, || {
        let (log, world) = (StdArc::<Log>::default(), Arc::new(Mutex::new(())));
        let woken = [Arc::new(Notify::new()), Arc::new(Notify::new())];
        let mut first = begin(&log, &woken[0]);
        let producer = producer(&log, &world);
        let other = {
            let woken = woken[0].clone();
            loom::thread::spawn(move || assert_eq!(read(&mut first, &woken, 2), [1, 2]))
        };
        let stopped = world.lock().unwrap();
        let mut second = begin(&log, &woken[1]);
        let from = log.last();
        assert_eq!(second.position(), from);
        drop(stopped);
        let expected: Vec<u64> = (from + 1..=2).collect();
        assert_eq!(read(&mut second, &woken[1], expected.len()), expected);
        other.join().unwrap();
        producer.join().unwrap();
    });
}

#[test]
fn loom_a_reader_ends_while_another_reads() {
    model(PREEMPTIONS_OF_TWO, || {
        let (log, world) = (StdArc::<Log>::default(), Arc::new(Mutex::new(())));
        let woken = [Arc::new(Notify::new()), Arc::new(Notify::new())];
        let [mut first, mut second] = [0, 1].map(|n| begin(&log, &woken[n]));
        let id = first.id();
        let producer = producer(&log, &world);
        let other = {
            let woken = woken[0].clone();
            loom::thread::spawn(move || {
                let numbers = read_until(&mut first, &woken, |reader, _| reader.is_over());
                (numbers, first.last())
            })
        };
        let stopped = world.lock().unwrap();
        log.end(&id);
        let upto = log.last();
        drop(stopped);
        assert_eq!(read(&mut second, &woken[1], 2), [1, 2]);
        let (numbers, last) = other.join().unwrap();
        assert_eq!((numbers, last), ((1..=upto).collect(), upto));
        producer.join().unwrap();
    });
}
