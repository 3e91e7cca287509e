//! Model test of lines: clients that come to wait, try again, are killed and quit, in every order.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-keyspace --release --test loom_lines`
#![cfg(loom)]

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc as Shared, Mutex};
use loom::thread::spawn;
use std::sync::Arc;
use weft_keyspace::Keyspace;
use weft_keyspace::lines::{Lines, Waits};
use weft_keyspace::wait::{Claim, Unclaim, WaitState};

struct Client {
    id: u64,
    state: WaitState,
    killed: AtomicBool,
    keys: Vec<(u16, Box<[u8]>)>,
}

impl Client {
    fn new(id: u64, keys: &[&[u8]]) -> Arc<Client> {
        let keys = keys.iter().map(|key| (0, Box::from(*key))).collect();
        Arc::new(Client { id, state: WaitState::default(), killed: AtomicBool::new(false), keys })
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
        0
    }

    fn keys(&self) -> &[(u16, Box<[u8]>)] {
        &self.keys
    }

    fn follows(&self) -> bool {
        false
    }

    fn is_killed(&self) -> bool {
        self.killed.load(Ordering::SeqCst)
    }
}

/// What a client's thread is told.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Told {
    Waits(u64),
    Retry(u64),
}

/// One shard, whose list is at the key `k`.
struct World {
    ks: Keyspace,
    lines: Lines<Client>,
    /// Elements of the list: held by whoever holds the shard.
    shard: Mutex<u32>,
    mail: Mutex<Vec<Told>>,
    /// Whether who serves looks if the client was killed.
    looks: bool,
}

const LIST: (u16, usize, &[u8]) = (0, 0, b"k");

impl World {
    fn new() -> Shared<World> {
        World::that_looks(true)
    }

    fn that_looks(looks: bool) -> Shared<World> {
        Shared::new(World {
            ks: Keyspace::new(1, 1, Box::new(|_| {})),
            lines: Lines::default(),
            shard: Mutex::new(0),
            mail: Mutex::new(Vec::new()),
            looks,
        })
    }

    fn tell(&self, what: Told) {
        self.mail.lock().unwrap().push(what);
    }

    /// A client comes to wait in the slow lane.
    fn come(&self, client: &Arc<Client>, tells_first: bool) {
        let shard = self.shard.lock().unwrap();
        if tells_first {
            self.tell(Told::Waits(client.id));
        }
        self.lines.enter(&self.ks, client);
        if !tells_first {
            self.tell(Told::Waits(client.id));
        }
        drop(shard);
    }

    /// A client whose turn it was has found nothing, and the list goes to those who stand there.
    fn try_in_vain(&self, client: &Arc<Client>) {
        let mut shard = self.shard.lock().unwrap();
        client.state.settle();
        self.lines.look_again(&self.ks, client);
        self.serve(&mut shard);
    }

    /// CLIENT KILL, up to its answer.
    fn kill(&self, client: &Client) {
        client.killed.store(true, Ordering::SeqCst);
        if let Some(waiting) = self.lines.of_client(client.id)
            && waiting.state.give_up()
        {
            self.lines.leave(&self.ks, &waiting);
        }
    }

    /// The connection of a client ends.
    fn gone(&self, client: &Arc<Client>) {
        self.lines.abandon(&self.ks, client, |next| self.tell(Told::Retry(next.id)));
    }

    /// An element comes.
    fn push(&self) {
        let mut shard = self.shard.lock().unwrap();
        *shard += 1;
        self.serve(&mut shard);
    }

    fn serve(&self, elements: &mut u32) {
        while *elements > 0
            && let Some((_, next)) = self.lines.first_after(0, LIST, |w| !w.state.is_over())
        {
            let claim = match self.looks {
                true => self.lines.claim(&self.ks, &next),
                false => next.state.claim(),
            };
            match claim {
                Claim::Ours => {
                    *elements -= 1;
                    self.lines.leave(&self.ks, &next);
                    next.state.finish();
                }
                // Whoever is at it sees to it.
                Claim::Theirs | Claim::Owners => return,
                Claim::Over => {}
            }
        }
    }

    fn elements(&self) -> u32 {
        *self.shard.lock().unwrap()
    }

    fn assert_nobody_waits(&self) {
        assert_eq!(self.lines.keys_waited_for(), 0, "a line is left");
        assert!(self.lines.of_client(1).is_none());
    }
}

/// A client is killed while it comes to wait for two keys, and what is pushed behind the answer stays.
#[test]
fn who_is_killed_while_it_comes_to_wait_gets_nothing() {
    loom::model(|| {
        let world = World::new();
        let client = Client::new(1, &[b"k", b"l"]);
        let comes = {
            let (world, client) = (world.clone(), client.clone());
            spawn(move || world.come(&client, true))
        };
        world.kill(&client);
        world.push();
        comes.join().unwrap();
        assert_eq!(world.elements(), 1, "a killed client got it");
        world.assert_nobody_waits();
    });
}

/// A client's time is over before it has come to stand in line, and it waits for something else by then: there it is
/// found.
#[test]
fn who_comes_again_is_found() {
    loom::model(|| {
        let world = World::new();
        let (client, again) = (Client::new(1, &[b"k"]), Client::new(1, &[b"l"]));
        let comes = {
            let (world, client) = (world.clone(), client.clone());
            spawn(move || world.lines.enter(&world.ks, &client))
        };
        assert!(client.state.give_up());
        world.lines.leave(&world.ks, &client);
        world.lines.enter(&world.ks, &again);
        comes.join().unwrap();
        let found = world.lines.of_client(1).expect("it is found");
        assert!(Arc::ptr_eq(&found, &again));
        world.lines.leave(&world.ks, &again);
        world.assert_nobody_waits();
    });
}

