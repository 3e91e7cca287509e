//! Changes of keys in slots that are being copied to another server.
//!
//! A slot whose changes are recorded has a set of the names of its changed keys. Its shard has the interest bit
//! [`MOVING`], so that every change, also by expiry and eviction, makes an effect; settling it adds the name, before the
//! shard is released. The copier takes names and reads the keys' values while it holds the shard. So the last value that it
//! has read of a key is the present one, unless the key is in the set.

use crate::commit::commit;
use crate::context::ExecContext;
use crate::db::Db;
use crate::guard::{Guard, ShardSet};
use crate::hold::SlowLaneThread;
use crate::interest::MOVING;
use crate::keyspace::{Keyspace, shard_of};
use crate::moving_slots::{ChangedKeys, CopyNumber, Recorded};
use std::collections::BTreeSet;

impl Keyspace {
    /// A number for a new copy of slots.
    pub fn new_copy(&self) -> CopyNumber {
        self.observers.moving.new_copy()
    }

    /// Begins to record the changes of keys in `slot`, whose shard the guard holds, for this copy. It ends the recording for an
    /// earlier one.
    pub fn begin_moving(&self, guard: &Guard<'_>, slot: u16, copy: CopyNumber) {
        let shard = shard_of(slot);
        assert!(guard.holds(shard), "the shard of slot {slot} is not held");
        let begun = Recorded { copy, changed: ChangedKeys::default() };
        self.observers.moving.with(shard, |slots| slots.insert(slot, begun));
        self.set_interest(shard, MOVING, true);
    }

    /// Ends it, unless a later copy has begun.
    pub fn end_moving(&self, guard: &Guard<'_>, slot: u16, copy: CopyNumber) {
        let shard = shard_of(slot);
        assert!(guard.holds(shard), "the shard of slot {slot} is not held");
        let is_last = self.observers.moving.with(shard, |slots| {
            if slots.get(&slot).is_some_and(|recorded| recorded.copy == copy) {
                slots.remove(&slot);
            }
            slots.is_empty()
        });
        self.set_interest(shard, MOVING, !is_last);
    }

    /// Takes up to `most` names of changed keys in `slot`, whose shard the guard holds. `None`: they are not recorded for this
    /// copy any more.
    pub fn take_changed(
        &self,
        guard: &Guard<'_>,
        slot: u16,
        copy: CopyNumber,
        most: usize,
    ) -> Option<ChangedKeys> {
        let shard = shard_of(slot);
        assert!(guard.holds(shard), "the shard of slot {slot} is not held");
        self.observers.moving.with(shard, |slots| {
            let recorded = slots.get_mut(&slot).filter(|recorded| recorded.copy == copy)?;
            let changed = &mut recorded.changed;
            let mut names = BTreeSet::new();
            while names.len() < most
                && let Some(name) = changed.names.pop_first()
            {
                names.insert(name);
            }
            Some(ChangedKeys { names, replaced: changed.replaced })
        })
    }

    /// Whether [`Keyspace::take_changed`] has something to report; may be outdated at once.
    pub fn has_changed(&self, slot: u16, copy: CopyNumber) -> bool {
        self.observers.moving.with(shard_of(slot), |slots| match slots.get(&slot) {
            Some(Recorded { copy: of, changed }) if *of == copy => {
                changed.replaced || !changed.names.is_empty()
            }
            Some(_) | None => true,
        })
    }

    /// How often databases were emptied or exchanged, or all keys of a slot removed, since the start. A copy to this server
    /// that began before the last time has lost keys.
    pub fn replacements(&self) -> u64 {
        self.observers.moving.replacements()
    }

