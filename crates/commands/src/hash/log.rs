//! Logging of commands on fields that expire.
//!
//! On replicas and during AOF replay nothing expires by itself. So a field that has expired here,
//! but is not yet removed, still exists there. A command that treated such a field as missing must
//! not be logged in the client's words. It is logged with only the fields that it changed, and with
//! results instead of operations.

use super::hash;
use crate::ctx::Ctx;
use weft_keyspace::Key;
use weft_types::Record;

/// The fields that a command has changed. Collected only if the command is logged.
#[derive(Default)]
pub(super) struct ChangedFields<'a> {
    is_logged: bool,
    pub(super) fields: Vec<&'a [u8]>,
    /// Whether an argument named a field that has expired and is not yet removed.
    pub(super) stale: bool,
}

impl<'a> ChangedFields<'a> {
    pub(super) fn new(ctx: &Ctx<'_>) -> ChangedFields<'a> {
        ChangedFields { is_logged: ctx.is_logged(), ..ChangedFields::default() }
    }

    /// Adds a changed field.
    #[inline]
    pub(super) fn push(&mut self, field: &'a [u8]) {
        if self.is_logged {
            self.fields.push(field);
        }
    }

    /// Records that `field` was not found in the hash of `record`.
    #[inline]
    pub(super) fn note_missing(&mut self, record: &Record, field: &[u8]) {
        if self.is_logged {
            self.stale |= field_exists(record, field);
        }
    }

    /// Logs a command. `words` are its words before FIELDS.
    pub(super) fn log(&self, ctx: &mut Ctx<'_>, words: &[&[u8]]) {
        if !self.fields.is_empty() {
            let count = self.fields.len().to_string();
            ctx.log(&[words, &[b"FIELDS", count.as_bytes()], &self.fields].concat());
        }
    }

    /// Logs the removal of the fields.
    pub(super) fn log_removed(&self, ctx: &mut Ctx<'_>, key: &Key<'_>) {
        if !self.fields.is_empty() {
            ctx.log(&[&[b"HDEL", key.bytes], &self.fields[..]].concat());
        }
    }
}

/// Whether `field` is in the hash of `record`, expired or not.
fn field_exists(record: &Record, field: &[u8]) -> bool {
    hash(record, i64::MIN).is_ok_and(|hash| hash.find(field).is_some())
}

/// The `fields` that are in the hash at `key` and have expired (`stale`) or have not.
pub(super) fn fields_present<'a>(
    ctx: &mut Ctx<'_>,
    key: &Key<'_>,
    fields: impl Iterator<Item = &'a [u8]>,
    stale: bool,
) -> ChangedFields<'a> {
    let now = ctx.over_ms();
    let mut found = ChangedFields::new(ctx);
    if found.is_logged
        && let Some(record) = ctx.db.peek(key)
        && let Ok(live) = hash(&record, now)
    {
        found.fields = fields
            .filter(|field| field_exists(&record, field) && live.find(field).is_none() == stale)
            .collect();
    }
    found
}
