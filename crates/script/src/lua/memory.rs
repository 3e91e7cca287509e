//! The memory of one Lua state: an allocator with a count and a limit.
//!
//! Lua reports a failed allocation by a jump (`longjmp`) to the innermost protected call. Such a jump over a Rust
//! function would skip its destructors. So the limit applies only while Lua's own code runs. A function that is
//! written in Rust suspends the limit while it runs ([`Memory::suspend`]), and none of its allocations fails.
//!
//! Garbage counts, too, and Lua 5.1 doesn't retry a failed allocation. So garbage may take half of the memory that live
//! objects leave: beyond that ([`Memory::needs_collection`]), the next possible step of the collector is a whole cycle.

use mlua_sys::lua51::{LUA_GCRESTART, LUA_GCSETSTEPMUL, lua_State, lua_gc};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// The counters of one state. Lua has a pointer to it and passes it to [`allocate`].
#[derive(Debug)]
pub(super) struct Memory {
    /// Bytes in use.
    used: Cell<usize>,
    /// Lua's own code may use at most this many bytes.
    limit: Cell<usize>,
    is_limited: Cell<bool>,
    /// The fewest bytes in use since a collection was last needed: about the size of live objects.
    least: Cell<usize>,
    /// More bytes in use than this: garbage must be collected. At most the limit.
    most: Cell<usize>,
    /// As `most`; 0 once Lua's collector was asked for a whole cycle.
    collect_from: Cell<usize>,
    /// The bytes in use when the collector was asked for a whole cycle; `None` if it wasn't.
    hurried_at: Cell<Option<usize>>,
    /// The collector must stay off.
    is_compiling: Cell<bool>,
    /// The state that uses the memory; null while it is made.
    owner: Cell<*mut lua_State>,
}

impl Memory {
    pub(super) fn new(limit: usize) -> Self {
        Memory {
            used: Cell::new(0),
            limit: Cell::new(limit),
            is_limited: Cell::new(false),
            least: Cell::new(0),
            most: Cell::new(limit / 2),
            collect_from: Cell::new(limit / 2),
            hurried_at: Cell::new(None),
            is_compiling: Cell::new(false),
            owner: Cell::new(null_mut()),
        }
    }

    pub(super) fn set_owner(&self, owner: *mut lua_State) {
        self.owner.set(owner);
    }

    pub(super) fn used(&self) -> usize {
        self.used.get()
    }

    pub(super) fn set_limit(&self, limit: usize) {
        self.limit.set(limit);
        self.note_least(self.used.get());
    }

    /// While a script is compiled, the collector stays off.
    pub(super) fn set_compiling(&self, is_compiling: bool) {
        self.is_compiling.set(is_compiling);
    }

    /// Whether garbage must be collected before a script's next step. False after [`Memory::collected`], unless live
    /// objects take all memory.
    #[inline]
    pub(super) fn needs_collection(&self) -> bool {
        self.used.get() > self.collect_from.get()
    }

    /// All garbage was collected.
    pub(super) fn collected(&self) {
        self.note_least(self.used.get());
    }

    fn note_least(&self, bytes: usize) {
        let limit = self.limit.get();
        // The least step bounds the number of collections while live objects fill the memory.
        let step = (limit.saturating_sub(bytes) / 2).max(limit / 16);
        self.least.set(bytes);
        self.most.set((bytes + step).min(limit));
        if self.hurried_at.get().is_none() {
            self.collect_from.set(self.most.get());
        }
    }

    /// Makes Lua's next step of the collector a whole cycle, which begins at the next object. Until [`Memory::end_hurry`],
    /// a collection counts as needed.
    #[cold]
    fn hurry_collector(&self, used: usize) {
        if self.is_compiling.get() || used <= self.most.get() {
            return;
        }
        self.set_step_size(0);
        self.hurried_at.set(Some(used));
        self.collect_from.set(0);
        self.note_least(used);
    }

    /// Makes the collector's steps small again. Returns whether it must still collect: there was no step since
    /// [`Memory::hurry_collector`], or the step was not enough.
    pub(super) fn end_hurry(&self) -> bool {
        /// Lua's default, in percent.
        const STEP_SIZE: c_int = 200;
        let Some(hurried_at) = self.hurried_at.take() else { return true };
        self.set_step_size(STEP_SIZE);
        self.note_least(self.least.get());
        self.least.get() == hurried_at || self.needs_collection()
    }

    /// `percent` 0: a step is a whole cycle. The next step begins at the next object.
    fn set_step_size(&self, percent: c_int) {
        let owner = self.owner.get();
        if !owner.is_null() {
            // SAFETY: the state is live: it calls the allocator, or its own function. The calls set two fields of the
            // state, and Lua keeps no copy of these during an allocation.
            unsafe {
                lua_gc(owner, LUA_GCSETSTEPMUL, percent);
                if percent == 0 {
                    lua_gc(owner, LUA_GCRESTART, 0);
                }
            }
        }
    }

