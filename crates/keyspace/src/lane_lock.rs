//! A lock for the slow lane: running commands share it, and a thread that needs all of them to have ended holds it alone.
//!
//! It is a readers-writer lock in which a waiting writer keeps new readers out. Unlike the standard library's, its waiters
//! can give up: [`LaneLock::wake`] makes all of them ask again whether to wait any longer. A script that has become busy
//! calls it.

use crate::sync::{Condvar, Mutex, lock};

/// Asks whether to give up. Called with the lock's mutex held, so it must not use the lock.
pub(crate) type Asks<'a> = &'a dyn Fn() -> bool;

#[derive(Debug, Default)]
struct State {
    shares: usize,
    is_exclusive: bool,
    /// Threads that wait to hold it alone.
    waiting: usize,
}

impl State {
    fn is_free(&self) -> bool {
        self.shares == 0 && !self.is_exclusive
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct LaneLock {
    state: Mutex<State>,
    changed: Condvar,
}

/// Shares the lock until it is dropped.
#[derive(Debug)]
pub(crate) struct Shared<'l>(&'l LaneLock);

/// Holds the lock alone until it is dropped.
#[derive(Debug)]
pub(crate) struct Exclusive<'l>(&'l LaneLock);

impl LaneLock {
    pub(crate) fn new() -> Self {
        LaneLock { state: Mutex::new(State::default()), changed: Condvar::new() }
    }

    /// Shares the lock. Waits while a thread holds it alone or waits for that. `None`: it has given up.
    pub(crate) fn share(&self, gives_up: Asks<'_>) -> Option<Shared<'_>> {
        let mut state = lock(&self.state);
        while state.is_exclusive || state.waiting > 0 {
            if gives_up() {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(|p| p.into_inner());
        }
        state.shares += 1;
        Some(Shared(self))
    }

    /// Holds the lock alone, if it is free now.
    pub(crate) fn try_exclude(&self) -> Option<Exclusive<'_>> {
        let mut state = lock(&self.state);
        if !state.is_free() {
            return None;
        }
        state.is_exclusive = true;
        Some(Exclusive(self))
    }

    /// Holds the lock alone. `None`: it has given up.
    pub(crate) fn exclude(&self, gives_up: Asks<'_>) -> Option<Exclusive<'_>> {
        let mut state = lock(&self.state);
        state.waiting += 1;
        while !state.is_free() {
            if gives_up() {
                state.waiting -= 1;
                self.changed.notify_all();
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(|p| p.into_inner());
        }
        state.waiting -= 1;
        state.is_exclusive = true;
        Some(Exclusive(self))
    }

    /// Makes all waiting threads ask again whether to give up.
    pub(crate) fn wake(&self) {
        drop(lock(&self.state));
        self.changed.notify_all();
    }
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).shares -= 1;
        self.0.changed.notify_all();
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).is_exclusive = false;
        self.0.changed.notify_all();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    const NEVER: Asks<'static> = &|| false;

    #[test]
    fn one_thread_excludes_all_others() {
        let lock = LaneLock::new();
        let (first, second) = (lock.share(NEVER), lock.share(NEVER));
        assert!(lock.try_exclude().is_none() && lock.exclude(&|| true).is_none());
        drop((first, second));
        let alone = lock.try_exclude().expect("it is free");
        assert!(lock.share(&|| true).is_none() && lock.try_exclude().is_none());
        drop(alone);
        assert!(lock.share(NEVER).is_some());
    }

    /// A thread that waits to hold it alone keeps new shares out. It gives up when it is woken, and they get in.
    #[test]
    fn waiting_threads_give_up_when_they_are_woken() {
        let (lock, is_busy) = (LaneLock::new(), AtomicBool::new(false));
        let asked = AtomicUsize::new(0);
        let gives_up = || {
            asked.fetch_add(1, Ordering::SeqCst);
            is_busy.load(Ordering::SeqCst)
        };
        let running = lock.share(NEVER).expect("it is free");
        std::thread::scope(|scope| {
            let alone = scope.spawn(|| lock.exclude(&gives_up).is_some());
            while asked.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            assert!(lock.share(&|| true).is_none(), "a thread waits to hold it alone");
            let late = scope.spawn(|| lock.share(NEVER).is_some());
            is_busy.store(true, Ordering::SeqCst);
            lock.wake();
            assert!(!alone.join().expect("no panic"));
            assert!(late.join().expect("no panic"));
        });
        drop(running);
        assert!(lock.try_exclude().is_some());
    }
}
