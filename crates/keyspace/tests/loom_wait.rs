//! Model test of the state of a blocked client: every interleaving of two threads that create its
//! keys with its timeout.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-keyspace --release --test loom_wait`
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU32, Ordering};
use weft_keyspace::wait::{Claim, Unclaim, WaitState};

/// A client blocked on two lists, each under its own lock.
#[derive(Default)]
struct Client {
    state: WaitState,
    served: AtomicU32,
    retries: AtomicU32,
}

/// Adds an element to `list` and tries to serve the client. `picky`: the claimer finds that the
/// client can't use this kind of key.
fn push(client: &Client, list: &Mutex<u32>, picky: bool) {
    let mut list = list.lock().unwrap();
    *list += 1;
    match client.state.claim() {
        Claim::Ours if picky => {
            if client.state.unclaim(false) == Unclaim::Retry {
                client.retries.fetch_add(1, Ordering::Relaxed);
            }
        }
        Claim::Ours => {
            *list -= 1;
            client.served.fetch_add(1, Ordering::Relaxed);
            client.state.finish();
        }
        Claim::Theirs | Claim::Owners | Claim::Over => {}
    }
}

#[test]
fn two_writers_and_a_timeout_answer_once() {
    loom::model(|| {
        let client = Arc::new(Client::default());
        let lists = Arc::new([Mutex::new(0), Mutex::new(0)]);
        let makers: Vec<_> = (0..2)
            .map(|n| {
                let (client, lists) = (client.clone(), lists.clone());
                loom::thread::spawn(move || push(&client, &lists[n], false))
            })
            .collect();
        let gave_up = client.state.give_up();
        makers.into_iter().for_each(|m| m.join().unwrap());
        let served = client.served.load(Ordering::Relaxed);
        assert_eq!(served + u32::from(gave_up), 1, "answered once");
        let left: u32 = lists.iter().map(|l| *l.lock().unwrap()).sum();
        assert_eq!(left, 2 - served, "no element is lost");
        assert!(client.state.is_over());
    });
}

/// The client can't use one writer's key, but the other's: in any order, the client is served or
/// must retry, and does not sleep although there is an element.
#[test]
fn no_key_is_missed() {
    loom::model(|| {
        let client = Arc::new(Client::default());
        let lists = Arc::new([Mutex::new(0), Mutex::new(0)]);
        let other = {
            let (client, lists) = (client.clone(), lists.clone());
            loom::thread::spawn(move || push(&client, &lists[0], true))
        };
        push(&client, &lists[1], false);
        other.join().unwrap();
        let served = client.served.load(Ordering::Relaxed);
        let retries = client.retries.load(Ordering::Relaxed);
        assert_eq!(served + retries, 1);
        assert_eq!(client.state.is_retry(), retries == 1);
    });
}
