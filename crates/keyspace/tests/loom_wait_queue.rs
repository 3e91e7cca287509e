//! Model test of the wait queues: clients that block, retry, are killed and quit, in every order.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-keyspace --release --test loom_wait_queue`
#![cfg(loom)]

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc as Shared, Mutex};
use loom::thread::spawn;
use std::sync::Arc;
use weft_keyspace::Keyspace;
use weft_keyspace::wait::{Claim, Unclaim, WaitState};
use weft_keyspace::wait_queue::{QueuedClient, WaitQueues};

struct Client {
    id: u64,
    state: WaitState,
    killed: AtomicBool,
    keys: Vec<(u16, Arc<[u8]>)>,
}

impl Client {
    fn new(id: u64, keys: &[&[u8]]) -> Arc<Client> {
        let keys = keys.iter().map(|key| (0, Arc::from(*key))).collect();
        Arc::new(Client { id, state: WaitState::default(), killed: AtomicBool::new(false), keys })
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
        0
    }

    fn keys(&self) -> &[(u16, Arc<[u8]>)] {
        &self.keys
    }

    fn follows(&self) -> bool {
        false
    }

    fn is_killed(&self) -> bool {
        self.killed.load(Ordering::SeqCst)
    }
}

/// A message to a client's thread.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Notification {
    Waits(u64),
    Retry(u64),
}

/// One shard with a list at the key `k`.
struct World {
    ks: Keyspace,
    queues: WaitQueues<Client>,
    /// Elements of the list; the mutex is the lock of the shard.
    shard: Mutex<u32>,
    notifications: Mutex<Vec<Notification>>,
}

const LIST: (u16, usize, &[u8]) = (0, 0, b"k");

impl World {
    fn new() -> Shared<World> {
        Shared::new(World {
            ks: Keyspace::new(1, 1, Box::new(|_| {})),
            queues: WaitQueues::default(),
            shard: Mutex::new(0),
            notifications: Mutex::new(Vec::new()),
        })
    }

    fn notify(&self, what: Notification) {
        self.notifications.lock().unwrap().push(what);
    }

    /// A client blocks in the slow lane.
    fn block(&self, client: &Arc<Client>, notifies_first: bool) {
        let shard = self.shard.lock().unwrap();
        if notifies_first {
            self.notify(Notification::Waits(client.id));
        }
        self.queues.enter(&self.ks, client);
        if !notifies_first {
            self.notify(Notification::Waits(client.id));
        }
        drop(shard);
    }

    /// A client's retry fails, and the list is offered to the queued clients.
    fn retry_without_element(&self, client: &Arc<Client>) {
        let mut shard = self.shard.lock().unwrap();
        client.state.settle();
        self.queues.remove_if_over(&self.ks, client);
        self.serve(&mut shard);
    }

    /// A client retries and takes an element, unless it was killed, or has disconnected and
    /// `looks` is set.
    fn retry(&self, client: &Arc<Client>, looks: bool) {
        let mut shard = self.shard.lock().unwrap();
        if client.is_killed() || looks && client.state.is_over() {
            client.state.quit();
        } else if *shard > 0 {
            *shard -= 1;
            client.state.finish();
        } else {
            client.state.settle();
            self.queues.remove_if_over(&self.ks, client);
            return self.serve(&mut shard);
        }
        self.queues.leave(&self.ks, client);
        self.serve(&mut shard);
    }

    /// CLIENT KILL, up to its reply.
    fn kill(&self, client: &Client) {
        client.killed.store(true, Ordering::SeqCst);
        if let Some(waiting) = self.queues.of_client(client.id) {
            self.disconnect(&waiting);
        }
    }

    /// The connection of a client ends.
    fn disconnect(&self, client: &Arc<Client>) {
        self.queues.abandon(&self.ks, client, |next| self.notify(Notification::Retry(next.id)));
    }

    /// Adds an element.
    fn push(&self) {
        let mut shard = self.shard.lock().unwrap();
        *shard += 1;
        self.serve(&mut shard);
    }

    fn serve(&self, elements: &mut u32) {
        while *elements > 0
            && let Some((_, next)) = self.queues.first_after(0, LIST, |w| !w.state.is_over())
        {
            match next.state.claim() {
                Claim::Ours => {
                    *elements -= 1;
                    self.queues.leave(&self.ks, &next);
                    next.state.finish();
                }
                // The thread that serves it offers the list again.
                Claim::Theirs | Claim::Owners => return,
                Claim::Over => {}
            }
        }
    }

    fn elements(&self) -> u32 {
        *self.shard.lock().unwrap()
    }

