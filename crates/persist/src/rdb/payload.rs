//! What DUMP answers and RESTORE takes: a value, the version of the format, a checksum.

use super::{Code, Dialect, crc64};

/// Bytes behind the value.
const FOOTER: usize = 10;

/// A payload whose checksum is right.
#[derive(Clone, Copy, Debug)]
pub struct Opened<'a> {
    /// The type code and the body, and something behind it, the footer at least: a value that says
    /// that it is longer goes on into that, as it does for the reference.
    pub value: &'a [u8],
    pub dialect: Dialect,
}

/// The value in a payload; `None` if its checksum is wrong or its version can't be read. O(length).
#[must_use]
pub fn open(payload: &[u8]) -> Option<Opened<'_>> {
    let at = payload.len().checked_sub(FOOTER)?;
    let [low, high, sum @ ..] = *payload[at..].first_chunk::<FOOTER>()?;
    let dialect = Dialect::of(u16::from_le_bytes([low, high]))?;
    let right = crc64(&payload[..at + 2]) == u64::from_le_bytes(sum);
    right.then_some(Opened { value: payload, dialect })
}

/// Puts version and checksum behind a value: the first version that has its type code, so that
/// every server that knows the code takes it.
pub fn seal(value: &mut Vec<u8>, code: Code) {
    value.extend(code.version().to_le_bytes());
    let sum = crc64(value);
    value.extend(sum.to_le_bytes());
}
