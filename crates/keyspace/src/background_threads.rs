//! Background threads that may sleep for a shard, and their wake-up.
//!
//! The server wakes I/O threads and slow-lane threads by its own means. Other threads that work
//! on the keyspace for a while (to take a snapshot) register a handle here: its number represents
//! the thread in the wait queues of shards.

use crate::lock::Waiter;
use crate::sync::{Mutex, lock};
use std::thread::Thread;

/// [`Waiter::thread`] of a registered thread; the token is the number of its handle.
const REGISTERED: u32 = u32::MAX;

/// The registered threads, by number.
#[derive(Debug, Default)]
pub(crate) struct BackgroundThreads(Mutex<Vec<Option<Thread>>>);

/// The registration of one thread; dropping it ends the registration.
#[derive(Debug)]
pub(crate) struct ThreadHandle<'k> {
    of: &'k BackgroundThreads,
    number: usize,
}

impl BackgroundThreads {
    pub(crate) fn new() -> BackgroundThreads {
        BackgroundThreads(Mutex::new(Vec::new()))
    }

    /// Registers the calling thread. O(registered threads).
    pub(crate) fn register(&self) -> ThreadHandle<'_> {
        let mut handles = lock(&self.0);
        let number = handles.iter().position(Option::is_none).unwrap_or(handles.len());
        if number == handles.len() {
            handles.push(None);
        }
        handles[number] = Some(std::thread::current());
        ThreadHandle { of: self, number }
    }

    /// Wakes the thread of `waiter`; `false` if it is not a registered thread. If its number was
    /// reused meanwhile, the new thread gets a spurious wake-up.
    pub(crate) fn wake(&self, waiter: Waiter) -> bool {
        if waiter.thread != REGISTERED {
            return false;
        }
        if let Some(Some(thread)) = lock(&self.0).get(waiter.token as usize) {
            thread.unpark();
        }
        true
    }
}

impl ThreadHandle<'_> {
    pub(crate) fn waiter(&self) -> Waiter {
        Waiter { thread: REGISTERED, token: self.number as u64 }
    }
}

impl Drop for ThreadHandle<'_> {
    fn drop(&mut self) {
        lock(&self.of.0)[self.number] = None;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_reused_and_wake_their_threads() {
        let background_threads = BackgroundThreads::new();
        let (a, b) = (background_threads.register(), background_threads.register());
        assert_ne!(a.waiter(), b.waiter());
        let first = a.waiter();
        drop(a);
        let c = background_threads.register();
        assert_eq!(c.waiter(), first);
        assert!(background_threads.wake(c.waiter()));
        std::thread::park();
        assert!(!background_threads.wake(Waiter { thread: 3, token: 0 }));
        drop(b);
    }
}
