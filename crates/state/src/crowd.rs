//! Published messages that a thread has not delivered to its clients yet, and publishers that wait for it.
//!
//! PUBLISH costs the publisher's thread one message, and each thread with subscribers one delivery per
//! subscriber. So a publisher on another thread could fill a mailbox without bound. Therefore the messages in a
//! mailbox are weighed. If a thread is full, a client's PUBLISH is parked as if a shard were busy: its thread
//! serves other clients, and the full thread wakes it.
//!
//! Messages that a transaction or a change of a key publishes can't wait. But the command can wait before it
//! begins: while a thread is full, commands that may publish are not admitted
//! (`weft_executor::pubsub::crowded_thread`). So a mailbox holds at most the limit, plus the messages of
//! commands that were already running. New connections and served clients wait in the mailbox after these
//! messages.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use weft_keyspace::Waiter;

/// The weight above which a thread is full (bytes): some milliseconds of its work, and a bound on memory.
const FULL: usize = 4 << 20;

/// The undelivered weight of one thread, and the publishers that wait for it.
#[derive(Debug, Default)]
pub struct Crowd {
    weight: AtomicUsize,
    has_waiters: AtomicBool,
    waiters: Mutex<Vec<Waiter>>,
}

impl Crowd {
    /// Adds `weight`. Returns whether the thread is full now.
    pub fn add(&self, weight: usize) -> bool {
        self.weight.fetch_add(weight, Ordering::SeqCst) + weight > FULL
    }

    /// Whether publishers must wait.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.weight.load(Ordering::Relaxed) > FULL
    }

    fn waiters(&self) -> MutexGuard<'_, Vec<Waiter>> {
        self.waiters.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Subtracts a delivered message. Wakes the waiters once the weight is below half of the limit.
    pub fn sub(&self, weight: usize, wake: impl Fn(Waiter)) {
        let left = self.weight.fetch_sub(weight, Ordering::SeqCst) - weight;
        if left < FULL / 2 && self.has_waiters.load(Ordering::SeqCst) {
            self.take().into_iter().for_each(wake);
        }
    }

    fn take(&self) -> Vec<Waiter> {
        let mut waiters = self.waiters();
        self.has_waiters.store(false, Ordering::SeqCst);
        std::mem::take(&mut waiters)
    }

    /// Queues `waiter` to be woken. Returns false, and queues nothing, if the weight is below half of the
    /// limit.
    pub fn park(&self, waiter: Waiter) -> bool {
        let mut waiters = self.waiters();
        waiters.push(waiter);
        self.has_waiters.store(true, Ordering::SeqCst);
        // A later `sub` sees `has_waiters`. If the weight fell below half before this store, no `sub` may
        // follow, so check it here.
        let waits = self.weight.load(Ordering::SeqCst) >= FULL / 2;
        if !waits {
            waiters.pop();
        }
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn waiter_is_woken_at_half() {
        let crowd = Crowd::default();
        let waiter = Waiter { thread: 0, token: 7 };
        let woken = RefCell::new(Vec::new());
        let sub = |weight| crowd.sub(weight, |waiter| woken.borrow_mut().push(waiter.token));
        assert!(!crowd.park(waiter), "there is room");
        assert!(crowd.add(FULL + 1) && crowd.is_full());
        assert!(crowd.park(waiter));
        sub(FULL / 2);
        assert!(woken.borrow().is_empty());
        sub(2);
        assert_eq!(*woken.borrow(), [7]);
        sub(FULL / 2 - 1);
        assert_eq!(*woken.borrow(), [7], "woken once");
        assert!(!crowd.is_full());
    }
}
