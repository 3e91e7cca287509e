//! The commit point: publishes the effects of a group of changes before its shards are released.
//!
//! The executor calls [`settle`] after each command, or after a transaction, and serves the
//! blocked clients whose keys it returns. Serving may change keys again, so the executor repeats
//! both steps until `settle` returns no keys. It then calls [`seal`], which gives the group its
//! position in the effect log, and [`end_group`]. The sweeps of this crate only remove keys; they
//! call [`commit`].

use crate::context::ExecContext;
use crate::effect::{Cause, Changes, Effect, KeyChange};
use crate::guard::Guard;
use crate::interest::{Event, FOLLOWED, JOURNALED, MOVING, WAITED, WATCHED};
use crate::invalidation::{invalidate, spread};
use crate::keyspace::Keyspace;
pub use crate::log::seal;

/// The changes of a settled group that may concern blocked clients.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Awaited {
    /// Keys that were created in shards with blocked clients, and changed keys in shards where
    /// clients wait for changes: database and name, in order of execution.
    pub keys: Vec<(usize, Box<[u8]>)>,
    /// Pairs of databases that were exchanged.
    pub exchanged: Vec<(usize, usize)>,
}

/// Notifies watches, journals and caching clients of the pending effects, whose shards `guard`
/// holds. Returns the keys for which clients may be blocked. O(effects).
pub fn settle(guard: &Guard<'_>, context: &mut ExecContext) -> Awaited {
    invalidate(guard, context);
    let Changes { of_keys, exchanged, roused } = context.effects.take();
    let ks = guard.keyspace();
    let mut keys = Vec::new();
    for effect in of_keys {
        assert!(guard.holds(effect.shard), "an effect is committed while its shard is held");
        let interest = ks.interest(effect.shard);
        notify(ks, interest, &effect, context.now_ms);
        let awaited = match effect.change {
            KeyChange::New => WAITED,
            KeyChange::Changed | KeyChange::Gone(_) => FOLLOWED,
        };
        if interest & awaited != 0 {
            keys.push((effect.db, effect.key));
        }
    }
    keys.extend(roused);
    Awaited { keys, exchanged }
}

/// Passes the pending notices to the listener. `guard` must hold the shards of their keys, so
/// that all notices of a key arrive in the order of its changes. O(notices), in addition to the
/// work of the listener.
pub fn hand_over(guard: &Guard<'_>, context: &mut ExecContext) {
    let notices = context.effects.take_notices();
    if !notices.is_empty()
        && let Some(listener) = guard.keyspace().observers.listener.get()
    {
        listener(context.effects.wanted(), &notices);
    }
}

/// Ends a group: [`hand_over`], then notifies clients that track key prefixes of the changes.
pub fn end_group(guard: &Guard<'_>, context: &mut ExecContext) {
    hand_over(guard, context);
    spread(guard, context);
}

/// As [`settle`] and [`end_group`], for expiry and eviction, which create no key. No client is
/// served here. Clients blocked on a stream as consumers of a group are notified later that it
/// has gone ([`ExecContext::take_lost`]).
#[inline]
pub(crate) fn commit(guard: &Guard<'_>, context: &mut ExecContext) {
    if !context.effects.is_empty() {
        let awaited = settle(guard, context);
        assert!(awaited.exchanged.is_empty(), "expiry and eviction exchange nothing");
        context.add_lost(awaited.keys);
        seal(guard, context);
        end_group(guard, context);
    }
}