    /// Suspends the limit. Returns whether it applied, for [`Memory::restore`].
    pub(super) fn suspend(&self) -> bool {
        self.is_limited.replace(false)
    }

    pub(super) fn restore(&self, is_limited: bool) {
        self.is_limited.set(is_limited);
    }

    /// Whether more bytes than the limit are in use while it applies.
    pub(super) fn is_exceeded(&self) -> bool {
        self.is_limited.get() && self.is_full()
    }

    /// Whether more bytes than the limit are in use.
    pub(super) fn is_full(&self) -> bool {
        self.used.get() > self.limit.get()
    }

    /// Whether scripts may use so many bytes more.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.used.get().saturating_add(bytes) <= self.limit.get()
    }

    /// Whether a block may grow from `old` to `new` bytes.
    fn allows(&self, old: usize, new: usize) -> bool {
        new <= old
            || !self.is_limited.get()
            || self.used.get().saturating_add(new - old) <= self.limit.get()
    }

    fn count(&self, old: usize, new: usize) {
        let used = self.used.get() + new - old;
        self.used.set(used);
        if used < self.least.get() {
            self.note_least(used);
        } else if used > self.collect_from.get() && new > old && self.is_limited.get() {
            self.hurry_collector(used);
        }
    }
}

/// Lua aligns its objects as the strictest of `double`, a pointer and `long`.
const ALIGN: usize = 16;

fn layout(size: usize) -> Layout {
    // Lua limits sizes to less than `isize::MAX`.
    Layout::from_size_align(size, ALIGN).expect("a size of Lua")
}

/// The allocator that Lua calls (`lua_Alloc`): frees a block (`new == 0`), makes one (`block` is null), or resizes it.
/// Returns null if the limit forbids it. A block never fails to shrink.
///
/// # Safety
/// `memory` points to a live [`Memory`]. `block` is null, or was returned by this function for `old` bytes and not freed.
pub(super) unsafe extern "C" fn allocate(
    memory: *mut c_void,
    block: *mut c_void,
    old: usize,
    new: usize,
) -> *mut c_void {
    // SAFETY: by the contract. Only shared references to it exist.
    let memory = unsafe { &*memory.cast::<Memory>() };
    let old = if block.is_null() { 0 } else { old };
    if !memory.allows(old, new) {
        return std::ptr::null_mut();
    }
    memory.count(old, new);
    // SAFETY: `block` has the layout of `old` bytes by the contract, and no size passed below is zero.
    let made = unsafe {
        match (old, new) {
            (0, 0) => return std::ptr::null_mut(),
            (_, 0) => {
                dealloc(block.cast(), layout(old));
                return std::ptr::null_mut();
            }
            (0, _) => alloc(layout(new)),
            _ => realloc(block.cast(), layout(old), new),
        }
    };
    if made.is_null() {
        handle_alloc_error(layout(new));
    }
    made.cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half of what live objects leave is for garbage.
    #[test]
    fn a_collection_is_needed_before_the_limit() {
        let memory = Memory::new(100);
        memory.restore(true);
        memory.count(0, 50);
        assert!(!memory.needs_collection());
        memory.suspend();
        memory.count(0, 10);
        assert!(memory.needs_collection());
        memory.count(20, 0);
        memory.collected();
        assert!(!memory.needs_collection());
        memory.count(0, 31);
        assert!(memory.needs_collection(), "40 bytes are live, 30 for garbage");
        memory.collected();
        memory.count(0, 100);
        memory.collected();
        assert!(memory.is_full() && memory.needs_collection());
        memory.count(100, 0);
        memory.restore(true);
        memory.count(0, 20);
        assert!(memory.needs_collection() && memory.end_hurry(), "Lua has not done it");
        memory.collected();
        memory.count(0, 8);
        memory.count(69, 0);
        memory.count(0, 35);
        assert!(memory.needs_collection() && !memory.end_hurry(), "Lua has done it");
        assert!(!memory.needs_collection(), "30 bytes are live");
    }

    #[test]
    fn the_limit_applies_to_growth_only() {
        let memory = Memory::new(100);
        let at = (&raw const memory).cast_mut().cast::<c_void>();
        let none = std::ptr::null_mut();
        // SAFETY: the blocks are those that the calls have returned, with their sizes.
        unsafe {
            memory.restore(true);
            let block = allocate(at, none, 0, 80);
            assert!(!block.is_null());
            assert!(allocate(at, none, 0, 21).is_null());
            assert!(allocate(at, block, 80, 101).is_null());
            assert_eq!(memory.used(), 80);
            let was = memory.suspend();
            let more = allocate(at, none, 0, 50);
            memory.restore(was);
            assert_eq!(memory.used(), 130);
            let block = allocate(at, block, 80, 70);
            assert_eq!(memory.used(), 120);
            assert!(allocate(at, block, 70, 0).is_null());
            allocate(at, more, 50, 0);
            assert_eq!(memory.used(), 0);
        }
    }
}
