//! Reference-counted pieces of large values, shared by a writer and readers on other threads.
//!
//! ```text
//!  Counted<T>      ──► [ holders | value ]
//!  CountedRow<T>   ──────────────┐            (pointer to the first element, length)
//!                      [ holders | element, element ... ]
//! ```
//!
//! A clone adds a holder. A sole holder may change the piece in place. Any other holder copies the
//! piece first, and the other holders keep the original. `DerefMut` does both, so the code of a
//! collection reads as if its pieces were boxes, and a clone of the collection is a snapshot of it:
//! see `docs/design/shared-values.md`.
//!
//! While a piece is not shared, a change costs one load of the count and a predictable branch. That
//! is why this is not `Arc`: `Arc::get_mut` takes an atomic exchange, since weak references may
//! exist, and the second count doubles the header.
//!
//! **The protocol** is that of every counted pointer. Only a holder adds a holder, so the count is
//! never 0 then. A holder that leaves releases its reads and writes. A holder that finds the count
//! at 1 acquires them and is alone from then on, since no other holder exists that could add one.
//! Only this file knows the protocol.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The number of holders of a piece; at least 1 while the piece is reachable.
struct Holders(AtomicUsize);

/// Bytes that writers copied because the piece was shared, since the process began.
static COPIED: AtomicU64 = AtomicU64::new(0);

/// See [`Shared::copied_bytes`](crate::Shared::copied_bytes).
pub(crate) fn copied_bytes() -> u64 {
    COPIED.load(Ordering::Relaxed)
}