    fn assert_no_client_waits(&self) {
        assert_eq!(self.queues.keys_waited_for(), 0, "a wait queue is left");
        assert!(self.queues.of_client(1).is_none());
    }
}

/// Makes the client retry by itself.
fn make_retry(client: &Client) {
    assert_eq!(client.state.claim(), Claim::Ours);
    assert_eq!(client.state.unclaim(true), Unclaim::Retry);
}

/// A client is killed while it blocks on two keys. An element pushed after the kill's reply stays
/// in the list.
#[test]
fn client_killed_while_it_blocks_is_not_served() {
    loom::model(|| {
        let world = World::new();
        let client = Client::new(1, &[b"k", b"l"]);
        let blocks = {
            let (world, client) = (world.clone(), client.clone());
            spawn(move || world.block(&client, true))
        };
        world.kill(&client);
        world.push();
        blocks.join().unwrap();
        assert_eq!(world.elements(), 1, "a killed client got it");
        world.assert_no_client_waits();
    });
}

/// A client's timeout expires before it is queued, and it has already blocked on another key: its
/// new wait is found.
#[test]
fn client_that_blocks_again_is_found() {
    loom::model(|| {
        let world = World::new();
        let (client, again) = (Client::new(1, &[b"k"]), Client::new(1, &[b"l"]));
        let blocks = {
            let (world, client) = (world.clone(), client.clone());
            spawn(move || world.queues.enter(&world.ks, &client))
        };
        assert!(client.state.give_up());
        world.queues.leave(&world.ks, &client);
        world.queues.enter(&world.ks, &again);
        blocks.join().unwrap();
        let found = world.queues.of_client(1).expect("it is found");
        assert!(Arc::ptr_eq(&found, &again));
        world.queues.leave(&world.ks, &again);
        world.assert_no_client_waits();
    });
}

#[test]
fn client_killed_while_it_retries_is_not_served() {
    loom::model(|| {
        let world = World::new();
        let client = Client::new(1, &[b"k"]);
        world.block(&client, true);
        make_retry(&client);
        let tries = {
            let (world, client) = (world.clone(), client.clone());
            spawn(move || world.retry_without_element(&client))
        };
        world.kill(&client);
        world.push();
        // The reply to the kill may come before the retry: then the element stays for the next
        // client.
        tries.join().unwrap();
        assert_eq!(world.elements(), 1, "a killed client got it");
        world.assert_no_client_waits();
    });
}

/// A thread tries to serve a client and can't; meanwhile the client is killed. `leaves`: whether
/// the kill removes it from its wait queues nevertheless.
fn killed_during_an_attempt(leaves: bool) {
    loom::model(move || {
        let world = World::new();
        let client = Client::new(1, &[b"k"]);
        world.block(&client, true);
        let looks = {
            let (world, client) = (world.clone(), client.clone());
            // This thread holds another of the client's shards.
            spawn(move || {
                if client.state.claim() == Claim::Ours {
                    match client.state.unclaim(false) {
                        Unclaim::Waits => world.queues.remove_if_over(&world.ks, &client),
                        Unclaim::Retry => world.disconnect(&client),
                    }
                }
            })
        };
        if leaves {
            world.kill(&client);
        } else {
            client.killed.store(true, Ordering::SeqCst);
            if client.state.give_up() {
                world.queues.leave(&world.ks, &client);
            }
        }
        world.push();
        looks.join().unwrap();
        assert_eq!(world.elements(), 1, "a killed client got it");
        world.assert_no_client_waits();
    });
}

#[test]
fn client_killed_during_an_attempt_is_not_served() {
    killed_during_an_attempt(true);
}

/// The model detects the fault.
#[test]
#[should_panic(expected = "a killed client got it")]
fn killed_client_left_in_its_queue_is_served() {
    killed_during_an_attempt(false);
}

/// A client that was about to retry disconnects while the next one is being queued. The next
/// client must retry, and its thread must know by then that it waits.
fn woken_while_it_blocks(notifies_first: bool) {
    loom::model(move || {
        let world = World::new();
        let (first, next) = (Client::new(1, &[b"k"]), Client::new(2, &[b"k"]));
        world.block(&first, true);
        make_retry(&first);
        let blocks = {
            let (world, next) = (world.clone(), next.clone());
            spawn(move || world.block(&next, notifies_first))
        };
        world.disconnect(&first);
        blocks.join().unwrap();
        let notifications = world.notifications.lock().unwrap();
        let notified = notifications
            .iter()
            .position(|notified| *notified == Notification::Waits(2))
            .expect("it is notified");
        if let Some(retry) =
            notifications.iter().position(|notified| *notified == Notification::Retry(2))
        {
            assert!(notified < retry, "it must retry, and does not know that it waits");
        }
    });
}

