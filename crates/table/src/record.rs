//! A key, its metadata and a small payload in one heap allocation.
//!
//! A [`Record`] is the owning handle: one pointer, 8 bytes. `layout.rs` shows the block that it
//! points to. The [`Owner`] defines the meaning of the payload and what it owns. This crate moves
//! the payload's bytes as a `Vec` moves its elements, and calls [`Owner::drop_payload`] when it
//! drops a record.
//!
//! Operations that may move the record to another allocation take and return it by value. They
//! never drop the payload unless they say so.
//!
//! # Aliasing
//!
//! Everything except the clock is only written through exclusive references. Lookups also write the
//! clock (the time of the last access, or its frequency). It shares a `u32` with the kind, and that
//! word is accessed atomically.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crate::borrow::RecordRef;
use crate::draft::{Draft, write_lengths};
use crate::layout::{EXPIRY, Form, HEADER, Header, LONG_KEY, LONG_PAYLOAD, OWNER_SHIFT};
use crate::slot::Tags;

/// The allocator zeroes payloads of at least this size, since it may have zeroed pages. Smaller
/// ones are zeroed here.
const ALLOC_ZEROED_MIN: usize = 4096;

/// The largest clock, which has 24 bits.
pub const CLOCK_MAX: u32 = (1 << 24) - 1;

/// The owner's bit of a *marked* record. A table counts marked records and finds them without
/// reading the others. The owner defines its meaning; it is for records that need periodic work.
pub const MARK: u8 = 1;

/// Defines the meaning of the payloads of its records.
///
/// A payload may own memory by holding pointers as plain bytes. Methods of `Record<Self>` that
/// write payload or kind are safe to call. So an owner with such payloads must be a type that only
/// its module can name: that module guarantees the validity of payloads, and `drop_payload` relies
/// on it.
pub trait Owner {
    /// Frees the memory that the payload owns. Called once, when the record is dropped or its
    /// payload is replaced. Must not panic: the record's memory would leak.
    ///
    /// # Safety
    ///
    /// The caller passes kind and payload of a record of this owner, as last written through the
    /// record, and does not use the payload as a value afterwards. The payload has no alignment.
    unsafe fn drop_payload(kind: u8, payload: &mut [u8]);
}

/// An owned key with metadata and payload; see the module documentation.
#[repr(transparent)]
pub struct Record<O: Owner> {
    /// Points to an allocation of `form().layout()`, laid out as `form()` says
    /// and initialised up to the end of the payload.
    at: NonNull<u8>,
    owner: PhantomData<O>,
}

// SAFETY: a record is the only owner of its allocation. The memory that the payload owns may move
// to another thread if the owner type is Send.
unsafe impl<O: Owner + Send> Send for Record<O> {}
// SAFETY: a shared reference can only read bytes and store the clock atomically. The payload may be
// shared if the owner is Sync.
unsafe impl<O: Owner + Sync> Sync for Record<O> {}

