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
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The name of a key; one allocation for a client and the line in which it stands.
pub type Name = Arc<[u8]>;

/// The clients that wait for one key, by their place: ascending. Entering, leaving and finding the next
/// one take O(log n), since 100,000 clients may wait for one key and leave one after the other.
#[derive(Debug)]
enum Line<W> {
    /// One client needs no allocation: a client may wait for a million keys alone.
    One(u64, Arc<W>),
    Many(BTreeMap<u64, Arc<W>>),
}

impl<W> Line<W> {
    fn push(&mut self, place: u64, waiting: Arc<W>) {
        match self {
            Line::One(first, other) => {
                let both = [(*first, other.clone()), (place, waiting)];
                *self = Line::Many(BTreeMap::from(both));
            }
            Line::Many(all) => {
                all.insert(place, waiting);
            }
        }
    }

    /// Whether a client in it satisfies `is`.
    fn any(&self, is: impl Fn(&W) -> bool) -> bool {
        match self {
            Line::One(_, w) => is(w),
            Line::Many(all) => all.values().any(|w| is(w)),
        }
    }

    /// The first client after `after` that satisfies `is_next`.
    fn first_after(
        &self,
        after: u64,
        mut is_next: impl FnMut(&Arc<W>) -> bool,
    ) -> Option<(u64, Arc<W>)> {
        match self {
            Line::One(place, w) if *place > after && is_next(w) => Some((*place, w.clone())),
            Line::One(..) => None,
            Line::Many(all) => {
                let mut behind = all.range(after + 1..);
                behind.find(|(_, w)| is_next(w)).map(|(place, w)| (*place, w.clone()))
            }
        }
    }
}

/// What came of taking a client out of a line.
enum Left {
    NotThere,
    Others,
    Nobody,
}

impl<W> Line<W> {
    fn remove(&mut self, place: u64) -> Left {
        match self {
            Line::One(only, _) if *only == place => Left::Nobody,
            Line::One(..) => Left::NotThere,
            Line::Many(all) => match all.remove(&place) {
                None => Left::NotThere,
                Some(_) if all.is_empty() => Left::Nobody,
                Some(_) => Left::Others,
            },
        }
    }
}

type LinesOfDb<W> = HashMap<Name, Line<W>, foldhash::fast::RandomState>;

/// Who can stand in line.
pub trait Waits {
    fn state(&self) -> &WaitState;
    fn client(&self) -> u64;
    /// The database and the keys that it waits for, each with its shard. No key is there twice.
    fn db(&self) -> usize;
    fn keys(&self) -> &[(u16, Name)];
    /// Whether it waits for changes of keys that are there, too.
    fn follows(&self) -> bool;
    /// Whether its client is to end: nobody gives it anything any more.
    fn is_killed(&self) -> bool;
}

#[derive(Debug)]
struct Shard<W> {
    /// By database, none of which is empty.
    lines: HashMap<usize, LinesOfDb<W>>,
    /// Places in lines of clients that wait for changes, too: [`Waits::follows`].
    followers: usize,
}

impl<W> Default for Shard<W> {
    fn default() -> Self {
        Shard { lines: HashMap::new(), followers: 0 }
    }
}

/// A map that has lost this share of what it once held gives memory back.
const SHRINK_BELOW: usize = 8;

impl<W: Waits> Shard<W> {
    fn enter(&mut self, place: u64, name: &Name, waiting: &Arc<W>) {
        let lines = self.lines.entry(waiting.db()).or_default();
        match lines.get_mut(&name[..]) {
            Some(line) => line.push(place, waiting.clone()),
            None => {
                lines.insert(name.clone(), Line::One(place, waiting.clone()));
            }
        }
        self.followers += usize::from(waiting.follows());
    }

