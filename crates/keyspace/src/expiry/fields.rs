//! The walk over expiring hash fields, in steps like those over the keys.
//!
//! Records of hashes with such fields are marked, so a sweep of the table finds them and touches
//! no others. A hash can be larger than a step may be. So the walk notes the names of the marked
//! keys of a few buckets and visits them one by one, a part of a hash at a time. Each visit looks
//! the name up again, so it sees the current value even if the key has changed in between.

use super::{BUCKETS_PER_STEP, Met, Position, Walk};
use crate::commit::commit;
use crate::context::ExecContext;
use crate::db::{Db, Rework};
use crate::hold::Inside;
use crate::keyspace::Key;
use crate::notice::Classes;
use weft_table::{Verdict, Which};
use weft_types::{Record, hash};

/// Fields with an expiry to visit in one step, before the last part of a hash.
const FIELDS_PER_STEP: usize = 100;

/// A position in the walk over the hashes of one database.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The position from which the names were taken.
    position: Position,
    /// Marked keys that are still to be visited.
    names: Vec<Box<[u8]>>,
    /// The position in the hash of the last name.
    cursor: u64,
}

impl Progress {
    /// Whether no hash is partly visited or waits for its visit.
    pub(super) fn is_between_hashes(&self) -> bool {
        self.names.is_empty()
    }
}

impl Walk<'_> {
    /// Visits parts of some hashes with expiring fields. `None`, after O(shards), if there are
    /// none.
    pub(super) fn fields_step(
        &self,
        inside: &mut Inside<'_>,
        context: &mut ExecContext,
        at: &mut Progress,
    ) -> Option<Met> {
        let (mut examined, mut expired) = (0, 0);
        while examined < FIELDS_PER_STEP {
            // At most one round of names, so that a step does not visit a few small hashes
            // repeatedly.
            if at.names.is_empty() && (examined > 0 || !self.more_names(inside, context, at)) {
                break;
            }
            let Some(name) = at.names.last() else { break };
            let key = self.ks.key(name);
            let step = match inside.guard_one(context, key.shard()) {
                Ok(guard) => {
                    let mut db = Db::new(&guard, context, self.db);
                    let step = expire_some(&mut db, &key, at.cursor);
                    commit(&guard, context);
                    step
                }
                // Skip a busy shard.
                Err(_) => hash::Step::default(),
            };
            examined += step.examined;
            expired += step.removed;
            at.cursor = step.next;
            if step.next == 0 {
                at.names.pop();
            }
        }
        context.tally.expired_fields += expired as u64;
        (examined > 0).then_some(Met { examined: examined as u64, expired: expired as u64 })
    }

    /// Notes the marked keys of a few buckets of the next table that has some and whose shard is
    /// free. Returns whether it found any.
    fn more_names(
        &self,
        inside: &mut Inside<'_>,
        context: &mut ExecContext,
        at: &mut Progress,
    ) -> bool {
        let position = &mut at.position;
        for _ in 0..=self.shards.len() {
            let shard = self.shards[position.nth % self.shards.len()];
            let marked = self.ks.shard_timed(shard, self.db) > 0;
            if marked && let Ok(guard) = inside.guard_one(context, shard) {
                let mut db = Db::new(&guard, context, self.db);
                position.cursor = db.sweep_table(shard).sweep(
                    position.cursor,
                    BUCKETS_PER_STEP,
                    Which::Marked,
                    |record| {
                        at.names.push(record.key().into());
                        Verdict::Keep
                    },
                    drop,
                );
                if position.cursor == 0 {
                    position.next_shard(self.shards);
                }
                if !at.names.is_empty() {
                    return true;
                }
            } else {
                position.next_shard(self.shards);
            }
        }
        false
    }
}

/// One step through the hash of `key`; an empty step if the key holds no hash any more.
fn expire_some(db: &mut Db<'_>, key: &Key<'_>, cursor: u64) -> hash::Step {
    // No client uses the key: its access clock stays.
    let no_touch = std::mem::replace(&mut db.context.no_touch, true);
    let now = db.context.now_ms;
    let mut emptied = false;
    let mut gone: Option<Vec<Vec<u8>>> = db.is_logged().then(Vec::new);
    let step = db.rework(key, |record, _| match record {
        None => (Rework::Absent, hash::Step::default()),
        Some(record) if hash::is_hash(&record) => {
            let (rework, step) = expire_some_of(record, cursor, now, &mut |field| {
                gone.iter_mut().for_each(|gone| gone.push(field.to_vec()));
            });
            emptied = matches!(rework, Rework::Emptied(_));
            (rework, step)
        }
        Some(other) => (Rework::Same(other), hash::Step::default()),
    });
    db.context.no_touch = no_touch;
    if step.removed > 0 {
        // The notice is in the class of expiry, not in that of hashes.
        db.notify(Classes::EXPIRED, "hexpired", key);
    }
    if emptied {
        db.notify(Classes::GENERIC, "del", key);
    }
    if let Some(gone) = gone.filter(|gone| !gone.is_empty()) {
        db.log_expired_fields(key, &gone, emptied);
    }
    step
}

