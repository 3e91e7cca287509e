//! A value that every thread reads before each command and that rarely changes: the users and their rights.
//!
//! Each change makes the next *generation*. A thread that knows the value of one generation compares one number before it
//! uses it. A change that no command may run across is made while the safepoints are closed: a thread inside its safepoint
//! then reads the number once, on entering. Threads of the slow lane have no safepoint. They announce a command first and
//! read the number then. The thread that makes a change looks for announced commands afterwards: one of the two sees the
//! other.
//!
//! Model-tested with loom (`tests/loom_generation.rs`).

use crate::sync::{AtomicU64, Ordering, RwLock};

/// A value, and the number of its generation.
#[derive(Debug)]
pub struct Generations<T> {
    current: RwLock<(T, u64)>,
    /// The number of the generation in force; at least 1. Stored under `current`.
    number: AtomicU64,
}

impl<T: Clone> Generations<T> {
    /// The first generation, which is number 1.
    pub fn new(value: T) -> Self {
        Generations { current: RwLock::new((value, 1)), number: AtomicU64::new(1) }
    }

    /// The number of the generation in force.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// The value in force, and its number.
    pub fn current(&self) -> (T, u64) {
        self.current.read().unwrap_or_else(|p| p.into_inner()).clone()
    }

    /// Puts the value that `change` makes of the present one into force. Returns the one before, or its error.
    ///
    /// # Errors
    /// That of `change`. Then nothing has changed.
    pub fn change<E>(&self, change: impl FnOnce(&T) -> Result<T, E>) -> Result<T, E> {
        let mut current = self.current.write().unwrap_or_else(|p| p.into_inner());
        let value = change(&current.0)?;
        let before = std::mem::replace(&mut current.0, value);
        current.1 += 1;
        self.number.store(current.1, Ordering::Release);
        Ok(before)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn failed_change_keeps_value_and_number() {
        let value = Generations::new("a");
        assert_eq!(value.change(|_| Err("no")), Err("no"));
        assert_eq!((value.current(), value.number()), (("a", 1), 1));
        assert_eq!(value.change(|_| Ok::<_, ()>("b")), Ok("a"));
        assert_eq!((value.current(), value.number()), (("b", 2), 2));
    }
}
