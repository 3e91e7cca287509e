//! A walk over all keys as they were at one moment, during which commands continue.
//!
//! KEYS must return the key set of one moment: without keys that were created later, and with
//! keys that were removed later. Stopping the world for the whole walk would block all clients
//! for seconds. So the world is stopped for microseconds only, to begin a journal in every shard:
//!
//! ```text
//!  stop ─► journals begin ─► go ─► a shard: lock, list its keys, undo its journal, unlock
//!                                  another: ...                all other threads at work
//! ```
//!
//! A thread that creates or removes a key in a shard not visited yet notes it in that shard's
//! journal, under the shard lock that it holds anyway ([`crate::interest`]). The visitor lists
//! the present keys and undoes the journal from its end: it drops created keys and adds removed
//! ones. A key that had expired at the cut is left out.
//!
//! The walk holds one shard at a time, while it lists that shard's keys. It visits shards held by
//! long commands last, because the journals of the others would grow while it waits. A slow-lane
//! command in progress at the cut counts as later than the cut, as a whole: see
//! [`crate::running`].

use crate::guard::Busy;
use crate::hold::{GaveUp, GivesUp};
use crate::interest::{Event, JOURNALED};
use crate::keyspace::{Keyspace, SHARDS};
use crate::lane_lock::{Exclusive, Shared};
use crate::lock::Waiter;
use crate::running::{self, Entry, WriteState};
use std::cell::Cell;
use std::collections::{HashSet, VecDeque};
use std::fmt;

/// The journals of a walk; dropping it ends them.
pub(crate) struct Cut<'k> {
    ks: &'k Keyspace,
    wait: Wait<'k>,
    /// Unix time of the cut, in milliseconds.
    pub(crate) at_ms: i64,
    /// The shard that is being visited.
    visiting: Cell<Option<u16>>,
    /// Keeps other walks and stops of the world away.
    _locks: WalkLocks<'k>,
}

/// See [`Cut`].
pub(crate) type WalkLocks<'k> = (Exclusive<'k>, Shared<'k>);

/// How a thread waits for a shard.
#[derive(Clone, Copy)]
pub(crate) struct Wait<'k> {
    pub(crate) waiter: Waiter,
    pub(crate) sleep: &'k dyn Fn(),
    pub(crate) gives_up: GivesUp<'k>,
}

impl Wait<'_> {
    /// Sleeps until a busy shard may be free, or gives up.
    pub(crate) fn wait_for(&self, ks: &Keyspace, busy: Busy) -> Result<(), GaveUp> {
        if (self.gives_up)(Some(busy)) {
            return Err(GaveUp);
        }
        if ks.park(busy, self.waiter) {
            // The holder may have become busy, and have woken its waiters, before this thread was one of them.
            if (self.gives_up)(Some(busy)) {
                return Err(GaveUp);
            }
            (self.sleep)();
        }
        Ok(())
    }
}

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
    /// The walk whose journals began at `at_ms`.
    pub(crate) fn new(ks: &'k Keyspace, wait: Wait<'k>, at_ms: i64, locks: WalkLocks<'k>) -> Self {
        Cut { ks, wait, at_ms, visiting: Cell::new(None), _locks: locks }
    }

    pub(crate) fn holds(&self, shard: u16) -> bool {
        self.visiting.get() == Some(shard)
    }

    /// Takes the next shard to visit out of `left`, preferring shards that no long command holds.
    /// A journal grows until its shard is visited, so the walk waits for a long command only when
    /// all other shards have been visited. O(shards).
    pub(crate) fn take_next(&self, left: &mut VecDeque<u16>) -> Option<u16> {
        let running = self.ks.slow_lane.running();
        let free = left.iter().position(|shard| !running::is_held(&running, *shard));
        left.remove(free.unwrap_or(0))
    }

    /// Calls `visit` with `shard` held, then ends the shard's journal and returns it. `None`: the walk has given up.
    pub(crate) fn visit(&self, shard: u16, visit: impl FnOnce()) -> Option<Journal> {
        let lock = &self.ks.locks[usize::from(shard)];
        loop {
            let mut running = self.ks.slow_lane.running();
            if lock.try_lock() {
                running.push(Entry::new(self.ks, shard, WriteState::Nothing));
                break;
            }
            drop(running);
            self.wait.wait_for(self.ks, Busy { shard }).ok()?;
        }
        self.visiting.set(Some(shard));
        visit();
        let journal = self.end_journal(shard);
        self.visiting.set(None);
        running::forget(&mut self.ks.slow_lane.running(), shard);
        self.ks.release(shard);
        Some(journal)
    }

    /// No thread may write to the journal meanwhile.
    fn end_journal(&self, shard: u16) -> Journal {
        self.ks.set_interest(shard, JOURNALED, false);
        Journal(self.ks.observers.interests[usize::from(shard)].take_journal())
    }

    /// Ends the journal of a shard that is not visited, without a wait for a long command.
    fn abandon(&self, shard: u16) {
        let lock = &self.ks.locks[usize::from(shard)];
        loop {
            let running = self.ks.slow_lane.running();
            // A long command writes to journals when it commits, with these entries locked.
            if running::is_held(&running, shard) {
                self.end_journal(shard);
                return;
            }
            if lock.try_lock() {
                self.end_journal(shard);
                drop(running);
                self.ks.release(shard);
                return;
            }
            drop(running);
            // A command of an I/O thread holds it, and is short.
            let wait = Wait { gives_up: &|_| false, ..self.wait };
            wait.wait_for(self.ks, Busy { shard }).expect("it doesn't give up");
        }
    }
}

