//! The commit point: telling everybody of a group of changes before its shards are released.
//!
//! Who executes commands calls [`settle`] after each of them, or after a transaction, and serves
//! the clients whose keys it answers; that may change keys again, so it calls it until there is
//! nothing more, then [`seal`], by which the group gets its place in the log of effects, and then
//! [`end_group`]. The sweeps of this crate, by which keys only go, call [`commit`].

use crate::effect::{Became, Changes, Effect};
use crate::guard::Guard;
use crate::interest::{Event, FOLLOWED, JOURNALED, WAITED, WATCHED};
use crate::keyspace::Keyspace;
pub use crate::log::seal;
use crate::stale::{invalidate, spread};
use crate::turn::Turn;

/// For whom there may be something, now that a group is settled.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Awaited {
    /// Keys that came to be in shards in which clients wait, and any that changed where clients
    /// wait for that, too: database and name, in order of time.
    pub keys: Vec<(usize, Box<[u8]>)>,
    /// Databases that were exchanged.
    pub exchanged: Vec<(usize, usize)>,
}

/// Tells watches, journals and readers of the turn's effects, whose shards `guard` holds; answers which keys
/// clients may wait for. O(effects).
pub fn settle(guard: &Guard<'_>, turn: &mut Turn) -> Awaited {
    invalidate(guard, turn);
    let Changes { of_keys, exchanged, roused } = turn.effects.take();
    let ks = guard.keyspace();
    let mut keys = Vec::new();
    for effect in of_keys {
        assert!(guard.holds(effect.shard), "an effect is committed while its shard is held");
        let interest = ks.interest(effect.shard);
        tell(ks, interest, &effect, turn.now_ms);
        let awaited = match effect.became {
            Became::New => WAITED,
            Became::Changed | Became::Gone(_) => FOLLOWED,
        };
        if interest & awaited != 0 {
            keys.push((effect.db, effect.key));
        }
    }
    keys.extend(roused);
    Awaited { keys, exchanged }
}

/// Gives the notices of the turn to who listens to them. The shards of what they tell of are held
/// by `guard`, so that all notices of a key come in the order in which things have happened to it.
/// O(notices) beside what the listener does.
pub fn hand_over(guard: &Guard<'_>, turn: &mut Turn) {
    let notices = turn.effects.take_notices();
    if !notices.is_empty()
        && let Some(listener) = guard.keyspace().observers.listener.get()
    {
        listener(turn.effects.wanted(), &notices);
    }
}

/// Ends a group: [`hand_over`], and who keeps keys of some prefix is told of those that have changed.
pub fn end_group(guard: &Guard<'_>, turn: &mut Turn) {
    hand_over(guard, turn);
    spread(guard, turn);
}

/// As [`settle`], for changes by which no key came to be, expiry and eviction; and [`end_group`].
/// Nobody is served; who waits for a stream as a consumer of one of its groups is told later that it
/// has gone ([`Turn::take_lost`]).
#[inline]
pub(crate) fn commit(guard: &Guard<'_>, turn: &mut Turn) {
    if !turn.effects.is_empty() {
        let awaited = settle(guard, turn);
        assert!(awaited.exchanged.is_empty(), "expiry and eviction exchange nothing");
        turn.lose(awaited.keys);
        seal(guard, turn);
        end_group(guard, turn);
    }
}

