//! A walk over all keys, as they were at one moment, while commands go on.
//!
//! KEYS must answer the set of keys of one moment: what came later must be missing, what went
//! later must be there. To stop the world for as long as the walk takes would stop everybody for
//! seconds. So the world is stopped for microseconds, to begin a journal in every shard:
//!
//! ```text
//!  stop ─► journals begin ─► go ─► shard 0: lock, list its keys, undo its journal, unlock
//!                                  shard 1: ...                      everybody else at work
//! ```
//!
//! A key that came or went in a shard not visited yet is noted in that shard's journal by whoever
//! changes it, who holds the shard anyway ([`crate::interest`]). The visitor lists what is there
//! and takes the journal back from its end: what came is dropped, what went is added. A key whose
//! time was over at the cut was no key then.
//!
//! The walk holds one shard at a time, for the time that it takes to list its keys. A command of the
//! slow lane that is under way at the cut comes after it, as a whole: see [`crate::running`].

use crate::guard::Busy;
use crate::interest::{Event, JOURNALED};
use crate::keyspace::{Keyspace, SHARDS};
use crate::lock::Waiter;
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;
use std::sync::{MutexGuard, RwLockReadGuard};

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

    /// Calls `visit` while `shard` is held, and ends the shard's journal, which is returned.
    pub(crate) fn visit(&self, shard: u16, visit: impl FnOnce()) -> Journal {
        let lock = &self.ks.locks[usize::from(shard)];
        while !lock.try_lock() {
            if self.ks.park(Busy { shard }, self.waiter) {
                (self.wait)();
            }
        }
        self.visiting.set(Some(shard));
        visit();
        self.ks.set_interest(shard, JOURNALED, false);
        let journal = self.ks.interests[usize::from(shard)].take_journal();
        self.visiting.set(None);
        self.ks.release(shard);
        Journal(journal)
    }
}

impl Drop for Cut<'_> {
    /// Ends the journals of a walk that was broken off.
    fn drop(&mut self) {
        for shard in 0..SHARDS as u16 {
            if self.ks.interest(shard) & JOURNALED != 0 {
                self.visit(shard, || {});
            }
        }
    }
}

/// What came and went in a shard between the cut and the visit.
#[derive(Debug)]
pub(crate) struct Journal(Vec<(usize, Box<[u8]>, Event)>);

impl Journal {
    /// Turns the keys of database `db` that were there at the visit into those at the cut.
    pub(crate) fn undo(self, db: usize, at_ms: i64, keys: &mut Vec<Box<[u8]>>) {
        if self.0.iter().all(|(of, _, _)| *of != db) {
            return;
        }
        let mut set: HashSet<Box<[u8]>> = keys.drain(..).collect();
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
        keys.extend(set);
    }
}
