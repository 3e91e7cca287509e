//! A walk over all keys, as they were at one moment, while commands go on.
//!
//! KEYS must answer the set of keys of one moment: what came later must be missing, what went
//! later must be there. To stop the world for as long as the walk takes would stop everybody for
//! seconds. So the world is stopped for microseconds, to begin a journal in every shard:
//!
//! ```text
//!  stop ─► journals begin ─► go ─► a shard: lock, list its keys, undo its journal, unlock
//!                                  another: ...                      everybody else at work
//! ```
//!
//! A key that came or went in a shard not visited yet is noted in that shard's journal by whoever
//! changes it, who holds the shard anyway ([`crate::interest`]). The visitor lists what is there
//! and takes the journal back from its end: what came is dropped, what went is added. A key whose
//! time was over at the cut was no key then.
//!
//! The walk holds one shard at a time, for the time that it takes to list its keys, and those last
//! for which it has to wait: the journals of the others would grow meanwhile. A command of the
//! slow lane that is under way at the cut comes after it, as a whole: see [`crate::running`].

use crate::guard::Busy;
use crate::interest::{Event, JOURNALED};
use crate::keyspace::{Keyspace, SHARDS};
use crate::lock::Waiter;
use crate::running::{self, Entry, Wrote};
use crate::sync::{MutexGuard, RwLockReadGuard};
use std::cell::Cell;
use std::collections::{HashSet, VecDeque};
use std::fmt;

/// The journals of a walk; ended on drop.
pub(crate) struct Cut<'k> {
    ks: &'k Keyspace,
    waiter: Waiter,
    wait: &'k dyn Fn(),
    /// Unix time of the cut, in milliseconds.
    pub(crate) at_ms: i64,
    /// The shard that is being visited.
    visiting: Cell<Option<u16>>,
    /// Nobody else walks or stops the world meanwhile.
    _alone: Alone<'k>,
}

/// See [`Cut`].
pub(crate) type Alone<'k> = (MutexGuard<'k, ()>, RwLockReadGuard<'k, ()>);

impl fmt::Debug for Cut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cut").field("visiting", &self.visiting).finish_non_exhaustive()
    }
}

/// Begins the journals. The world must be stopped.
pub(crate) fn begin_journals(ks: &Keyspace) {
    (0..SHARDS as u16).for_each(|shard| ks.set_interest(shard, JOURNALED, true));
}

impl<'k> Cut<'k> {
    /// The walk whose journals were begun at `at_ms`.
    pub(crate) fn new(
        ks: &'k Keyspace,
        waiter: Waiter,
        wait: &'k dyn Fn(),
        at_ms: i64,
        alone: Alone<'k>,
    ) -> Self {
        Cut { ks, waiter, wait, at_ms, visiting: Cell::new(None), _alone: alone }
    }

    pub(crate) fn holds(&self, shard: u16) -> bool {
        self.visiting.get() == Some(shard)
    }

    /// Takes the shard to be visited next out of `left`: one that no long command holds, if there is
    /// one. Journals grow until their shard is visited, so that nothing but those of shards in which
    /// nobody writes may wait for a long command. O(shards).
    pub(crate) fn next_of(&self, left: &mut VecDeque<u16>) -> Option<u16> {
        let running = self.ks.slow_lane.running();
        let free = left.iter().position(|shard| !running::is_held(&running, *shard));
        left.remove(free.unwrap_or(0))
    }

    /// Calls `visit` while `shard` is held, and ends the shard's journal, which is returned.
    pub(crate) fn visit(&self, shard: u16, visit: impl FnOnce()) -> Journal {
        let lock = &self.ks.locks[usize::from(shard)];
        loop {
            let mut running = self.ks.slow_lane.running();
            if lock.try_lock() {
                running.push(Entry::new(self.ks, shard, Wrote::Nothing));
                break;
            }
            drop(running);
            if self.ks.park(Busy { shard }, self.waiter) {
                (self.wait)();
            }
        }
        self.visiting.set(Some(shard));
        visit();
        self.ks.set_interest(shard, JOURNALED, false);
        let journal = self.ks.observers.interests[usize::from(shard)].take_journal();
        self.visiting.set(None);
        running::forget(&mut self.ks.slow_lane.running(), shard);
        self.ks.release(shard);
        Journal(journal)
    }
}

