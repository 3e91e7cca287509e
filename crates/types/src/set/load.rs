//! Builds a set from saved members.
//!
//! Like repeated [`add`](super::add), but a small set is collected first and becomes a record once,
//! and a duplicate member is an error.

use super::write::{ints_max, packed_max, table_record};
use super::{Table, ints};
use crate::limits::PACKED_MAX;
use crate::packed::record::payload;
use crate::packed::{Collected, OneWay, Value};
use crate::string::Digits;
use crate::{Kind, Limits, Record};

/// A set that is being loaded.
#[derive(Debug)]
pub struct Load<'l> {
    form: Form,
    limits: &'l Limits,
    /// Whether long members may be packed too, because they were in the source.
    any_length: bool,
    duplicates: bool,
}

#[derive(Debug)]
enum Form {
    /// In any order.
    Ints(Vec<i64>),
    Packed(Collected<OneWay>),
    Table(Table),
}

impl<'l> Load<'l> {
    fn of(form: Form, limits: &'l Limits) -> Self {
        Load { form, limits, any_length: false, duplicates: false }
    }

    /// An empty set for `announced` members.
    #[must_use]
    pub fn new(announced: usize, limits: &'l Limits) -> Self {
        match announced <= ints_max(limits) {
            true => Load::of(Form::Ints(Vec::new()), limits),
            false => Load::of(Form::Table(Table::new()), limits),
        }
    }

    /// An empty set for `announced` members, which is packed whatever they are, unless they are too
    /// many.
    #[must_use]
    pub fn packed(announced: usize, limits: &'l Limits) -> Self {
        match announced <= packed_max(limits) {
            true => {
                Load { any_length: true, ..Load::of(Form::Packed(Collected::default()), limits) }
            }
            false => Load::of(Form::Table(Table::new()), limits),
        }
    }

    /// Adds a member. Amortized O(length).
    pub fn add(&mut self, member: Value<'_>) {
        if let Form::Ints(ints) = &mut self.form {
            match member.int() {
                Some(n) if ints.len() < ints_max(self.limits) => return ints.push(n),
                Some(_) => self.enlarge(),
                None => self.leave_ints(member.len()),
            }
        }
        if let Form::Packed(packed) = &mut self.form {
            let bytes = packed.entries().end().saturating_add(member.len());
            let fits = packed.count() < packed_max(self.limits)
                && (self.any_length || member.len() <= self.limits.set_value)
                && bytes <= PACKED_MAX;
            if fits {
                return packed.push(member);
            }
            self.enlarge();
        }
        if let Form::Table(table) = &mut self.form {
            self.duplicates |= !table.insert(member.bytes(&mut Digits::new()), b"", None);
        }
    }

    /// Leaves the form of integers for a text of this length.
    fn leave_ints(&mut self, text: usize) {
        let Form::Ints(ints) = &mut self.form else { return };
        let longest = ints.iter().map(|n| Value::Int(*n).len()).max().unwrap_or(0);
        let fits = ints.len() < packed_max(self.limits)
            && longest.max(text) <= self.limits.set_value.min(PACKED_MAX);
        if !fits {
            return self.enlarge();
        }
        ints.sort_unstable();
        let mut packed = Collected::default();
        ints.iter().for_each(|n| packed.push(Value::Int(*n)));
        self.form = Form::Packed(packed);
    }

    fn enlarge(&mut self) {
        let (mut table, mut duplicates) = (Table::new(), false);
        let mut add = |member: Value<'_>| {
            duplicates |= !table.insert(member.bytes(&mut Digits::new()), b"", None);
        };
        match &self.form {
            Form::Ints(ints) => ints.iter().for_each(|n| add(Value::Int(*n))),
            Form::Packed(packed) => packed.entries().iter().for_each(|(_, member)| add(member)),
            Form::Table(_) => return,
        }
        self.duplicates |= duplicates;
        self.form = Form::Table(table);
    }

    /// The record of `key` with these members. `expiry` is in Unix milliseconds; `clock` is as in
    /// [`Record::clock`]. `None` if there was a duplicate member.
    #[must_use]
    pub fn finish(self, key: &[u8], expiry: Option<i64>, clock: u32) -> Option<Record> {
        if self.duplicates {
            return None;
        }
        match self.form {
            Form::Ints(mut all) => {
                all.sort_unstable();
                let duplicates = all.windows(2).any(|pair| pair[0] == pair[1]);
                (!duplicates).then(|| ints::record(key, &all, expiry, clock))
            }
            Form::Packed(packed) if packed.has_duplicates(1) => None,
            Form::Packed(packed) => {
                let payload = payload(packed.entries().bytes(), packed.count());
                Some(Record::from_bytes(key, expiry, Kind::SetPacked as u8, clock, &payload))
            }
            Form::Table(table) => Some(table_record(key, table, expiry, clock)),
        }
    }
}
