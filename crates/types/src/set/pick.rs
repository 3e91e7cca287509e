//! Chooses members at random, all with the same probability.
//!
//! `draw` returns uniform 64-bit numbers. One member of a small set is chosen by its index. Several
//! distinct ones are chosen in one pass (selection sampling: D. E. Knuth, The Art of Computer
//! Programming, vol. 2, 3.4.2, algorithm S): with `k` still wanted and `n` remaining, the next one
//! is taken with probability k/n, so every subset of that size is equally likely.

use super::write::{Builder, Start};
use super::{Form, Ints, Set, ints, table_mut};
use crate::packed::record::Packed;
use crate::packed::{EntryBuffer, Value};
use crate::{Limits, Record};
use std::collections::HashSet;

/// A uniform number less than `n`, which must not be 0.
fn below(n: usize, draw: &mut impl FnMut() -> u64) -> usize {
    ((u128::from(draw()) * n as u128) >> 64) as usize
}

/// Chooses `wanted` of `total` items of a sequence.
struct Sample<'d, D> {
    wanted: usize,
    total: usize,
    draw: &'d mut D,
}

impl<D: FnMut() -> u64> Sample<'_, D> {
    /// Whether the next item is chosen.
    fn next(&mut self) -> bool {
        let takes = self.wanted > 0 && below(self.total, self.draw) < self.wanted;
        self.total -= 1;
        self.wanted -= usize::from(takes);
        takes
    }
}

impl<'a> Set<'a> {
    /// A random member; `None` for an empty set. O(1), or O(n) in packed form.
    pub fn random(self, draw: &mut impl FnMut() -> u64) -> Option<Value<'a>> {
        match self {
            Set::Ints(ints) => {
                (!ints.is_empty()).then(|| Value::Int(ints.get(below(ints.len(), draw))))
            }
            Set::Packed { count: 0, .. } => None,
            Set::Packed { count, entries } => {
                Some(entries.get(entries.offset_of(count, below(count, draw))))
            }
            Set::Table(table) => table.random(draw).map(|e| Value::Bytes(e.key)),
        }
    }

    /// Passes `times` members to `seen`, each drawn from all. O(times), plus O(n) in packed form.
    /// The set must not be empty.
    pub fn draw(
        self,
        times: usize,
        draw: &mut impl FnMut() -> u64,
        mut seen: impl FnMut(Value<'a>),
    ) {
        if let Set::Packed { count, entries } = self {
            let members: Vec<Value<'a>> = entries.iter().map(|(_, value)| value).collect();
            (0..times).for_each(|_| seen(members[below(count, draw)]));
            return;
        }
        for _ in 0..times {
            self.random(draw).into_iter().for_each(&mut seen);
        }
    }

    /// Whether `wanted` is so small that drawing until that many distinct members are found rarely
    /// draws one twice.
    fn few(self, wanted: usize) -> bool {
        wanted < self.len() / 3
    }

    /// The approximate number of members that [`Set::sample`] examines.
    #[must_use]
    pub fn sample_work(self, wanted: usize) -> usize {
        match self {
            Set::Table(_) if self.few(wanted) => wanted,
            Set::Ints(_) | Set::Packed { .. } | Set::Table(_) => self.len(),
        }
    }

    /// Passes `wanted` distinct members to `seen`, or all if there are fewer. O(n), or expected
    /// O(wanted) if few are wanted from a table.
    pub fn sample(
        self,
        wanted: usize,
        draw: &mut impl FnMut() -> u64,
        mut seen: impl FnMut(Value<'a>),
    ) {
        if let Set::Table(table) = self
            && self.few(wanted)
        {
            let mut met = HashSet::with_capacity(wanted);
            while met.len() < wanted {
                let Some(entry) = table.random(draw) else {
                    return;
                };
                if met.insert(entry.key) {
                    seen(Value::Bytes(entry.key));
                }
            }
            return;
        }
        let mut sample = Sample { wanted: wanted.min(self.len()), total: self.len(), draw };
        self.each(|member| {
            if sample.next() {
                seen(member);
            }
        });
    }
}

/// Removes a random member and passes it to `seen`. The set must not be empty. O(n) in a small
/// form, else expected O(1).
#[must_use]
pub fn pop(
    mut record: Record,
    draw: &mut impl FnMut() -> u64,
    seen: impl FnOnce(Value<'_>),
) -> Record {
    match Form::of_set(&record) {
        Form::Ints => {
            let ints = Ints::of(record.payload());
            let at = below(ints.len(), draw);
            seen(Value::Int(ints.get(at)));
            ints::remove_at(record, at)
        }
        Form::Packed => {
            let mut packed = Packed::of(record);
            let (entries, count) = (packed.entries(), packed.count());
            let at = entries.offset_of(count, below(count, draw));
            seen(entries.get(at));
            packed.remove(at, 1);
            packed.finish()
        }
        Form::Table => {
            table_mut(&mut record).pop(draw, |entry| seen(Value::Bytes(entry.key)));
            record
        }
    }
}

/// Removes `wanted` random members, which must be fewer than all, and passes them to `seen`. O(n)
/// in a small form, else expected O(wanted).
#[must_use]
pub fn pop_many(
    mut record: Record,
    wanted: usize,
    draw: &mut impl FnMut() -> u64,
    mut seen: impl FnMut(Value<'_>),
) -> Record {
    let mut sample = Sample { wanted, total: super::len(&record), draw };
    let mut chosen = |member: Value<'_>| {
        let chosen = sample.next();
        if chosen {
            seen(member);
        }
        chosen
    };
    match Form::of_set(&record) {
        Form::Ints => ints::retain(record, |n| !chosen(Value::Int(n))),
        Form::Packed => {
            let mut packed = Packed::of(record);
            packed.retain(|value| !chosen(value));
            packed.finish()
        }
        Form::Table => {
            let table = table_mut(&mut record);
            for _ in 0..wanted {
                table.pop(draw, |entry| seen(Value::Bytes(entry.key)));
            }
            record
        }
    }
}

/// A record with `kept` random members of the set of `record`, which must be fewer than all. Passes
/// the others to `seen`. The new set begins packed, so a table that loses nearly all members
/// becomes small again. O(n).
#[must_use]
pub fn split_most(
    record: &Record,
    kept: usize,
    limits: &Limits,
    draw: &mut impl FnMut() -> u64,
    mut seen: impl FnMut(Value<'_>),
) -> Record {
    let mut sample = Sample { wanted: kept, total: super::len(record), draw };
    let mut rest =
        Builder::new(record.key(), Start::Packed, record.expiry(), record.clock(), limits);
    if let Some(set) = Set::of(record) {
        set.each(|member| if sample.next() { rest.add(member) } else { seen(member) });
    }
    rest.finish()
}
