//! One entry of a stream: its id, fields and values.

use super::StreamId;
use crate::packed::{self, Entries, OneWay, Value};

/// An entry in its block.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub id: StreamId,
    count: usize,
    pairs: Pairs<'a>,
}

/// Fields and values of an entry in order: see [`Entry::pairs`].
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a> {
    left: usize,
    fields: Entries<'a, OneWay>,
    field: usize,
    /// `None`: each field is followed by its value.
    values: Option<(Entries<'a, OneWay>, usize)>,
}

impl<'a> Entry<'a> {
    /// An entry whose `count` fields and values alternate in `bytes`.
    #[inline]
    pub(super) fn with_fields(id: StreamId, count: usize, bytes: &'a [u8]) -> Self {
        let pairs = Pairs { left: count, fields: Entries::new(bytes), field: 0, values: None };
        Entry { id, count, pairs }
    }

    /// An entry whose `count` fields are in `fields` and whose values are in `values`.
    #[inline]
    pub(super) fn with_values(
        id: StreamId,
        count: usize,
        fields: &'a [u8],
        values: &'a [u8],
    ) -> Self {
        let values = Some((Entries::new(values), 0));
        let pairs = Pairs { left: count, fields: Entries::new(fields), field: 0, values };
        Entry { id, count, pairs }
    }

    /// The number of fields.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "an entry has at least one field")]
    pub fn len(&self) -> usize {
        self.count
    }

    /// The fields and values, in the order of insertion.
    #[inline]
    pub fn pairs(&self) -> Pairs<'a> {
        self.pairs
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (Value<'a>, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let field = take(self.fields, &mut self.field);
        let value = match &mut self.values {
            Some((values, at)) => take(*values, at),
            None => take(self.fields, &mut self.field),
        };
        Some((field, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Pairs<'_> {}

/// The packed entry at `at`. Advances `at` to the next one.
#[inline]
fn take<'a>(entries: Entries<'a, OneWay>, at: &mut usize) -> packed::Value<'a> {
    let value = entries.get(*at);
    *at = entries.after(*at);
    value
}
