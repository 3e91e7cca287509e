//! The sixteen bytes before the registers.

use super::DENSE;
use weft_base::sixbit::Packed;

/// Bytes of the header.
pub const HEADER: usize = 16;

const MAGIC: &[u8] = b"HYLL";
/// Where the encoding stands, and what it can be.
const ENCODING: usize = 4;
const IS_DENSE: u8 = 0;
const IS_SPARSE: u8 = 1;
/// Where the last estimate stands.
const CACHE: std::ops::Range<usize> = 8..HEADER;
/// Set in the last byte of the estimate when it is out of date.
const OUTDATED: u8 = 0x80;

/// One that has seen nothing: a single run of 16384 zeros, and no estimate yet.
pub const EMPTY: &[u8; HEADER + 2] = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80\x7f\xff";

/// The registers behind a header.
#[derive(Clone, Copy, Debug)]
pub enum View<'a> {
    Dense(&'a Packed),
    /// Runs, which may cover anything.
    Sparse(&'a [u8]),
}

impl<'a> View<'a> {
    /// `None` when `bytes` are no HyperLogLog. O(1).
    pub fn of(bytes: &'a [u8]) -> Option<View<'a>> {
        let (header, registers) = bytes.split_at_checked(HEADER)?;
        if !header.starts_with(MAGIC) {
            return None;
        }
        match header[ENCODING] {
            IS_DENSE => Some(View::Dense(registers.try_into().ok()?)),
            IS_SPARSE => Some(View::Sparse(registers)),
            _ => None,
        }
    }
}

/// The last estimate, while it still holds.
pub fn cached(bytes: &[u8]) -> Option<u64> {
    let estimate = u64::from_le_bytes(bytes[CACHE].try_into().expect("eight bytes"));
    (bytes[HEADER - 1] & OUTDATED == 0).then_some(estimate)
}

/// Keeps an estimate.
pub fn cache(bytes: &mut [u8], estimate: u64) {
    bytes[CACHE].copy_from_slice(&estimate.to_le_bytes());
}

/// Says that the estimate no longer holds.
pub fn outdate(bytes: &mut [u8]) {
    bytes[HEADER - 1] |= OUTDATED;
}

/// The beginning of a dense one under the header of `bytes`.
pub fn dense_under(bytes: &[u8]) -> Vec<u8> {
    let mut dense = vec![0; DENSE];
    dense[..HEADER].copy_from_slice(&bytes[..HEADER]);
    dense[ENCODING] = IS_DENSE;
    dense
}
