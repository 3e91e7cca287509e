//! Changes a collection: its record is taken out, turned into another one, and put back.
//!
//! A small collection grows and shrinks inside of its record, so most changes move the record. A
//! change that empties a collection removes the key, and one on an absent key may create it.
//! [`Db::rework`] does all of this with one lookup: it hands over the record and gets the result.

use super::Db;
use crate::effect::Cause;
use crate::keyspace::Key;
use weft_types::{Record, RecordMut};

/// The result of a change in [`Db::rework`].
#[derive(Debug)]
#[must_use]
pub enum Rework {
    /// There is no record, as before, or the command failed before it took one.
    Absent,
    /// The record is unchanged.
    Same(Record),
    /// The value has changed, or is new.
    Changed(Record),
    /// The collection is empty: the key is removed and the record discarded.
    Emptied(Record),
}

impl Db<'_> {
    /// Calls `change` with the live record of `key`, whose access clock is updated, or with
    /// `None` and a fresh clock, and stores the result. Expected O(1), in addition to `change`.
    ///
    /// `change` must not return [`Rework::Absent`] when it was given a record.
    ///
    /// # Panics
    ///
    /// If it does. The record is lost when `change` panics.
    #[inline]
    pub fn rework<T>(
        &mut self,
        key: &Key<'_>,
        change: impl FnOnce(Option<Record>, u32) -> (Rework, T),
    ) -> T {
        self.amend(key, |_| None, change)
    }

    /// As [`Db::rework`], for changes that are mostly possible in place. `amend` gets a live
    /// record first and returns whether its value has changed, with the result; or `None` without
    /// a change, and then `change` is called. Uses one lookup, too.
    ///
    /// # Panics
    ///
    /// As [`Db::rework`].
    #[inline]
    pub fn amend<T>(
        &mut self,
        key: &Key<'_>,
        amend: impl FnOnce(&mut RecordMut<'_>) -> Option<(bool, T)>,
        change: impl FnOnce(Option<Record>, u32) -> (Rework, T),
    ) -> T {
        let now = self.context.over_ms;
        self.before_write(key);
        let mut table = self.table(key.shard());
        if let Some(mut slot) = table.find_mut(key.hash, key.bytes) {
            if slot.record().expiry().is_none_or(|at| at > now) {
                self.touch(slot.record());
                if let Some((changed, answer)) = amend(&mut slot.record_mut()) {
                    if changed {
                        self.note_changed(key);
                    }
                    return answer;
                }
                let clock = slot.record().clock();
                let mut answer = None;
                let mut changed = true;
                let dead = slot.update_or_remove(|record| {
                    let (rework, result) = change(Some(record), clock);
                    answer = Some(result);
                    match rework {
                        Rework::Same(record) => {
                            changed = false;
                            Ok(record)
                        }
                        Rework::Changed(record) => Ok(record),
                        Rework::Emptied(record) => Err(record),
                        Rework::Absent => unreachable!("a record was handed over"),
                    }
                });
                match dead {
                    Some(dead) => {
                        self.note_removed(key, dead.expiry(), Cause::Command);
                        self.context.discard(dead);
                    }
                    None if changed => self.note_changed(key),
                    None => {}
                }
                return answer.expect("the closure has run");
            }
            self.expire(key);
        }
        let (rework, answer) = change(None, self.context.access.fresh());
        match rework {
            Rework::Absent => {}
            Rework::Same(record) | Rework::Emptied(record) => self.context.discard(record),
            Rework::Changed(record) => {
                debug_assert_eq!(key.bytes, record.key());
                self.table(key.shard()).insert(key.hash, record);
                self.note_created(key);
            }
        }
        answer
    }
}
