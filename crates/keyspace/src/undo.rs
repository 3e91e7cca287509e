//! Undoes the changes of a script that must start over: it needs another shard which is busy, or more time.
//!
//! ```text
//!  Guard::begin_undo ─► changes of the script ─┬─► Guard::end_undo: they stay, and are committed
//!                                              └─► Guard::undo: as before `begin_undo`, and nothing to commit
//! ```
//!
//! Meanwhile the held shards have the interest bit UNDO. Before the first change of a key, its record is copied. A
//! caller must not change a value that is long to copy ([`is_long_to_copy`]), or a database as a whole.
//!
//! The script's time stays as it is ([`Guard::fix_time`]), so that no key expires in the middle. A shard that it takes
//! later may have run a command at a later time, which has found a key expired that the script would find: then the
//! script starts over with that shard ([`Guard::may_have_expired`]).
//!
//! Only counters of evictions and the access clocks of keys that were read differ afterwards. An expired key that the
//! script has removed is there again, still expired.

use crate::context::{ExecContext, Tally, Undo};
use crate::db::Db;
use crate::guard::{Guard, ShardSet};
use crate::interest::UNDO;
use crate::keyspace::Key;
use crate::planted::{self, Fault};
use crate::sync::Ordering;
use weft_types::value::{self, duplicate_work, elements, is_long_to_free};
use weft_types::{Kind, Record, Shared, Type, hash};

/// Whether a value is too large to be copied before each change. O(1).
pub fn is_long_to_copy(record: &Record) -> bool {
    /// About 40 microseconds.
    const MOST: usize = 4096;
    /// About two milliseconds to restore it, as long as a script may run.
    const MOST_RESTORED: usize = 4 * MOST;
    match Kind::of(record.kind()) {
        // The copy shares the pieces of the value. The index of a sorted set is restored from them.
        Kind::ZsetTree => elements(record) > MOST_RESTORED,
        Kind::ListChunks | Kind::SetTable | Kind::HashTable | Kind::Stream => {
            Shared::work(record) > MOST
        }
        _ => duplicate_work(record) > MOST,
    }
}

impl Undo {
    fn begin(&mut self, tally: Tally) {
        self.tally = tally;
        self.is_time_fixed = false;
        self.late.clear();
        self.late_ms = i64::MIN;
    }
}

impl Db<'_> {
    /// Whether the record that `key` had before the script is kept: its next changes copy nothing.
    pub fn is_kept_for_undo(&self, key: &Key<'_>) -> bool {
        self.context.undo.as_ref().is_some_and(|undo| undo.old.has(self.index(), key.bytes))
    }
}

impl Guard<'_> {
    /// From here on, changes can be undone. Nothing may be pending.
    pub fn begin_undo(&self, context: &mut ExecContext) {
        context.check_committed();
        assert!(context.undo.is_none(), "undo does not nest");
        let mut undo = context.spare_undo.take().unwrap_or_default();
        undo.begin(context.tally);
        context.undo = Some(undo);
        self.mark(true);
    }

    /// The changes stay.
    pub fn end_undo(&self, context: &mut ExecContext) {
        self.mark(false);
        let mut undo = context.undo.take().expect("undo has begun");
        for (db, name, old) in undo.old.take_all() {
            let Some(old) = old.map(Shared::into_waste) else { continue };
            // Another thread would be woken for each change of a large value.
            match self.is_shared_with(context, (db, &name), &old) {
                true => drop(old),
                false => context.discard(old),
            }
        }
        context.spare_undo = Some(undo);
        // The times of the shards that were taken meanwhile.
        self.raise_time(context);
    }

    /// Whether `old` is a large collection that shares its pieces with the present value of its key, so that few are freed
    /// with it. O(1).
    fn is_shared_with(
        &self,
        context: &mut ExecContext,
        (db, name): (usize, &[u8]),
        old: &Record,
    ) -> bool {
        /// About 0.2 ms, if the key has another value of the same size.
        const MOST: usize = 4096;
        const MOST_CHANGED: usize = 64;
        if Kind::of(old.kind()).type_of() == Type::String || !is_long_to_free(old) {
            return false;
        }
        let pieces = value::pieces(old, MOST);
        let mut db = Db::new(self, context, db);
        let key = db.key(name);
        pieces < MOST
            && db.peek(&key).is_some_and(|now| {
                now.kind() == old.kind()
                    && value::pieces(&now, MOST).abs_diff(pieces) < MOST_CHANGED
            })
    }

    /// Restores the keys as they were. O(changed keys).
    pub fn undo(&self, context: &mut ExecContext) {
        self.mark(false);
        let mut undo = context.undo.take().expect("undo has begun");
        let forgotten = usize::from(planted::is(Fault::Undo));
        for (db, name, record) in undo.old.take_all().skip(forgotten) {
            Db::new(self, context, db).restore(&name, record.map(Shared::into_record));
        }
        context.tally = undo.tally;
        context.spare_undo = Some(undo);
        context.effects.abandon();
    }

    /// The time stays as it is until the changes are committed or undone.
    pub fn fix_time(&self, context: &mut ExecContext) {
        if let Some(undo) = &mut context.undo {
            undo.is_time_fixed = true;
        }
    }

    /// Takes note of shards that have just been taken: some may have run a later command.
    pub(crate) fn note_late(&self, undo: &mut Undo, now_ms: i64, taken: &ShardSet) {
        let time =
            |shard: u16| self.keyspace().locks[usize::from(shard)].time.load(Ordering::Relaxed);
        for shard in taken.iter().filter(|shard| time(*shard) > now_ms) {
            undo.late_ms = undo.late_ms.max(time(shard));
            undo.late.push(shard);
        }
    }

    /// Whether a shard that the script holds has run a command later than the script's time.
    #[inline]
    pub fn has_late(&self, context: &ExecContext) -> bool {
        context.undo.as_ref().is_some_and(|undo| !undo.late.is_empty())
    }

    /// The first shard of `set` that has run a command later than the script's time.
    #[inline]
    pub fn first_late(&self, context: &ExecContext, set: &ShardSet) -> Option<u16> {
        let undo = context.undo.as_ref().filter(|undo| !undo.late.is_empty())?;
        set.iter().find(|shard| undo.late.contains(shard))
    }

    /// Whether another client may have found `key`, or a field of it, expired although it exists at the script's time.
    pub fn may_have_expired(&self, context: &mut ExecContext, db: usize, key: &Key<'_>) -> bool {
        let Some(late_ms) = context.undo.as_ref().map(|undo| undo.late_ms) else { return false };
        Db::new(self, context, db).peek(key).is_some_and(|record| {
            record.expiry().is_some_and(|at| at <= late_ms) || hash::has_expiring_fields(&record)
        })
    }

    fn mark(&self, on: bool) {
        self.each_shard(|shard| self.keyspace().set_interest(shard, UNDO, on));
    }
}

#[cfg(test)]
mod tests;
