//! Reads and changes a key with a single lookup: the base of most writes.
//!
//! SET with a condition, INCR and MSETNX each read the old value, decide, and store. With a call
//! per step the table is searched two or three times. [`Db::alter`] finds the slot once and lets
//! the caller decide (the shape of `alter` in functional maps: from an optional value to an
//! optional value). The decision is data, a [`Change`], so that only this module discards the old
//! record.

use super::Db;
use crate::effect::Cause;
use crate::keyspace::Key;
use weft_table::LINES;
use weft_types::{Record, RecordMut};

/// The decision of the caller of [`Db::alter`].
#[derive(Debug)]
#[must_use]
pub enum Change {
    /// Leave the key as it was.
    Nothing,
    /// The record was changed in place.
    InPlace,
    /// Store this record of the same key, and replace the old one if there is one.
    Store(Record),
    /// Remove the key if it exists.
    Remove,
}

impl Db<'_> {
    /// Calls `decide` with the live record of `key`, updates its access clock, and applies the
    /// decision. The second argument is the clock for a record that `decide` stores: that of the
    /// old record, since overwriting a key doesn't make it less popular, or a fresh one. Expected
    /// O(1).
    #[inline]
    pub fn alter(
        &mut self,
        key: &Key<'_>,
        decide: impl FnOnce(Option<RecordMut<'_>>, u32) -> Change,
    ) {
        let now = self.context.over_ms;
        self.before_write(key);
        let mut table = self.table(key.shard());
        if let Some(mut slot) = table.find_mut(key.hash, key.bytes) {
            if slot.record().expiry().is_none_or(|at| at > now) {
                self.touch(slot.record());
                let clock = slot.record().clock();
                match decide(Some(slot.record_mut()), clock) {
                    Change::Nothing => {}
                    Change::InPlace => self.note_changed(key),
                    Change::Store(record) => {
                        let dead = slot.replace(record);
                        self.note_replaced(key, dead);
                    }
                    Change::Remove => {
                        let dead = slot.remove();
                        self.note_removed(key, dead.expiry(), Cause::Command);
                        self.context.discard(dead);
                    }
                }
                return;
            }
            self.expire(key);
            self.before_write(key);
        }
        match decide(None, self.context.access.fresh()) {
            Change::Store(record) => {
                debug_assert_eq!(key.bytes, record.key());
                self.table(key.shard()).insert(key.hash, record);
                self.note_created(key);
            }
            Change::Nothing | Change::InPlace | Change::Remove => {}
        }
    }

    /// Prefetches the records of `keys`, so that the cache misses of a command with several keys
    /// overlap. Useful for up to about 16 keys at a time: a processor has about as many misses in
    /// flight. O(keys).
    #[inline]
    pub fn prefetch<'k>(&self, keys: impl Iterator<Item = &'k Key<'k>> + Clone) {
        let pin = weft_table::epoch::pin();
        let keyspace = self.keyspace();
        for key in keys.clone() {
            keyspace.plan_bucket(key, self.index, &pin);
        }
        for key in keys {
            keyspace.plan_record(key, self.index, LINES, &pin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::ExecContext;
    use crate::hold::Outside;
    use crate::keyspace::Keyspace;
    use weft_types::string::{Digits, New, Str, record};

    fn text(db: &mut Db<'_>, key: &Key<'_>) -> Option<Vec<u8>> {
        let found = db.peek(key)?;
        Some(Str::of(&found)?.bytes(&mut Digits::new()).to_vec())
    }

    #[test]
    fn every_change_on_present_absent_and_expired_keys() {
        let keyspace = Keyspace::new(1, 1, Box::new(|_| {}));
        let mut context = ExecContext::new(1000, 1);
        let mut inside = Outside::new(&keyspace, 0).enter();
        let guard = inside.world(&mut context).expect("the slow lane is idle");
        let mut db = Db::new(&guard, &mut context, 0);
        let key = db.key(b"k");
        let value = |text: &'static [u8], at| record(b"k", New::Bytes(text), at, 0);

        db.alter(&key, |old, _| {
            assert!(old.is_none());
            Change::Remove
        });
        assert_eq!(text(&mut db, &key), None);
        db.alter(&key, |_, _| Change::Store(value(b"a", None)));
        db.alter(&key, |old, _| {
            assert!(old.is_some());
            Change::Nothing
        });
        assert_eq!(text(&mut db, &key), Some(b"a".to_vec()));
        db.alter(&key, |_, _| Change::Store(value(b"b", Some(1500))));
        assert_eq!(text(&mut db, &key), Some(b"b".to_vec()));
        assert_eq!(db.keyspace().counts(0), (1, 1));

        db.context.set_time(2000);
        db.alter(&key, |old, _| {
            assert!(old.is_none(), "an expired record is shown");
            Change::Nothing
        });
        assert_eq!((db.len(), db.context.tally.expired), (0, 1));

        db.alter(&key, |_, _| Change::Store(value(b"c", None)));
        db.alter(&key, |_, _| Change::Remove);
        assert_eq!(db.len(), 0);
        db.context.free_removed();
    }
}
