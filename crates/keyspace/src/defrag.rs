//! Active defragmentation: moves records out of mostly empty pages, so that the allocator can
//! release these pages.
//!
//! A step visits the records of a few buckets under their shard's lock, asks which of them are
//! badly placed, and moves those into new allocations. The allocator chooses the new places; the
//! caller must prepare it (a thread's cache of freed places would return the same holes again).
//! Nothing else changes: no effect, no access clock, no watch. Small keys and values move whole;
//! allocations that a large value owns in addition to its record stay.

use crate::context::ExecContext;
use crate::db::Db;
use crate::hold::Inside;
use crate::keyspace::SHARDS;

/// The position of a thread's walk over all records.
#[derive(Clone, Copy, Debug, Default)]
pub struct Walk {
    db: usize,
    /// Index into the thread's shards.
    nth: usize,
    cursor: u64,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub examined: u64,
    pub moved: u64,
    /// All records of these shards were visited: the walk begins again.
    pub is_last: bool,
}

impl Walk {
    /// Visits a few buckets of `shards`. `is_badly_placed` gets address and size of a record's
    /// allocation and must not allocate much. Skips a busy shard. O(records visited).
    pub fn step(
        &mut self,
        inside: &mut Inside<'_>,
        context: &mut ExecContext,
        shards: &[u16],
        is_badly_placed: &mut impl FnMut(*const u8, usize) -> bool,
    ) -> Step {
        let mut done = Step::default();
        let databases = inside.keyspace().databases();
        let Some(shard) = shards.get(self.nth).copied().filter(|_| self.db < databases) else {
            *self = Walk::default();
            return Step { is_last: true, ..done };
        };
        debug_assert!(usize::from(shard) < SHARDS);
        let is_empty = inside.keyspace().shard_len(shard, self.db) == 0;
        if !is_empty && let Ok(guard) = inside.guard_one(context, shard) {
            let mut db = Db::new(&guard, context, self.db);
            self.cursor = db.relocate_step(shard, self.cursor, &mut done, is_badly_placed);
        } else {
            self.cursor = 0;
        }
        if self.cursor == 0 {
            self.nth += 1;
            if self.nth == shards.len() {
                (self.db, self.nth) = (self.db + 1, 0);
                done.is_last = self.db == databases;
                if done.is_last {
                    self.db = 0;
                }
            }
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hold::Outside;
    use crate::keyspace::Keyspace;
    use weft_types::string::{New, record};

    #[test]
    fn every_record_is_visited_once_and_keeps_its_data() {
        let ks = Keyspace::new(2, 1, Box::new(|_| {}));
        let mut context = ExecContext::new(1000, 1);
        let mut inside = Outside::new(&ks, 0).enter();
        let names: Vec<String> = (0..500).map(|n| format!("key:{n}")).collect();
        for (n, name) in names.iter().enumerate() {
            let guard = inside.world(&mut context).expect("the slow lane is idle");
            let mut db = Db::new(&guard, &mut context, n % 2);
            let key = db.key(name.as_bytes());
            let expiry = (n % 3 == 0).then_some(5000);
            db.set(&key, record(name.as_bytes(), New::Bytes(name.as_bytes()), expiry, 7));
            crate::commit::commit(&guard, &mut context);
        }
        let shards: Vec<u16> = (0..SHARDS as u16).collect();
        let mut walk = Walk::default();
        let mut all = Step::default();
        let mut odd = 0u64;
        loop {
            let step = walk.step(&mut inside, &mut context, &shards, &mut |_, _| {
                odd += 1;
                odd % 2 == 1
            });
            all.examined += step.examined;
            all.moved += step.moved;
            if step.is_last {
                break;
            }
        }
        assert_eq!((all.examined, all.moved), (500, 250));
        assert!(context.effects.is_empty());
        for (n, name) in names.iter().enumerate() {
            let guard = inside.world(&mut context).expect("the slow lane is idle");
            let mut db = Db::new(&guard, &mut context, n % 2);
            let key = db.key(name.as_bytes());
            let record = db.peek(&key).expect("it is there");
            assert_eq!((record.key(), record.clock()), (name.as_bytes(), 7));
            assert_eq!(record.expiry(), (n % 3 == 0).then_some(5000));
        }
    }
}
