//! The wait queues of blocked clients, by shard, database and key.
//!
//! A mutex per shard guards its wait queues. A client enters them while the shard is held. Any
//! thread that has ended the client's wait removes it at any time, even while the client is still
//! entering its other queues one by one.
//!
//! ```text
//!   entering thread                            thread that ends the wait
//!   notifies the client's thread               marks the client as killed, if that is the reason
//!   registers the client by its id             finds it by its id
//!   adds it to its wait queues                 state.give_up()
//!   checks: killed, or over?  ─► removes it    removes it
//! ```
//!
//! The later of the two removes the client from all its queues. Since the client's thread is
//! notified first, no message of another thread about the wait arrives there earlier.
//!
//! Model-tested with loom (`tests/loom_wait_queue.rs`).

use crate::sync::{Mutex, MutexGuard, lock};
use crate::wait::{Claim, WaitState};
use crate::{Keyspace, SHARDS};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The name of a key; one allocation shared by a client and its wait queue.
pub type Name = Arc<[u8]>;

/// The clients blocked on one key, by ascending position. Insert, remove and find-next take O(log
/// n), since 100,000 clients may be blocked on one key and leave one by one.
#[derive(Debug)]
enum WaitQueue<W> {
    /// One client needs no allocation: a client may be blocked on a million keys alone.
    One(u64, Arc<W>),
    Many(BTreeMap<u64, Arc<W>>),
}

impl<W> WaitQueue<W> {
    fn push(&mut self, position: u64, waiting: Arc<W>) {
        match self {
            WaitQueue::One(first, other) => {
                let both = [(*first, other.clone()), (position, waiting)];
                *self = WaitQueue::Many(BTreeMap::from(both));
            }
            WaitQueue::Many(all) => {
                all.insert(position, waiting);
            }
        }
    }

    /// Whether any client in it satisfies `is`.
    fn any(&self, is: impl Fn(&W) -> bool) -> bool {
        match self {
            WaitQueue::One(_, w) => is(w),
            WaitQueue::Many(all) => all.values().any(|w| is(w)),
        }
    }

    /// The first client after position `after` that satisfies `is_next`.
    fn first_after(
        &self,
        after: u64,
        mut is_next: impl FnMut(&Arc<W>) -> bool,
    ) -> Option<(u64, Arc<W>)> {
        match self {
            WaitQueue::One(position, w) if *position > after && is_next(w) => {
                Some((*position, w.clone()))
            }
            WaitQueue::One(..) => None,
            WaitQueue::Many(all) => {
                let mut later = all.range(after + 1..);
                later.find(|(_, w)| is_next(w)).map(|(position, w)| (*position, w.clone()))
            }
        }
    }
}

/// The result of removing a client from a wait queue.
enum Removal {
    NotQueued,
    OthersLeft,
    NowEmpty,
}

impl<W> WaitQueue<W> {
    fn remove(&mut self, position: u64) -> Removal {
        match self {
            WaitQueue::One(only, _) if *only == position => Removal::NowEmpty,
            WaitQueue::One(..) => Removal::NotQueued,
            WaitQueue::Many(all) => match all.remove(&position) {
                None => Removal::NotQueued,
                Some(_) if all.is_empty() => Removal::NowEmpty,
                Some(_) => Removal::OthersLeft,
            },
        }
    }
}

type QueuesOfDb<W> = HashMap<Name, WaitQueue<W>, foldhash::fast::RandomState>;

/// A client that can be queued.
pub trait QueuedClient {
    fn state(&self) -> &WaitState;
    fn client(&self) -> u64;
    /// The database and the keys that it waits for, each with its shard. No key appears twice.
    fn db(&self) -> usize;
    fn keys(&self) -> &[(u16, Name)];
    /// Whether it also waits for changes of existing keys.
    fn follows(&self) -> bool;
    /// Whether its client was killed: no thread serves it any more.
    fn is_killed(&self) -> bool;
}

