//! The synchronization primitives of this crate: the standard library's, or loom's doubles
//! when the crate is compiled with `--cfg loom` for the model tests.

#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::{
        Condvar, Mutex, MutexGuard, RwLock,
        atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
};

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::{
        Condvar, Mutex, MutexGuard, RwLock,
        atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
};

/// Locks `m` and ignores poisoning: each change of the queues kept here is one step, so a panic
/// of an earlier holder leaves them consistent.
pub(crate) fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// An atomic box: one thread stores a box and another takes it, without blocking. A stored value
/// is published to the thread that takes it.
pub(crate) struct AtomicBox<T>(AtomicBoxCell<T>);

#[cfg(not(loom))]
type AtomicBoxCell<T> = crossbeam_utils::atomic::AtomicCell<Option<Box<T>>>;

/// Not lock-free, but the model checks visibility, which is the same.
#[cfg(loom)]
type AtomicBoxCell<T> = Mutex<Option<Box<T>>>;

impl<T> Default for AtomicBox<T> {
    fn default() -> Self {
        AtomicBox(AtomicBoxCell::new(None))
    }
}

impl<T> std::fmt::Debug for AtomicBox<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AtomicBox")
    }
}

#[cfg(not(loom))]
impl<T> AtomicBox<T> {
    /// Takes the box, if there is one.
    pub(crate) fn take(&self) -> Option<Box<T>> {
        const { assert!(AtomicBoxCell::<T>::is_lock_free()) };
        self.0.take()
    }

    /// Stores `value` and drops a previous box.
    pub(crate) fn put(&self, value: Box<T>) {
        self.0.store(Some(value));
    }
}

#[cfg(loom)]
impl<T> AtomicBox<T> {
    pub(crate) fn take(&self) -> Option<Box<T>> {
        lock(&self.0).take()
    }

    pub(crate) fn put(&self, value: Box<T>) {
        *lock(&self.0) = Some(value);
    }
}
