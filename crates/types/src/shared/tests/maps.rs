//! Hashes and sets: fields and members are added, changed and removed. Some values have blocks of
//! their own, and the number of elements needs several pages.

use super::{Draws, Subject, rounds, run_changes};
use crate::hash::{self, Hash};
use crate::packed::Value;
use crate::set::{self, Set};
use crate::string::Digits;
use crate::{Limits, Record};
use std::collections::{BTreeMap, BTreeSet};

struct Fields {
    record: Option<Record>,
    model: BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>,
    /// The number of names.
    names: usize,
}

fn name(n: usize) -> Vec<u8> {
    match n % 50 {
        0 => format!("{n}-{}", "long".repeat(10)).into_bytes(),
        _ => n.to_string().into_bytes(),
    }
}

impl Fields {
    fn new(names: usize) -> Self {
        let limits = Limits { hash_entries: 0, ..Limits::default() };
        let record = hash::create(b"hash", &[], 0, &limits);
        let mut fields = Fields { record: Some(record), model: BTreeMap::new(), names };
        (0..names).step_by(2).for_each(|n| fields.set(name(n), vec![b'v'; n % 7], None));
        fields
    }

    fn set(&mut self, field: Vec<u8>, value: Vec<u8>, expiry: Option<i64>) {
        let limits = Limits { hash_entries: 0, ..Limits::default() };
        let record = self.record.take().expect("put back");
        self.record = Some(hash::set(record, &field, &value, expiry, 0, &limits).0);
        self.model.insert(field, (value, expiry));
    }
}

impl Subject for Fields {
    type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

    fn record(&self) -> &Record {
        self.record.as_ref().expect("put back")
    }

    fn model(&self) -> &Self::Model {
        &self.model
    }

    fn step(&mut self, draws: &mut Draws) {
        let field = name(draws.below(self.names));
        match draws.below(10) {
            0..5 => {
                let len = if draws.once_in(12) { 1100 + draws.below(900) } else { draws.below(20) };
                let expiry = draws.once_in(8).then(|| 1000 + draws.below(100) as i64);
                self.set(field, vec![b'a' + draws.below(26) as u8; len], expiry);
            }
            5..8 => {
                let old = self.record.take().expect("put back");
                self.record = Some(hash::remove(old, &field, 0).0);
                self.model.remove(&field);
            }
            8 => {
                let expiry = draws.once_in(2).then(|| 1000 + draws.below(100) as i64);
                if let Some((_, at)) = self.model.get_mut(&field) {
                    *at = expiry;
                    let old = self.record.take().expect("put back");
                    self.record = Some(hash::expire(old, &field, expiry));
                }
            }
            _ => {
                let now = 1000 + draws.below(100) as i64;
                let before = hash::len(self.record());
                let old = self.record.take().expect("put back");
                let (new, _) = hash::expire_some(old, draws.next(), now, &mut |_| {});
                self.record = Some(new);
                // The model can't predict which fields expire, so read them from the record.
                if hash::len(self.record()) != before {
                    let left = Fields::read(self.record());
                    self.model.retain(|field, (_, at)| {
                        let stays = left.contains_key(field);
                        assert!(stays || at.is_some_and(|at| at <= now));
                        stays
                    });
                }
            }
        }
    }

    fn read(record: &Record) -> Self::Model {
        let mut seen = BTreeMap::new();
        Hash::of(record, i64::MIN).expect("a hash").each(|pair| {
            let field = pair.field.bytes(&mut Digits::new()).to_vec();
            let value = pair.value.bytes(&mut Digits::new()).to_vec();
            assert!(seen.insert(field, (value, pair.expiry)).is_none(), "each field is read once");
        });
        assert_eq!(hash::len(record), seen.len());
        seen
    }
}

struct Members {
    record: Option<Record>,
    model: BTreeSet<Vec<u8>>,
    names: usize,
}