#[derive(Debug)]
struct Shard<W> {
    /// By database; no map is empty.
    queues: HashMap<usize, QueuesOfDb<W>>,
    /// Entries in these queues of clients that wait for changes, too: [`QueuedClient::follows`].
    followers: usize,
}

impl<W> Default for Shard<W> {
    fn default() -> Self {
        Shard { queues: HashMap::new(), followers: 0 }
    }
}

/// A map that has shrunk to less than this share of its capacity releases memory.
const SHRINK_BELOW: usize = 8;

impl<W: QueuedClient> Shard<W> {
    fn enter(&mut self, position: u64, name: &Name, waiting: &Arc<W>) {
        let queues = self.queues.entry(waiting.db()).or_default();
        match queues.get_mut(&name[..]) {
            Some(queue) => queue.push(position, waiting.clone()),
            None => {
                queues.insert(name.clone(), WaitQueue::One(position, waiting.clone()));
            }
        }
        self.followers += usize::from(waiting.follows());
    }

    fn leave(&mut self, position: u64, name: &[u8], waiting: &W) {
        let Some(queues) = self.queues.get_mut(&waiting.db()) else { return };
        let Some(queue) = queues.get_mut(name) else { return };
        match queue.remove(position) {
            Removal::NotQueued => return,
            Removal::OthersLeft => {}
            Removal::NowEmpty => {
                queues.remove(name);
                if queues.is_empty() {
                    self.queues.remove(&waiting.db());
                    if self.queues.is_empty() {
                        self.queues = HashMap::new();
                    }
                } else if queues.len() < queues.capacity() / SHRINK_BELOW {
                    queues.shrink_to(2 * queues.len());
                }
            }
        }
        self.followers -= usize::from(waiting.follows());
    }

    fn queue(&self, db: usize, name: &[u8]) -> Option<&WaitQueue<W>> {
        self.queues.get(&db)?.get(name)
    }
}

/// The blocked clients, and the last position given out.
#[derive(Debug)]
struct Clients<W> {
    by_id: HashMap<u64, Arc<W>, foldhash::fast::RandomState>,
    last_position: u64,
}

/// All blocked clients.
#[derive(Debug)]
pub struct WaitQueues<W> {
    shards: Box<[Mutex<Shard<W>>]>,
    clients: Mutex<Clients<W>>,
}

impl<W> Default for WaitQueues<W> {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect();
        let clients = Clients { by_id: HashMap::default(), last_position: 0 };
        WaitQueues { shards, clients: Mutex::new(clients) }
    }
}