pub(crate) fn note_copy(bytes: usize) {
    COPIED.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// Allocates memory of that layout for a copy of the object at the address; null on failure.
pub type AllocateCopy = fn(Layout, NonNull<u8>) -> *mut u8;

static ALLOCATE_COPY: OnceLock<AllocateCopy> = OnceLock::new();

/// Makes `allocate` choose the memory of copies of pieces, instead of the global allocator. A copy
/// replaces its piece, which is freed soon. With an arena per thread, the allocator would thus move
/// the value from one arena to another and leave holes that are never filled: a fifth of a large
/// hash after a few saves. Only the first call has an effect.
///
/// # Safety
/// `allocate` must return memory as the global allocator does, and the global allocator must be
/// able to free it.
pub unsafe fn allocate_copies_by(allocate: AllocateCopy) {
    let _ = ALLOCATE_COPY.set(allocate);
}

/// Memory for a copy of the object at `of`. The size of `layout` must not be 0.
fn allocate_copy<T>(layout: Layout, of: NonNull<T>) -> NonNull<u8> {
    let memory = match ALLOCATE_COPY.get() {
        Some(allocate) => allocate(layout, of.cast()),
        // SAFETY: the layout has a size.
        None => unsafe { alloc(layout) },
    };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

/// A copy of `bytes`, which must not be empty, in memory chosen as for copies of pieces.
pub(crate) fn copy_bytes(bytes: &[u8]) -> Vec<u8> {
    assert!(!bytes.is_empty(), "bytes to copy");
    let layout = Layout::for_value(bytes);
    let memory = allocate_copy(layout, NonNull::from(bytes).cast::<u8>());
    // SAFETY: the memory is new and comes from the global allocator with the layout of a vector of
    // that capacity. All of its bytes are written before the vector owns them.
    unsafe {
        ptr::copy_nonoverlapping(bytes.as_ptr(), memory.as_ptr(), bytes.len());
        Vec::from_raw_parts(memory.as_ptr(), bytes.len(), bytes.len())
    }
}

/// A value that is copied on write while it is shared.
pub(crate) trait CopyOnWrite: Clone {
    /// Approximate bytes that a copy takes in addition to the value itself.
    fn owned_memory(&self) -> usize;
}

impl<T: Clone> CopyOnWrite for Vec<T> {
    fn owned_memory(&self) -> usize {
        self.len() * size_of::<T>()
    }
}

/// Bytes before a piece.
pub(crate) const HEADER: usize = size_of::<Holders>();

impl Holders {
    const fn one() -> Self {
        Holders(AtomicUsize::new(1))
    }

    /// The caller must be a holder.
    #[inline]
    fn add(&self) {
        // More holders than half the address space has bytes: some were leaked on purpose.
        if self.0.fetch_add(1, Ordering::Relaxed) > isize::MAX as usize {
            std::process::abort();
        }
    }

    /// Whether the caller, a holder, is the only one. If so, that stays true until the caller
    /// shares its piece.
    #[inline]
    fn is_unique(&self) -> bool {
        self.0.load(Ordering::Acquire) == 1
    }

    /// Removes the caller as a holder. Returns whether it was the last one, which must free the
    /// piece.
    #[inline]
    fn release(&self) -> bool {
        self.is_unique() || self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

#[repr(C)]
struct Inner<T> {
    holders: Holders,
    value: T,
}

/// One value.
pub(crate) struct Counted<T> {
    /// Allocated as by `Box`. It lives while a holder exists, and each `Counted` is a holder.
    inner: NonNull<Inner<T>>,
    owns: PhantomData<Inner<T>>,
}

// SAFETY: holders on several threads share `&T`, and the last one drops `T`.
unsafe impl<T: Send + Sync> Send for Counted<T> {}
// SAFETY: as above. Through `&Counted<T>` another thread can read `T` and become a holder.
unsafe impl<T: Send + Sync> Sync for Counted<T> {}

impl<T> Counted<T> {
    pub(crate) fn new(value: T) -> Self {
        let inner = Box::new(Inner { holders: Holders::one(), value });
        Counted { inner: NonNull::from(Box::leak(inner)), owns: PhantomData }
    }

    #[inline]
    fn inner(&self) -> &Inner<T> {
        // SAFETY: `self` is a holder, so the piece lives. No `&mut` of it exists while others may
        // read it, since `deref_mut` takes an exclusive borrow of the only holder.
        unsafe { self.inner.as_ref() }
    }

    /// A new `Counted` with a copy of the value.
    fn copied(&self) -> Self
    where
        T: Clone,
    {
        const { assert!(size_of::<Inner<T>>() > 0) };
        let value = T::clone(self);
        let inner = allocate_copy(Layout::new::<Inner<T>>(), self.inner).cast::<Inner<T>>();
        // SAFETY: the memory is new and has the layout of the box.
        unsafe { inner.write(Inner { holders: Holders::one(), value }) };
        Counted { inner, owns: PhantomData }
    }

    /// Whether the value has other holders.
    pub(crate) fn is_shared(&self) -> bool {
        !self.inner().holders.is_unique()
    }

    /// The value, or a copy of it if it is shared.
    pub(crate) fn into_inner(self) -> T
    where
        T: Clone,
    {
        if !self.inner().holders.is_unique() {
            return T::clone(&self);
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: the pointer is from a box. `this` was the only holder, and no other can be added.
        unsafe { Box::from_raw(this.inner.as_ptr()) }.value
    }
}

impl<T> Clone for Counted<T> {
    #[inline]
    fn clone(&self) -> Self {
        self.inner().holders.add();
        Counted { inner: self.inner, owns: PhantomData }
    }
}

impl<T> Drop for Counted<T> {
    #[inline]
    fn drop(&mut self) {
        if self.inner().holders.release() {
            // SAFETY: the pointer is from a box, and the last holder is gone.
            drop(unsafe { Box::from_raw(self.inner.as_ptr()) });
        }
    }
}

impl<T> Deref for Counted<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner().value
    }
}

/// Copies the value first if it is shared.
impl<T: CopyOnWrite> DerefMut for Counted<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        #[cold]
        fn unshare<T: CopyOnWrite>(counted: &mut Counted<T>) {
            note_copy(size_of::<Inner<T>>() + counted.owned_memory());
            *counted = counted.copied();
        }
        if !self.inner().holders.is_unique() {
            unshare(self);
        }
        // SAFETY: `self` is the only holder and is borrowed exclusively.
        unsafe { &mut self.inner.as_mut().value }
    }
}

impl<T: fmt::Debug> fmt::Debug for Counted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        T::fmt(self, f)
    }
}

