//! Pieces of large values that a writer and readers on other threads can hold together.
//!
//! ```text
//!  Counted<T>      ──► [ holders | value ]
//!  CountedRow<T>   ──────────────┐            (pointer to the first element, length)
//!                      [ holders | element, element ... ]
//! ```
//!
//! A clone is one more holder. Whoever is the only holder may change the piece where it is; whoever
//! is not gets a copy of its own first, and the others keep what they have. Both happen behind
//! `DerefMut`, so the code of a collection reads as if its pieces were boxes, and a clone of the
//! collection is a snapshot of it: see `docs/design/shared-values.md`.
//!
//! While nobody shares, a change costs one look at the count and a branch that is always taken the
//! same way. That is why this is not `Arc`: asking an `Arc` whether it is the only one takes an
//! atomic exchange, since weak references could be made of it, and its two counts take twice the
//! memory.
//!
//! **The protocol** is that of every counted pointer. A holder is added by somebody who is one, so
//! that the count can't have been 0. Letting go releases what the holder has read or written; who
//! finds the count at 1 acquires that, and is alone from then on: there is nobody else who could
//! add a holder. This file is the only one that knows of it.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many hold a piece; 1 at least as long as somebody can look.
struct Holders(AtomicUsize);

/// Bytes that writers have copied since others held them, since the process began.
static COPIED: AtomicU64 = AtomicU64::new(0);

/// See [`Shared::copied_bytes`](crate::Shared::copied_bytes).
pub(crate) fn copied_bytes() -> u64 {
    COPIED.load(Ordering::Relaxed)
}

pub(crate) fn note_copy(bytes: usize) {
    COPIED.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// Memory of that layout for a copy of what stands at the address, or null.
pub type AllocateCopy = fn(Layout, NonNull<u8>) -> *mut u8;

static ALLOCATE_COPY: OnceLock<AllocateCopy> = OnceLock::new();

/// Has copies of pieces be made in memory that `allocate` gives, in the place of the allocator's own choice.
/// A copy takes over from its piece, which is freed soon. An allocator that gives every thread an arena
/// of its own would move the value from one arena to the others so, and leave holes that nobody fills: a fifth of
/// a large hash after a few saves. Only the first call has an effect.
///
/// # Safety
/// What `allocate` gives is as the global allocator gives it, and the global allocator can free it.
pub unsafe fn allocate_copies_by(allocate: AllocateCopy) {
    let _ = ALLOCATE_COPY.set(allocate);
}

/// Memory for a copy of what stands at `of`; `layout` is not of size 0.
fn allocate_copy<T>(layout: Layout, of: NonNull<T>) -> NonNull<u8> {
    let memory = match ALLOCATE_COPY.get() {
        Some(allocate) => allocate(layout, of.cast()),
        // SAFETY: the layout has a size.
        None => unsafe { alloc(layout) },
    };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

/// A copy of `bytes`, which are some, in memory that is chosen as for copies of pieces.
pub(crate) fn vec_beside(bytes: &[u8]) -> Vec<u8> {
    assert!(!bytes.is_empty(), "some bytes");
    let layout = Layout::for_value(bytes);
    let memory = allocate_copy(layout, NonNull::from(bytes).cast::<u8>());
    // SAFETY: the memory is new, as the global allocator gives it for that layout, which is a
    // vector's of that capacity; all of its bytes are written before the vector has them.
    unsafe {
        ptr::copy_nonoverlapping(bytes.as_ptr(), memory.as_ptr(), bytes.len());
        Vec::from_raw_parts(memory.as_ptr(), bytes.len(), bytes.len())
    }
}

/// A value that is copied when somebody else holds it.
pub(crate) trait Piece: Clone {
    /// Bytes that a copy takes beside the value itself, about.
    fn outside(&self) -> usize;
}

impl<T: Clone> Piece for Vec<T> {
    fn outside(&self) -> usize {
        self.len() * size_of::<T>()
    }
}

/// Bytes in front of a piece.
pub(crate) const HEADER: usize = size_of::<Holders>();

impl Holders {
    const fn one() -> Self {
        Holders(AtomicUsize::new(1))
    }

    /// For somebody who is a holder.
    #[inline]
    fn add(&self) {
        // More holders than half the address space has bytes: some were forgotten, on purpose.
        if self.0.fetch_add(1, Ordering::Relaxed) > isize::MAX as usize {
            std::process::abort();
        }
    }

    /// Whether the caller, who is a holder, is the only one. If so it stays that way as long as the
    /// caller does not let others look at its piece.
    #[inline]
    fn is_one(&self) -> bool {
        self.0.load(Ordering::Acquire) == 1
    }

    /// The caller is no holder any more; whether it was the last one, who frees the piece.
    #[inline]
    fn let_go(&self) -> bool {
        self.is_one() || self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

#[repr(C)]
struct Held<T> {
    holders: Holders,
    value: T,
}

/// One value.
pub(crate) struct Counted<T> {
    /// From a box, or as if; lives as long as there is a holder, and each `Counted` is one.
    held: NonNull<Held<T>>,
    owns: PhantomData<Held<T>>,
}

// SAFETY: holders on several threads share `&T`, and the last one drops `T`.
unsafe impl<T: Send + Sync> Send for Counted<T> {}
// SAFETY: as above; with `&Counted<T>` another thread can look at `T` and make itself a holder.
unsafe impl<T: Send + Sync> Sync for Counted<T> {}

impl<T> Counted<T> {
    pub(crate) fn new(value: T) -> Self {
        let held = Box::new(Held { holders: Holders::one(), value });
        Counted { held: NonNull::from(Box::leak(held)), owns: PhantomData }
    }

    #[inline]
    fn held(&self) -> &Held<T> {
        // SAFETY: `self` is a holder, so the piece lives; nobody has `&mut` of it while others may
        // look, since `deref_mut` takes an exclusive borrow of the only holder.
        unsafe { self.held.as_ref() }
    }

    /// One with a copy of the value.
    fn copied(&self) -> Self
    where
        T: Clone,
    {
        const { assert!(size_of::<Held<T>>() > 0) };
        let value = T::clone(self);
        let held = allocate_copy(Layout::new::<Held<T>>(), self.held).cast::<Held<T>>();
        // SAFETY: the memory is new and has that layout, which is a box's.
        unsafe { held.write(Held { holders: Holders::one(), value }) };
        Counted { held, owns: PhantomData }
    }

    /// Whether others hold the value.
    pub(crate) fn is_shared(&self) -> bool {
        !self.held().holders.is_one()
    }

    /// The value, or a copy of it if others hold it.
    pub(crate) fn into_inner(self) -> T
    where
        T: Clone,
    {
        if !self.held().holders.is_one() {
            return T::clone(&self);
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: the pointer is from a box, `this` was the only holder and lets nobody else be one.
        unsafe { Box::from_raw(this.held.as_ptr()) }.value
    }
}

impl<T> Clone for Counted<T> {
    #[inline]
    fn clone(&self) -> Self {
        self.held().holders.add();
        Counted { held: self.held, owns: PhantomData }
    }
}

impl<T> Drop for Counted<T> {
    #[inline]
    fn drop(&mut self) {
        if self.held().holders.let_go() {
            // SAFETY: the pointer is from a box, and the last holder is gone.
            drop(unsafe { Box::from_raw(self.held.as_ptr()) });
        }
    }
}

impl<T> Deref for Counted<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.held().value
    }
}

/// Copies the value first if others hold it.
impl<T: Piece> DerefMut for Counted<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        #[cold]
        fn part<T: Piece>(counted: &mut Counted<T>) {
            note_copy(size_of::<Held<T>>() + counted.outside());
            *counted = counted.copied();
        }
        if !self.held().holders.is_one() {
            part(self);
        }
        // SAFETY: `self` is the only holder and is borrowed exclusively.
        unsafe { &mut self.held.as_mut().value }
    }
}

impl<T: fmt::Debug> fmt::Debug for Counted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        T::fmt(self, f)
    }
}