impl<W: QueuedClient> WaitQueues<W> {
    fn shard(&self, shard: u16) -> MutexGuard<'_, Shard<W>> {
        lock(&self.shards[usize::from(shard)])
    }

    fn clients(&self) -> MutexGuard<'_, Clients<W>> {
        lock(&self.clients)
    }

    /// Appends a client to the wait queues of all its keys, whose shards must be held. If another
    /// thread owns the client, that thread must have been notified before. O(keys).
    pub fn enter(&self, ks: &Keyspace, waiting: &Arc<W>) {
        let mut clients = self.clients();
        if waiting.state().is_over() {
            // Its thread has already ended the wait, and the client may have blocked again.
            return;
        }
        // One position for all its queues. Threads that append to the same queue hold the same
        // shard one after another, so positions ascend along each queue.
        clients.last_position += 1;
        let position = clients.last_position;
        waiting.state().set_position(position);
        clients.by_id.insert(waiting.client(), waiting.clone());
        drop(clients);
        for (shard, key) in waiting.keys() {
            let mut of_shard = self.shard(*shard);
            of_shard.enter(position, key, waiting);
            ks.set_waited(*shard, true);
            if waiting.follows() {
                ks.set_followed(*shard, true);
            }
        }
        self.remove_if_over(ks, waiting);
    }

    /// Call after a client was queued, or stays queued after a failed attempt to serve it.
    /// Another thread may have killed it, or ended its wait, when it could not yet be removed
    /// from all its queues; this call then removes it.
    pub fn remove_if_over(&self, ks: &Keyspace, waiting: &Arc<W>) {
        if waiting.is_killed() {
            waiting.state().give_up();
        }
        if waiting.state().is_over() {
            self.leave(ks, waiting);
        }
    }

    /// Removes a client from all its wait queues. O(clients in them). Needs no shard: the
    /// interest bit that is cleared with the last queue of a shard is set under the same mutex.
    pub fn leave(&self, ks: &Keyspace, waiting: &Arc<W>) {
        self.forget_client(waiting);
        // Position 0: it has not entered any queue yet, and checks for this after it has.
        let position = waiting.state().position();
        for (shard, key) in waiting.keys() {
            let mut of_shard = self.shard(*shard);
            of_shard.leave(position, key, waiting);
            if of_shard.followers == 0 {
                ks.set_followed(*shard, false);
            }
            if of_shard.queues.is_empty() {
                ks.set_waited(*shard, false);
            }
        }
    }

    /// Unregisters the client's id from this wait. Its remaining queue entries are skipped once
    /// the wait is over. A thread that can't spend the time for [`WaitQueues::leave`] calls this and
    /// leaves the removal to another thread.
    pub fn forget_client(&self, waiting: &Arc<W>) {
        let mut clients = self.clients();
        if clients.by_id.get(&waiting.client()).is_some_and(|w| Arc::ptr_eq(w, waiting)) {
            clients.by_id.remove(&waiting.client());
        }
    }

    /// Removes a queued client that will not be served any more. If it was about to retry, the
    /// clients after it in its queues retry instead: `notify` notifies their threads. Needs no
    /// shard, since it serves no client itself. O(clients in the queues).
    pub fn abandon(&self, ks: &Keyspace, waiting: &Arc<W>, notify: impl FnMut(&Arc<W>)) {
        let had_turn = waiting.state().quit();
        self.leave(ks, waiting);
        if had_turn {
            self.pass_turn(waiting, notify);
        }
    }

    /// Passes the turn of a client whose wait is over to the clients after it. O(clients in the
    /// queues).
    pub fn pass_turn(&self, waiting: &Arc<W>, mut notify: impl FnMut(&Arc<W>)) {
        for (shard, key) in waiting.keys() {
            let name = (*shard, waiting.db(), &key[..]);
            let mut passed = 0;
            while let Some((number, next)) =
                self.first_after(passed, name, |w| !w.state().is_over())
            {
                passed = number;
                match next.state().claim() {
                    // Another thread serves it, maybe from another key; so look at clients after it, too.
                    Claim::Over | Claim::Theirs => {}
                    // Its owner passes the turn on to the clients after it.
                    Claim::Owners => break,
                    Claim::Ours => {
                        next.state().unclaim(true);
                        notify(&next);
                        break;
                    }
                }
            }
        }
    }

    /// The first client blocked on `key` after position `after` that satisfies `is_next`, with
    /// its position; `after` 0 begins at the front. O(log n + clients that don't satisfy it).
    pub fn first_after(
        &self,
        after: u64,
        (shard, db, key): (u16, usize, &[u8]),
        is_next: impl FnMut(&Arc<W>) -> bool,
    ) -> Option<(u64, Arc<W>)> {
        self.shard(shard).queue(db, key)?.first_after(after, is_next)
    }

    /// Whether any client is blocked on `key`.
    pub fn has(&self, shard: u16, db: usize, key: &[u8]) -> bool {
        self.shard(shard).queue(db, key).is_some()
    }

    /// Every key of `db` in `shard` with blocked clients.
    pub fn keys(&self, shard: u16, db: usize) -> Vec<Box<[u8]>> {
        let of_shard = self.shard(shard);
        let queues = of_shard.queues.get(&db);
        queues.map_or_else(Vec::new, |queues| queues.keys().map(|key| key[..].into()).collect())
    }

    /// The current wait of the client with that id.
    pub fn of_client(&self, client: u64) -> Option<Arc<W>> {
        self.clients().by_id.get(&client).cloned()
    }

    /// The number of blocked clients that satisfy `is`.
    pub fn count(&self, is: impl Fn(&W) -> bool) -> usize {
        self.clients().by_id.values().filter(|w| is(w)).count()
    }

    /// The number of keys with blocked clients.
    pub fn keys_waited_for(&self) -> usize {
        let of_shard = |s| self.shard(s).queues.values().map(HashMap::len).sum::<usize>();
        (0..SHARDS as u16).map(of_shard).sum()
    }

    /// The number of keys with a queued client that follows them and satisfies `is`. O(shards,
    /// and clients in the queues of shards with followers).
    pub fn keys_followed_by(&self, is: impl Fn(&W) -> bool) -> usize {
        let followed = |s: u16| {
            let of_shard = self.shard(s);
            if of_shard.followers == 0 {
                return 0;
            }
            let queues = of_shard.queues.values().flat_map(HashMap::values);
            queues.filter(|queue| queue.any(|w| w.follows() && is(w))).count()
        };
        (0..SHARDS as u16).map(followed).sum()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Client {
        id: u64,
        state: WaitState,
        keys: Vec<(u16, Name)>,
    }

    impl Client {
        fn new(id: u64, keys: &[&str]) -> Arc<Client> {
            let keys = keys.iter().map(|key| (0, Name::from(key.as_bytes()))).collect();
            Arc::new(Client { id, state: WaitState::default(), keys })
        }
    }

    impl QueuedClient for Client {
        fn state(&self) -> &WaitState {
            &self.state
        }

        fn client(&self) -> u64 {
            self.id
        }

        fn db(&self) -> usize {
            3
        }

        fn keys(&self) -> &[(u16, Name)] {
            &self.keys
        }

        fn follows(&self) -> bool {
            true
        }

        fn is_killed(&self) -> bool {
            false
        }
    }

    /// The clients in the wait queue of a key, in order.
    fn queue(queues: &WaitQueues<Client>, key: &str) -> Vec<u64> {
        let (mut passed, mut all) = (0, Vec::new());
        while let Some((position, client)) =
            queues.first_after(passed, (0, 3, key.as_bytes()), |_| true)
        {
            all.push(client.id);
            passed = position;
        }
        all
    }

    #[test]
    fn clients_leave_wait_queues_in_any_order() {
        let ks = Keyspace::new(4, 1, Box::new(|_| {}));
        let queues = WaitQueues::default();
        let clients: Vec<Arc<Client>> = (0..50)
            .map(|id| Client::new(id, if id % 2 == 0 { &["a", "b"] } else { &["b"] }))
            .collect();
        clients.iter().for_each(|client| queues.enter(&ks, client));
        assert_eq!(queue(&queues, "b"), (0..50).collect::<Vec<_>>());
        assert_eq!(queue(&queues, "a"), (0..50).step_by(2).collect::<Vec<_>>());
        assert!(!queues.has(0, 2, b"a"), "another database");
        let mut left: Vec<u64> = (0..50).collect();
        for n in 0..50u64 {
            let id = n * 7 % 50;
            queues.leave(&ks, &clients[id as usize]);
            queues.leave(&ks, &clients[id as usize]);
            left.retain(|other| *other != id);
            assert_eq!(queue(&queues, "b"), left);
        }
        assert_eq!((queues.keys_waited_for(), queues.shard(0).followers), (0, 0));
        assert!(queues.of_client(7).is_none());
    }

    #[test]
    fn a_forgotten_client_stays_queued_until_it_leaves() {
        let ks = Keyspace::new(4, 1, Box::new(|_| {}));
        let queues = WaitQueues::default();
        let (old, new) = (Client::new(1, &["a"]), Client::new(1, &["a"]));
        queues.enter(&ks, &old);
        queues.forget_client(&old);
        assert!(queues.of_client(1).is_none());
        // The client blocks on the same key again before its first queue entry is removed.
        queues.enter(&ks, &new);
        queues.leave(&ks, &old);
        assert_eq!(queue(&queues, "a"), [1]);
        assert!(queues.of_client(1).is_some_and(|found| Arc::ptr_eq(&found, &new)));
    }
}