impl<O: Owner> Record<O> {
    /// A record whose payload of `payload_len` bytes is zeroed, then passed to `fill`. If `fill`
    /// panics, the memory is freed without calling the owner.
    ///
    /// `expiry` is a time in milliseconds since the epoch; `clock` is taken
    /// modulo 2^24.
    ///
    /// # Panics
    ///
    /// If a length is `u32::MAX` or more.
    #[inline]
    #[must_use]
    pub fn new(
        key: &[u8],
        expiry: Option<i64>,
        kind: u8,
        clock: u32,
        payload_len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Self {
        let form = Form::new(key.len(), payload_len, expiry.is_some());
        let from_os = payload_len >= ALLOC_ZEROED_MIN;
        let mut draft = Draft::<O>::new(form, word(kind, clock), 0, from_os);
        draft.write_key(key);
        if let Some(at) = expiry {
            draft.write_expiry(at);
        }
        if !from_os {
            draft.zero_payload(0);
        }
        // SAFETY: the payload was zeroed, by the allocator or just now.
        fill(unsafe { draft.payload_mut() });
        // SAFETY: header, key, expiry and payload have been written.
        unsafe { draft.finish() }
    }

    /// A record with a copy of `payload`. Cheaper than [`Record::new`].
    ///
    /// # Panics
    ///
    /// If a length is `u32::MAX` or more.
    #[inline]
    #[must_use]
    pub fn from_bytes(
        key: &[u8],
        expiry: Option<i64>,
        kind: u8,
        clock: u32,
        payload: &[u8],
    ) -> Self {
        let form = Form::new(key.len(), payload.len(), expiry.is_some());
        let mut draft = Draft::<O>::new(form, word(kind, clock), 0, false);
        draft.write_key(key);
        if let Some(at) = expiry {
            draft.write_expiry(at);
        }
        draft.write_payload(payload);
        // SAFETY: header, key, expiry and payload have been written.
        unsafe { draft.finish() }
    }

    #[inline(always)]
    fn header(&self) -> &Header {
        // SAFETY: every record starts with an initialised header, aligned to 8. Except for its
        // atomic, it is only written through `&mut self`.
        unsafe { self.at.cast::<Header>().as_ref() }
    }

    #[inline(always)]
    fn header_mut(&mut self) -> &mut Header {
        // SAFETY: as in `header`; the exclusive borrow of the record covers it.
        unsafe { self.at.cast::<Header>().as_mut() }
    }

    /// Reads the lengths; everything else follows from them.
    #[inline(always)]
    pub(crate) fn form(&self) -> Form {
        let header = self.header();
        let expiry = header.flags & EXPIRY != 0;
        let mut key_len = usize::from(header.key_len);
        let mut payload_len = usize::from(header.payload_len);
        let mut at = HEADER + 8 * usize::from(expiry);
        if header.key_len == LONG_KEY {
            // SAFETY: the byte of the key length says that a u32 is here, within the allocation and
            // aligned to 4.
            key_len = unsafe { self.at.add(at).cast::<u32>().read() } as usize;
            at += 4;
        }
        if header.flags & LONG_PAYLOAD != 0 {
            // SAFETY: likewise, as the flag says.
            payload_len = unsafe { self.at.add(at).cast::<u32>().read() } as usize;
        }
        Form { key_len, payload_len, expiry }
    }

    /// The key.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        RecordRef::of(self).key()
    }

