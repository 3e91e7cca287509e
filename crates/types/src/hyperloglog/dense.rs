//! Adding to a dense HyperLogLog.

use super::{HEADER, Place};
use weft_base::sixbit::{self, Packed};

/// Whether `place` would raise a register.
#[inline]
pub fn is_higher(packed: &Packed, place: Place) -> bool {
    place.rank > sixbit::get(packed, place.index)
}

/// Raises the register of `place` in a dense HyperLogLog. Returns whether it was lower.
///
/// # Panics
///
/// If `bytes` are not a dense HyperLogLog.
#[inline]
pub fn add(bytes: &mut [u8], place: Place) -> bool {
    let packed: &mut Packed = (&mut bytes[HEADER..]).try_into().expect("a dense HyperLogLog");
    let higher = is_higher(packed, place);
    if higher {
        sixbit::set(packed, place.index, place.rank);
    }
    higher
}
