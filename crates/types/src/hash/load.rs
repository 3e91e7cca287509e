//! Builds a hash from saved fields.
//!
//! Like repeated [`set`](super::set), but a small hash is collected first and becomes a record
//! once, and a duplicate field is an error.

use super::Table;
use super::write::{packed_max, table_record};
use crate::limits::PACKED_MAX;
use crate::packed::record::payload;
use crate::packed::{Collected, OneWay, Value};
use crate::string::Digits;
use crate::{Kind, Limits, Record};

/// A hash that is being loaded.
#[derive(Debug)]
pub struct Load<'l> {
    form: Form,
    limits: &'l Limits,
    /// Whether long texts may be packed too, because they were in the source.
    any_length: bool,
    duplicates: bool,
}

#[derive(Debug)]
enum Form {
    Packed(Collected<OneWay>),
    Table(Table),
}

impl<'l> Load<'l> {
    /// An empty hash for `announced` fields.
    #[must_use]
    pub fn new(announced: usize, limits: &'l Limits) -> Self {
        match announced <= packed_max(limits) {
            true => {
                let form = Form::Packed(Collected::default());
                Load { form, limits, any_length: false, duplicates: false }
            }
            false => Load::large(limits),
        }
    }

    /// Like [`Load::new`], but packs texts of any length if the number of fields permits it.
    #[must_use]
    pub fn packed(announced: usize, limits: &'l Limits) -> Self {
        Load { any_length: true, ..Load::new(announced, limits) }
    }

    /// An empty hash that is a table, however few fields follow.
    #[must_use]
    pub fn large(limits: &'l Limits) -> Self {
        Load { form: Form::Table(Table::new()), limits, any_length: false, duplicates: false }
    }

    /// Adds a field; `expiry` in Unix milliseconds. Amortized O(length).
    pub fn add(&mut self, field: &[u8], value: &[u8], expiry: Option<i64>) {
        if let Form::Packed(packed) = &mut self.form {
            let bytes = packed.entries().end().saturating_add(field.len() + value.len());
            let longest = field.len().max(value.len());
            let fits = expiry.is_none()
                && packed.count() / 2 < packed_max(self.limits)
                && (self.any_length || longest <= self.limits.hash_value)
                && bytes <= PACKED_MAX;
            if fits {
                packed.push(Value::Bytes(field));
                packed.push(Value::Bytes(value));
                return;
            }
            self.enlarge();
        }
        if let Form::Table(table) = &mut self.form {
            self.duplicates |= !table.insert(field, value, expiry);
        }
    }

    fn enlarge(&mut self) {
        let Form::Packed(packed) = &self.form else { return };
        let mut table = Table::new();
        let mut all = packed.entries().iter();
        while let (Some((_, field)), Some((_, value))) = (all.next(), all.next()) {
            let (mut f, mut v) = (Digits::new(), Digits::new());
            self.duplicates |= !table.insert(field.bytes(&mut f), value.bytes(&mut v), None);
        }
        self.form = Form::Table(table);
    }

    /// The record of `key` with these fields. `expiry` is in Unix milliseconds; `clock` is as in
    /// [`Record::clock`]. `None` if there was a duplicate field.
    #[must_use]
    pub fn finish(self, key: &[u8], expiry: Option<i64>, clock: u32) -> Option<Record> {
        if self.duplicates {
            return None;
        }
        match self.form {
            Form::Packed(packed) if packed.has_duplicates(2) => None,
            Form::Packed(packed) => {
                let payload = payload(packed.entries().bytes(), packed.count());
                Some(Record::from_bytes(key, expiry, Kind::HashPacked as u8, clock, &payload))
            }
            Form::Table(table) => Some(table_record(key, table, expiry, clock)),
        }
    }
}