    fn leave(&mut self, place: u64, name: &[u8], waiting: &W) {
        let Some(lines) = self.lines.get_mut(&waiting.db()) else { return };
        let Some(line) = lines.get_mut(name) else { return };
        match line.remove(place) {
            Left::NotThere => return,
            Left::Others => {}
            Left::Nobody => {
                lines.remove(name);
                if lines.is_empty() {
                    self.lines.remove(&waiting.db());
                    if self.lines.is_empty() {
                        self.lines = HashMap::new();
                    }
                } else if lines.len() < lines.capacity() / SHRINK_BELOW {
                    lines.shrink_to(2 * lines.len());
                }
            }
        }
        self.followers -= usize::from(waiting.follows());
    }

    fn line(&self, db: usize, name: &[u8]) -> Option<&Line<W>> {
        self.lines.get(&db)?.get(name)
    }
}

/// The clients that wait, and the place of the one that came last.
#[derive(Debug)]
struct Clients<W> {
    by_id: HashMap<u64, Arc<W>, foldhash::fast::RandomState>,
    last_place: u64,
}

/// Everybody who waits.
#[derive(Debug)]
pub struct Lines<W> {
    shards: Box<[Mutex<Shard<W>>]>,
    clients: Mutex<Clients<W>>,
}

impl<W> Default for Lines<W> {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect();
        let clients = Clients { by_id: HashMap::default(), last_place: 0 };
        Lines { shards, clients: Mutex::new(clients) }
    }
}

