//! Background threads that may sleep for a shard, and who wakes them.
//!
//! I/O threads and those of the slow lane are woken by the server, in ways of its own. A thread that
//! works on the keyspace for a while (it takes a snapshot) has none, and takes a *seat* here: a
//! number that stands for it in the queues of shards.

use crate::lock::Waiter;
use crate::sync::{Mutex, lock};
use std::thread::Thread;

/// [`Waiter::thread`] of a thread with a seat; its token is the seat's number.
const SEATED: u32 = u32::MAX;

/// The seats, by number.
#[derive(Debug, Default)]
pub(crate) struct Sleepers(Mutex<Vec<Option<Thread>>>);

/// The seat of one thread, given back on drop.
#[derive(Debug)]
pub(crate) struct Seat<'k> {
    of: &'k Sleepers,
    number: usize,
}

impl Sleepers {
    pub(crate) fn new() -> Sleepers {
        Sleepers(Mutex::new(Vec::new()))
    }

    /// A seat for the calling thread. O(seats).
    pub(crate) fn seat(&self) -> Seat<'_> {
        let mut seats = lock(&self.0);
        let number = seats.iter().position(Option::is_none).unwrap_or(seats.len());
        if number == seats.len() {
            seats.push(None);
        }
        seats[number] = Some(std::thread::current());
        Seat { of: self, number }
    }

    /// Wakes the thread that `waiter` stands for; `false` if it is none with a seat. One that has
    /// left its seat to another meanwhile makes that one look in vain.
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
    fn seats_are_used_again_and_wake_their_threads() {
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