    /// Deletes the keys of `slot` in all databases, in steps, for replicas and files, too, while `may`, which is asked under
    /// each hold of the shard. Returns the number of deleted keys.
    pub fn clean_slot(
        &self,
        thread: &mut SlowLaneThread<'_>,
        context: &mut ExecContext,
        slot: u16,
        may: &mut dyn FnMut() -> bool,
    ) -> usize {
        /// Keys that are deleted under one hold.
        const STEP: usize = 64;
        let set = ShardSet::one(shard_of(slot));
        let mut deleted = 0;
        for index in 0..self.databases() {
            while self.slot_len(slot, index) > 0 {
                let mut guard = thread.hold(context, &set);
                if !may() {
                    return deleted;
                }
                let mut db = Db::new(&guard, context, index);
                let names = db.slot_names(slot, STEP);
                for name in &names {
                    let key = db.key(name);
                    if db.delete(&key) {
                        db.log(&[b"UNLINK", name]);
                        db.context.effects.end_unlogged();
                        deleted += 1;
                    }
                }
                guard.begin_commit();
                commit(&guard, context);
                guard.publish();
                drop(guard);
                context.ring(&self.observers.log);
                context.free_removed();
                drop(context.take_removed());
                if names.is_empty() {
                    break;
                }
            }
        }
        deleted
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::hold::Outside;
    use weft_base::slot::key_slot;
    use weft_types::string::{New, record};

    fn put(db: &mut Db<'_>, name: &[u8]) {
        let key = db.key(name);
        db.set(&key, record(name, New::Bytes(b"v"), None, 0));
    }

    #[test]
    fn changed_keys_of_the_slot_are_recorded_and_no_others() {
        let ks = Keyspace::by_slot(2, 1, Box::new(|_| {}));
        let mut context = ExecContext::new(1000, 1);
        let mut inside = Outside::new(&ks, 0).enter();
        let slot = key_slot(b"{a}");
        let guard = inside.world(&mut context).expect("nothing runs");
        let copy = ks.new_copy();
        ks.begin_moving(&guard, slot, copy);
        for (db, name) in [(0, &b"{a}1"[..]), (1, b"{a}2"), (0, b"{b}1"), (0, b"{a}1")] {
            put(&mut Db::new(&guard, &mut context, db), name);
            context.effects.end_unlogged();
            commit(&guard, &mut context);
        }
        let take = |most| ks.take_changed(&guard, slot, copy, most).expect("it is recorded");
        assert!(ks.has_changed(slot, copy));
        let changed = take(1);
        assert_eq!((changed.names.len(), changed.replaced), (1, false));
        assert_eq!(take(9).names.len(), 1);
        assert_eq!(take(9), ChangedKeys::default());
        assert!(!ks.has_changed(slot, copy));
        drop(Db::new(&guard, &mut context, 0).take_all());
        commit(&guard, &mut context);
        assert!(take(9).replaced);
        ks.end_moving(&guard, slot, copy);
        put(&mut Db::new(&guard, &mut context, 0), b"{a}1");
        context.effects.end_unlogged();
        commit(&guard, &mut context);
        assert_eq!(ks.take_changed(&guard, slot, copy, 9), None);
    }

    /// A copy that was given up ends when the next one of the same slot has begun.
    #[test]
    fn late_end_of_a_copy_leaves_the_record_of_the_next_one() {
        let ks = Keyspace::by_slot(1, 1, Box::new(|_| {}));
        let mut context = ExecContext::new(1000, 1);
        let mut inside = Outside::new(&ks, 0).enter();
        let slot = key_slot(b"{a}");
        let guard = inside.world(&mut context).expect("nothing runs");
        let (early, late) = (ks.new_copy(), ks.new_copy());
        ks.begin_moving(&guard, slot, early);
        ks.begin_moving(&guard, slot, late);
        assert!(ks.has_changed(slot, early), "it learns that it was given up");
        assert_eq!(ks.take_changed(&guard, slot, early, 9), None);
        ks.end_moving(&guard, slot, early);
        put(&mut Db::new(&guard, &mut context, 0), b"{a}1");
        context.effects.end_unlogged();
        commit(&guard, &mut context);
        let changed = ks.take_changed(&guard, slot, late, 9).expect("it is recorded");
        assert_eq!(changed.names.len(), 1);
    }

    #[test]
    fn replacements_are_counted() {
        let ks = Keyspace::by_slot(2, 1, Box::new(|_| {}));
        let mut context = ExecContext::new(1000, 1);
        let mut inside = Outside::new(&ks, 0).enter();
        let guard = inside.world(&mut context).expect("nothing runs");
        let mut db = Db::new(&guard, &mut context, 0);
        put(&mut db, b"{a}1");
        let mut counted = vec![ks.replacements()];
        drop(db.take_all());
        counted.push(ks.replacements());
        db.swap_with(1);
        counted.push(ks.replacements());
        db.delete_slot(key_slot(b"{a}"), b"DEL");
        counted.push(ks.replacements());
        assert!(counted.windows(2).all(|pair| pair[0] < pair[1]), "{counted:?}");
    }

    #[test]
    fn cleaning_deletes_the_keys_of_the_slot_in_all_databases() {
        let ks = Keyspace::by_slot(2, 1, Box::new(|_| {}));
        let mut context = ExecContext::new(1000, 1);
        let slot = key_slot(b"{a}");
        {
            let mut inside = Outside::new(&ks, 0).enter();
            let guard = inside.world(&mut context).expect("nothing runs");
            for n in 0..300 {
                put(&mut Db::new(&guard, &mut context, n % 2), format!("{{a}}{n}").as_bytes());
            }
            put(&mut Db::new(&guard, &mut context, 0), b"{b}1");
            context.effects.end_unlogged();
            commit(&guard, &mut context);
        }
        let mut thread = SlowLaneThread::background(&ks, &|| 1000);
        let mut rest = 2;
        let mut twice = || {
            rest -= 1;
            rest >= 0
        };
        assert_eq!(ks.clean_slot(&mut thread, &mut context, slot, &mut twice), 128);
        assert_eq!(ks.clean_slot(&mut thread, &mut context, slot, &mut || true), 300 - 128);
        assert_eq!((ks.slot_len(slot, 0), ks.slot_len(slot, 1)), (0, 0));
        assert_eq!(ks.counts(0).0, 1);
    }
}
