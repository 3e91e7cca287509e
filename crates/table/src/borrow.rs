//! Borrows of records that live in a table.
//!
//! The table stores records as tagged words, so there is no `Record` in memory for a `&Record` with
//! the table's lifetime. [`RecordRef`] and [`RecordMut`] stand for `&Record` and `&mut Record`: the
//! address of the block, and the lifetime of the borrow. Both dereference to [`Record`].

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::ptr::NonNull;

use crate::record::{Owner, Record};

/// A shared borrow of a record in a table. Dereferences to [`Record`]. Its own methods return
/// borrows that live as long as the table is borrowed.
#[repr(transparent)]
pub struct RecordRef<'a, O: Owner> {
    at: NonNull<u8>,
    borrow: PhantomData<&'a Record<O>>,
}

// SAFETY: it stands for a `&Record<O>`, which is Send when the record is Sync.
unsafe impl<O: Owner + Sync> Send for RecordRef<'_, O> {}
// SAFETY: likewise.
unsafe impl<O: Owner + Sync> Sync for RecordRef<'_, O> {}

impl<'a, O: Owner> RecordRef<'a, O> {
    /// # Safety
    ///
    /// `at` is the block of a record that lives for `'a` and is not borrowed
    /// exclusively meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(at: NonNull<u8>) -> Self {
        RecordRef { at, borrow: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn of(record: &'a Record<O>) -> Self {
        RecordRef { at: record.address(), borrow: PhantomData }
    }

    /// The address of the record's allocation, for queries of the allocator.
    #[must_use]
    pub fn as_ptr(self) -> *const u8 {
        self.at.as_ptr()
    }

    /// The key.
    #[inline(always)]
    #[must_use]
    pub fn key(self) -> &'a [u8] {
        let form = self.form();
        // SAFETY: the key is initialised, within the block, and not written
        // to while the record is borrowed.
        unsafe {
            let at = self.at.add(form.key_at());
            NonNull::slice_from_raw_parts(at, form.key_len).as_ref()
        }
    }

    /// The payload.
    #[inline(always)]
    #[must_use]
    pub fn payload(self) -> &'a [u8] {
        let form = self.form();
        // SAFETY: as for the key.
        unsafe {
            let at = self.at.add(form.payload_at());
            NonNull::slice_from_raw_parts(at, form.payload_len).as_ref()
        }
    }
}

impl<O: Owner> Clone for RecordRef<'_, O> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<O: Owner> Copy for RecordRef<'_, O> {}

impl<O: Owner> Deref for RecordRef<'_, O> {
    type Target = Record<O>;

    #[inline(always)]
    fn deref(&self) -> &Record<O> {
        // SAFETY: both types are a transparent `NonNull<u8>` to the block of a live record. The
        // result is a shared borrow: no code can move or drop the record through it.
        unsafe { &*std::ptr::from_ref(self).cast::<Record<O>>() }
    }
}

impl<O: Owner> fmt::Debug for RecordRef<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// An exclusive borrow of a record in a table. Not a `&mut Record`, which would let a caller
/// replace the record without updating the table.
#[repr(transparent)]
pub struct RecordMut<'a, O: Owner> {
    at: NonNull<u8>,
    borrow: PhantomData<&'a mut Record<O>>,
}

// SAFETY: it stands for a `&mut Record<O>`, which is Send when the record is.
unsafe impl<O: Owner + Send> Send for RecordMut<'_, O> {}
// SAFETY: a shared reference to it only yields `&Record<O>`.
unsafe impl<O: Owner + Sync> Sync for RecordMut<'_, O> {}

impl<'a, O: Owner> RecordMut<'a, O> {
    /// # Safety
    ///
    /// `at` is the block of a record that lives for `'a` and is not borrowed
    /// otherwise meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(at: NonNull<u8>) -> Self {
        RecordMut { at, borrow: PhantomData }
    }

    #[inline(always)]
    fn record(&mut self) -> &mut Record<O> {
        // SAFETY: both types are a transparent `NonNull<u8>` to the block of a live record,
        // borrowed exclusively. Private: the methods below do not replace the record.
        unsafe { &mut *std::ptr::from_mut(self).cast::<Record<O>>() }
    }

    /// See [`Record::set_kind`].
    #[inline]
    pub fn set_kind(&mut self, kind: u8) {
        self.record().set_kind(kind);
    }

    /// See [`Record::set_expiry_in_place`].
    #[inline]
    pub fn set_expiry_in_place(&mut self, at: i64) -> bool {
        self.record().set_expiry_in_place(at)
    }

    /// See [`Record::payload_mut`].
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        self.record().payload_mut()
    }

    /// See [`Record::splice_in_place`].
    #[inline]
    #[must_use]
    pub fn splice_in_place(&mut self, range: Range<usize>, with: &[u8]) -> bool {
        self.record().splice_in_place(range, with)
    }

    /// Like [`RecordMut::payload_mut`], for as long as the table is borrowed.
    #[inline]
    #[must_use]
    pub fn into_payload_mut(self) -> &'a mut [u8] {
        let form = self.form();
        // SAFETY: initialised, in the block, and `self` passes its exclusive borrow for 'a to the
        // result.
        unsafe {
            let at = self.at.add(form.payload_at());
            NonNull::slice_from_raw_parts(at, form.payload_len).as_mut()
        }
    }

    /// Converts to a shared borrow.
    #[inline]
    #[must_use]
    pub fn into_ref(self) -> RecordRef<'a, O> {
        RecordRef { at: self.at, borrow: PhantomData }
    }
}

impl<O: Owner> Deref for RecordMut<'_, O> {
    type Target = Record<O>;

    #[inline(always)]
    fn deref(&self) -> &Record<O> {
        // SAFETY: as in `RecordRef::deref`.
        unsafe { &*std::ptr::from_ref(self).cast::<Record<O>>() }
    }
}

impl<O: Owner> fmt::Debug for RecordMut<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