/// A row of values of a fixed length. An empty one takes no memory.
pub(crate) struct CountedRow<T> {
    /// Points after the count. The elements live while a holder exists. For an empty row, points
    /// after [`EMPTY`].
    first: NonNull<T>,
    len: usize,
    owns: PhantomData<T>,
}

/// The count before every empty row, so that `holders` needs no test for emptiness. Never written.
static EMPTY: Holders = Holders::one();

// SAFETY: holders on several threads share `&[T]`, and the last one drops the elements.
unsafe impl<T: Send + Sync> Send for CountedRow<T> {}
// SAFETY: as above. Through `&CountedRow<T>` another thread can read the elements and become a
// holder.
unsafe impl<T: Send + Sync> Sync for CountedRow<T> {}

impl<T> CountedRow<T> {
    /// The elements begin right after the count, and the memory is aligned for both.
    const FITS: () = assert!(size_of::<T>() > 0 && align_of::<T>() <= align_of::<Holders>());

    pub(crate) fn new() -> Self {
        const { Self::FITS };
        // SAFETY: one past the end of a static is in bounds for pointer arithmetic.
        let after = unsafe { NonNull::from(&EMPTY).add(1) };
        CountedRow { first: after.cast(), len: 0, owns: PhantomData }
    }

    fn layout(len: usize) -> Layout {
        const { Self::FITS };
        let size = size_of::<T>().checked_mul(len).and_then(|bytes| bytes.checked_add(HEADER));
        let layout = size.map(|size| Layout::from_size_align(size, align_of::<Holders>()));
        layout.and_then(Result::ok).expect("a row is not larger than memory")
    }

    /// Memory for `len` uninitialized elements, with its count. `len` must not be 0.
    fn allocate(len: usize) -> NonNull<T> {
        let layout = Self::layout(len);
        // SAFETY: the size of the layout is not 0, since it includes the count.
        let base = unsafe { alloc(layout) };
        let Some(base) = NonNull::new(base) else { handle_alloc_error(layout) };
        // SAFETY: the memory is new and has room for `len` elements.
        unsafe { Self::write_count(base) }
    }

    /// Writes the count at the beginning of memory for a row. Returns the address of the first
    /// element.
    ///
    /// # Safety
    /// The caller owns the memory exclusively, and it has the layout of a row.
    unsafe fn write_count(base: NonNull<u8>) -> NonNull<T> {
        let base = base.cast::<Holders>();
        // SAFETY: the memory begins with room for a count, and is aligned for it. The address after
        // it is in bounds.
        unsafe {
            base.write(Holders::one());
            base.add(1).cast()
        }
    }

    /// A row of copies of the elements. The row must not be empty.
    fn copied(&self) -> Self
    where
        T: Clone,
    {
        let base = allocate_copy(Self::layout(self.len), self.first);
        // SAFETY: the memory is new and has room for `self.len` elements.
        let first = unsafe { Self::write_count(base) };
        for (at, element) in self.iter().enumerate() {
            // SAFETY: the memory has room for all copies. If a clone panics, the copies before it
            // are leaked with the memory.
            unsafe { first.add(at).write(element.clone()) };
        }
        CountedRow { first, len: self.len, owns: PhantomData }
    }

    #[inline]
    fn holders(&self) -> &Holders {
        // SAFETY: a count precedes the first element, by `allocate` or `EMPTY`. It lives while
        // `self` does.
        unsafe { self.first.cast::<Holders>().sub(1).as_ref() }
    }

    /// Frees the memory without dropping the elements.
    ///
    /// # Safety
    /// The row is not empty, its last holder is gone, and the caller doesn't use it again.
    unsafe fn free(&mut self) {
        // SAFETY: the count is at the beginning of the memory, which `allocate` allocated with this
        // layout.
        unsafe {
            dealloc(self.first.cast::<Holders>().sub(1).as_ptr().cast(), Self::layout(self.len));
        }
    }

