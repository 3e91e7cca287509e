//! The sixteen bytes before the registers.

use super::DENSE;
use weft_base::sixbit::Packed;

/// Bytes of the header.
pub const HEADER: usize = 16;

const MAGIC: &[u8] = b"HYLL";
/// The offset of the encoding, and its values.
const ENCODING: usize = 4;
const IS_DENSE: u8 = 0;
const IS_SPARSE: u8 = 1;
/// The offsets of the last estimate.
const CACHE: std::ops::Range<usize> = 8..HEADER;
/// Set in the last byte of the estimate when it is out of date.
const OUTDATED: u8 = 0x80;

/// An empty HyperLogLog: a single run of 16384 zeros, and no estimate yet.
pub const EMPTY: &[u8; HEADER + 2] = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80\x7f\xff";

/// The registers after a header.
#[derive(Clone, Copy, Debug)]
pub enum View<'a> {
    Dense(&'a Packed),
    /// Runs, not yet checked to cover all registers.
    Sparse(&'a [u8]),
}

impl<'a> View<'a> {
    /// `None` when `bytes` are not a HyperLogLog. O(1).
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

/// The last estimate, unless it is outdated.
pub fn cached(bytes: &[u8]) -> Option<u64> {
    let estimate = u64::from_le_bytes(bytes[CACHE].try_into().expect("eight bytes"));
    (bytes[HEADER - 1] & OUTDATED == 0).then_some(estimate)
}

/// Stores an estimate.
pub fn cache(bytes: &mut [u8], estimate: u64) {
    bytes[CACHE].copy_from_slice(&estimate.to_le_bytes());
}

/// Marks the estimate as outdated.
pub fn invalidate_cache(bytes: &mut [u8]) {
    bytes[HEADER - 1] |= OUTDATED;
}

/// A dense HyperLogLog with the header of `bytes` and all registers zero.
pub fn dense_with_header(bytes: &[u8]) -> Vec<u8> {
    let mut dense = vec![0; DENSE];
    dense[..HEADER].copy_from_slice(&bytes[..HEADER]);
    dense[ENCODING] = IS_DENSE;
    dense
}
