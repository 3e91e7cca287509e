//! Records under construction.
//!
//! A [`Draft`] is a block of the right size with a header. Key, expiry and payload are written into
//! it, then it becomes a [`Record`]. If dropped before that, it frees the block without calling the
//! owner, since there is no payload yet. So a panic during construction is harmless.

use std::alloc::{alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use crate::layout::{Form, HEADER, Header, LONG_KEY, LONG_PAYLOAD, OWNER_SHIFT};
use crate::record::{Owner, Record};

/// A block that is not yet a record; see the module documentation.
pub(crate) struct Draft<O: Owner> {
    at: NonNull<u8>,
    form: Form,
    owner: PhantomData<O>,
}

impl<O: Owner> Draft<O> {
    #[inline(always)]
    pub(crate) fn new(form: Form, word: u32, owner_flags: u8, zeroed: bool) -> Self {
        let layout = form.layout();
        // SAFETY: a record's layout is never of size zero.
        let at = unsafe { if zeroed { alloc_zeroed(layout) } else { alloc(layout) } };
        let at = NonNull::new(at).unwrap_or_else(|| handle_alloc_error(layout));
        let header = Header {
            word: AtomicU32::new(word),
            key_len: 0,
            flags: form.flags() | owner_flags << OWNER_SHIFT,
            payload_len: 0,
        };
        // SAFETY: the block is new, aligned to 8 and has room for the header. The header then meets
        // the contract of `write_lengths`.
        unsafe {
            at.cast::<Header>().write(header);
            write_lengths(at, form);
        }
        Draft { at, form, owner: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn write_key(&mut self, key: &[u8]) {
        assert_eq!(key.len(), self.form.key_len);
        // SAFETY: the form has room for a key of this length here. The source is elsewhere, since
        // only we have the block.
        unsafe {
            let to = self.at.add(self.form.key_at());
            to.copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
        }
    }

    #[inline(always)]
    pub(crate) fn write_expiry(&mut self, at: i64) {
        assert!(self.form.expiry);
        // SAFETY: the form has the field, after the header and aligned to 8.
        unsafe { self.at.add(HEADER).cast::<i64>().write(at) };
    }

    /// Writes the first bytes of the payload.
    #[inline(always)]
    pub(crate) fn write_payload(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.form.payload_len);
        // SAFETY: the form has room for this many bytes here. The source is elsewhere.
        unsafe {
            let to = self.at.add(self.form.payload_at());
            to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
    }

    /// Zeroes the payload from a position on.
    #[inline(always)]
    pub(crate) fn zero_payload(&mut self, from: usize) {
        let len = self.form.payload_len - from;
        // SAFETY: the range ends at the end of the payload, in the block. A `from` beyond the
        // payload would make the subtraction panic or wrap, and no caller passes one.
        unsafe { self.at.add(self.form.payload_at() + from).write_bytes(0, len) };
    }

    /// # Safety
    ///
    /// All of the payload has been written.
    #[inline(always)]
    pub(crate) unsafe fn payload_mut(&mut self) -> &mut [u8] {
        // SAFETY: initialised by the contract, in the block, exclusively ours.
        unsafe {
            let at = self.at.add(self.form.payload_at());
            NonNull::slice_from_raw_parts(at, self.form.payload_len).as_mut()
        }
    }

    /// # Safety
    ///
    /// Key, payload and, if the form has one, expiry have been written.
    #[inline(always)]
    pub(crate) unsafe fn finish(self) -> Record<O> {
        let at = ManuallyDrop::new(self).at;
        // SAFETY: the block is complete (contract), and this was its owner.
        unsafe { Record::from_raw(at) }
    }
}

impl<O: Owner> Drop for Draft<O> {
    fn drop(&mut self) {
        // SAFETY: the block was allocated with this layout and not handed out.
        unsafe { dealloc(self.at.as_ptr(), self.form.layout()) };
    }
}

/// Writes the length fields of a record, short and long. The expiry flag and the owner's flags
/// stay.
///
/// # Safety
///
/// `at` is a block owned by the caller with an initialised header and of at
/// least `form.size()` bytes, whose expiry flag is as `form` says.
#[inline(always)]
pub(crate) unsafe fn write_lengths(at: NonNull<u8>, form: Form) {
    let mut field = HEADER + 8 * usize::from(form.expiry);
    // SAFETY: the header exists (contract) and is not borrowed otherwise.
    let header = unsafe { at.cast::<Header>().as_mut() };
    header.flags = (header.flags & !LONG_PAYLOAD) | form.flags();
    header.key_len = if form.long_key() { LONG_KEY } else { form.key_len as u8 };
    header.payload_len = if form.long_payload() { 0 } else { form.payload_len as u16 };
    if form.long_key() {
        // SAFETY: the form has the field at this offset, aligned to 4. The
        // lengths were checked to fit by `Form::new`.
        unsafe { at.add(field).cast::<u32>().write(form.key_len as u32) };
        field += 4;
    }
    if form.long_payload() {
        // SAFETY: likewise.
        unsafe { at.add(field).cast::<u32>().write(form.payload_len as u32) };
    }
}