impl<W: Waits> Lines<W> {
    fn shard(&self, shard: u16) -> MutexGuard<'_, Shard<W>> {
        lock(&self.shards[usize::from(shard)])
    }

    fn clients(&self) -> MutexGuard<'_, Clients<W>> {
        lock(&self.clients)
    }

    /// Puts a client at the end of the lines of all its keys, whose shards must be held. Its thread has been told
    /// before, if it is another one. O(keys).
    pub fn enter(&self, ks: &Keyspace, waiting: &Arc<W>) {
        let mut clients = self.clients();
        if waiting.state().is_over() {
            // Its thread has ended the wait already, and may have found another one for the client.
            return;
        }
        // One place for all its lines. Those who enter the same line hold the same shard, one after the
        // other, so places ascend along each line.
        clients.last_place += 1;
        let place = clients.last_place;
        waiting.state().set_place(place);
        clients.by_id.insert(waiting.client(), waiting.clone());
        drop(clients);
        for (shard, key) in waiting.keys() {
            let mut of_shard = self.shard(*shard);
            of_shard.enter(place, key, waiting);
            ks.set_waited(*shard, true);
            if waiting.follows() {
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
        self.forget_client(waiting);
        // A place of 0: it has not entered any line, and looks when it has.
        let place = waiting.state().place();
        for (shard, key) in waiting.keys() {
            let mut of_shard = self.shard(*shard);
            of_shard.leave(place, key, waiting);
            if of_shard.followers == 0 {
                ks.set_followed(*shard, false);
            }
            if of_shard.lines.is_empty() {
                ks.set_waited(*shard, false);
            }
        }
    }

    /// The client of that wait is not found by its id any more. What is left of it in lines is passed over,
    /// once the wait is over: whoever can't take the time for [`Lines::leave`] has another thread do it.
    pub fn forget_client(&self, waiting: &Arc<W>) {
        let mut clients = self.clients();
        if clients.by_id.get(&waiting.client()).is_some_and(|w| Arc::ptr_eq(w, waiting)) {
            clients.by_id.remove(&waiting.client());
        }
    }

    /// A client that stands in line will not be served any more. If it was its turn, it is that of those behind it in
    /// its lines: `tell` tells their threads to try. Needs no shard, since it serves nobody by itself. O(clients in the
    /// lines).
    pub fn abandon(&self, ks: &Keyspace, waiting: &Arc<W>, tell: impl FnMut(&Arc<W>)) {
        let had_turn = waiting.state().quit();
        self.leave(ks, waiting);
        if had_turn {
            self.pass_turn(waiting, tell);
        }
    }

    /// It was the turn of a client whose wait is over: it is that of those behind it. O(clients in the lines).
    pub fn pass_turn(&self, waiting: &Arc<W>, mut tell: impl FnMut(&Arc<W>)) {
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
        is_next: impl FnMut(&Arc<W>) -> bool,
    ) -> Option<(u64, Arc<W>)> {
        self.shard(shard).line(db, key)?.first_after(after, is_next)
    }

    /// Whether anybody waits for `key`.
    pub fn has(&self, shard: u16, db: usize, key: &[u8]) -> bool {
        self.shard(shard).line(db, key).is_some()
    }

    /// Every key of `db` in `shard` for which somebody waits.
    pub fn keys(&self, shard: u16, db: usize) -> Vec<Box<[u8]>> {
        let of_shard = self.shard(shard);
        let lines = of_shard.lines.get(&db);
        lines.map_or_else(Vec::new, |lines| lines.keys().map(|key| key[..].into()).collect())
    }

    /// What the client of that id waits for.
    pub fn of_client(&self, client: u64) -> Option<Arc<W>> {
        self.clients().by_id.get(&client).cloned()
    }

    /// How many clients there are that satisfy `is`.
    pub fn count(&self, is: impl Fn(&W) -> bool) -> usize {
        self.clients().by_id.values().filter(|w| is(w)).count()
    }

    /// How many keys are waited for.
    pub fn keys_waited_for(&self) -> usize {
        let of_shard = |s| self.shard(s).lines.values().map(HashMap::len).sum::<usize>();
        (0..SHARDS as u16).map(of_shard).sum()
    }

    /// How many keys have a client in their line that follows them and satisfies `is`. O(shards, and
    /// clients in the lines of those in which somebody follows).
    pub fn keys_followed_by(&self, is: impl Fn(&W) -> bool) -> usize {
        let followed = |s: u16| {
            let of_shard = self.shard(s);
            if of_shard.followers == 0 {
                return 0;
            }
            let lines = of_shard.lines.values().flat_map(HashMap::values);
            lines.filter(|line| line.any(|w| w.follows() && is(w))).count()
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

    impl Waits for Client {
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

    /// The clients in the line of a key, in their order.
    fn line(lines: &Lines<Client>, key: &str) -> Vec<u64> {
        let (mut passed, mut all) = (0, Vec::new());
        while let Some((place, client)) =
            lines.first_after(passed, (0, 3, key.as_bytes()), |_| true)
        {
            all.push(client.id);
            passed = place;
        }
        all
    }

    #[test]
    fn clients_leave_lines_in_any_order() {
        let ks = Keyspace::new(4, 1, Box::new(|_| {}));
        let lines = Lines::default();
        let clients: Vec<Arc<Client>> = (0..50)
            .map(|id| Client::new(id, if id % 2 == 0 { &["a", "b"] } else { &["b"] }))
            .collect();
        clients.iter().for_each(|client| lines.enter(&ks, client));
        assert_eq!(line(&lines, "b"), (0..50).collect::<Vec<_>>());
        assert_eq!(line(&lines, "a"), (0..50).step_by(2).collect::<Vec<_>>());
        assert!(!lines.has(0, 2, b"a"), "another database");
        let mut left: Vec<u64> = (0..50).collect();
        for n in 0..50u64 {
            let id = n * 7 % 50;
            lines.leave(&ks, &clients[id as usize]);
            lines.leave(&ks, &clients[id as usize]);
            left.retain(|other| *other != id);
            assert_eq!(line(&lines, "b"), left);
        }
        assert_eq!((lines.keys_waited_for(), lines.shard(0).followers), (0, 0));
        assert!(lines.of_client(7).is_none());
    }

    #[test]
    fn a_client_that_is_forgotten_stands_in_its_lines_until_it_leaves() {
        let ks = Keyspace::new(4, 1, Box::new(|_| {}));
        let lines = Lines::default();
        let (old, new) = (Client::new(1, &["a"]), Client::new(1, &["a"]));
        lines.enter(&ks, &old);
        lines.forget_client(&old);
        assert!(lines.of_client(1).is_none());
        // The client waits for the same key again before what is left of its first wait is gone.
        lines.enter(&ks, &new);
        lines.leave(&ks, &old);
        assert_eq!(line(&lines, "a"), [1]);
        assert!(lines.of_client(1).is_some_and(|found| Arc::ptr_eq(&found, &new)));
    }
}