/// A row of values of a fixed length. An empty one takes no memory.
pub(crate) struct CountedRow<T> {
    /// Behind the count; the elements live as long as there is a holder. Behind [`EMPTY`] if there
    /// are none.
    first: NonNull<T>,
    len: usize,
    owns: PhantomData<T>,
}

/// What stands in front of every empty row, so that nobody has to ask whether a row is empty before
/// he looks at its count. Never written.
static EMPTY: Holders = Holders::one();

// SAFETY: holders on several threads share `&[T]`, and the last one drops the elements.
unsafe impl<T: Send + Sync> Send for CountedRow<T> {}
// SAFETY: as above; with `&CountedRow<T>` another thread can look at the elements and make itself a
// holder.
unsafe impl<T: Send + Sync> Sync for CountedRow<T> {}

impl<T> CountedRow<T> {
    /// The elements begin right behind the count, and the memory is aligned for it.
    const FITS: () = assert!(size_of::<T>() > 0 && align_of::<T>() <= align_of::<Holders>());

    pub(crate) fn new() -> Self {
        const { Self::FITS };
        // SAFETY: behind a static is still within it, as far as pointers go.
        let behind = unsafe { NonNull::from(&EMPTY).add(1) };
        CountedRow { first: behind.cast(), len: 0, owns: PhantomData }
    }

    fn layout(len: usize) -> Layout {
        const { Self::FITS };
        let size = size_of::<T>().checked_mul(len).and_then(|bytes| bytes.checked_add(HEADER));
        let layout = size.map(|size| Layout::from_size_align(size, align_of::<Holders>()));
        layout.and_then(Result::ok).expect("a row is not larger than memory")
    }

    /// Memory for so many elements, which are not there yet, with its count; `len` is not 0.
    fn allocate(len: usize) -> NonNull<T> {
        let layout = Self::layout(len);
        // SAFETY: the layout has a size, that of the count at least.
        let base = unsafe { alloc(layout) };
        let Some(base) = NonNull::new(base) else { handle_alloc_error(layout) };
        // SAFETY: it is new, and for so many elements.
        unsafe { Self::begin(base) }
    }

