//! The lines of waiting clients, by shard, database and key.
//!
//! A line is behind a mutex of its shard. It is entered while the shard is held, and left at any time, by
//! anybody who has ended the client's wait: so also while the client is still about to enter its other lines,
//! one after the other.
//!
//! ```text
//!  who enters                                who ends the wait
//!  tells the client's thread that it waits   marks the client as killed, if that is why
//!  is found by the client's id               finds it by its id
//!  stands in its lines                       state.give_up()
//!  looks: killed, or over?  ─► leaves        leaves
//! ```
//!
//! Whichever comes last, it takes the client out of all its lines. And since its thread is told first, nothing
//! that others say of the wait comes there before that.
//!
//! Model-tested with loom (`tests/loom_lines.rs`).

use crate::sync::{Mutex, MutexGuard, lock};
use crate::wait::{Claim, WaitState};
use crate::{Keyspace, SHARDS};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

type Name = (usize, Box<[u8]>);

/// Those who wait for one key, each with a number by which they can be told apart: ascending.
type Line<W> = VecDeque<(u64, Arc<W>)>;

/// Who can stand in line.
pub trait Waits {
    fn state(&self) -> &WaitState;
    fn client(&self) -> u64;
    /// The database and the keys that it waits for, each with its shard. No key is there twice.
    fn db(&self) -> usize;
    fn keys(&self) -> &[(u16, Box<[u8]>)];
    /// Whether it waits for changes of keys that are there, too.
    fn follows(&self) -> bool;
    /// Whether its client is to end: nobody gives it anything any more.
    fn is_killed(&self) -> bool;
}

#[derive(Debug)]
struct Shard<W> {
    lines: HashMap<Name, Line<W>>,
    /// Places in lines of clients that wait for changes, too: [`Waits::follows`].
    followers: usize,
    /// The number of who came last.
    number: u64,
}

impl<W> Default for Shard<W> {
    fn default() -> Self {
        Shard { lines: HashMap::new(), followers: 0, number: 0 }
    }
}

/// Everybody who waits.
#[derive(Debug)]
pub struct Lines<W> {
    shards: Box<[Mutex<Shard<W>>]>,
    by_client: Mutex<HashMap<u64, Arc<W>>>,
}

impl<W> Default for Lines<W> {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect();
        Lines { shards, by_client: Mutex::new(HashMap::new()) }
    }
}

impl<W: Waits> Lines<W> {
    fn shard(&self, shard: u16) -> MutexGuard<'_, Shard<W>> {
        lock(&self.shards[usize::from(shard)])
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<u64, Arc<W>>> {
        lock(&self.by_client)
    }

    /// Puts a client at the end of the lines of all its keys, whose shards must be held. Its thread has been told
    /// before, if it is another one. O(keys).
    pub fn enter(&self, ks: &Keyspace, waiting: &Arc<W>) {
        let mut clients = self.clients();
        if waiting.state().is_over() {
            // Its thread has ended the wait already, and may have found another one for the client.
            return;
        }
        clients.insert(waiting.client(), waiting.clone());
        drop(clients);
        for (shard, key) in waiting.keys() {
            let mut of_shard = self.shard(*shard);
            of_shard.number += 1;
            let number = of_shard.number;
            let line = of_shard.lines.entry((waiting.db(), key.clone())).or_default();
            line.push_back((number, waiting.clone()));
            ks.set_waited(*shard, true);
            if waiting.follows() {
                of_shard.followers += 1;
                ks.set_followed(*shard, true);
            }
        }
        self.look_again(ks, waiting);
    }

    /// To be called when a client stands in line, or waits on in it after somebody has tried to serve it: whoever has
    /// ended its wait, or killed it, while it could not give up or be taken out of all its lines, has left that to
    /// this.
    pub fn look_again(&self, ks: &Keyspace, waiting: &Arc<W>) {
        if waiting.is_killed() {
            waiting.state().give_up();
        }
        if waiting.state().is_over() {
            self.leave(ks, waiting);
        }
    }

