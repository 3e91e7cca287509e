//! Model test of the state of a waiting client: every interleaving of two threads that make its
//! keys with its timeout.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-keyspace --release --test loom_wait`
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU32, Ordering};
use weft_keyspace::wait::{Claim, Unclaim, WaitState};

/// A client that waits for an element in either of two lists, each under a lock of its own.
#[derive(Default)]
struct Client {
    state: WaitState,
    served: AtomicU32,
    retries: AtomicU32,
}

/// Puts an element into `list` and looks whether the client takes it. `picky`: the claimer finds
/// that the client does not want this kind of key.
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
fn two_makers_and_a_timeout_serve_once() {
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

/// One maker's key is of no use, the other's is: whatever the order, the client is served or told
/// to try again, and does not sleep beside an element.
#[test]
fn no_key_comes_unnoticed() {
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