#[cold]
fn notify(ks: &Keyspace, interest: u32, effect: &Effect, now_ms: i64) {
    let Effect { db, shard, key, change, cause, .. } = effect;
    let notes = &ks.observers.interests[usize::from(*shard)];
    if interest & WATCHED != 0 {
        let clear = || ks.set_interest(*shard, WATCHED, false);
        notes.break_watches((*db, key), change.is_expired(now_ms), clear);
    }
    if interest & JOURNALED != 0 {
        match change {
            KeyChange::New => notes.note(*db, key, Event::Created),
            KeyChange::Gone(expiry) => notes.note(*db, key, Event::Removed(*expiry)),
            KeyChange::Changed => {}
        }
    }
    // The copy of a key expires by itself.
    if interest & MOVING != 0 && *cause != Cause::Expiry {
        ks.observers.moving.note(*db, *shard, key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Db;
    use crate::evict::{Evictor, MaxmemoryPolicy};
    use crate::expiry::{SweepState, sweep};
    use crate::hold::Outside;
    use crate::keyspace::SHARDS;
    use crate::notice::Classes;
    use std::sync::{Arc, Mutex};
    use weft_types::string::{New, record};
    use weft_types::{Limits, hash};

    type Received = Arc<Mutex<Vec<String>>>;

    /// A keyspace of two databases and a list of the notices that it sends.
    fn with_listener() -> (Keyspace, ExecContext, Received) {
        let ks = Keyspace::new(2, 1, Box::new(|_| {}));
        let received = Received::default();
        let into = received.clone();
        ks.listen(Box::new(move |_, notices| {
            let texts = notices.iter().map(|notice| {
                let key = String::from_utf8_lossy(&notice.key);
                format!("{}:{} {key}", notice.db, notice.event)
            });
            into.lock().expect("no test panics here").extend(texts);
        }));
        let mut context = ExecContext::new(1000, 1);
        context.effects.want(Classes::wanted(|_| true));
        (ks, context, received)
    }

    fn take(received: &Received) -> Vec<String> {
        std::mem::take(&mut received.lock().expect("no test panics here"))
    }

    /// Applies `act` to database 1 and commits it.
    fn act(ks: &Keyspace, context: &mut ExecContext, act: impl FnOnce(&mut Db<'_>)) {
        let mut inside = Outside::new(ks, 0).enter();
        let guard = inside.world(context).expect("the slow lane is idle");
        act(&mut Db::new(&guard, context, 1));
        settle(&guard, context);
        end_group(&guard, context);
        assert!(context.effects.is_empty());
    }

    fn set(db: &mut Db<'_>, name: &[u8], at: Option<i64>) {
        let key = db.key(name);
        db.set(&key, record(name, New::Bytes(b"v"), at, 0));
    }

    #[test]
    fn the_keyspace_sends_its_own_notices() {
        let (ks, mut context, received) = with_listener();
        act(&ks, &mut context, |db| {
            set(db, b"a", None);
            set(db, b"a", Some(1500));
            set(db, b"b", Some(1500));
            let key = db.key(b"c");
            assert!(db.read(&key).is_none() && db.inspect(&key).is_none());
            assert!(db.peek(&key).is_none() && db.for_write(&key).is_none());
        });
        assert_eq!(take(&received), ["1:new a", "1:new b", "1:keymiss c", "1:keymiss c"]);
        context.set_time(2000);
        act(&ks, &mut context, |db| {
            set(db, b"a", None);
            let key = db.key(b"a");
            db.put(&key, record(b"a", New::Bytes(b"w"), Some(2500), 0));
            assert!(db.read(&key).is_some());
        });
        assert_eq!(take(&received), ["1:expired a", "1:new a", "1:new a"]);
        let shards: Vec<u16> = (0..SHARDS as u16).collect();
        let mut inside = Outside::new(&ks, 0).enter();
        let mut state = SweepState::default();
        sweep(&mut inside, &mut context, &mut state, &shards, 1, &mut || true);
        assert_eq!(take(&received), ["1:expired b"]);
        drop(inside);
        context.set_time(3000);
        act(&ks, &mut context, |db| {
            let key = db.key(b"a");
            assert!(db.clear(&key), "even if it has expired");
            assert!(!db.clear(&key));
        });
        assert!(take(&received).is_empty(), "DEL is a notice of the command");
        context.free_removed();
    }

    #[test]
    fn a_sweep_sends_notices_for_expired_fields() {
        let (ks, mut context, received) = with_listener();
        for (name, kept) in [(&b"some"[..], true), (b"all", false)] {
            let limits = Limits::default();
            let mut hash = hash::create(name, &[], 0, &limits);
            hash = hash::set(hash, b"f", b"v", Some(1500), 0, &limits).0;
            if kept {
                hash = hash::set(hash, b"g", b"v", None, 0, &limits).0;
            }
            act(&ks, &mut context, |db| {
                let key = db.key(name);
                db.set(&key, hash);
            });
        }
        take(&received);
        context.set_time(2000);
        let shards: Vec<u16> = (0..SHARDS as u16).collect();
        let mut inside = Outside::new(&ks, 0).enter();
        let mut state = SweepState::default();
        sweep(&mut inside, &mut context, &mut state, &shards, 1, &mut || true);
        let mut texts = take(&received);
        texts.sort();
        assert_eq!(texts, ["1:del all", "1:hexpired all", "1:hexpired some"]);
        context.free_removed();
    }

    #[test]
    fn an_eviction_sends_a_notice() {
        let (ks, mut context, received) = with_listener();
        act(&ks, &mut context, |db| set(db, b"a", None));
        take(&received);
        let mut inside = Outside::new(&ks, 0).enter();
        Evictor::new().step(&mut inside, &mut context, MaxmemoryPolicy::AllkeysRandom, 5);
        assert_eq!(take(&received), ["1:evicted a"]);
    }

    #[test]
    fn unwanted_notices_are_not_recorded() {
        let (ks, mut context, received) = with_listener();
        context.effects.want(Classes::NONE);
        act(&ks, &mut context, |db| {
            set(db, b"a", Some(1));
            set(db, b"a", None);
            let key = db.key(b"b");
            db.read(&key);
        });
        context.effects.want(Classes::BY_KEY.or(Classes::MISS));
        act(&ks, &mut context, |db| {
            set(db, b"c", None);
            let key = db.key(b"b");
            db.read(&key);
        });
        assert_eq!(take(&received), ["1:keymiss b"]);
    }

    #[test]
    fn misses_of_a_retried_read_are_forgotten() {
        let (ks, mut context, received) = with_listener();
        act(&ks, &mut context, |db| set(db, b"a", Some(1500)));
        take(&received);
        context.set_time(2000);
        let mut inside = Outside::new(&ks, 0).enter();
        let guard = inside.world(&mut context).expect("the slow lane is idle");
        let mut db = Db::new(&guard, &mut context, 1);
        for name in [&b"b"[..], b"a"] {
            let key = db.key(name);
            db.read(&key);
        }
        context.effects.forget_misses();
        hand_over(&guard, &mut context);
        assert_eq!(take(&received), ["1:expired a"], "the expiry stays");
        context.effects.push_notice(0, Classes::MISS, "keymiss", b"b");
        context.effects.forget_misses();
        assert!(context.effects.is_empty());
        drop(guard);
        context.free_removed();
    }
}
