//! The payload of DUMP and RESTORE: a value, the version of the format, a checksum.

use super::{Code, Dialect, crc64};

/// Bytes after the value.
const FOOTER: usize = 10;

/// A payload with a correct checksum.
#[derive(Clone, Copy, Debug)]
pub struct Opened<'a> {
    /// The type code and the body, followed by at least the footer. A value with a false length
    /// reads into the footer, as in the reference.
    pub value: &'a [u8],
    pub dialect: Dialect,
}

/// Returns the value of a payload; `None` if its checksum is wrong or its version can't be read.
/// O(length).
#[must_use]
pub fn open(payload: &[u8]) -> Option<Opened<'_>> {
    let at = payload.len().checked_sub(FOOTER)?;
    let [low, high, sum @ ..] = *payload[at..].first_chunk::<FOOTER>()?;
    let dialect = Dialect::of(u16::from_le_bytes([low, high]))?;
    let right = crc64(&payload[..at + 2]) == u64::from_le_bytes(sum);
    right.then_some(Opened { value: payload, dialect })
}

/// Appends version and checksum to a value. The version is the first one that has its type code, so
/// every server that supports the code accepts it.
pub fn seal(value: &mut Vec<u8>, code: Code) {
    value.extend(code.version().to_le_bytes());
    let sum = crc64(value);
    value.extend(sum.to_le_bytes());
}
