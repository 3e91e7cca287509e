//! The system's allocator with counters: replaces jemalloc under sanitizers.
//!
//! A sanitizer only checks memory of its own allocator. Without counters, memory limits and
//! eviction could not be tested there. So each thread counts the bytes that it allocates and frees.
//! The names are those of `tikv_jemalloc_ctl`, as far as this crate uses them.
//!
//! Compiled only with `--cfg weft_sanitizer` (`.ci/sanitize`).

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

thread_local! {
    // Without a destructor and without an allocation, so an allocator may use it.
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
    static DEALLOCATED: Cell<u64> = const { Cell::new(0) };
}

/// Bytes in use by all threads. Part of the allocator, which is unique in a process.
static IN_USE: AtomicI64 = AtomicI64::new(0);

/// The allocator.
#[derive(Debug)]
pub struct Counted;

fn count(taken: usize, given: usize) {
    let add = |cell: &Cell<u64>, n: usize| cell.set(cell.get().wrapping_add(n as u64));
    // Skipped once the thread has destroyed its variables.
    let _ = ALLOCATED.try_with(|cell| add(cell, taken));
    let _ = DEALLOCATED.try_with(|cell| add(cell, given));
    IN_USE.fetch_add(taken as i64 - given as i64, Ordering::Relaxed);
}

// SAFETY: every call goes to `System` unchanged, which keeps the contract. Counting neither
// allocates nor panics.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's contract is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's contract is that of `System`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller's contract is that of `System`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: the caller's contract is that of `System`.
        unsafe { System.realloc(block, layout, size) }
    }
}

/// Like `tikv_jemalloc_ctl::epoch`, but these figures are always current.
pub mod epoch {
    pub fn advance() -> Result<u64, std::convert::Infallible> {
        Ok(0)
    }
}

/// Like `tikv_jemalloc_ctl::stats`. All figures are the bytes in use, since others are not counted.
pub mod stats {
    macro_rules! figures {
        ($($name:ident),*) => {$(
            pub mod $name {
                pub fn read() -> Result<usize, std::convert::Infallible> {
                    let used = crate::counted::IN_USE.load(std::sync::atomic::Ordering::Relaxed);
                    Ok(used.max(0) as usize)
                }
            }
        )*};
    }
    figures!(allocated, active, resident, retained, metadata);
}

/// Like `tikv_jemalloc_ctl::thread`.
pub mod thread {
    use std::cell::Cell;
    use std::marker::PhantomData;
    use std::thread::LocalKey;

    /// A counter of the calling thread. Like the original it must not leave its thread.
    #[derive(Clone, Copy, Debug)]
    pub struct ThreadLocal<T: 'static>(&'static LocalKey<Cell<T>>, PhantomData<*const T>);

    impl ThreadLocal<u64> {
        pub fn get(self) -> u64 {
            self.0.get()
        }
    }

    pub mod allocatedp {
        pub fn read() -> Result<super::ThreadLocal<u64>, std::convert::Infallible> {
            Ok(super::ThreadLocal(&crate::counted::ALLOCATED, super::PhantomData))
        }
    }

    pub mod deallocatedp {
        pub fn read() -> Result<super::ThreadLocal<u64>, std::convert::Infallible> {
            Ok(super::ThreadLocal(&crate::counted::DEALLOCATED, super::PhantomData))
        }
    }
}
