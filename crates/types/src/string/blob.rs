//! Long strings: the record's payload points to a reference-counted byte vector.
//!
//! The count lets a reply send a large value from where it is stored, and lets a snapshot keep the
//! old image, while the key keeps changing: a writer copies a shared vector first. Only this file
//! converts payload bytes to a pointer and back.

use std::mem::ManuallyDrop;
use std::sync::Arc;

/// A long string. The same type that replies share (`weft_resp::Blob`).
pub type Blob = Arc<Vec<u8>>;

/// Bytes of a payload that holds a blob.
pub const PAYLOAD: usize = size_of::<usize>();

/// Converts one reference to `blob` to payload bytes. [`release`] or [`take`] ends it.
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
/// `payload` was made by [`store`], and its reference was neither released nor taken.
pub(crate) unsafe fn release(payload: &[u8]) {
    // SAFETY: by the contract the pointer came from Arc::into_raw, and we own its reference.
    drop(unsafe { Arc::from_raw(pointer(payload)) });
}

/// Takes the reference that `payload` holds. The payload must not be used as a value again: the
/// caller exchanges it next.
///
/// # Safety
/// As for [`release`].
pub(crate) unsafe fn take(payload: &[u8]) -> Blob {
    // SAFETY: by the contract the pointer came from Arc::into_raw, and we own its reference.
    unsafe { Arc::from_raw(pointer(payload)) }
}

/// A view of the blob that `payload` holds; the reference stays in the payload.
///
/// # Safety
/// As for [`release`]; and the payload keeps its reference while the view lives, as the lifetime
/// expresses.
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
    // SAFETY: by the contract `p` came from Arc::into_raw and its count includes the payload's
    // reference. So the count may be incremented and a second owner made from it.
    unsafe {
        Arc::increment_strong_count(p);
        Arc::from_raw(p)
    }
}

/// Whether the blob that `payload` holds has other references.
///
/// # Safety
/// As for [`release`].
pub(crate) unsafe fn is_shared(payload: &[u8]) -> bool {
    // SAFETY: by the contract the pointer came from Arc::into_raw and its count includes the
    // payload's reference. The Arc made here is not dropped, so the count stays.
    let blob = ManuallyDrop::new(unsafe { Arc::from_raw(pointer(payload)) });
    Arc::strong_count(&blob) > 1
}

/// Lets `change` edit the vector, and writes the possibly new pointer back. A shared vector is
/// copied first, into one with capacity for `room` bytes.
///
/// # Safety
/// As for [`release`].
pub(crate) unsafe fn edit<T>(
    payload: &mut [u8],
    room: usize,
    change: impl FnOnce(&mut Vec<u8>) -> T,
) -> T {
    /// Writes the reference back into the payload, even if `change` panics.
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
    let blob = guard.1.as_mut().expect("set until the guard drops");
    if Arc::get_mut(blob).is_none() {
        let mut copy = Vec::with_capacity(room.max(blob.len()));
        copy.extend_from_slice(blob);
        *blob = Arc::new(copy);
    }
    change(Arc::get_mut(blob).expect("the only reference"))
}