#[test]
fn who_is_killed_while_it_tries_gets_nothing() {
    loom::model(|| {
        let world = World::new();
        let client = Client::new(1, &[b"k"]);
        world.come(&client, true);
        assert_eq!(client.state.claim(), Claim::Ours);
        assert_eq!(client.state.unclaim(true), Unclaim::Retry);
        let tries = {
            let (world, client) = (world.clone(), client.clone());
            spawn(move || world.try_in_vain(&client))
        };
        world.kill(&client);
        world.push();
        // The answer to the kill may come before the try: then the element is for whoever comes next.
        tries.join().unwrap();
        assert_eq!(world.elements(), 1, "a killed client got it");
        world.assert_nobody_waits();
    });
}

/// Somebody looks whether a client can be served, and it can't; it is killed meanwhile.
fn killed_while_it_is_looked_at(looks: bool) {
    loom::model(move || {
        let world = World::that_looks(looks);
        let client = Client::new(1, &[b"k"]);
        world.come(&client, true);
        let looks = {
            let (world, client) = (world.clone(), client.clone());
            // With another of its shards in hand.
            spawn(move || {
                if world.lines.claim(&world.ks, &client) == Claim::Ours {
                    match client.state.unclaim(false) {
                        Unclaim::Waits => world.lines.look_again(&world.ks, &client),
                        Unclaim::Retry => world.gone(&client),
                    }
                }
            })
        };
        world.kill(&client);
        world.push();
        looks.join().unwrap();
        assert_eq!(world.elements(), 1, "a killed client got it");
        world.assert_nobody_waits();
    });
}

#[test]
fn who_is_killed_while_it_is_looked_at_gets_nothing() {
    killed_while_it_is_looked_at(true);
}

/// The model finds the fault.
#[test]
#[should_panic(expected = "a killed client got it")]
fn who_serves_without_a_look_serves_a_killed_client() {
    killed_while_it_is_looked_at(false);
}

/// One whose turn it is goes, while the next one comes to stand behind it: that one is told to try, and by then its
/// thread knows that it waits.
fn called_while_it_comes(tells_first: bool) {
    loom::model(move || {
        let world = World::new();
        let (first, next) = (Client::new(1, &[b"k"]), Client::new(2, &[b"k"]));
        world.come(&first, true);
        assert_eq!(first.state.claim(), Claim::Ours);
        assert_eq!(first.state.unclaim(true), Unclaim::Retry);
        let comes = {
            let (world, next) = (world.clone(), next.clone());
            spawn(move || world.come(&next, tells_first))
        };
        world.gone(&first);
        comes.join().unwrap();
        let mail = world.mail.lock().unwrap();
        let told = mail.iter().position(|told| *told == Told::Waits(2)).expect("it is told");
        if let Some(retry) = mail.iter().position(|told| *told == Told::Retry(2)) {
            assert!(told < retry, "it is to try, and does not know that it waits");
        }
    });
}

#[test]
fn who_is_called_while_it_comes_to_wait_knows_that_it_waits() {
    called_while_it_comes(true);
}

/// The model finds the fault.
#[test]
#[should_panic(expected = "does not know that it waits")]
fn who_tells_afterwards_is_late() {
    called_while_it_comes(false);
}

/// The connection of one whose turn it is ends. The next one is being served from another key just then, so it is the
/// turn of the one behind that.
#[test]
fn a_turn_passes_by_one_that_is_served() {
    loom::model(|| {
        let world = World::new();
        let [first, next, last] = [1, 2, 3].map(|id| Client::new(id, &[b"k"]));
        [&first, &next, &last].into_iter().for_each(|client| world.come(client, true));
        assert_eq!(first.state.claim(), Claim::Ours);
        assert_eq!(first.state.unclaim(true), Unclaim::Retry);
        let serves = {
            let (world, next) = (world.clone(), next.clone());
            spawn(move || match next.state.claim() {
                Claim::Ours => {
                    world.lines.leave(&world.ks, &next);
                    next.state.finish();
                }
                Claim::Theirs | Claim::Owners => {}
                Claim::Over => unreachable!("it waits"),
            })
        };
        world.gone(&first);
        serves.join().unwrap();
        assert!(next.state.is_retry() || last.state.is_retry(), "nobody is to try");
    });
}

/// The connection of one whose turn it is ends while it tries in vain, and while an element comes: the next one gets
/// it, or is told to try.
#[test]
fn a_turn_is_passed_on() {
    let mut model = loom::model::Builder::new();
    // All of them take ten minutes.
    model.preemption_bound = Some(2);
    model.check(|| {
        let world = World::new();
        let (first, next) = (Client::new(1, &[b"k"]), Client::new(2, &[b"k"]));
        world.come(&first, true);
        world.come(&next, true);
        assert_eq!(first.state.claim(), Claim::Ours);
        assert_eq!(first.state.unclaim(true), Unclaim::Retry);
        let tries = {
            let (world, first) = (world.clone(), first.clone());
            spawn(move || world.try_in_vain(&first))
        };
        let pushes = {
            let world = world.clone();
            spawn(move || world.push())
        };
        world.gone(&first);
        tries.join().unwrap();
        pushes.join().unwrap();
        let is_told = next.state.is_over() || next.state.is_retry();
        assert!(world.elements() == 0 || is_told, "it sleeps beside an element");
        assert!(first.state.is_over());
        assert_eq!(world.lines.keys_waited_for(), usize::from(!next.state.is_over()));
    });
}
