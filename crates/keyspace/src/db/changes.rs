//! Changes as effects: before a key changes, and after.
//!
//! Every operation of [`Db`] that changes a key calls [`Db::before_write`] first, and then one of
//! [`Db::note_changed`], [`Db::note_created`], [`Db::note_removed`], [`Db::note_replaced`]. [`crate::effect`] describes how
//! effects are published.

use super::Db;
use crate::commit::settle;
use crate::context::{Deletion, Expired};
use crate::effect::{Cause, Effect, KeyChange};
use crate::interest::{
    FOLLOWED, LOGGED, REPLICA_EXPIRY, RUNNING, SNAPSHOT, UNDO, WAITED, WATCHED, Watch,
};
use crate::keyspace::{Key, Keyspace, SHARDS};
use crate::log::unit::Target;
use crate::notice::Classes;
use crate::snapshot;
use crate::snapshot::planted::{self, Fault};
use std::sync::Arc;
use weft_types::{Kind, Record};

impl Db<'_> {
    /// The interest bits of `shard` that need effects. A snapshot does not: it copies old values
    /// before the change.
    #[inline]
    fn interest(&self, shard: u16) -> u32 {
        self.keyspace().interest(shard) & !(SNAPSHOT | UNDO)
    }

    /// `key` may be about to change and still has its old value. This is the only place where the
    /// old value can be kept.
    #[inline]
    pub(crate) fn before_write(&mut self, key: &Key<'_>) {
        self.context.effects.announce(self.index, key);
        if self.keyspace().interest(key.shard()) & (SNAPSHOT | RUNNING | REPLICA_EXPIRY | UNDO) != 0
        {
            Db::keep(self.guard, self.context, self.index, key);
        }
    }

    /// A sweep has removed `dead`, an expired key, from its table. The key may not have expired
    /// yet at the cut of a snapshot.
    pub(crate) fn note_swept(&mut self, dead: &Record) {
        let key = self.key(dead.key());
        self.context.effects.announce(self.index, &key);
        let wanted = self.keyspace().interest(key.shard()) & SNAPSHOT != 0;
        if wanted && !planted::is(Fault::SweepsForgotten) {
            snapshot::shards::keep(self.keyspace(), self.index, &key, Some(dead));
        }
        self.note_removed(&key, dead.expiry(), Cause::Expiry);
    }

    fn effect(&mut self, key: &Key<'_>, change: KeyChange, cause: Cause) {
        let (db, shard, key, by) = (self.index, key.shard(), key.bytes.into(), self.context.client);
        self.context.effects.push(Effect { db, shard, key, change, cause, by });
    }

    /// Records a keyspace notification about `key`, if this class is wanted. Call it when the
    /// change is made: notices are sent in the order of the calls.
    #[inline]
    pub fn notify(&mut self, class: Classes, event: &'static str, key: &Key<'_>) {
        if self.context.effects.wants(class) {
            self.context.effects.push_notice(self.index, class, event, key.bytes);
        }
    }

    /// The value of `key` has changed.
    #[inline]
    pub(crate) fn note_changed(&mut self, key: &Key<'_>) {
        self.context.effects.check_announced(self.index, key);
        if self.interest(key.shard()) != 0 {
            self.record(key, KeyChange::Changed, Cause::Command);
        }
    }

    /// `key` was created.
    #[inline]
    pub(crate) fn note_created(&mut self, key: &Key<'_>) {
        self.context.effects.check_announced(self.index, key);
        self.note_first(key.shard());
        if self.interest(key.shard()) != 0 {
            self.record(key, KeyChange::New, Cause::Command);
        }
        self.notify(Classes::NEW, "new", key);
    }

    /// A key was inserted into the table of `shard`.
    #[inline]
    pub(super) fn note_first(&mut self, shard: u16) {
        if self.table(shard).len() == 1 {
            self.keyspace().occupied.note(shard, self.index);
        }
    }

    /// The table of `shard`, which the guard must hold, was replaced.
    pub(super) fn note_table(&mut self, shard: u16) {
        let occupied = &self.keyspace().occupied;
        match self.table(shard).is_empty() {
            true => occupied.forget(shard, self.index),
            false => occupied.note(shard, self.index),
        }
    }

    /// `key`, which had this expiry, was removed.
    #[inline]
    pub(crate) fn note_removed(&mut self, key: &Key<'_>, expiry: Option<i64>, cause: Cause) {
        self.context.effects.check_announced(self.index, key);
        if self.interest(key.shard()) != 0 {
            self.record(key, KeyChange::Gone(expiry), cause);
        }
        match cause {
            // The command sends the notice: DEL, RENAME and others differ.
            Cause::Command => {}
            Cause::Expiry => self.notify(Classes::EXPIRED, "expired", key),
            Cause::Eviction => self.notify(Classes::EVICTED, "evicted", key),
        }
    }

    #[cold]
    fn record(&mut self, key: &Key<'_>, change: KeyChange, cause: Cause) {
        self.record_for_log(key, cause);
        self.note_expiry(key, change);
        if self.interest(key.shard()) & !(LOGGED | REPLICA_EXPIRY) != 0 {
            self.effect(key, change, cause);
        }
    }

    /// On a writable replica: records the key if a client has changed its expiry.
    fn note_expiry(&mut self, key: &Key<'_>, change: KeyChange) {
        if self.interest(key.shard()) & REPLICA_EXPIRY == 0 {
            return;
        }
        let noted = &self.keyspace().noted;
        match change {
            KeyChange::Gone(_) => noted.removed(key.shard(), self.index, key.bytes),
            KeyChange::New | KeyChange::Changed => {
                let found = self.table(key.shard()).into_found(key.hash, key.bytes);
                let at = found.and_then(|record| record.expiry());
                // Writes of the primary run with `Keep`.
                let is_client = self.context.expired == Expired::KeepFromReads;
                noted.changed(key.shard(), self.index, key.bytes, at, is_client);
            }
        }
    }

    /// Records for the log what `cause` did to `key`, where the command does not.
    fn record_for_log(&mut self, key: &Key<'_>, cause: Cause) {
        if self.interest(key.shard()) & LOGGED == 0 {
            return;
        }
        let unlink = self.context.deletions;
        match cause {
            // The command logs its own words.
            Cause::Command => self.context.effects.touch_log(),
            Cause::Expiry => self.log_deletion(unlink.expiry, key),
            Cause::Eviction => self.log_deletion(unlink.eviction, key),
        }
    }

    /// Logs the deletion of `key`.
    fn log_deletion(&mut self, word: Deletion, key: &Key<'_>) {
        self.log_before(Target::ALL, &[word.word(), key.bytes]);
    }

    /// The record `dead` of `key` was replaced by another one. Discards the old record.
    #[inline]
    pub(crate) fn note_replaced(&mut self, key: &Key<'_>, dead: Record) {
        self.context.effects.check_announced(self.index, key);
        if self.interest(key.shard()) != 0 || !self.context.effects.wanted().is_none() {
            self.record_replaced(key, &dead);
        }
        self.context.discard(dead);
    }

    #[cold]
    fn record_replaced(&mut self, key: &Key<'_>, dead: &Record) {
        let now = self.context.over_ms;
        let new_type =
            self.table(key.shard()).find(key.hash, key.bytes).map(|record| record.kind());
        let same_type = new_type
            .is_some_and(|kind| Kind::of(kind).type_of() == Kind::of(dead.kind()).type_of());
        if dead.expiry().is_some_and(|at| at <= now) {
            self.note_removed(key, dead.expiry(), Cause::Expiry);
            self.note_created(key);
            return;
        }
        self.record_for_log(key, Cause::Command);
        self.note_expiry(key, KeyChange::Changed);
        if self.interest(key.shard()) & !(LOGGED | REPLICA_EXPIRY) == 0 {
            return;
        }
        if same_type {
            self.effect(key, KeyChange::Changed, Cause::Command);
        } else {
            // Clients may be blocked on a key of the wrong type.
            self.effect(key, KeyChange::Gone(dead.expiry()), Cause::Command);
            self.effect(key, KeyChange::New, Cause::Command);
        }
    }

    /// Makes clients that wait for changes of `key` retry, though its value has not changed.
    pub fn wake_followers(&mut self, key: &Key<'_>) {
        if self.interest(key.shard()) & FOLLOWED != 0 {
            self.context.effects.push_roused(self.index, key.bytes);
        }
    }

    /// As [`Db::wake_followers`], for all keys of this database. O(shards).
    pub(super) fn rouse_followers(&mut self) {
        if (0..SHARDS as u16).any(|shard| self.interest(shard) & FOLLOWED != 0) {
            self.context.effects.push_exchange(self.index, self.index);
        }
    }

    /// Runs `act`, which empties or exchanges a database as a whole. Its effects on single keys
    /// are not sent to clients that cache keys.
    pub(super) fn as_one_operation(&mut self, act: impl FnOnce(&mut Self)) {
        let from = self.context.effects.begin_bulk();
        act(self);
        if self.keyspace().observers.caches.get().is_some() {
            self.context.effects.end_bulk(from, false);
        }
    }

    /// Notifies all clients that cache keys that databases were emptied: all their cached values
    /// are invalid.
    pub fn notify_emptied(&mut self) {
        if self.keyspace().observers.caches.get().is_some() {
            let from = self.context.effects.begin_bulk();
            self.context.effects.end_bulk(from, true);
        }
    }

    /// Whether `key` is in the table, expired or not.
    fn exists(&mut self, key: &Key<'_>) -> bool {
        self.table(key.shard()).find(key.hash, key.bytes).is_some()
    }

    /// All keys of this database are about to be removed from `shard`: records an effect for each
    /// watched key. A key that has expired since its watch began counts as removed, too.
    pub(super) fn record_watched_removals(&mut self, shard: u16) {
        if self.interest(shard) & WATCHED == 0 {
            return;
        }
        let ks = self.keyspace();
        for bytes in ks.observers.interests[usize::from(shard)].watched(self.index) {
            let key = ks.key(&bytes);
            let found = self.table(shard).find(key.hash, key.bytes).map(|record| record.expiry());
            if let Some(expiry) = found {
                self.effect(&key, KeyChange::Gone(expiry), Cause::Command);
            }
        }
    }

    /// The keys of this database and of `other` are about to be exchanged in `shard`: watched
    /// keys that exist in either count as changed in both.
    pub(super) fn record_watched_exchange(&mut self, shard: u16, other: usize) {
        if self.interest(shard) & WATCHED == 0 {
            return;
        }
        let ks = self.keyspace();
        for watched in [self.index, other] {
            for bytes in ks.observers.interests[usize::from(shard)].watched(watched) {
                let key = ks.key(&bytes);
                // An expired key must not enter a database where its absence is watched.
                let _ = self.peek(&key);
                let _ = self.other(other).peek(&key);
                if self.exists(&key) || self.other(other).exists(&key) {
                    self.other(watched).effect(&key, KeyChange::Changed, Cause::Command);
                }
            }
        }
    }

    /// All keys of this database were loaded at once, without single effects. Breaks the watches
    /// of keys that now exist, and makes blocked clients retry. Needs a world guard. O(shards +
    /// watched keys).
    pub fn notify_filled(&mut self) {
        let mut is_waited = false;
        for shard in 0..SHARDS as u16 {
            let interest = self.interest(shard);
            is_waited |= interest & (WAITED | FOLLOWED) != 0;
            if interest & WATCHED != 0 {
                self.break_watches(shard);
            }
        }
        if is_waited {
            self.context.effects.push_exchange(self.index, self.index);
        }
    }

    fn break_watches(&mut self, shard: u16) {
        let ks = self.keyspace();
        let notes = &ks.observers.interests[usize::from(shard)];
        for bytes in notes.watched(self.index) {
            let key = ks.key(&bytes);
            if self.exists(&key) && !self.is_expired(&key) {
                let clear = || ks.set_interest(shard, WATCHED, false);
                notes.break_watches((self.index, &bytes), false, clear);
            }
        }
    }

    /// Registers `watch` to be broken by the next change of `key`, whose shard must be held.
    /// Returns the name to pass to [`Keyspace::unwatch`], or `None` if the watch is registered
    /// already.
    pub fn watch(&mut self, key: &Key<'_>, watch: &Arc<Watch>) -> Option<Arc<[u8]>> {
        assert!(self.holds(key.shard()), "a watched key's shard must be held");
        // An expired key is removed and published first, so that its removal does not break the
        // new watch. Where this thread must not remove it, it is removed later, which does not
        // break the watch either.
        let _ = self.peek(key);
        let awaited = settle(self.guard, self.context);
        assert!(awaited.exchanged.is_empty(), "expiry exchanges nothing");
        self.context.add_lost(awaited.keys);
        let was_expired = self.is_expired(key);
        let ks: &Keyspace = self.keyspace();
        let notes = &ks.observers.interests[usize::from(key.shard())];
        let mark = || ks.set_interest(key.shard(), WATCHED, true);
        notes.watch((self.index, key.bytes), watch, was_expired, mark)
    }

    /// Whether `key` has expired but has not been removed yet.
    pub fn is_expired(&mut self, key: &Key<'_>) -> bool {
        let now = self.context.over_ms;
        let found = self.table(key.shard()).into_found(key.hash, key.bytes);
        found.and_then(|record| record.expiry()).is_some_and(|at| at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::commit;
    use crate::context::ExecContext;
    use crate::guard::Guard;
    use crate::hold::Outside;
    use weft_types::string::{New, record};

    fn set(db: &mut Db<'_>, name: &[u8], at: Option<i64>) {
        let key = db.key(name);
        db.set(&key, record(name, New::Bytes(b"v"), at, 0));
    }

    /// Runs `act` with the world held, in a keyspace of two databases at 1000 ms.
    fn with_world<T>(act: impl FnOnce(&Guard<'_>, &mut ExecContext) -> T) -> T {
        let ks = Keyspace::new(2, 1, Box::new(|_| {}));
        let mut context = ExecContext::new(1000, 1);
        let mut inside = Outside::new(&ks, 0).enter();
        let guard = inside.world(&mut context).expect("the slow lane is idle");
        act(&guard, &mut context)
    }

    /// Whether `act` breaks a watch of `k` in database 0, which expires at 2000 ms and is watched
    /// after `before`.
    fn breaks_after(
        before: impl FnOnce(&mut Db<'_>),
        act: impl FnOnce(&mut Db<'_>, &Key<'_>),
    ) -> bool {
        with_world(|guard, context| {
            let mut db = Db::new(guard, context, 0);
            set(&mut db, b"k", Some(2000));
            before(&mut db);
            let key = db.key(b"k");
            let watch = Arc::new(Watch::default());
            let _ = db.watch(&key, &watch);
            db.context.expired = Expired::Remove;
            act(&mut db, &key);
            settle(guard, context);
            watch.is_broken()
        })
    }

    fn breaks(act: impl FnOnce(&mut Db<'_>, &Key<'_>)) -> bool {
        breaks_after(|_| {}, act)
    }

    /// Clients that wait for changes are notified of roused keys and of removals by sweeps; other
    /// clients are not.
    #[test]
    fn followers_are_notified_of_roused_and_swept_keys() {
        with_world(|guard, context| {
            let mut db = Db::new(guard, context, 0);
            set(&mut db, b"k", Some(2000));
            let key = db.key(b"k");
            for follows in [false, true] {
                db.keyspace().set_followed(key.shard(), follows);
                let expected: Vec<(usize, Box<[u8]>)> =
                    if follows { vec![(0, b"k"[..].into())] } else { Vec::new() };
                db.wake_followers(&key);
                assert_eq!(settle(guard, db.context).keys, expected);
                set(&mut db, b"k", Some(2000));
                settle(guard, db.context);
                db.context.set_time(3000);
                assert!(db.peek(&key).is_none());
                commit(guard, db.context);
                assert_eq!(db.context.take_lost(), expected);
                assert_eq!(db.context.take_lost(), []);
                drop(db.take_all());
                assert_eq!(settle(guard, db.context).exchanged.len(), usize::from(follows));
                db.context.set_time(1000);
                set(&mut db, b"k", Some(2000));
                settle(guard, db.context);
            }
            db.context.free_removed();
        });
    }

    #[test]
    fn every_change_breaks_a_watch_and_nothing_else_does() {
        assert!(breaks(|db, _| set(db, b"k", None)));
        assert!(breaks(|db, key| drop(db.remove(key))));
        assert!(breaks(|db, key| assert!(db.set_expiry(key, None))));
        assert!(breaks(|db, _| drop(db.take_all())));
        assert!(breaks(|db, _| db.swap_with(1)));
        assert!(breaks(|db, key| {
            db.context.set_time(3000);
            assert!(db.peek(key).is_none());
        }));
        assert!(breaks(|db, key| db.alter(key, |_, _| super::super::Change::Remove)));
        assert!(!breaks(|db, key| db.alter(key, |_, _| super::super::Change::Nothing)));
        assert!(!breaks(|db, _| set(db, b"other", None)));
        assert!(!breaks(|db, _| set(&mut db.other(1), b"k", None)));
        assert!(!breaks(|db, key| assert!(db.read(key).is_some())));
    }

    #[test]
    fn removing_a_key_expired_before_its_watch_is_no_change() {
        /// Expires the key before it is watched, and keeps it from being removed.
        fn hide(db: &mut Db<'_>) {
            db.context.set_time(3000);
            db.context.expired = Expired::Keep;
        }
        let breaks = |act: fn(&mut Db<'_>, &Key<'_>)| breaks_after(hide, act);
        assert!(!breaks(|db, key| assert!(db.peek(key).is_none())));
        assert!(!breaks(|db, _| drop(db.take_all())));
        assert!(!breaks(|db, _| db.swap_with(1)));
        assert!(breaks(|db, _| set(db, b"k", None)));
        assert!(breaks(|db, key| {
            assert!(db.peek(key).is_none());
            set(db, b"k", Some(9000));
        }));
    }

    #[test]
    fn new_keys_are_reported_where_clients_wait() {
        let ks = Keyspace::new(2, 1, Box::new(|_| {}));
        let mut context = ExecContext::new(1000, 1);
        let mut inside = Outside::new(&ks, 0).enter();
        let guard = inside.world(&mut context).expect("the slow lane is idle");
        let mut db = Db::new(&guard, &mut context, 1);
        set(&mut db, b"early", None);
        ks.set_waited(ks.key(b"k").shard(), true);
        set(&mut db, b"k", None);
        set(&mut db, b"k", None);
        assert_eq!(settle(&guard, db.context).keys, [(1, b"k"[..].into())]);
        ks.set_waited(ks.key(b"k").shard(), false);
        let mut db = Db::new(&guard, &mut context, 1);
        db.delete(&ks.key(b"k"));
        set(&mut db, b"k", None);
        assert!(context.effects.is_empty(), "no client waits in this shard");
    }

    #[test]
    fn a_key_that_has_expired_under_its_watch_changes_when_all_go() {
        assert!(breaks(|db, _| {
            db.context.set_time(3000);
            drop(db.take_all());
        }));
        assert!(breaks(|db, _| {
            db.context.set_time(3000);
            db.swap_with(1);
        }));
    }

    #[test]
    fn expired_keys_are_kept_and_hidden_when_removal_is_forbidden() {
        let ks = Keyspace::new(1, 1, Box::new(|_| {}));
        let mut context = ExecContext::new(1000, 1);
        let mut inside = Outside::new(&ks, 0).enter();
        let guard = inside.world(&mut context).expect("the slow lane is idle");
        let mut db = Db::new(&guard, &mut context, 0);
        set(&mut db, b"k", Some(2000));
        let key = db.key(b"k");
        db.context.set_time(3000);
        db.context.expired = Expired::Keep;
        assert!(db.peek(&key).is_none() && db.read(&key).is_none() && db.for_write(&key).is_none());
        assert!(db.read_all(&[key, key], |_| true).iter().all(Option::is_none));
        assert_eq!((db.len(), db.context.tally.expired), (1, 0));
        // A write replaces the expired key nevertheless.
        set(&mut db, b"k", None);
        assert!(db.peek(&key).is_some());
        db.context.free_removed();
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "not announced")]
    fn a_change_that_was_not_announced_panics() {
        let ks = Keyspace::new(1, 1, Box::new(|_| {}));
        let mut context = ExecContext::new(1000, 1);
        let mut inside = Outside::new(&ks, 0).enter();
        let guard = inside.world(&mut context).expect("the slow lane is idle");
        let mut db = Db::new(&guard, &mut context, 0);
        let (announced, other) = (db.key(b"k"), db.key(b"l"));
        db.before_write(&announced);
        db.note_changed(&other);
    }
}
