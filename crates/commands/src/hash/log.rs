//! What is logged of commands on fields that expire.
//!
//! Whoever repeats the log sees fields that have expired here and were only not removed yet: nothing
//! expires by itself there. So a command that has taken such a field for none is logged in words that
//! leave it alone, or do not ask: only with the fields that it has changed, and with results.

use super::hash;
use crate::ctx::Ctx;
use weft_keyspace::Key;
use weft_types::Record;

/// The fields that a command has changed, gathered where it is logged.
#[derive(Default)]
pub(super) struct Changed<'a> {
    is_logged: bool,
    pub(super) fields: Vec<&'a [u8]>,
    /// It was also given one that has expired and was not removed yet.
    pub(super) stale: bool,
}

impl<'a> Changed<'a> {
    pub(super) fn new(ctx: &Ctx<'_>) -> Changed<'a> {
        Changed { is_logged: ctx.is_logged(), ..Changed::default() }
    }

    /// `field` was changed.
    #[inline]
    pub(super) fn push(&mut self, field: &'a [u8]) {
        if self.is_logged {
            self.fields.push(field);
        }
    }

    /// `field` was not found in the hash of `record`.
    #[inline]
    pub(super) fn missed(&mut self, record: &Record, field: &[u8]) {
        if self.is_logged {
            self.stale |= is_there(record, field);
        }
    }

    /// Logs a command whose words in front of the number of fields are these.
    pub(super) fn log(&self, ctx: &mut Ctx<'_>, words: &[&[u8]]) {
        if !self.fields.is_empty() {
            let count = self.fields.len().to_string();
            ctx.log(&[words, &[b"FIELDS", count.as_bytes()], &self.fields].concat());
        }
    }

    /// Logs that the fields were removed.
    pub(super) fn log_removed(&self, ctx: &mut Ctx<'_>, key: &Key<'_>) {
        if !self.fields.is_empty() {
            ctx.log(&[&[b"HDEL", key.bytes], &self.fields[..]].concat());
        }
    }
}

/// Whether `field` is in the hash of `record`, expired or not.
fn is_there(record: &Record, field: &[u8]) -> bool {
    hash(record, i64::MIN).is_ok_and(|hash| hash.find(field).is_some())
}

/// Those of `fields` that are in the hash at `key`, and whose time is over (`stale`), or is not.
pub(super) fn present<'a>(
    ctx: &mut Ctx<'_>,
    key: &Key<'_>,
    fields: impl Iterator<Item = &'a [u8]>,
    stale: bool,
) -> Changed<'a> {
    let now = ctx.over_ms();
    let mut found = Changed::new(ctx);
    if found.is_logged
        && let Some(record) = ctx.db.peek(key)
        && let Ok(live) = hash(&record, now)
    {
        found.fields = fields
            .filter(|field| is_there(&record, field) && live.find(field).is_none() == stale)
            .collect();
    }
    found
}
