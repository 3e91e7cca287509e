//! Large values: a box on the heap whose address is the record's payload.
//!
//! This file is the only one that turns payload bytes into a box of a collection and back; each
//! type's module says which kind has which `T`, and [`Values`](crate::Values) relies on it when a
//! record dies. The value never moves while it is in the record, whatever the record does.

/// Bytes of payload that a box takes.
pub(crate) const PAYLOAD: usize = size_of::<usize>();

/// Turns a box into payload bytes. [`take`] gives it back.
pub(crate) fn store<T>(value: Box<T>) -> [u8; PAYLOAD] {
    Box::into_raw(value).expose_provenance().to_ne_bytes()
}

fn pointer<T>(payload: &[u8]) -> *mut T {
    let bytes: [u8; PAYLOAD] = payload.try_into().expect("a boxed payload is one pointer");
    std::ptr::with_exposed_provenance_mut(usize::from_ne_bytes(bytes))
}

/// Takes the box out of a payload, which must not be used as a value again: the record's payload
/// is exchanged next, or the record dies.
///
/// # Safety
/// `payload` was made by [`store`] of a `Box<T>`, and the box was not taken yet.
pub(crate) unsafe fn take<T>(payload: &[u8]) -> Box<T> {
    // SAFETY: by the contract the pointer came from Box::into_raw of the same type and is ours.
    unsafe { Box::from_raw(pointer(payload)) }
}

/// The value in the box of a payload.
///
/// # Safety
/// As for [`take`]; and the payload is borrowed from its record, which the lifetime expresses.
#[inline]
pub(crate) unsafe fn view<T>(payload: &[u8]) -> &T {
    // SAFETY: by the contract the box is alive while its record is borrowed, and nobody has an
    // exclusive reference to it meanwhile, since that takes an exclusive borrow of the record.
    unsafe { &*pointer(payload) }
}

/// The value in the box of a payload, to be changed.
///
/// # Safety
/// As for [`view`].
#[inline]
pub(crate) unsafe fn view_mut<T>(payload: &mut [u8]) -> &mut T {
    // SAFETY: as in `view`; the borrow of the payload is exclusive.
    unsafe { &mut *pointer(payload) }
}
