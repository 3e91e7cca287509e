//! Telling those who want to know that a key has changed.
//!
//! Every operation of [`Db`] that changes a key ends in one of these: [`Db::changed`],
//! [`Db::came`], [`Db::went`], [`Db::replaced`]. See [`crate::interest`] for who is told.

use super::Db;
use crate::interest::{Event, JOURNALED, WAITED, WATCHED, Watch};
use crate::keyspace::{Key, Keyspace};
use std::sync::Arc;
use weft_types::{Kind, Record};

impl Db<'_> {
    #[inline]
    fn interest(&self, shard: u16) -> u32 {
        self.keyspace().interest(shard)
    }

    /// The value of `key` has changed.
    #[inline]
    pub(crate) fn changed(&mut self, key: &Key<'_>) {
        if self.interest(key.shard) & WATCHED != 0 {
            self.break_watches(key.shard, key.bytes);
        }
    }

    /// `key` came to be.
    #[inline]
    pub(crate) fn came(&mut self, key: &Key<'_>) {
        if self.interest(key.shard) != 0 {
            self.tell_came(key);
        }
    }

    #[cold]
    fn tell_came(&mut self, key: &Key<'_>) {
        let interest = self.interest(key.shard);
        if interest & WATCHED != 0 {
            self.break_watches(key.shard, key.bytes);
        }
        if interest & WAITED != 0 {
            self.turn.appeared.push((self.index, key.bytes.to_vec()));
        }
        if interest & JOURNALED != 0 {
            self.note(key.shard, key.bytes, Event::Came);
        }
    }

    /// The key of these bytes, which had this expiry, is no more.
    #[inline]
    pub(crate) fn went(&mut self, shard: u16, key: &[u8], expiry: Option<i64>) {
        let interest = self.interest(shard);
        if interest & WATCHED != 0 {
            self.break_watches(shard, key);
        }
        if interest & JOURNALED != 0 {
            self.note(shard, key, Event::Went(expiry));
        }
    }

    /// The record of `key` was `dead` and is another one now. Discards the dead one.
    #[inline]
    pub(crate) fn replaced(&mut self, key: &Key<'_>, dead: Record) {
        if self.interest(key.shard) != 0 {
            self.tell_replaced(key, &dead);
        }
        self.turn.discard(dead);
    }

    #[cold]
    fn tell_replaced(&mut self, key: &Key<'_>, dead: &Record) {
        let now = self.turn.now_ms;
        let new_type = self.table(key.shard).find(key.hash, key.bytes).map(|record| record.kind());
        let same_type = new_type
            .is_some_and(|kind| Kind::of(kind).type_of() == Kind::of(dead.kind()).type_of());
        if same_type && dead.expiry().is_none_or(|at| at > now) {
            return self.changed(key);
        }
        // Clients may wait for a key that has the wrong type, and an expired one is none.
        self.went(key.shard, key.bytes, dead.expiry());
        self.tell_came(key);
    }

    #[cold]
    fn break_watches(&mut self, shard: u16, key: &[u8]) {
        let ks = self.keyspace();
        let left = ks.interests[usize::from(shard)].break_watches(self.index, key);
        ks.set_interest(shard, WATCHED, left);
    }

    #[cold]
    fn note(&mut self, shard: u16, key: &[u8], event: Event) {
        self.keyspace().interests[usize::from(shard)].note(self.index, key, event);
    }

    /// Whether `key` is there; an expired one is not, and is left alone.
    fn lives(&mut self, key: &Key<'_>) -> bool {
        let now = self.turn.now_ms;
        let found = self.table(key.shard).into_found(key.hash, key.bytes);
        found.is_some_and(|record| record.expiry().is_none_or(|at| at > now))
    }

    /// All keys of this database are about to go from `shard`.
    pub(super) fn break_watches_of(&mut self, shard: u16) {
        if self.interest(shard) & WATCHED == 0 {
            return;
        }
        let ks = self.keyspace();
        let index = self.index;
        let interest = &ks.interests[usize::from(shard)];
        interest.break_where(index, |bytes| self.lives(&ks.key(bytes)));
    }

    /// The keys of this database and of `other` are about to be exchanged in `shard`: keys that
    /// are in either change in both, and those that wait for keys in either may find them.
    pub(super) fn break_watches_of_both(&mut self, shard: u16, other: usize) {
        let ks = self.keyspace();
        if self.interest(shard) & WATCHED == 0 {
            return;
        }
        let interest = &ks.interests[usize::from(shard)];
        for watched in [self.index, other] {
            // An expired key must not come into a database where its absence is watched.
            for bytes in interest.watched(watched) {
                let key = ks.key(&bytes);
                let _ = self.peek(&key);
                let _ = self.other(other).peek(&key);
            }
            interest.break_where(watched, |bytes| {
                let key = ks.key(bytes);
                self.lives(&key) || self.other(other).lives(&key)
            });
        }
    }

    /// Has `watch` be broken by the next change of `key`, whose shard must be held.
    pub fn watch(&mut self, key: &Key<'_>, watch: &Arc<Watch>) {
        assert!(self.holds(key.shard), "a watched key's shard must be held");
        // An expired key is removed first: that is no change after the watch began.
        let _ = self.peek(key);
        let ks: &Keyspace = self.keyspace();
        ks.interests[usize::from(key.shard)].watch(self.index, key.bytes, watch);
        ks.set_interest(key.shard, WATCHED, true);
    }

    /// Whether `key` has expired and is only not removed yet.
    pub fn is_expired(&mut self, key: &Key<'_>) -> bool {
        let now = self.turn.now_ms;
        let found = self.table(key.shard).into_found(key.hash, key.bytes);
        found.and_then(|record| record.expiry()).is_some_and(|at| at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::Turn;
    use weft_types::string::{New, record};

    fn set(db: &mut Db<'_>, name: &[u8], at: Option<i64>) {
        let key = db.key(name);
        db.set(&key, record(name, New::Bytes(b"v"), at, 0));
    }

    /// Whether `act` breaks a watch of `k` in database 0.
    fn breaks(act: impl FnOnce(&mut Db<'_>, &Key<'_>)) -> bool {
        let ks = Keyspace::new(2, 1, Box::new(|_| {}));
        let guard = ks.world();
        let mut turn = Turn::new(1000, 1);
        let mut db = Db::new(&guard, &mut turn, 0);
        set(&mut db, b"k", Some(2000));
        let key = db.key(b"k");
        let watch = Arc::new(Watch::default());
        db.watch(&key, &watch);
        act(&mut db, &key);
        watch.is_broken()
    }

    #[test]
    fn every_change_breaks_a_watch_and_nothing_else_does() {
        assert!(breaks(|db, _| set(db, b"k", None)));
        assert!(breaks(|db, key| drop(db.remove(key))));
        assert!(breaks(|db, key| assert!(db.set_expiry(key, None))));
        assert!(breaks(|db, _| drop(db.take_all())));
        assert!(breaks(|db, _| db.swap_with(1)));
        assert!(breaks(|db, key| {
            db.turn.set_time(3000);
            assert!(db.peek(key).is_none());
        }));
        assert!(breaks(|db, key| db.alter(key, |_, _| super::super::Change::Remove)));
        assert!(!breaks(|db, key| db.alter(key, |_, _| super::super::Change::Nothing)));
        assert!(!breaks(|db, _| set(db, b"other", None)));
        assert!(!breaks(|db, _| set(&mut db.other(1), b"k", None)));
        assert!(!breaks(|db, key| assert!(db.read(key).is_some())));
    }

    #[test]
    fn keys_that_come_are_reported_where_somebody_waits() {
        let ks = Keyspace::new(2, 1, Box::new(|_| {}));
        let guard = ks.world();
        let mut turn = Turn::new(1000, 1);
        let mut db = Db::new(&guard, &mut turn, 1);
        set(&mut db, b"early", None);
        ks.set_waited(ks.key(b"k").shard, true);
        set(&mut db, b"k", None);
        set(&mut db, b"k", None);
        assert_eq!(db.turn.appeared, [(1, b"k".to_vec())]);
        ks.set_waited(ks.key(b"k").shard, false);
        db.turn.appeared.clear();
        db.delete(&ks.key(b"k"));
        set(&mut db, b"k", None);
        assert_eq!(db.turn.appeared, []);
    }
}
