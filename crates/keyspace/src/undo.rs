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
//! Only counters of evictions and the access clocks of keys that were read differ afterwards. An expired key that the
//! script has removed is there again, still expired.

use crate::context::{ExecContext, Undo};
use crate::db::Db;
use crate::guard::Guard;
use crate::interest::UNDO;
use crate::old_records::OldRecords;
use crate::planted_scripts::{self, Fault};
use weft_types::Record;
use weft_types::value::duplicate_work;

/// Whether a value is too large to be copied before each change. O(1).
pub fn is_long_to_copy(record: &Record) -> bool {
    /// About 40 microseconds.
    const MOST: usize = 4096;
    duplicate_work(record) > MOST
}

impl Guard<'_> {
    /// From here on, changes can be undone. Nothing may be pending.
    pub fn begin_undo(&self, context: &mut ExecContext) {
        context.check_committed();
        let undo = Undo { old: OldRecords::default(), tally: context.tally };
        assert!(context.undo.replace(Box::new(undo)).is_none(), "undo does not nest");
        self.mark(true);
    }

    /// The changes stay.
    pub fn end_undo(&self, context: &mut ExecContext) {
        self.mark(false);
        let undo = context.undo.take().expect("undo has begun");
        undo.old.into_all().filter_map(|(.., old)| old).for_each(|old| context.discard(old));
    }

    /// Restores the keys as they were. O(changed keys).
    pub fn undo(&self, context: &mut ExecContext) {
        self.mark(false);
        let Undo { old, tally } = *context.undo.take().expect("undo has begun");
        let forgotten = usize::from(planted_scripts::is(Fault::Undo));
        for (db, name, record) in old.into_all().skip(forgotten) {
            Db::new(self, context, db).restore(&name, record);
        }
        context.tally = tally;
        context.effects.abandon();
    }

    fn mark(&self, on: bool) {
        self.each_shard(|shard| self.keyspace().set_interest(shard, UNDO, on));
    }
}

#[cfg(test)]
mod tests;
