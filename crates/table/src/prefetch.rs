//! Prefetches cache lines.
//!
//! A lookup in a table larger than the cache takes two cache misses in a row: the bucket, then the
//! record that the bucket points to. For one key at a time, each costs a full trip to memory. For a
//! batch of keys in two rounds (all buckets, then all records), the trips overlap, and a batch
//! costs little more than one key.
//!
//! A prefetch is a hint. It has no effect that the program can see, and never faults, whatever the
//! address. So [`prefetch_read`] is a safe function on a raw pointer, and planners may prefetch
//! records that another thread is freeing at that moment.

/// Hints that the cache line at `p` will be read soon.
///
/// `p` need not be valid. Does nothing on processors without such a hint.
#[inline(always)]
pub fn prefetch_read(p: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction is part of SSE, which every x86-64 processor has. In the language's
    // terms it accesses no memory, and it ignores unmapped addresses.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(p.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: PRFM is a hint: it changes no register, no flag and no memory, and is ignored for
    // unmapped addresses.
    unsafe {
        core::arch::asm!(
            "prfm pldl1keep, [{p}]",
            p = in(reg) p,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = p;
}