#[test]
fn client_woken_while_it_blocks_is_known_to_wait() {
    woken_while_it_blocks(true);
}

/// The model detects the fault.
#[test]
#[should_panic(expected = "does not know that it waits")]
fn notifying_the_thread_after_queueing_is_too_late() {
    woken_while_it_blocks(false);
}

/// A client that was about to retry disconnects. The next client is being served from another key
/// at that moment, so the turn passes to the client after it.
#[test]
fn turn_passes_over_a_client_being_served() {
    loom::model(|| {
        let world = World::new();
        let [first, next, last] = [1, 2, 3].map(|id| Client::new(id, &[b"k"]));
        [&first, &next, &last].into_iter().for_each(|client| world.block(client, true));
        make_retry(&first);
        let serves = {
            let (world, next) = (world.clone(), next.clone());
            spawn(move || match next.state.claim() {
                Claim::Ours => {
                    world.queues.leave(&world.ks, &next);
                    next.state.finish();
                }
                Claim::Theirs | Claim::Owners => {}
                Claim::Over => unreachable!("it waits"),
            })
        };
        world.disconnect(&first);
        serves.join().unwrap();
        assert!(next.state.is_retry() || last.state.is_retry(), "no client retries");
    });
}

/// A client disconnects while its retry fails and an element is added: the next client gets the
/// element, or must retry.
#[test]
fn turn_of_a_disconnected_client_passes_on() {
    let mut model = loom::model::Builder::new();
    // The unbounded model takes ten minutes.
    model.preemption_bound = Some(2);
    model.check(|| {
        let world = World::new();
        let (first, next) = (Client::new(1, &[b"k"]), Client::new(2, &[b"k"]));
        world.block(&first, true);
        world.block(&next, true);
        make_retry(&first);
        let tries = {
            let (world, first) = (world.clone(), first.clone());
            spawn(move || world.retry_without_element(&first))
        };
        let pushes = {
            let world = world.clone();
            spawn(move || world.push())
        };
        world.disconnect(&first);
        tries.join().unwrap();
        pushes.join().unwrap();
        let is_served_or_retries = next.state.is_over() || next.state.is_retry();
        assert!(
            world.elements() == 0 || is_served_or_retries,
            "it sleeps although there is an element"
        );
        assert!(first.state.is_over());
        assert_eq!(world.queues.keys_waited_for(), usize::from(!next.state.is_over()));
    });
}

/// A client waits in the slow lane for its retry. When it disconnects, its turn passes at once
/// and not only when the lane runs its retry: so another client may take the element meanwhile.
fn disconnect_before_retry(kills: bool) {
    loom::model(move || {
        let world = World::new();
        let (first, next) = (Client::new(1, &[b"k"]), Client::new(2, &[b"k"]));
        world.block(&first, true);
        world.block(&next, true);
        make_retry(&first);
        *world.shard.lock().unwrap() = 1;
        let leaves = {
            let (world, first) = (world.clone(), first.clone());
            spawn(move || if kills { world.kill(&first) } else { world.disconnect(&first) })
        };
        world.retry(&first, true);
        let took = world.elements() == 0 && !next.state.is_over();
        leaves.join().unwrap();
        // Its thread may be notified earlier, and then there is no element left for the retry.
        if next.state.is_retry() {
            assert!(world.notifications.lock().unwrap().contains(&Notification::Retry(2)));
            world.retry(&next, true);
        }
        assert!(first.state.is_over());
        assert_eq!(world.elements(), 0, "a client sleeps although there is an element");
        let waits = usize::from(took);
        assert_eq!(
            world.queues.keys_waited_for(),
            waits,
            "the client that gets nothing stays blocked"
        );
    });
}

#[test]
fn client_killed_before_its_retry_passes_its_turn_on() {
    disconnect_before_retry(true);
}

#[test]
fn client_disconnected_before_its_retry_passes_its_turn_on() {
    disconnect_before_retry(false);
}

/// The slow lane can't notify a disconnected client, so it must not take an element for it.
#[test]
fn disconnected_client_takes_no_element() {
    has_hung_up(true);
}

/// The model detects the fault.
#[test]
#[should_panic(expected = "the element is lost")]
fn missing_check_for_disconnect_loses_the_element() {
    has_hung_up(false);
}

fn has_hung_up(looks: bool) {
    loom::model(move || {
        let world = World::new();
        let client = Client::new(1, &[b"k"]);
        world.block(&client, true);
        make_retry(&client);
        world.disconnect(&client);
        *world.shard.lock().unwrap() = 1;
        world.retry(&client, looks);
        assert_eq!(world.elements(), 1, "the element is lost");
        world.assert_no_client_waits();
    });
}
