//! The synchronization primitives of this crate: the standard library's, or loom's doubles
//! when the crate is compiled with `--cfg loom` for the model tests.

#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::{
        Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicUsize, Ordering, fence},
    },
};

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::{
        Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicUsize, Ordering, fence},
    },
};

/// Locks `m`; a panic of an earlier holder does not matter to the queues that are kept here,
/// since each change of them is one step.
pub(crate) fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
