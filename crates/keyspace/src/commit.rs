//! The commit point: telling everybody of a group of changes before its shards are released.
//!
//! Who executes commands calls [`settle`] after each of them, or after a transaction, and serves
//! the clients whose keys it answers; that may change keys again, so it calls it until there is
//! nothing more. The sweeps of this crate, by which keys only go, call [`commit`].
//!
//! What comes to listen to changes (a log of effects, notifications, invalidations) is told here.

use crate::effect::{Became, Effect, Effects};
use crate::guard::Guard;
use crate::interest::{Event, FOLLOWED, JOURNALED, WAITED, WATCHED};
use crate::keyspace::Keyspace;
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

/// Tells watches and journals of the turn's effects, whose shards `guard` holds; answers which keys
/// clients may wait for. O(effects).
pub fn settle(guard: &Guard<'_>, turn: &mut Turn) -> Awaited {
    let Effects { of_keys, exchanged, roused, .. } = std::mem::take(&mut turn.effects);
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

/// As [`settle`], for changes by which no key came to be: expiry and eviction. Nobody is served;
/// who waits for a stream as a consumer of one of its groups is told later that it has gone
/// ([`Turn::take_lost`]).
#[inline]
pub(crate) fn commit(guard: &Guard<'_>, turn: &mut Turn) {
    if !turn.effects.is_empty() {
        debug_assert!(turn.effects.of_keys.iter().all(|effect| effect.became != Became::New));
        let awaited = settle(guard, turn);
        assert!(awaited.exchanged.is_empty(), "expiry and eviction exchange nothing");
        turn.lose(awaited.keys);
    }
}

#[cold]
fn tell(ks: &Keyspace, interest: u32, effect: &Effect, now_ms: i64) {
    let Effect { db, shard, key, became, .. } = effect;
    let notes = &ks.interests[usize::from(*shard)];
    if interest & WATCHED != 0 {
        let left = notes.break_watches(*db, key, became.is_expired(now_ms));
        ks.set_interest(*shard, WATCHED, left);
    }
    if interest & JOURNALED != 0 {
        match became {
            Became::New => notes.note(*db, key, Event::Came),
            Became::Gone(expiry) => notes.note(*db, key, Event::Went(*expiry)),
            Became::Changed => {}
        }
    }
}
