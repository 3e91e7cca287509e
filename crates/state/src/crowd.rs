//! Messages that a thread has not handed to its clients yet, and publishers that wait for it.
//!
//! Publishing costs the publisher's thread one message, and each thread with subscribers as much as
//! there are: a publisher of another thread could fill a mailbox without end. So what lies there is
//! weighed. PUBLISH by a client finds a full thread and is parked, as behind a busy shard: its
//! thread goes on with other clients, and the full one wakes it.
//!
//! What is published in a transaction or by a change of a key can't wait. But the command that does it
//! can, before it begins: while a thread is full, who might publish in that way is not admitted
//! ([`weft_executor::pubsub::crowded_thread`]). So a mailbox holds no more than what is full, and what commands that were under way
//! have added. What lies there is also what a new connection or a served client waits behind.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use weft_keyspace::Waiter;

/// The weight from which on a thread is full: some milliseconds of its work, and a bound on memory
/// (bytes).
const FULL: usize = 4 << 20;

/// See the module.
#[derive(Debug, Default)]
pub struct Crowd {
    weight: AtomicUsize,
    has_waiters: AtomicBool,
    waiters: Mutex<Vec<Waiter>>,
}

impl Crowd {
    /// Whether the thread is full by that.
    pub fn add(&self, weight: usize) -> bool {
        self.weight.fetch_add(weight, Ordering::SeqCst) + weight > FULL
    }

    /// Whether publishers are to wait.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.weight.load(Ordering::Relaxed) > FULL
    }

    fn waiters(&self) -> MutexGuard<'_, Vec<Waiter>> {
        self.waiters.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// A message was handed on: wakes those who wait, once half of the weight is gone.
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

    /// Has `waiter` be woken; not if there is room by now.
    pub fn park(&self, waiter: Waiter) -> bool {
        let mut waiters = self.waiters();
        waiters.push(waiter);
        self.has_waiters.store(true, Ordering::SeqCst);
        // Who takes weight off from here on sees that somebody waits; if all was taken off before,
        // nobody will.
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