    /// Takes a client out of all its lines. O(clients in them). Needs no shard: the bit that is
    /// cleared with the last line of a shard is set under the same mutex.
    pub fn leave(&self, ks: &Keyspace, waiting: &Arc<W>) {
        let mut clients = self.clients();
        if clients.get(&waiting.client()).is_some_and(|w| Arc::ptr_eq(w, waiting)) {
            clients.remove(&waiting.client());
        }
        drop(clients);
        for (shard, key) in waiting.keys() {
            let mut guard = self.shard(*shard);
            let of_shard = &mut *guard;
            let name = (waiting.db(), key.clone());
            if let Some(line) = of_shard.lines.get_mut(&name) {
                // Who is served is at the front, as a rule.
                if let Some(at) = line.iter().position(|(_, w)| Arc::ptr_eq(w, waiting)) {
                    line.remove(at);
                    of_shard.followers -= usize::from(waiting.follows());
                }
                if line.is_empty() {
                    of_shard.lines.remove(&name);
                }
            }
            if of_shard.followers == 0 {
                ks.set_followed(*shard, false);
            }
            if of_shard.lines.is_empty() {
                of_shard.lines = HashMap::new();
                ks.set_waited(*shard, false);
            }
        }
    }

    /// A client that stands in line will not be served any more. If it was its turn, it is that of those behind it in
    /// its lines: `tell` tells their threads to try. Needs no shard, since it serves nobody by itself. O(clients in the
    /// lines).
    pub fn abandon(&self, ks: &Keyspace, waiting: &Arc<W>, mut tell: impl FnMut(&Arc<W>)) {
        let had_turn = waiting.state().quit();
        self.leave(ks, waiting);
        if !had_turn {
            return;
        }
        for (shard, key) in waiting.keys() {
            let name = (*shard, waiting.db(), &key[..]);
            let mut passed = 0;
            while let Some((number, next)) =
                self.first_after(passed, name, |w| !w.state().is_over())
            {
                passed = number;
                match next.state().claim() {
                    // Whoever is at it sees to it, but may serve it from another key: not to those behind.
                    Claim::Over | Claim::Theirs => {}
                    // It sees to those behind.
                    Claim::Owners => break,
                    Claim::Ours => {
                        next.state().unclaim(true);
                        tell(&next);
                        break;
                    }
                }
            }
        }
    }

    /// The first of those who wait for `key` and came after the one with the number `after` that
    /// satisfies `is_next`; 0: of all. With its number. O(log n + those that do not).
    pub fn first_after(
        &self,
        after: u64,
        (shard, db, key): (u16, usize, &[u8]),
        mut is_next: impl FnMut(&Arc<W>) -> bool,
    ) -> Option<(u64, Arc<W>)> {
        let of_shard = self.shard(shard);
        let line = of_shard.lines.get(&(db, key.into()))?;
        let from = line.partition_point(|(number, _)| *number <= after);
        line.range(from..).find(|(_, w)| is_next(w)).cloned()
    }

    /// Whether anybody waits for `key`.
    pub fn has(&self, shard: u16, db: usize, key: &[u8]) -> bool {
        self.shard(shard).lines.contains_key(&(db, key.into()))
    }

    /// Every key of `db` in `shard` for which somebody waits.
    pub fn keys(&self, shard: u16, db: usize) -> Vec<Box<[u8]>> {
        let of_shard = self.shard(shard);
        of_shard.lines.keys().filter(|(of, _)| *of == db).map(|(_, key)| key.clone()).collect()
    }

    /// What the client of that id waits for.
    pub fn of_client(&self, client: u64) -> Option<Arc<W>> {
        self.clients().get(&client).cloned()
    }

    /// How many clients there are that satisfy `is`.
    pub fn count(&self, is: impl Fn(&W) -> bool) -> usize {
        self.clients().values().filter(|w| is(w)).count()
    }

    /// How many keys are waited for.
    pub fn keys_waited_for(&self) -> usize {
        (0..SHARDS as u16).map(|s| self.shard(s).lines.len()).sum()
    }

    /// How many keys have a client in their line that follows them and satisfies `is`. O(shards, and
    /// clients in the lines of those in which somebody follows).
    pub fn keys_followed_by(&self, is: impl Fn(&W) -> bool) -> usize {
        let followed = |s: u16| {
            let of_shard = self.shard(s);
            if of_shard.followers == 0 {
                return 0;
            }
            let lines = of_shard.lines.values();
            lines.filter(|line| line.iter().any(|(_, w)| w.follows() && is(w))).count()
        };
        (0..SHARDS as u16).map(followed).sum()
    }
}
