//! Long strings: a reference-counted byte vector behind a pointer in the record's payload.
//!
//! The count lets a reply send a large value from where it is stored, and lets a snapshot keep
//! the old image, while the key goes on changing: a writer that finds the vector shared copies
//! it first. This file is the only one that turns payload bytes into a pointer and back.

use std::mem::ManuallyDrop;
use std::sync::Arc;

/// A long string. The same type that replies share (`weft_resp::Blob`).
pub type Blob = Arc<Vec<u8>>;

/// Bytes of payload that a blob takes.
pub const PAYLOAD: usize = size_of::<usize>();

/// Turns one reference to `blob` into payload bytes. [`release`] or [`take`] gives it back.
pub(crate) fn store(blob: Blob) -> [u8; PAYLOAD] {
    (Arc::into_raw(blob).expose_provenance()).to_ne_bytes()
}

fn pointer(payload: &[u8]) -> *const Vec<u8> {
    let bytes: [u8; PAYLOAD] = payload.try_into().expect("a blob payload is one pointer");
    std::ptr::with_exposed_provenance(usize::from_ne_bytes(bytes))
}

/// Drops the reference that `payload` holds.
///
/// # Safety
/// `payload` was made by [`store`] and its reference was neither released nor taken.
pub(crate) unsafe fn release(payload: &[u8]) {
    // SAFETY: by the contract the pointer came from Arc::into_raw and its count is ours.
    drop(unsafe { Arc::from_raw(pointer(payload)) });
}

/// The reference that `payload` holds, which must not be used as a value again: the record's payload
/// is exchanged next.
///
/// # Safety
/// As for [`release`].
pub(crate) unsafe fn take(payload: &[u8]) -> Blob {
    // SAFETY: by the contract the pointer came from Arc::into_raw and its count is ours.
    unsafe { Arc::from_raw(pointer(payload)) }
}

/// A view of the blob that `payload` holds; the reference stays in the payload.
///
/// # Safety
/// As for [`release`]; and the payload keeps its reference while the view lives, which the
/// lifetime expresses.
#[inline]
pub(crate) unsafe fn view(payload: &[u8]) -> &Vec<u8> {
    // SAFETY: by the contract the vector lives as long as the payload's reference.
    unsafe { &*pointer(payload) }
}

/// Another reference to the blob that `payload` holds.
///
/// # Safety
/// As for [`release`].
pub(crate) unsafe fn share(payload: &[u8]) -> Blob {
    let p = pointer(payload);
    // SAFETY: by the contract `p` came from Arc::into_raw and counts at least the payload's
    // reference, so that it may be incremented and a second owner made of it.
    unsafe {
        Arc::increment_strong_count(p);
        Arc::from_raw(p)
    }
}

/// Whether others hold the blob that `payload` holds.
///
/// # Safety
/// As for [`release`].
pub(crate) unsafe fn is_shared(payload: &[u8]) -> bool {
    // SAFETY: by the contract the pointer came from Arc::into_raw and counts the payload's
    // reference; the Arc made of it here is not dropped, so that the count stays.
    let blob = ManuallyDrop::new(unsafe { Arc::from_raw(pointer(payload)) });
    Arc::strong_count(&blob) > 1
}

/// Lets `change` edit the vector and writes the possibly new pointer back. When others share the
/// vector it is copied first, into one with room for `room` bytes.
///
/// # Safety
/// As for [`release`].
pub(crate) unsafe fn edit<T>(
    payload: &mut [u8],
    room: usize,
    change: impl FnOnce(&mut Vec<u8>) -> T,
) -> T {
    /// Puts the reference back into the payload even when `change` panics.
    struct PutBack<'a>(&'a mut [u8], Option<Blob>);
    impl Drop for PutBack<'_> {
        fn drop(&mut self) {
            if let Some(blob) = self.1.take() {
                self.0.copy_from_slice(&store(blob));
            }
        }
    }
    // SAFETY: the payload's own reference is taken out here and put back by the guard.
    let blob = unsafe { Arc::from_raw(pointer(payload)) };
    let mut guard = PutBack(payload, Some(blob));
    let blob = guard.1.as_mut().expect("held until the drop");
    if Arc::get_mut(blob).is_none() {
        let mut copy = Vec::with_capacity(room.max(blob.len()));
        copy.extend_from_slice(blob);
        *blob = Arc::new(copy);
    }
    change(Arc::get_mut(blob).expect("nobody else knows it"))
}
