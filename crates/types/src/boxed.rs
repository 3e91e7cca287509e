//! Large values: a box on the heap whose address is the record's payload.
//!
//! Only this file converts payload bytes to a box of a collection and back. Each type's module
//! defines which kind has which `T`, and [`Values`](crate::Values) relies on that when a record is
//! dropped. The value never moves while it is in the record.

/// Bytes of a payload that holds a box.
pub(crate) const PAYLOAD: usize = size_of::<usize>();

/// Converts a box to payload bytes. [`take`] converts them back.
pub(crate) fn store<T>(value: Box<T>) -> [u8; PAYLOAD] {
    Box::into_raw(value).expose_provenance().to_ne_bytes()
}

fn pointer<T>(payload: &[u8]) -> *mut T {
    let bytes: [u8; PAYLOAD] = payload.try_into().expect("a boxed payload is one pointer");
    std::ptr::with_exposed_provenance_mut(usize::from_ne_bytes(bytes))
}

/// Takes the box out of a payload. The payload must not be used as a value again: the caller
/// exchanges it next or drops the record.
///
/// # Safety
/// `payload` was made by [`store`] from a `Box<T>`, and the box was not taken yet.
pub(crate) unsafe fn take<T>(payload: &[u8]) -> Box<T> {
    // SAFETY: by the contract the pointer came from Box::into_raw of the same type, and we own it.
    unsafe { Box::from_raw(pointer(payload)) }
}

/// The value in the box of a payload.
///
/// # Safety
/// As for [`take`]; and the payload is borrowed from its record, as the lifetime expresses.
#[inline]
pub(crate) unsafe fn view<T>(payload: &[u8]) -> &T {
    // SAFETY: by the contract the box is alive while its record is borrowed. No exclusive reference
    // to it exists meanwhile, since that takes an exclusive borrow of the record.
    unsafe { &*pointer(payload) }
}

/// The value in the box of a payload, mutable.
///
/// # Safety
/// As for [`view`].
#[inline]
pub(crate) unsafe fn view_mut<T>(payload: &mut [u8]) -> &mut T {
    // SAFETY: as in `view`; the borrow of the payload is exclusive.
    unsafe { &mut *pointer(payload) }
}