impl Drop for Cut<'_> {
    /// Ends the journals of a walk that was broken off.
    fn drop(&mut self) {
        let is_journaled = |shard: &u16| self.ks.interest(*shard) & JOURNALED != 0;
        let mut left = (0..SHARDS as u16).filter(is_journaled).collect();
        while let Some(shard) = self.next_of(&mut left) {
            self.visit(shard, || {});
        }
    }
}

/// What came and went in a shard between the cut and the visit.
#[derive(Debug)]
pub(crate) struct Journal(Vec<(usize, Box<[u8]>, Event)>);

impl Journal {
    /// Turns the keys of database `db` that were there at the visit into those at the cut.
    pub(crate) fn undo(self, db: usize, at_ms: i64, keys: &mut Names) {
        if self.0.iter().all(|(of, _, _)| *of != db) {
            return;
        }
        let mut set: HashSet<Box<[u8]>> = keys.iter().map(Box::from).collect();
        for (_, key, event) in self.0.into_iter().rev().filter(|(of, _, _)| *of == db) {
            match event {
                Event::Went(expiry) if expiry.is_none_or(|at| at > at_ms) => {
                    set.insert(key);
                }
                Event::Came | Event::Went(_) => {
                    set.remove(&key);
                }
            }
        }
        *keys = Names::default();
        set.iter().for_each(|name| keys.push(name));
    }
}

/// Names of keys, one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Names {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Names {
    pub(crate) fn with_room(names: usize) -> Self {
        Names { text: Vec::new(), ends: Vec::with_capacity(names) }
    }

    pub(crate) fn push(&mut self, name: &[u8]) {
        self.text.extend_from_slice(name);
        self.ends.push(self.text.len());
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.text[start..*end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Db;
    use crate::guard::ShardSet;
    use crate::hold::{Outside, SlowHand};
    use crate::turn::Turn;
    use std::cell::RefCell;
    use weft_types::string::{New, record};

    /// Who stops the I/O threads does not stop the walk.
    #[test]
    fn the_shard_that_is_visited_is_held_by_nobody_else() {
        const NOW: i64 = 1000;
        let ks = Keyspace::new(1, 1, Box::new(|_| {}));
        let (mut turn, mut other) = (Turn::new(NOW, 1), Turn::new(NOW, 2));
        let key = ks.key(b"k");
        let mut inside = Outside::new(&ks, 0).enter();
        let guard = inside.world(&mut turn).expect("nobody else");
        Db::new(&guard, &mut turn, 0).set(&key, record(b"k", New::Bytes(b"v"), None, 0));
        drop(guard);
        drop(inside);

        let mut hand = SlowHand::new(&ks, Waiter { thread: 1, token: 0 }, &|| {}, &|| NOW);
        let guard = hand.cut(&mut turn);
        let cut = guard.as_cut().expect("a walk");
        let mut rest = |visited: bool| {
            let mut inside = Outside::new(&ks, 0).enter();
            let rest = inside.rest(&mut other);
            assert_eq!(rest.holds(key.shard), !visited);
            assert_eq!(Db::new(&rest, &mut other, 0).len(), 1);
        };
        rest(false);
        cut.visit(key.shard, || rest(true));
        rest(false);
    }

    /// A walk that waits for a long command has visited all shards that others can write to.
    #[test]
    fn what_a_long_command_holds_is_visited_last() {
        const NOW: i64 = 1000;
        let ks = Keyspace::new(1, 1, Box::new(|_| {}));
        let waiter = Waiter { thread: 1, token: 0 };
        let (mut turn, mut walker) = (Turn::new(NOW, 1), Turn::new(NOW, 2));
        let mut hand = SlowHand::new(&ks, waiter, &|| {}, &|| NOW);
        let long = RefCell::new(Some(hand.hold(&mut turn, &ShardSet::of([0, 7]))));
        // Asleep: it waits for the long command, which ends.
        let ended = Cell::new(false);
        let sleep = || {
            let journaled = |shard: &u16| ks.interest(*shard) & JOURNALED != 0;
            assert_eq!((0..SHARDS as u16).filter(journaled).collect::<Vec<_>>(), [0, 7]);
            ended.set(long.take().is_some());
        };
        let mut hand = SlowHand::new(&ks, waiter, &sleep, &|| NOW);
        let guard = hand.cut(&mut walker);
        Db::new(&guard, &mut walker, 0).each_name(|_| true);
        assert!(ended.get());
    }
}