    /// The kind, which the owner defines.
    #[inline]
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.header().word.load(Ordering::Relaxed) as u8
    }

    /// Changes the kind.
    #[inline]
    pub fn set_kind(&mut self, kind: u8) {
        let clock = self.clock();
        *self.header_mut().word.get_mut() = word(kind, clock);
    }

    /// The access clock, 24 bits.
    #[inline]
    #[must_use]
    pub fn clock(&self) -> u32 {
        self.header().word.load(Ordering::Relaxed) >> 8
    }

    /// Sets the access clock, modulo 2^24. With two concurrent calls, either value may win.
    #[inline]
    pub fn set_clock(&self, clock: u32) {
        // A load and a store, not a read-modify-write: the kind in the same word only changes under
        // exclusive access.
        self.header().word.store(word(self.kind(), clock), Ordering::Relaxed);
    }

    /// Four bits for the owner. The first is [`MARK`].
    #[inline]
    #[must_use]
    pub fn owner_flags(&self) -> u8 {
        self.header().flags >> OWNER_SHIFT
    }

    /// Sets the owner's bits.
    ///
    /// # Panics
    ///
    /// If `flags` is 16 or more.
    #[inline]
    pub fn set_owner_flags(&mut self, flags: u8) {
        assert!(flags < 16, "the owner has four bits");
        let header = self.header_mut();
        header.flags = (header.flags & 0xf) | (flags << OWNER_SHIFT);
    }

    /// The tags that a table stores with the record's address.
    #[inline(always)]
    pub(crate) fn tags(&self) -> Tags {
        let flags = self.header().flags;
        Tags { expiring: flags & EXPIRY != 0, marked: flags & (MARK << OWNER_SHIFT) != 0 }
    }

    /// Whether the record has an expiry; cheaper than reading it.
    #[inline]
    #[must_use]
    pub fn has_expiry(&self) -> bool {
        self.header().flags & EXPIRY != 0
    }

    /// When the key expires, in milliseconds since the epoch.
    #[inline]
    #[must_use]
    pub fn expiry(&self) -> Option<i64> {
        self.has_expiry().then(|| {
            // SAFETY: the flag says that an i64 follows the header; the offset and the allocation
            // are multiples of 8.
            unsafe { self.at.add(HEADER).cast::<i64>().read() }
        })
    }

    /// Sets the expiry of a record that has one. Otherwise changes nothing and returns false, since
    /// there is no room: see [`Record::with_expiry`].
    #[inline]
    pub fn set_expiry_in_place(&mut self, at: i64) -> bool {
        let has = self.has_expiry();
        if has {
            // SAFETY: as in `expiry`; the borrow is exclusive.
            unsafe { self.at.add(HEADER).cast::<i64>().write(at) };
        }
        has
    }

    /// Sets or removes the expiry. Moves the record when the field is added or removed.
    #[must_use]
    pub fn with_expiry(mut self, expiry: Option<i64>) -> Self {
        match expiry {
            Some(at) if self.set_expiry_in_place(at) => self,
            None if !self.has_expiry() => self,
            _ => {
                let payload_len = self.form().payload_len;
                self.moved(None, expiry, payload_len)
            }
        }
    }

    /// Changes the key of the record, as RENAME does, and keeps the payload.
    ///
    /// # Panics
    ///
    /// If the key has `u32::MAX` bytes or more.
    #[must_use]
    pub fn with_key(self, key: &[u8]) -> Self {
        let form = self.form();
        if key.len() == form.key_len {
            // SAFETY: the old key's bytes, of the same number, are in the
            // allocation that `self` owns; `key` is borrowed and cannot
            // overlap owned memory.
            unsafe {
                let to = self.at.add(form.key_at());
                to.copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
            }
            return self;
        }
        let expiry = self.expiry();
        self.moved(Some(key), expiry, form.payload_len)
    }

    /// The payload.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        RecordRef::of(self).payload()
    }

    /// The payload, for writing in place.
    #[inline]
    #[must_use]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let form = self.form();
        // SAFETY: the payload is initialised, within the allocation, and
        // borrowed exclusively as the record is.
        unsafe {
            let at = self.at.add(form.payload_at());
            NonNull::slice_from_raw_parts(at, form.payload_len).as_mut()
        }
    }

    /// Changes the length of the payload: truncates it or appends zeros. Does not call the owner.
    /// In place if the sizes of the allocations are equal; otherwise the allocator may move the
    /// record.
    ///
    /// # Panics
    ///
    /// If the length is `u32::MAX` or more.
    #[must_use]
    pub fn resize_payload(mut self, payload_len: usize) -> Self {
        let old = self.form();
        let new = Form::new(old.key_len, payload_len, old.expiry);
        if old.long_payload() != new.long_payload() {
            let expiry = self.expiry();
            return self.moved(None, expiry, payload_len);
        }
        if old.size() != new.size() {
            // SAFETY: the block was allocated with this layout, and is owned.
            // On failure it is untouched and still owned by `self`.
            self.at = unsafe { reallocated(self.at, old.layout(), new.layout()) };
        }
        if new.payload_len > old.payload_len {
            // SAFETY: from the end of the old payload to the end of the new
            // one, within the block whose size is `new.size()`.
            unsafe {
                let end = self.at.add(new.payload_at() + old.payload_len);
                end.write_bytes(0, new.payload_len - old.payload_len);
            }
        }
        // SAFETY: the block has the size and the content that `new` says.
        unsafe { write_lengths(self.at, new) };
        self
    }

    /// Replaces the payload's bytes at `range` with `with`, if the record's allocation has the
    /// right size; later bytes move. Returns whether it did; if not, nothing has changed. Does not
    /// call the owner. O(bytes from the range on).
    ///
    /// # Panics
    ///
    /// If the range is not within the payload, or the length becomes `u32::MAX` or more.
    #[inline]
    #[must_use]
    pub fn splice_in_place(&mut self, range: Range<usize>, with: &[u8]) -> bool {
        let old = self.form();
        assert!(
            range.start <= range.end && range.end <= old.payload_len,
            "the range must be in the payload"
        );
        let len = old.payload_len - range.len() + with.len();
        let new = Form::new(old.key_len, len, old.expiry);
        // A grown payload that fits has the same size class.
        let fits = match new.payload_len >= old.payload_len {
            true => new.payload_at() + new.payload_len <= old.size(),
            false => new.size() == old.size(),
        };
        if !fits || old.long_payload() != new.long_payload() {
            return false;
        }
        // SAFETY: both ranges of the move end within the block: the old payload does, and the new
        // one, as seen above; the moved bytes are initialised. Then `with`, which is borrowed and
        // cannot overlap owned memory, fills the gap, so that all of the new payload is written,
        // and the lengths are those of a block of this size.
        unsafe {
            let at = self.at.add(old.payload_at() + range.start).as_ptr();
            let behind = old.payload_len - range.end;
            std::ptr::copy(at.add(range.len()), at.add(with.len()), behind);
            std::ptr::copy_nonoverlapping(with.as_ptr(), at, with.len());
            write_lengths(self.at, new);
        }
        true
    }

    /// Lets the owner drop the payload and replaces it.
    ///
    /// # Panics
    ///
    /// If the length is `u32::MAX` or more.
    #[must_use]
    pub fn replace_payload(self, kind: u8, payload: &[u8]) -> Self {
        let mut old = ManuallyDrop::new(self);
        // SAFETY: kind and payload are the record's. They are not used as a value again: until
        // `exchange_payload` overwrites them the record is in a ManuallyDrop, and leaks if the
        // owner panics.
        unsafe { O::drop_payload(old.kind(), old.payload_mut()) };
        ManuallyDrop::into_inner(old).exchange_payload(kind, payload)
    }

    /// Replaces the payload without calling the owner: for an owner that has moved out the memory
    /// that the old payload owned.
    ///
    /// # Panics
    ///
    /// If the length is `u32::MAX` or more.
    #[must_use]
    pub fn exchange_payload(self, kind: u8, payload: &[u8]) -> Self {
        // Even after a panic below, the old payload must not be dropped.
        let old = ManuallyDrop::new(self);
        let from = old.form();
        let to = Form::new(from.key_len, payload.len(), from.expiry);
        if from.long_payload() == to.long_payload() && from.size() == to.size() {
            // SAFETY: the block has the same size and the same fields; the new
            // payload ends where `to` says, within it. `payload` is borrowed
            // and cannot overlap owned memory.
            unsafe {
                let at = old.at.add(to.payload_at());
                at.copy_from_nonoverlapping(NonNull::from(payload).cast(), payload.len());
                write_lengths(old.at, to);
            }
            let mut record = ManuallyDrop::into_inner(old);
            record.set_kind(kind);
            return record;
        }
        let mut draft = Draft::<O>::new(to, word(kind, old.clock()), old.owner_flags(), false);
        draft.write_key(old.key());
        if let Some(at) = old.expiry() {
            draft.write_expiry(at);
        }
        draft.write_payload(payload);
        // SAFETY: `old` owns its block, and is not used any more.
        unsafe { dealloc(old.at.as_ptr(), from.layout()) };
        // SAFETY: header, key, expiry and payload have been written.
        unsafe { draft.finish() }
    }

    /// Bytes requested from the allocator.
    #[inline]
    #[must_use]
    pub fn alloc_size(&self) -> usize {
        self.form().size()
    }

    /// Moves the record to a new block with this key (or its own), this expiry and as much of the
    /// payload as fits. Everything else stays.
    ///
    /// The record leaks if a length is too large.
    #[cold]
    fn moved(self, key: Option<&[u8]>, expiry: Option<i64>, payload_len: usize) -> Self {
        let old = ManuallyDrop::new(self);
        let key = key.unwrap_or(old.key());
        let form = Form::new(key.len(), payload_len, expiry.is_some());
        let word = word(old.kind(), old.clock());
        let mut draft = Draft::<O>::new(form, word, old.owner_flags(), false);
        draft.write_key(key);
        if let Some(at) = expiry {
            draft.write_expiry(at);
        }
        let payload = old.payload();
        let kept = payload.len().min(payload_len);
        draft.write_payload(&payload[..kept]);
        draft.zero_payload(kept);
        // SAFETY: `old` owns its block, and it is not read after this. The payload's bytes, and the
        // memory that they own, are in the new block.
        unsafe { dealloc(old.at.as_ptr(), old.form().layout()) };
        // SAFETY: header, key, expiry and payload have been written.
        unsafe { draft.finish() }
    }

    /// Moves the record to another allocation of the same size, without other changes.
    #[must_use]
    pub fn relocated(self) -> Self {
        let (expiry, payload_len) = (self.expiry(), self.payload().len());
        self.moved(None, expiry, payload_len)
    }

    /// Passes the ownership to a slot of the table.
    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<u8> {
        ManuallyDrop::new(self).at
    }

    /// # Safety
    ///
    /// `at` came from [`Record::into_raw`] of a record with the same owner, and is turned back into
    /// a record only once.
    #[inline]
    pub(crate) unsafe fn from_raw(at: NonNull<u8>) -> Self {
        Record { at, owner: PhantomData }
    }

    /// The address, for a slot word.
    #[inline]
    pub(crate) fn address(&self) -> NonNull<u8> {
        self.at
    }
}