impl Drop for Cut<'_> {
    /// Ends the journals of a cancelled walk.
    fn drop(&mut self) {
        let is_journaled = |shard: &u16| self.ks.interest(*shard) & JOURNALED != 0;
        (0..SHARDS as u16).filter(is_journaled).for_each(|shard| self.abandon(shard));
    }
}

/// The keys that were created and removed in a shard between the cut and the visit.
#[derive(Debug)]
pub(crate) struct Journal(Vec<(usize, Box<[u8]>, Event)>);

impl Journal {
    /// Turns the keys of database `db` at the visit into those at the cut.
    pub(crate) fn undo(self, db: usize, at_ms: i64, keys: &mut Names) {
        if self.0.iter().all(|(of, _, _)| *of != db) {
            return;
        }
        let mut set: HashSet<Box<[u8]>> = keys.iter().map(Box::from).collect();
        for (_, key, event) in self.0.into_iter().rev().filter(|(of, _, _)| *of == db) {
            match event {
                Event::Removed(expiry) if expiry.is_none_or(|at| at > at_ms) => {
                    set.insert(key);
                }
                Event::Created | Event::Removed(_) => {
                    set.remove(&key);
                }
            }
        }
        *keys = Names::default();
        set.iter().for_each(|name| keys.push(name));
    }
}

/// Names of keys, concatenated.
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
    use crate::context::ExecContext;
    use crate::db::Db;
    use crate::guard::ShardSet;
    use crate::hold::{Outside, SlowLaneThread};
    use std::cell::RefCell;
    use weft_types::string::{New, record};

    /// Stopping the I/O threads does not stop the walk.
    #[test]
    fn only_the_walk_holds_the_visited_shard() {
        const NOW: i64 = 1000;
        let ks = Keyspace::new(1, 1, Box::new(|_| {}));
        let (mut context, mut other) = (ExecContext::new(NOW, 1), ExecContext::new(NOW, 2));
        let key = ks.key(b"k");
        let mut inside = Outside::new(&ks, 0).enter();
        let guard = inside.world(&mut context).expect("the slow lane is idle");
        Db::new(&guard, &mut context, 0).set(&key, record(b"k", New::Bytes(b"v"), None, 0));
        drop(guard);
        drop(inside);

        let mut hand = SlowLaneThread::new(&ks, Waiter { thread: 1, token: 0 }, &|| {}, &|| NOW);
        let guard = hand.cut(&mut context);
        let cut = guard.as_cut().expect("a walk");
        let mut rest = |visited: bool| {
            let mut inside = Outside::new(&ks, 0).enter();
            let rest = inside.rest(&mut other);
            assert_eq!(rest.holds(key.shard()), !visited);
            assert_eq!(Db::new(&rest, &mut other, 0).len(), 1);
        };
        rest(false);
        cut.visit(key.shard(), || rest(true));
        rest(false);
    }

    /// A walk that waits for a long command has visited all shards that others can write to.
    #[test]
    fn shards_of_a_long_command_are_visited_last() {
        const NOW: i64 = 1000;
        let ks = Keyspace::new(1, 1, Box::new(|_| {}));
        let waiter = Waiter { thread: 1, token: 0 };
        let (mut context, mut walker) = (ExecContext::new(NOW, 1), ExecContext::new(NOW, 2));
        let mut hand = SlowLaneThread::new(&ks, waiter, &|| {}, &|| NOW);
        let long = RefCell::new(Some(hand.hold(&mut context, &ShardSet::of([0, 7]))));
        // The sleep is the wait for the long command, which ends here.
        let ended = Cell::new(false);
        let sleep = || {
            let journaled = |shard: &u16| ks.interest(*shard) & JOURNALED != 0;
            assert_eq!((0..SHARDS as u16).filter(journaled).collect::<Vec<_>>(), [0, 7]);
            ended.set(long.take().is_some());
        };
        let mut hand = SlowLaneThread::new(&ks, waiter, &sleep, &|| NOW);
        let guard = hand.cut(&mut walker);
        assert!(Db::new(&guard, &mut walker, 0).each_name(|_| true));
        assert!(ended.get());
    }
}