    /// The elements, or copies of them if the row is shared. O(elements).
    pub(crate) fn into_vec(self) -> Vec<T>
    where
        T: Clone,
    {
        if self.len == 0 || !self.holders().is_unique() {
            return self.to_vec();
        }
        let mut this = ManuallyDrop::new(self);
        let mut vec = Vec::with_capacity(this.len);
        // SAFETY: the vector has room for the elements, which move there and are not dropped here.
        // `this` was the only holder and is not used again.
        unsafe {
            ptr::copy_nonoverlapping(this.first.as_ptr(), vec.as_mut_ptr(), this.len);
            vec.set_len(this.len);
            this.free();
        }
        vec
    }

    /// Bytes of memory, without the memory that the elements own.
    pub(crate) fn memory(&self) -> usize {
        if self.len == 0 { 0 } else { HEADER + size_of_val(&**self) }
    }
}

impl CountedRow<u8> {
    /// A row of `len` bytes that begins with `front`, ends with `back`, and has zeros between.
    ///
    /// # Panics
    /// If `len` is less than both lengths together.
    #[inline]
    pub(crate) fn from_ends(len: usize, front: &[u8], back: &[u8]) -> Self {
        let free = len.checked_sub(front.len() + back.len()).expect("room for both ends");
        if len == 0 {
            return CountedRow::new();
        }
        let first = Self::allocate(len);
        // SAFETY: the three parts together are as long as the memory, which is new.
        unsafe {
            let to = first.as_ptr();
            ptr::copy_nonoverlapping(front.as_ptr(), to, front.len());
            ptr::write_bytes(to.add(front.len()), 0, free);
            ptr::copy_nonoverlapping(back.as_ptr(), to.add(front.len() + free), back.len());
        }
        CountedRow { first, len, owns: PhantomData }
    }

    /// A row of `len` zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        CountedRow::from_ends(len, &[], &[])
    }
}

impl From<&[u8]> for CountedRow<u8> {
    fn from(bytes: &[u8]) -> Self {
        CountedRow::from_ends(bytes.len(), bytes, &[])
    }
}

impl<T> From<Vec<T>> for CountedRow<T> {
    fn from(mut vec: Vec<T>) -> Self {
        let len = vec.len();
        if len == 0 {
            return CountedRow::new();
        }
        let first = Self::allocate(len);
        // SAFETY: the memory has room for the elements. They move, and the vector is empty
        // afterwards.
        unsafe {
            ptr::copy_nonoverlapping(vec.as_ptr(), first.as_ptr(), len);
            vec.set_len(0);
        }
        CountedRow { first, len, owns: PhantomData }
    }
}

impl<T> Default for CountedRow<T> {
    #[inline]
    fn default() -> Self {
        CountedRow::new()
    }
}

impl<T> Clone for CountedRow<T> {
    #[inline]
    fn clone(&self) -> Self {
        if self.len > 0 {
            self.holders().add();
        }
        CountedRow { first: self.first, len: self.len, owns: PhantomData }
    }
}

impl<T> Drop for CountedRow<T> {
    #[inline]
    fn drop(&mut self) {
        if self.len > 0 && self.holders().release() {
            // SAFETY: the last holder is gone: the elements are dropped once, then the memory is
            // freed.
            unsafe {
                ptr::slice_from_raw_parts_mut(self.first.as_ptr(), self.len).drop_in_place();
                self.free();
            }
        }
    }
}

impl<T> Deref for CountedRow<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `len` elements are there while a holder exists, and `self` is one. No `&mut` of
        // them exists while others may read them, since `deref_mut` takes an exclusive borrow of
        // the only holder.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

/// Copies the elements first if the row is shared.
impl<T: Clone> DerefMut for CountedRow<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        #[cold]
        fn unshare<T: Clone>(row: &mut CountedRow<T>) {
            note_copy(row.memory());
            *row = row.copied();
        }
        if !self.holders().is_unique() {
            unshare(self);
        }
        // SAFETY: as in `deref`; `self` is the only holder and is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

impl<T: fmt::Debug> fmt::Debug for CountedRow<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        <[T]>::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