    /// Puts the count at the beginning of memory for a row; answers where its first element belongs.
    ///
    /// # Safety
    /// Nobody else uses the memory, which has the layout of a row.
    unsafe fn begin(base: NonNull<u8>) -> NonNull<T> {
        let base = base.cast::<Holders>();
        // SAFETY: the memory begins with room for a count, for which it is aligned, and what
        // follows is still within it.
        unsafe {
            base.write(Holders::one());
            base.add(1).cast()
        }
    }

    /// A row of copies of the elements, of which there are some.
    fn copied(&self) -> Self
    where
        T: Clone,
    {
        let base = allocate_copy(Self::layout(self.len), self.first);
        // SAFETY: it is new, and for so many elements.
        let first = unsafe { Self::begin(base) };
        for (at, element) in self.iter().enumerate() {
            // SAFETY: there is room for as many as are copied. If one can't be, those before it are
            // forgotten with the memory.
            unsafe { first.add(at).write(element.clone()) };
        }
        CountedRow { first, len: self.len, owns: PhantomData }
    }

    #[inline]
    fn holders(&self) -> &Holders {
        // SAFETY: a count stands in front of the first element, by `allocate`, or by `EMPTY`; it
        // lives while `self` does.
        unsafe { self.first.cast::<Holders>().sub(1).as_ref() }
    }

    /// Gives the memory back without dropping the elements.
    ///
    /// # Safety
    /// The row is not empty, its last holder is gone, and nobody uses it again.
    unsafe fn free(&mut self) {
        // SAFETY: the count stands at the beginning of the memory, which `allocate` got with this
        // layout.
        unsafe {
            dealloc(self.first.cast::<Holders>().sub(1).as_ptr().cast(), Self::layout(self.len));
        }
    }

    /// The elements, or copies of them if others hold the row. O(elements).
    pub(crate) fn into_vec(self) -> Vec<T>
    where
        T: Clone,
    {
        if self.len == 0 || !self.holders().is_one() {
            return self.to_vec();
        }
        let mut this = ManuallyDrop::new(self);
        let mut vec = Vec::with_capacity(this.len);
        // SAFETY: the vector has room for the elements, which move there, and are not dropped here.
        // `this` was the only holder and is not used again.
        unsafe {
            ptr::copy_nonoverlapping(this.first.as_ptr(), vec.as_mut_ptr(), this.len);
            vec.set_len(this.len);
            this.free();
        }
        vec
    }

    /// Bytes of memory, without what the elements own.
    pub(crate) fn memory(&self) -> usize {
        if self.len == 0 { 0 } else { HEADER + size_of_val(&**self) }
    }
}

impl CountedRow<u8> {
    /// A row of `len` bytes that begins with `front`, ends with `back`, and has zeros between.
    ///
    /// # Panics
    /// If it is too short for both.
    #[inline]
    pub(crate) fn of_ends(len: usize, front: &[u8], back: &[u8]) -> Self {
        let free = len.checked_sub(front.len() + back.len()).expect("room for both ends");
        if len == 0 {
            return CountedRow::new();
        }
        let first = Self::allocate(len);
        // SAFETY: the three parts together have the length of the memory, which is new.
        unsafe {
            let to = first.as_ptr();
            ptr::copy_nonoverlapping(front.as_ptr(), to, front.len());
            ptr::write_bytes(to.add(front.len()), 0, free);
            ptr::copy_nonoverlapping(back.as_ptr(), to.add(front.len() + free), back.len());
        }
        CountedRow { first, len, owns: PhantomData }
    }

    /// So many zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        CountedRow::of_ends(len, &[], &[])
    }
}

impl From<&[u8]> for CountedRow<u8> {
    fn from(bytes: &[u8]) -> Self {
        CountedRow::of_ends(bytes.len(), bytes, &[])
    }
}

impl<T> From<Vec<T>> for CountedRow<T> {
    fn from(mut vec: Vec<T>) -> Self {
        let len = vec.len();
        if len == 0 {
            return CountedRow::new();
        }
        let first = Self::allocate(len);
        // SAFETY: there is room for the elements, which move; the vector has none from now on.
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
        if self.len > 0 && self.holders().let_go() {
            // SAFETY: the last holder is gone: its elements are dropped once, then the memory goes.
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
        // SAFETY: so many elements stand there while there is a holder, which `self` is; nobody has
        // `&mut` of them while others may look, since `deref_mut` takes an exclusive borrow of the
        // only holder.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

/// Copies the elements first if others hold the row.
impl<T: Clone> DerefMut for CountedRow<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        #[cold]
        fn part<T: Clone>(row: &mut CountedRow<T>) {
            note_copy(row.memory());
            *row = row.copied();
        }
        if !self.holders().is_one() {
            part(self);
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
