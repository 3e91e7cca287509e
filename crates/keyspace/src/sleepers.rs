//! Background threads that may sleep for a shard, and their wake-up.
//!
//! The server wakes I/O threads and slow-lane threads by its own means. Other threads that work
//! on the keyspace for a while (to take a snapshot) register a handle here: its number represents
//! the thread in the wait queues of shards.

use crate::lock::Waiter;
use crate::sync::{Mutex, lock};
use std::thread::Thread;

/// [`Waiter::thread`] of a registered thread; the token is the number of its handle.
const SEATED: u32 = u32::MAX;

/// The registered threads, by number.
#[derive(Debug, Default)]
pub(crate) struct Sleepers(Mutex<Vec<Option<Thread>>>);

/// The registration of one thread; dropping it ends the registration.
#[derive(Debug)]
pub(crate) struct Seat<'k> {
    of: &'k Sleepers,
    number: usize,
}

impl Sleepers {
    pub(crate) fn new() -> Sleepers {
        Sleepers(Mutex::new(Vec::new()))
    }

    /// Registers the calling thread. O(registered threads).
    pub(crate) fn seat(&self) -> Seat<'_> {
        let mut seats = lock(&self.0);
        let number = seats.iter().position(Option::is_none).unwrap_or(seats.len());
        if number == seats.len() {
            seats.push(None);
        }
        seats[number] = Some(std::thread::current());
        Seat { of: self, number }
    }

    /// Wakes the thread of `waiter`; `false` if it is not a registered thread. If its number was
    /// reused meanwhile, the new thread gets a spurious wake-up.
    pub(crate) fn wake(&self, waiter: Waiter) -> bool {
        if waiter.thread != SEATED {
            return false;
        }
        if let Some(Some(thread)) = lock(&self.0).get(waiter.token as usize) {
            thread.unpark();
        }
        true
    }
}

impl Seat<'_> {
    pub(crate) fn waiter(&self) -> Waiter {
        Waiter { thread: SEATED, token: self.number as u64 }
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        lock(&self.of.0)[self.number] = None;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_reused_and_wake_their_threads() {
        let sleepers = Sleepers::new();
        let (a, b) = (sleepers.seat(), sleepers.seat());
        assert_ne!(a.waiter(), b.waiter());
        let first = a.waiter();
        drop(a);
        let c = sleepers.seat();
        assert_eq!(c.waiter(), first);
        assert!(sleepers.wake(c.waiter()));
        std::thread::park();
        assert!(!sleepers.wake(Waiter { thread: 3, token: 0 }));
        drop(b);
    }
}
