//! The layout of a record in its allocation.
//!
//! ```text
//!   0        4     5       6          8
//!  ┌────────┬─────┬───────┬──────────┬─────────┬──────────┬──────────┬─────┬─────────┐
//!  │ word   │ key │ flags │ payload  │ expiry  │ key len  │ payload  │ key │ payload │
//!  │ u32    │ len │ u8    │ len u16  │ i64     │ u32      │ len u32  │     │         │
//!  └────────┴─────┴───────┴──────────┴─────────┴──────────┴──────────┴─────┴─────────┘
//!   kind 8 bits,                      if bit 0  if key len if bit 1
//!   clock 24 bits                     of flags  is 255     of flags
//! ```
//!
//! Short keys and payloads need 8 bytes for kind, clock, lengths and flags together. Rare fields
//! (an expiry, the length of a key of 255 bytes or more, or of a payload of 64 KiB or more) cost
//! extra bytes only where they are used. The form follows from the two lengths and the presence of
//! an expiry, so the size of an allocation is never stored. Sizes are rounded up as allocators do
//! anyway, see [`size_class`]. So most small changes of length happen in place, without a call of
//! the allocator.
//!
//! The optional fields are aligned to their size, since the bytes before them are a multiple of it.
//! Key and payload have no alignment.

use std::alloc::Layout;
use std::sync::atomic::AtomicU32;

/// Length of the part that every record has.
pub(crate) const HEADER: usize = 8;
/// The value of the key length byte that selects the long form.
pub(crate) const LONG_KEY: u8 = u8::MAX;
/// Payloads of at least this length use the long form.
const LONG_PAYLOAD_MIN: usize = 1 << 16;

/// `flags`: the record has an expiry.
pub(crate) const EXPIRY: u8 = 1 << 0;
/// `flags`: the payload length is in the long form.
pub(crate) const LONG_PAYLOAD: u8 = 1 << 1;
/// `flags`: this bit and the higher ones belong to the owner.
pub(crate) const OWNER_SHIFT: u32 = 4;

/// The first 8 bytes of every record.
#[repr(C)]
pub(crate) struct Header {
    /// `kind | clock << 8`. Atomic because the clock is written through shared
    /// references.
    pub(crate) word: AtomicU32,
    pub(crate) key_len: u8,
    pub(crate) flags: u8,
    /// Zero when the payload has the long form.
    pub(crate) payload_len: u16,
}

const _: () = assert!(size_of::<Header>() == HEADER);

/// The properties that determine the layout of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) key_len: usize,
    pub(crate) payload_len: usize,
    pub(crate) expiry: bool,
}

impl Form {
    /// # Panics
    ///
    /// If a length does not fit in the long form.
    #[inline]
    pub(crate) fn new(key_len: usize, payload_len: usize, expiry: bool) -> Form {
        assert!(key_len < u32::MAX as usize, "key too long for a record");
        assert!(payload_len < u32::MAX as usize, "payload too long for a record");
        Form { key_len, payload_len, expiry }
    }

    #[inline(always)]
    pub(crate) const fn long_key(self) -> bool {
        self.key_len >= LONG_KEY as usize
    }

    #[inline(always)]
    pub(crate) const fn long_payload(self) -> bool {
        self.payload_len >= LONG_PAYLOAD_MIN
    }

    /// Offset of the key.
    #[inline(always)]
    pub(crate) const fn key_at(self) -> usize {
        HEADER
            + 8 * self.expiry as usize
            + 4 * self.long_key() as usize
            + 4 * self.long_payload() as usize
    }

    /// Offset of the payload.
    #[inline(always)]
    pub(crate) const fn payload_at(self) -> usize {
        self.key_at() + self.key_len
    }

    /// Bytes to allocate.
    #[inline(always)]
    pub(crate) const fn size(self) -> usize {
        size_class(self.payload_at() + self.payload_len)
    }

    #[inline(always)]
    pub(crate) fn layout(self) -> Layout {
        // Two lengths below 2^32 and a few bytes: far below isize::MAX, and not zero. The check is
        // cheap enough to keep.
        Layout::from_size_align(self.size(), 8).expect("a record is smaller than isize::MAX")
    }

    /// `flags` of a record of this form, without the owner's bits.
    #[inline(always)]
    pub(crate) const fn flags(self) -> u8 {
        (if self.expiry { EXPIRY } else { 0 })
            | (if self.long_payload() { LONG_PAYLOAD } else { 0 })
    }
}

/// jemalloc's size class of `len` bytes: 8, multiples of 16 up to 128, then four sizes per power of
/// two (jemalloc's manual, "size classes"). Other allocators may round further.
#[inline(always)]
#[must_use]
pub const fn size_class(len: usize) -> usize {
    match len {
        0..=8 => 8,
        9..=128 => len.next_multiple_of(16),
        _ => {
            let doubling = usize::BITS - (len - 1).leading_zeros();
            len.next_multiple_of(1 << (doubling - 3))
        }
    }
}

/// Bytes requested from the allocator for a record with a key and a payload of
/// these lengths, with or without an expiry.
#[inline]
#[must_use]
pub const fn allocation_len(key_len: usize, payload_len: usize, expiry: bool) -> usize {
    Form { key_len, payload_len, expiry }.size()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_match_the_design() {
        assert_eq!(allocation_len(16, 64, true), 96);
        assert_eq!(allocation_len(16, 64, false), 96);
        assert_eq!(allocation_len(0, 0, false), 8);
        assert_eq!(allocation_len(4, 65_535, false), 80 << 10);
        for (key, payload, fields) in [(254, 2, 0), (255, 1, 4), (4, 65_535, 0), (4, 65_536, 4)] {
            let size = allocation_len(key, payload, false);
            assert_eq!(size, size_class(8 + fields + key + payload));
        }
    }

    #[test]
    fn size_classes_match_the_manual() {
        let classes =
            [8, 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640];
        for pair in classes.windows(2) {
            assert!((pair[0] + 1..=pair[1]).all(|len| size_class(len) == pair[1]));
        }
        assert_eq!(size_class((16 << 10) + 1), 20 << 10);
        assert_eq!(size_class(1 << 30), 1 << 30);
    }

    #[test]
    fn optional_fields_are_aligned() {
        for key_len in [0, 254, 255, 70_000] {
            for payload_len in [0, 65_535, 65_536] {
                for expiry in [false, true] {
                    let form = Form::new(key_len, payload_len, expiry);
                    assert_eq!(form.key_at() % 4, 0);
                    assert!(form.size() >= form.payload_at() + payload_len);
                    assert_eq!(form.size() % 8, 0);
                }
            }
        }
    }
}