impl<O: Owner> Drop for Record<O> {
    #[inline]
    fn drop(&mut self) {
        let kind = self.kind();
        let layout = self.form().layout();
        // SAFETY: kind and payload are the record's, which is not used after this.
        unsafe { O::drop_payload(kind, self.payload_mut()) };
        // SAFETY: the record owns the block; this is its layout.
        unsafe { dealloc(self.at.as_ptr(), layout) };
    }
}

impl<O: Owner> fmt::Debug for Record<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("key", &self.key().escape_ascii().to_string())
            .field("kind", &self.kind())
            .field("clock", &self.clock())
            .field("expiry", &self.expiry())
            .field("payload_len", &self.payload().len())
            .finish()
    }
}

#[inline(always)]
fn word(kind: u8, clock: u32) -> u32 {
    u32::from(kind) | clock << 8
}

/// The largest size that the allocator takes from existing slabs: jemalloc's small sizes.
const SMALL_MAX: usize = 14 << 10;

/// Reallocates a block like [`realloc`], with the common part of the content. A small block never
/// grows in place, and `realloc` would look up the sizes that are known here.
///
/// # Safety
///
/// The block was allocated with the layout `old`, which has the alignment of `new`, and no other
/// code uses it; `new` is not of size zero.
unsafe fn reallocated(block: NonNull<u8>, old: Layout, new: Layout) -> NonNull<u8> {
    let (from, kept) = (block.as_ptr(), old.size().min(new.size()));
    let to = if old.size().max(new.size()) <= SMALL_MAX {
        // SAFETY: the new size is not zero. Both blocks have `kept` bytes and are not the same; the
        // old one has the layout `old` and is not used again once there is a new one.
        unsafe {
            let to = alloc(new);
            if !to.is_null() {
                std::ptr::copy_nonoverlapping(from, to, kept);
                dealloc(from, old);
            }
            to
        }
    } else {
        // SAFETY: as the caller says; sizes of layouts are not above isize::MAX.
        unsafe { realloc(from, old, new.size()) }
    };
    NonNull::new(to).unwrap_or_else(|| handle_alloc_error(new))
}
