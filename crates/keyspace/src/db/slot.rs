//! The keys of one hash slot, found by a walk of the slot's shard, which the guard must hold. A shard has the keys of 64 slots.

use super::Db;
use crate::keyspace::shard_of;
use crate::notice::Classes;
use weft_base::slot::key_slot;

impl Db<'_> {
    /// The number of live keys in `slot`. O(keys in the shard).
    pub fn count_slot(&mut self, slot: u16) -> usize {
        let mut count = 0;
        self.walk_slot(slot, |_| {
            count += 1;
            true
        });
        count
    }

    /// Adds the number of live keys in each slot to `counts`. The guard must hold all shards. O(keys).
    pub fn count_slots(&mut self, counts: &mut [usize]) {
        for shard in 0..crate::keyspace::SHARDS as u16 {
            let mut cursor = 0;
            loop {
                cursor = self.scan_shard(shard, cursor, |record| {
                    counts[usize::from(key_slot(record.key()))] += 1;
                });
                if cursor == 0 {
                    break;
                }
            }
        }
    }

    /// The names of up to `most` live keys in `slot`. O(keys in the shard).
    pub fn slot_names(&mut self, slot: u16, most: usize) -> Vec<Box<[u8]>> {
        let mut names = Vec::new();
        self.walk_slot(slot, |name| {
            if names.len() < most {
                names.push(name.into());
            }
            names.len() < most
        });
        names
    }

    /// Removes the keys in `slot`, and returns their number. Each of them is logged as `command`, which is DEL or UNLINK, and
    /// notified. O(keys in the shard).
    pub fn delete_slot(&mut self, slot: u16, command: &[u8]) -> usize {
        let mut deleted = 0;
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

    /// Calls `seen` for the live keys in `slot`. It returns whether to continue, which counts after each step.
    fn walk_slot(&mut self, slot: u16, mut seen: impl FnMut(&[u8]) -> bool) {
        let mut cursor = 0;
        loop {
            let mut continues = true;
            cursor = self.scan_shard(shard_of(slot), cursor, |record| {
                if key_slot(record.key()) == slot {
                    continues &= seen(record.key());
                }
            });
            if cursor == 0 || !continues {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::commit;
    use crate::context::ExecContext;
    use crate::hold::Outside;
    use crate::keyspace::Keyspace;
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
        let ks = Keyspace::new(2, 1, Box::new(|_| {}));
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
        assert_eq!((db.count_slot(slot), db.slot_names(slot, usize::MAX).len()), (45, 45));
        assert_eq!(db.slot_names(slot, 7).len(), 7);
        assert!(db.slot_names(slot, 0).is_empty());
        assert!(db.slot_names(slot, 50).iter().all(|name| name.starts_with(tags[0].0.as_bytes())));
        assert_eq!(db.delete_slot(slot, b"DEL"), 45);
        assert_eq!((db.count_slot(slot), db.count_slot(tags[1].1)), (0, 45));
        assert_eq!(Db::new(&guard, &mut context, 1).count_slot(slot), 45);
        commit(&guard, &mut context);
    }
}