impl Members {
    fn new(names: usize) -> Self {
        let limits = Limits::default();
        let mut record = empty_set();
        let mut model = BTreeSet::new();
        for n in 0..names / 2 {
            record = set::add(record, Value::Bytes(&name(n)), &limits).0;
            model.insert(name(n));
        }
        Members { record: Some(record), model, names }
    }
}

impl Subject for Members {
    type Model = BTreeSet<Vec<u8>>;

    fn record(&self) -> &Record {
        self.record.as_ref().expect("put back")
    }

    fn model(&self) -> &Self::Model {
        &self.model
    }

    fn step(&mut self, draws: &mut Draws) {
        // For some time all new members land at one end, so that many blocks split or merge.
        let growing = self.model.len() < self.names / 2;
        let member = name(draws.below(self.names));
        let record = self.record.take().expect("put back");
        self.record = Some(match draws.below(4) {
            n if (n < 3) == growing => {
                self.model.insert(member.clone());
                set::add(record, Value::Bytes(&member), &Limits::default()).0
            }
            0 if self.model.len() > 1 => {
                let (record, popped) = pop(record, draws);
                assert!(self.model.remove(&popped));
                record
            }
            _ => {
                self.model.remove(&member);
                set::remove(record, Value::Bytes(&member)).0
            }
        });
    }

    fn read(record: &Record) -> Self::Model {
        let mut seen = BTreeSet::new();
        let set = Set::of(record).expect("a set");
        set.each(|member| {
            assert!(
                seen.insert(member.bytes(&mut Digits::new()).to_vec()),
                "each member is read once"
            );
        });
        assert_eq!(set.len(), seen.len());
        seen
    }
}

/// A set in table form without members.
fn empty_set() -> Record {
    let record = set::create(b"set", b"x", usize::MAX, None, 0, &Limits::default());
    set::remove(record, Value::Bytes(b"x")).0
}

fn pop(record: Record, draws: &mut Draws) -> (Record, Vec<u8>) {
    let mut popped = Vec::new();
    let record = set::pop(record, &mut || draws.next(), |member| {
        popped = member.bytes(&mut Digits::new()).to_vec();
    });
    (record, popped)
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn hash_snapshots_are_stable() {
    for (seed, names) in [(1, 50), (2, 3000), (3, 3000), (4, 120_000)] {
        let mut draws = Draws(seed);
        let names = if cfg!(miri) { names.min(400) } else { names };
        let rounds = rounds(if names > 10_000 { 12 } else { 120 });
        run_changes(Fields::new(names), &mut draws, rounds, 60);
        if cfg!(miri) {
            break;
        }
    }
}

#[test]
fn set_snapshots_are_stable() {
    for (seed, names) in [(1, 300), (2, 5000), (3, 120_000)] {
        let mut draws = Draws(seed);
        let names = if cfg!(miri) { names.min(300) } else { names };
        let rounds = rounds(if names > 10_000 { 12 } else { 120 });
        run_changes(Members::new(names), &mut draws, rounds, 200);
        if cfg!(miri) {
            break;
        }
    }
}

/// Splits and merges whole pages while they are shared.
#[test]
#[ignore = "long: cargo xtask test --all"]
#[cfg_attr(miri, ignore = "many members")]
fn shared_set_grows_and_shrinks_by_pages() {
    let limits = Limits::default();
    let mut record = empty_set();
    let mut held = Vec::new();
    for n in 0..200_000 {
        record = set::add(record, Value::Bytes(&name(n)), &limits).0;
        if n % 40_000 == 39_999 {
            held.push((super::Shared::of(&record), n + 1));
        }
    }
    for n in 0..200_000 {
        record = set::remove(record, Value::Bytes(&name(n))).0;
        if n % 50_000 == 49_999 {
            let gone = held.remove(held.len() / 2);
            assert_eq!(set::len(&gone.0), gone.1);
            held.iter().for_each(|(shared, len)| {
                assert_eq!(Members::read(shared), (0..*len).map(name).collect());
            });
        }
    }
    assert_eq!(set::len(&record), 0);
}