#[cold]
fn tell(ks: &Keyspace, interest: u32, effect: &Effect, now_ms: i64) {
    let Effect { db, shard, key, became, .. } = effect;
    let notes = &ks.observers.interests[usize::from(*shard)];
    if interest & WATCHED != 0 {
        let clear = || ks.set_interest(*shard, WATCHED, false);
        notes.break_watches((*db, key), became.is_expired(now_ms), clear);
    }
    if interest & JOURNALED != 0 {
        match became {
            Became::New => notes.note(*db, key, Event::Came),
            Became::Gone(expiry) => notes.note(*db, key, Event::Went(*expiry)),
            Became::Changed => {}
        }
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

    type Heard = Arc<Mutex<Vec<String>>>;

    /// A keyspace of two databases that writes down what it is told.
    fn listened_to() -> (Keyspace, Turn, Heard) {
        let ks = Keyspace::new(2, 1, Box::new(|_| {}));
        let heard = Heard::default();
        let into = heard.clone();
        ks.listen(Box::new(move |_, notices| {
            let told = notices.iter().map(|notice| {
                let key = String::from_utf8_lossy(&notice.key);
                format!("{}:{} {key}", notice.db, notice.event)
            });
            into.lock().expect("no test panics here").extend(told);
        }));
        let mut turn = Turn::new(1000, 1);
        turn.effects.want(Classes::wanted(|_| true));
        (ks, turn, heard)
    }

    fn take(heard: &Heard) -> Vec<String> {
        std::mem::take(&mut heard.lock().expect("no test panics here"))
    }

    /// Does something to database 1, and commits it.
    fn act(ks: &Keyspace, turn: &mut Turn, act: impl FnOnce(&mut Db<'_>)) {
        let mut inside = Outside::new(ks, 0).enter();
        let guard = inside.world(turn).expect("nobody else");
        act(&mut Db::new(&guard, turn, 1));
        settle(&guard, turn);
        end_group(&guard, turn);
        assert!(turn.effects.is_empty());
    }

    fn set(db: &mut Db<'_>, name: &[u8], at: Option<i64>) {
        let key = db.key(name);
        db.set(&key, record(name, New::Bytes(b"v"), at, 0));
    }

    #[test]
    fn the_keyspace_tells_what_it_does_itself() {
        let (ks, mut turn, heard) = listened_to();
        act(&ks, &mut turn, |db| {
            set(db, b"a", None);
            set(db, b"a", Some(1500));
            set(db, b"b", Some(1500));
            let key = db.key(b"c");
            assert!(db.read(&key).is_none() && db.inspect(&key).is_none());
            assert!(db.peek(&key).is_none() && db.for_write(&key).is_none());
        });
        assert_eq!(take(&heard), ["1:new a", "1:new b", "1:keymiss c", "1:keymiss c"]);
        turn.set_time(2000);
        act(&ks, &mut turn, |db| {
            set(db, b"a", None);
            let key = db.key(b"a");
            db.put(&key, record(b"a", New::Bytes(b"w"), Some(2500), 0));
            assert!(db.read(&key).is_some());
        });
        assert_eq!(take(&heard), ["1:expired a", "1:new a", "1:new a"]);
        let shards: Vec<u16> = (0..SHARDS as u16).collect();
        let mut inside = Outside::new(&ks, 0).enter();
        let mut state = SweepState::default();
        sweep(&mut inside, &mut turn, &mut state, &shards, 1, &mut || true);
        assert_eq!(take(&heard), ["1:expired b"]);
        drop(inside);
        turn.set_time(3000);
        act(&ks, &mut turn, |db| {
            let key = db.key(b"a");
            assert!(db.clear(&key), "were its time over");
            assert!(!db.clear(&key));
        });
        assert!(take(&heard).is_empty(), "that is for the command to say");
        turn.drop_trash();
    }

    #[test]
    fn fields_that_a_sweep_finds() {
        let (ks, mut turn, heard) = listened_to();
        for (name, kept) in [(&b"some"[..], true), (b"all", false)] {
            let limits = Limits::default();
            let mut hash = hash::create(name, &[], 0, &limits);
            hash = hash::set(hash, b"f", b"v", Some(1500), 0, &limits).0;
            if kept {
                hash = hash::set(hash, b"g", b"v", None, 0, &limits).0;
            }
            act(&ks, &mut turn, |db| {
                let key = db.key(name);
                db.set(&key, hash);
            });
        }
        take(&heard);
        turn.set_time(2000);
        let shards: Vec<u16> = (0..SHARDS as u16).collect();
        let mut inside = Outside::new(&ks, 0).enter();
        let mut state = SweepState::default();
        sweep(&mut inside, &mut turn, &mut state, &shards, 1, &mut || true);
        let mut told = take(&heard);
        told.sort();
        assert_eq!(told, ["1:del all", "1:hexpired all", "1:hexpired some"]);
        turn.drop_trash();
    }

    #[test]
    fn what_is_evicted() {
        let (ks, mut turn, heard) = listened_to();
        act(&ks, &mut turn, |db| set(db, b"a", None));
        take(&heard);
        let mut inside = Outside::new(&ks, 0).enter();
        Evictor::new().step(&mut inside, &mut turn, MaxmemoryPolicy::AllkeysRandom, 5);
        assert_eq!(take(&heard), ["1:evicted a"]);
    }

    #[test]
    fn nothing_is_noted_that_is_not_wanted() {
        let (ks, mut turn, heard) = listened_to();
        turn.effects.want(Classes::NONE);
        act(&ks, &mut turn, |db| {
            set(db, b"a", Some(1));
            set(db, b"a", None);
            let key = db.key(b"b");
            db.read(&key);
        });
        turn.effects.want(Classes::BY_KEY.or(Classes::MISS));
        act(&ks, &mut turn, |db| {
            set(db, b"c", None);
            let key = db.key(b"b");
            db.read(&key);
        });
        assert_eq!(take(&heard), ["1:keymiss b"]);
    }

    #[test]
    fn a_look_that_is_repeated_is_taken_back() {
        let (ks, mut turn, heard) = listened_to();
        act(&ks, &mut turn, |db| set(db, b"a", Some(1500)));
        take(&heard);
        turn.set_time(2000);
        let mut inside = Outside::new(&ks, 0).enter();
        let guard = inside.world(&mut turn).expect("nobody else");
        let mut db = Db::new(&guard, &mut turn, 1);
        for name in [&b"b"[..], b"a"] {
            let key = db.key(name);
            db.read(&key);
        }
        turn.effects.forget_misses();
        hand_over(&guard, &mut turn);
        assert_eq!(take(&heard), ["1:expired a"], "it is gone for good");
        turn.effects.note(0, Classes::MISS, "keymiss", b"b");
        turn.effects.forget_misses();
        assert!(turn.effects.is_empty());
        drop(guard);
        turn.drop_trash();
    }
}
