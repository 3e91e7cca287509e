//! Several records at the same time, for commands that compute from more than one value.
//!
//! Every other access borrows the database exclusively, because it may find the record expired
//! and remove it. [`Db::read_all`] first looks up all keys and removes expired ones. Then it
//! borrows the live records together, and no key can change before the borrows end.

use super::Db;
use crate::keyspace::Key;
use weft_types::{Record, RecordRef};

/// Keys that are prefetched at the same time.
const BLOCK: usize = 16;

impl Db<'_> {
    /// The records of `keys`, in order, each as by [`Db::read`]. Stops at the first record that
    /// `is_fit` rejects, since the command will fail. Calls `is_fit` once for each record, in
    /// order. A key may appear twice. Expected O(keys).
    pub fn read_all(
        &mut self,
        keys: &[Key<'_>],
        mut is_fit: impl FnMut(&Record) -> bool,
    ) -> Vec<Option<RecordRef<'_>>> {
        'all: for block in keys.chunks(BLOCK) {
            if block.len() > 1 {
                self.prefetch(block.iter());
            }
            for key in block {
                if self.read(key).is_some_and(|record| !is_fit(&record)) {
                    break 'all;
                }
            }
        }
        // The time does not advance here, so a key that `read` found live is still live. This
        // lookup changes nothing, so the records can be borrowed together.
        let now = self.context.over_ms;
        let live = |record: &RecordRef<'_>| record.expiry().is_none_or(|at| at > now);
        let mut find = |key: &Key<'_>| self.table(key.shard()).into_found(key.hash, key.bytes);
        keys.iter().map(|key| find(key).filter(live)).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::context::ExecContext;
    use crate::db::Db;
    use crate::hold::Outside;
    use crate::keyspace::Keyspace;
    use weft_types::string::{New, record};

    #[test]
    fn records_are_borrowed_together_without_the_expired_ones() {
        let keyspace = Keyspace::new(1, 1, Box::new(|_| {}));
        let mut context = ExecContext::new(1000, 1);
        let mut inside = Outside::new(&keyspace, 0).enter();
        let guard = inside.world(&mut context).expect("the slow lane is idle");
        let mut db = Db::new(&guard, &mut context, 0);
        let names: [&[u8]; 5] = [b"a", b"b", b"none", b"late", b"a"];
        let keys = names.map(|name| db.key(name));
        for (name, expiry) in [(0, None), (1, Some(1001)), (3, Some(1000))] {
            db.set(&keys[name], record(names[name], New::Bytes(names[name]), expiry, 0));
        }
        let found: Vec<_> =
            db.read_all(&keys, |_| true).iter().map(|r| r.map(|r| r.key().to_vec())).collect();
        let a = Some(b"a".to_vec());
        assert_eq!(found, [a.clone(), Some(b"b".to_vec()), None, None, a]);
        assert_eq!((context.tally.hits, context.tally.misses, context.tally.expired), (3, 2, 1));
    }
}
