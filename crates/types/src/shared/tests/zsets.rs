//! Sorted sets: members are added, removed and get other scores; some are too long for a leaf.

use super::{Draws, Shared, Subject, rounds, run_changes};
use crate::string::Digits;
use crate::zset::{Edit, Span, View, build};
use crate::{Limits, Record};
use std::collections::BTreeMap;

struct Scores {
    record: Option<Record>,
    model: BTreeMap<Vec<u8>, i64>,
    names: usize,
}

fn name(n: usize) -> Vec<u8> {
    match n % 30 {
        0 => vec![b'a' + (n % 26) as u8; 500 + n % 97],
        _ => format!("member:{n}").into_bytes(),
    }
}

impl Scores {
    fn new(names: usize) -> Self {
        let model: BTreeMap<Vec<u8>, i64> = (0..names / 2).map(|n| (name(n), 5)).collect();
        let elements: Vec<(&[u8], f64)> = model.keys().map(|m| (&m[..], 5.0)).collect();
        let limits = Limits { zset_entries: 0, ..Limits::default() };
        let record = build(b"zset", None, 0, &elements, &limits);
        Scores { record: Some(record), model, names }
    }

    fn edit(&mut self, change: impl FnOnce(&mut Edit, &mut BTreeMap<Vec<u8>, i64>)) {
        let record = self.record.take().expect("put back");
        let mut edit = Edit::of(record).expect("a sorted set");
        change(&mut edit, &mut self.model);
        self.record = Some(edit.finish());
    }
}

impl Subject for Scores {
    type Model = BTreeMap<Vec<u8>, i64>;

    fn record(&self) -> &Record {
        self.record.as_ref().expect("put back")
    }

    fn model(&self) -> &Self::Model {
        &self.model
    }

    fn step(&mut self, draws: &mut Draws) {
        let member = name(draws.below(self.names));
        let len = self.model.len();
        self.edit(|edit, model| match draws.below(12) {
            0..7 => {
                let score = draws.below(50) as i64 - 20;
                edit.change(&member, &Limits::default(), |_| Some(score as f64));
                model.insert(member, score);
            }
            7..10 => {
                assert_eq!(edit.remove(&member), model.remove(&member).is_some());
            }
            10 => {
                edit.pop(1 + draws.below(4), draws.once_in(2), |member, _| {
                    model.remove(member.bytes(&mut Digits::new()));
                });
            }
            _ => {
                let span = Span { skip: draws.below(len), count: draws.below(40) };
                edit.view().walk(span, false, |member, _| {
                    model.remove(member.bytes(&mut Digits::new()));
                });
                edit.remove_span(span, false);
            }
        });
    }

    fn read(record: &Record) -> Self::Model {
        let view = View::of(record).expect("a sorted set");
        let mut seen: Vec<(i64, Vec<u8>)> = Vec::new();
        view.walk(Span { skip: 0, count: view.len() }, true, |member, score| {
            seen.push((score as i64, member.bytes(&mut Digits::new()).to_vec()));
        });
        assert!(seen.is_sorted_by(|a, b| a > b), "from the last to the first");
        let mut forward = Vec::new();
        view.for_each(|_, score| forward.push(score as i64));
        assert!(forward.iter().rev().eq(seen.iter().map(|(score, _)| score)));
        assert_eq!(seen.len(), view.len());
        seen.into_iter().map(|(score, member)| (member, score)).collect()
    }
}

#[test]
fn sorted_set_snapshots_are_stable() {
    for (seed, names) in [(1, 40), (2, 2000), (3, 2000), (4, 30_000)] {
        let mut draws = Draws(seed);
        let names = if cfg!(miri) { names.min(150) } else { names };
        let rounds = rounds(if names > 10_000 { 20 } else { 120 });
        run_changes(Scores::new(names), &mut draws, rounds, 60);
    }
}

/// A sorted set that becomes empty and is filled again.
#[test]
fn empty_sorted_set_is_shared() {
    let mut scores = Scores::new(20);
    let full = super::Shared::of(scores.record());
    scores.edit(|edit, model| {
        edit.remove_span(Span { skip: 0, count: usize::MAX }, false);
        model.clear();
    });
    let empty = super::Shared::of(scores.record());
    scores.edit(|edit, model| {
        edit.change(b"new", &Limits::default(), |_| Some(1.0));
        model.insert(b"new".to_vec(), 1);
    });
    assert_eq!(Scores::read(&full).len(), 10);
    assert!(Scores::read(&empty).is_empty());
    assert_eq!(&Scores::read(scores.record()), scores.model());
}

/// A record restored from a snapshot has the value at the time of sharing, with its ranks, and can be changed.
#[test]
fn snapshot_becomes_a_record_again() {
    let mut draws = Draws(5);
    let mut scores = Scores::new(3000);
    for _ in 0..rounds(20) {
        let shared = Shared::of(scores.record());
        let model = scores.model.clone();
        for _ in 0..100 {
            scores.step(&mut draws);
        }
        let restored = shared.into_record();
        assert!(Scores::read(&restored) == model);
        let view = View::of(&restored).expect("a sorted set");
        for (member, score) in &model {
            let rank = view.rank(member).expect("a member");
            assert_eq!((rank.1 as i64, view.score(member)), (*score, Some(rank.1)));
        }
        scores = Scores { record: Some(restored), model, names: 3000 };
        for _ in 0..100 {
            scores.step(&mut draws);
        }
        assert!(Scores::read(scores.record()) == scores.model);
    }
}
