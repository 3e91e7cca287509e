//! Values that are shared while their owner changes them, checked against models. A reader on
//! another thread sees the value at the time of sharing, whatever the owner changes later, and in
//! whatever order the holders leave.

mod lists;
mod maps;
mod streams;
mod zsets;

use super::Shared;
use crate::{Limits, Record, value};
use std::sync::mpsc;
use std::time::Duration;

/// Random numbers; the same seed gives the same numbers.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// True once in `n` times on average.
    fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// A value with a model of it.
trait Subject: Send {
    /// The expected content of a snapshot.
    type Model: Clone + PartialEq + std::fmt::Debug + Send;

    fn record(&self) -> &Record;
    fn model(&self) -> &Self::Model;

    /// One random change, of both.
    fn step(&mut self, draws: &mut Draws);

    /// The content of a record, read as a save reads it.
    fn read(record: &Record) -> Self::Model;
}

/// A snapshot with its expected content.
type Snapshot<S> = (Shared, <S as Subject>::Model);

/// Changes `subject` in `rounds` rounds of up to `steps` steps each and shares it in between. Other
/// threads compare their snapshots now and then and drop them in any order.
fn run_changes<S: Subject>(mut subject: S, draws: &mut Draws, rounds: usize, steps: usize) {
    let seeds = [draws.next(), draws.next()];
    std::thread::scope(|scope| {
        let holders = seeds.map(|seed| {
            let (send, receive) = mpsc::channel();
            scope.spawn(move || hold_snapshots::<S>(&receive, Draws(seed)));
            send
        });
        let mut mine: Vec<Snapshot<S>> = Vec::new();
        for round in 0..rounds {
            for _ in 0..=draws.below(steps) {
                subject.step(draws);
            }
            let shared = || (Shared::of(subject.record()), subject.model().clone());
            match draws.below(5) {
                // Drop all snapshots, so that the pieces are the owner's alone again.
                0 => mine.clear(),
                1 => mine.push(shared()),
                n => drop(holders[n % 2].send(shared())),
            }
            if mine.len() > 3 {
                mine.swap_remove(draws.below(4));
            }
            if round % 8 == 0 {
                assert!(&S::read(subject.record()) == subject.model(), "the owner's value");
                mine.iter().for_each(check_snapshot::<S>);
            }
        }
        mine.iter().for_each(check_snapshot::<S>);
        assert!(&S::read(subject.record()) == subject.model(), "the owner's value");
        // Half of the time the value is dropped first, else the snapshots are.
        if draws.once_in(2) {
            drop(subject);
        }
        drop(holders);
    });
}

fn check_snapshot<S: Subject>((shared, model): &Snapshot<S>) {
    // Not `assert_eq`, which would print both.
    assert!(&S::read(shared) == model, "the snapshot");
    assert!(value::memory_about(shared) > 0 && value::pieces(shared, 10) < usize::MAX);
}

/// A thread that holds a few values at a time.
fn hold_snapshots<S: Subject>(receive: &mpsc::Receiver<Snapshot<S>>, mut draws: Draws) {
    let mut held: Vec<Snapshot<S>> = Vec::new();
    loop {
        match receive.recv_timeout(Duration::from_millis(1)) {
            Ok(one) => held.push(one),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
        if !held.is_empty() && draws.once_in(3) {
            check_snapshot::<S>(&held[draws.below(held.len())]);
        }
        while held.len() > 4 {
            let gone = held.swap_remove(draws.below(5));
            check_snapshot::<S>(&gone);
        }
    }
    held.iter().for_each(check_snapshot::<S>);
}

/// Fewer rounds under Miri, which interprets each instruction.
fn rounds(n: usize) -> usize {
    if cfg!(miri) { n.min(6) } else { n }
}

/// Sharing copies no members, and later copies are counted.
#[test]
#[cfg_attr(miri, ignore = "many members")]
fn sharing_takes_little_memory() {
    let limits = Limits::default();
    let mut record = crate::set::create(b"k", b"member", usize::MAX, None, 0, &limits);
    for n in 0..20_000 {
        let name = format!("member:{n}");
        record = crate::set::add(record, crate::packed::Value::Bytes(name.as_bytes()), &limits).0;
    }
    let all = value::memory(&record, 0);
    let shared = Shared::of(&record);
    assert!(shared.extra_memory() < all / 10 && Shared::work(&record) < 1000);
    let before = Shared::copied_bytes();
    record = crate::set::remove(record, crate::packed::Value::Bytes(b"member:77")).0;
    let copied = Shared::copied_bytes() - before;
    // Other tests copy at the same time.
    assert!(copied >= 1024, "a block and its page: {copied}");
    assert_eq!(value::elements(&shared), value::elements(&record) + 1);
}

/// Small values are copied.
#[test]
fn small_values_of_every_type_are_copied() {
    use crate::list::End;
    use crate::string::New;
    let limits = Limits::default();
    let texts: Vec<&[u8]> = vec![b"a", b"12", b"ccc"];
    let mut hash = crate::hash::create(b"k", &[], 0, &limits);
    let mut set = crate::set::create(b"k", texts[0], 3, None, 0, &limits);
    for text in &texts {
        hash = crate::hash::set(hash, text, text, None, 0, &limits).0;
        set = crate::set::add(set, crate::packed::Value::Bytes(text), &limits).0;
    }
    let scored: Vec<(&[u8], f64)> = texts.iter().map(|t| (*t, 1.5)).collect();
    let records = [
        crate::string::record(b"k", New::Bytes(b"text"), Some(77), 5),
        crate::string::record(b"k", New::Bytes(b"123"), None, 5),
        crate::string::record(b"k", New::Bytes(&[b'x'; 100_000]), None, 5),
        crate::list::create(b"k", 5, End::Right, &texts, &limits),
        crate::set::create(b"k", b"17", 1, None, 5, &limits),
        set,
        crate::zset::build(b"k", Some(3), 5, &scored, &limits),
        hash,
    ];
    for record in records {
        let shared = Shared::of(&record);
        assert_eq!((shared.key(), shared.expiry()), (record.key(), record.expiry()));
        assert_eq!((shared.kind(), shared.clock()), (record.kind(), record.clock()));
        assert_eq!(value::elements(&shared), value::elements(&record));
        let read = std::thread::spawn(move || value::memory(&shared, 0)).join();
        assert_eq!(read.expect("it was read"), value::memory(&record, 0));
    }
}
