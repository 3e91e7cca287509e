//! The keys of one hash slot, in a cluster: tables keep them together ([`Keyspace::by_slot`](crate::Keyspace::by_slot)).
//! The guard must hold the slot's shard.

use super::Db;
use crate::keyspace::{group_of, shard_of};
use crate::notice::Classes;
use weft_types::RecordRef;

impl Db<'_> {
    /// The number of keys in `slot`, with expired ones that are not removed yet. O(1).
    pub fn count_slot(&self, slot: u16) -> usize {
        assert!(self.holds(shard_of(slot)), "the shard of slot {slot} is not held");
        self.keyspace().slot_len(slot, self.index)
    }

    /// The names of up to `most` keys in `slot`, with expired ones that are not removed yet. O(names).
    pub fn slot_names(&mut self, slot: u16, most: usize) -> Vec<Box<[u8]>> {
        let mut names = Vec::with_capacity(self.count_slot(slot).min(most));
        let mut cursor = 0;
        while names.len() < most {
            cursor = self.table(shard_of(slot)).scan_group(group_of(slot), cursor, |record| {
                if names.len() < most {
                    names.push(record.key().into());
                }
            });
            if cursor == 0 {
                break;
            }
        }
        names
    }

    /// Removes the keys in `slot`, and returns their number. Each of them is logged as `command`, which is DEL or UNLINK, and
    /// notified. O(keys in the slot).
    pub fn delete_slot(&mut self, slot: u16, command: &[u8]) -> usize {
        let mut deleted = 0;
        self.keyspace().observers.moving.count_replacement();
        for name in self.slot_names(slot, usize::MAX) {
            let key = self.key(&name);
            if self.delete(&key) {
                self.notify(Classes::GENERIC, "del", &key);
                self.log(&[command, &name]);
                deleted += 1;
            }
        }
        self.context.tally.dirty += deleted as u64;
        deleted
    }

    /// One step of a scan over the live keys of `slot`, whose shard the guard must hold. Cursor 0 starts and ends the scan.
    /// A key that exists during the whole scan is passed at least once. Between the steps, the shard may be released.
    pub fn scan_slot(
        &mut self,
        slot: u16,
        cursor: u64,
        mut seen: impl FnMut(RecordRef<'_>),
    ) -> u64 {
        let now = self.context.over_ms;
        self.table(shard_of(slot)).scan_group(group_of(slot), cursor, |record| {
            if record.expiry().is_none_or(|at| at > now) {
                seen(record);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::commit;
    use crate::context::ExecContext;
    use crate::hold::Outside;
    use crate::keyspace::Keyspace;
    use weft_base::slot::key_slot;
    use weft_types::string::{New, record};

    const NOW: i64 = 1000;

    /// Keys of two slots in one shard, and of a slot in another one.
    fn tags() -> [(String, u16); 3] {
        let tag = |n: u32| (format!("{{{n}}}"), key_slot(format!("{{{n}}}").as_bytes()));
        let (first, slot) = tag(0);
        let shares = |other: u16| shard_of(other) == shard_of(slot);
        let same = (1..).map(tag).find(|(_, other)| *other != slot && shares(*other));
        let other = (1..).map(tag).find(|(_, other)| !shares(*other));
        [(first, slot), same.expect("a tag"), other.expect("a tag")]
    }

    #[test]
    fn only_keys_of_the_slot_are_counted_listed_and_deleted() {
        let ks = Keyspace::by_slot(2, 1, Box::new(|_| {}));
        let mut context = ExecContext::new(NOW, 1);
        let mut inside = Outside::new(&ks, 0).enter();
        let tags = tags();
        let guard = inside.world(&mut context).expect("the slow lane is idle");
        for (tag, _) in &tags {
            for n in 0..100 {
                let (db, expiry) = (n % 2, (n >= 90).then_some(NOW - 1));
                let name = format!("{tag}{n}");
                let mut db = Db::new(&guard, &mut context, db);
                let key = db.key(name.as_bytes());
                db.set(&key, record(name.as_bytes(), New::Bytes(b"v"), expiry, 0));
            }
        }
        commit(&guard, &mut context);
        drop(guard);
        let slot = tags[0].1;
        let guard = inside.guard_one(&mut context, shard_of(slot)).expect("the shard is free");
        let mut db = Db::new(&guard, &mut context, 0);
        // Five of them have expired.
        assert_eq!((db.count_slot(slot), db.slot_names(slot, usize::MAX).len()), (50, 50));
        let mut live = 0;
        let mut cursor = db.scan_slot(slot, 0, |_| live += 1);
        while cursor != 0 {
            cursor = db.scan_slot(slot, cursor, |_| live += 1);
        }
        assert_eq!(live, 45);
        assert_eq!(db.slot_names(slot, 7).len(), 7);
        assert!(db.slot_names(slot, 0).is_empty());
        assert!(db.slot_names(slot, 50).iter().all(|name| name.starts_with(tags[0].0.as_bytes())));
        assert_eq!(db.delete_slot(slot, b"DEL"), 45);
        assert_eq!((db.count_slot(slot), db.count_slot(tags[1].1)), (0, 50));
        assert_eq!(Db::new(&guard, &mut context, 1).count_slot(slot), 50);
        commit(&guard, &mut context);
    }
}
