//! The synchronization primitives of this crate: the standard library's, or loom's doubles
//! when the crate is compiled with `--cfg loom` for the model tests.

#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::{
        Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
};

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::{
        Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
};

/// Locks `m`; a panic of an earlier holder does not matter to the queues that are kept here,
/// since each change of them is one step.
pub(crate) fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A place where one thread leaves a box and another takes it, and neither ever waits: what is put
/// is published to whoever takes it.
pub(crate) struct Hatch<T>(HatchCell<T>);

#[cfg(not(loom))]
type HatchCell<T> = crossbeam_utils::atomic::AtomicCell<Option<Box<T>>>;

/// Not free of locks, but the model is of what is seen by whom, which is the same.
#[cfg(loom)]
type HatchCell<T> = Mutex<Option<Box<T>>>;

impl<T> Default for Hatch<T> {
    fn default() -> Self {
        Hatch(HatchCell::new(None))
    }
}

impl<T> std::fmt::Debug for Hatch<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hatch")
    }
}

#[cfg(not(loom))]
impl<T> Hatch<T> {
    /// Takes what is there.
    pub(crate) fn take(&self) -> Option<Box<T>> {
        const { assert!(HatchCell::<T>::is_lock_free()) };
        self.0.take()
    }

    /// Leaves `value` in the place of anything that is there, which is dropped.
    pub(crate) fn put(&self, value: Box<T>) {
        self.0.store(Some(value));
    }
}

#[cfg(loom)]
impl<T> Hatch<T> {
    pub(crate) fn take(&self) -> Option<Box<T>> {
        lock(&self.0).take()
    }

    pub(crate) fn put(&self, value: Box<T>) {
        *lock(&self.0) = Some(value);
    }
}