fn expire_some_of(
    record: Record,
    cursor: u64,
    now_ms: i64,
    gone: &mut dyn FnMut(&[u8]),
) -> (Rework, hash::Step) {
    let (record, step) = hash::expire_some(record, cursor, now_ms, gone);
    if step.removed == 0 {
        (Rework::Same(record), step)
    } else if hash::len(&record) == 0 {
        (Rework::Emptied(record), hash::Step { next: 0, ..step })
    } else {
        (Rework::Changed(record), step)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SweepState, sweep};
    use super::*;
    use crate::hold::Outside;
    use crate::keyspace::{Keyspace, SHARDS};
    use weft_types::Limits;

    const NOW: i64 = 1_000_000;

    /// Stores a hash of `dead` fields that expire at `NOW`, `live` fields that expire later, and
    /// `kept` others.
    fn put(ks: &Keyspace, context: &mut ExecContext, name: &[u8], dead: u32, live: u32, kept: u32) {
        let mut inside = Outside::new(ks, 0).enter();
        let guard = inside.world(context).expect("the slow lane is idle");
        let mut db = Db::new(&guard, context, 0);
        let key = db.key(name);
        let limits = Limits::default();
        let mut record = hash::create(name, &[], 0, &limits);
        for n in 0..dead + live + kept {
            let expiry = match n {
                n if n < dead => Some(NOW),
                n if n < dead + live => Some(NOW + 1),
                _ => None,
            };
            let field = n.to_string().into_bytes();
            record = hash::set(record, &field, b"value", expiry, 0, &limits).0;
        }
        db.set(&key, record);
    }

    fn len(ks: &Keyspace, context: &mut ExecContext, name: &[u8]) -> Option<usize> {
        let mut inside = Outside::new(ks, 0).enter();
        let guard = inside.world(context).expect("the slow lane is idle");
        let mut db = Db::new(&guard, context, 0);
        let key = db.key(name);
        db.peek(&key).map(|record| hash::len(&record))
    }

    fn sweep_often(ks: &Keyspace, context: &mut ExecContext, times: usize) {
        let shards: Vec<u16> = (0..SHARDS as u16).collect();
        let mut state = SweepState::default();
        for _ in 0..times {
            sweep(&mut Outside::new(ks, 0).enter(), context, &mut state, &shards, 1, &mut || true);
        }
    }

    #[test]
    fn removes_expired_fields_and_the_keys_they_leave_empty() {
        let ks = Keyspace::new(2, 1, Box::new(|_| {}));
        let mut context = ExecContext::new(NOW, 1);
        put(&ks, &mut context, b"some", 300, 20, 10);
        put(&ks, &mut context, b"large", 20_000, 0, 1);
        put(&ks, &mut context, b"all", 5, 0, 0);
        put(&ks, &mut context, b"none", 0, 40, 3);
        put(&ks, &mut context, b"plain", 0, 0, 600);
        assert_eq!(ks.sums(0).timed, 4);
        sweep_often(&ks, &mut context, 50);
        assert_eq!(len(&ks, &mut context, b"some"), Some(30));
        assert_eq!(len(&ks, &mut context, b"large"), Some(1));
        assert_eq!(len(&ks, &mut context, b"all"), None);
        assert_eq!(len(&ks, &mut context, b"none"), Some(43));
        assert_eq!(len(&ks, &mut context, b"plain"), Some(600));
        assert_eq!(context.tally.expired_fields, 20_305);
        assert_eq!((context.tally.expired, ks.sums(0).timed), (0, 2));
        context.set_time(NOW + 1);
        sweep_often(&ks, &mut context, 50);
        assert_eq!(ks.sums(0).timed, 0);
        assert_eq!(context.tally.expired_fields, 20_365);
        context.free_removed();
    }

    #[test]
    fn a_key_may_change_type_during_the_walk() {
        let ks = Keyspace::new(2, 1, Box::new(|_| {}));
        let mut context = ExecContext::new(NOW, 1);
        put(&ks, &mut context, b"h", 5000, 0, 0);
        let shards: Vec<u16> = (0..SHARDS as u16).collect();
        let mut state = SweepState::default();
        let swept = sweep(
            &mut Outside::new(&ks, 0).enter(),
            &mut context,
            &mut state,
            &shards,
            1,
            &mut || false,
        );
        // The walk over keys comes first and finds none; then one step over fields.
        let expired = swept.fields.expired;
        assert!(swept.unfinished && expired > 0 && expired < 5000, "{swept:?}");
        {
            let mut inside = Outside::new(&ks, 0).enter();
            let guard = inside.world(&mut context).expect("the slow lane is idle");
            let mut db = Db::new(&guard, &mut context, 0);
            let key = db.key(b"h");
            let new = weft_types::string::New::Bytes(b"text");
            db.set(&key, weft_types::string::record(b"h", new, None, 0));
        }
        assert_eq!(ks.sums(0).timed, 0, "a string that replaces a hash is not marked");
        sweep_often(&ks, &mut context, 3);
        let before = context.tally.expired_fields;
        sweep(&mut Outside::new(&ks, 0).enter(), &mut context, &mut state, &shards, 1, &mut || {
            true
        });
        assert_eq!(context.tally.expired_fields, before);
        assert_eq!(ks.counts(0).0, 1);
    }
}
