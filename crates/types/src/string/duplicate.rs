//! A second record with the same string, as COPY makes it.

use super::{record_blob, refit, share};
use crate::{Kind, Record};

/// A record of `key` with the string and the encoding of `record`; `expiry` in Unix
/// milliseconds, `clock` as [`Record::clock`]. Bytes in the record are copied, a long string is
/// shared until one of the two is changed: O(1) either way.
pub fn duplicate(record: &Record, key: &[u8], expiry: Option<i64>, clock: u32) -> Record {
    match share(record) {
        Some(blob) => record_blob(key, blob, expiry, clock),
        None => {
            let kind = Kind::of(record.kind());
            refit(Record::from_bytes(key, expiry, kind as u8, clock, record.payload()))
        }
    }
}
