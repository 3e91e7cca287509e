//! Copies a string into a second record, for COPY.

use super::{Str, record_blob, refit, share};
use crate::{Kind, Record, boxed};

/// A record of `key` with the string and the encoding of `record`. `expiry` is in Unix
/// milliseconds; `clock` is as in [`Record::clock`]. Bytes in the record are copied; a long string
/// is shared until one of the two changes. O(1), or O(pages) for a string in pieces.
pub fn duplicate(record: &Record, key: &[u8], expiry: Option<i64>, clock: u32) -> Record {
    if let Some(Str::Pieces(pieces)) = Str::of(record) {
        let payload = boxed::store(Box::new(pieces.clone()));
        return Record::from_bytes(key, expiry, Kind::StrPieces as u8, clock, &payload);
    }
    match share(record) {
        Some(blob) => record_blob(key, blob, expiry, clock),
        None => {
            let kind = Kind::of(record.kind());
            refit(Record::from_bytes(key, expiry, kind as u8, clock, record.payload()))
        }
    }
}
