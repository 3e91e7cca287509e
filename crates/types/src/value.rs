//! Operations on values of any type: sizes and copies.

use crate::{Kind, Record, Type, hash, list, set, stream, string, zset};

/// The number of elements of the value of `record`; 1 for a string. O(1).
#[must_use]
pub fn elements(record: &Record) -> usize {
    match Kind::of(record.kind()).type_of() {
        Type::String => 1,
        Type::List => list::len(record),
        Type::Set => set::len(record),
        Type::Zset => zset::len(record),
        Type::Hash => hash::len(record),
        Type::Stream => stream::len(record),
    }
}

/// The encoding of the value of `record` that OBJECT ENCODING reports.
#[must_use]
pub fn encoding_name(record: &Record) -> &'static str {
    let kind = Kind::of(record.kind());
    match kind.type_of() {
        Type::List => list::encoding_name(record),
        Type::String | Type::Set | Type::Zset | Type::Hash | Type::Stream => kind.encoding_name(),
    }
}

/// Bytes of `record` and of all memory that it owns. For a large collection this is an estimate
/// from up to `samples` elements; 0 examines all of them.
#[must_use]
pub fn memory(record: &Record, samples: usize) -> usize {
    match Kind::of(record.kind()).type_of() {
        Type::String => string::memory(record),
        Type::List => list::memory(record, samples),
        Type::Set => set::memory(record, samples),
        Type::Zset => zset::memory(record, samples),
        Type::Hash => hash::memory(record, samples),
        Type::Stream => stream::memory(record, samples),
    }
}

/// An estimate of [`memory`] for callers that can't wait for the exact result. O(1) for strings,
/// O(chunks) for lists, whose chunks are contiguous. Otherwise a few samples and less than a
/// thousandth of the elements.
#[must_use]
pub fn memory_about(record: &Record) -> usize {
    const SAMPLES: usize = 256;
    match Kind::of(record.kind()).type_of() {
        Type::String => string::memory(record),
        Type::List => list::memory(record, SAMPLES),
        Type::Set => set::memory_about(record, SAMPLES),
        Type::Zset => zset::memory(record, SAMPLES),
        Type::Hash => hash::memory_about(record, SAMPLES),
        Type::Stream => stream::memory(record, SAMPLES),
    }
}

/// The number of allocations of the value of `record`, without the record itself. Stops counting at
/// `most` or slightly later. O(most).
#[must_use]
pub fn pieces(record: &Record, most: usize) -> usize {
    match Kind::of(record.kind()) {
        Kind::StrEmbedded | Kind::StrRaw | Kind::StrInt => 0,
        Kind::StrBlob => 2,
        Kind::StrPieces => string::pieces_of(record),
        Kind::ListPacked | Kind::ListTwoWay | Kind::SetInts | Kind::SetPacked => 0,
        Kind::ZsetPacked | Kind::HashPacked => 0,
        Kind::ListChunks => list::pieces(record),
        Kind::SetTable => set::pieces(record, most),
        Kind::ZsetTree => zset::pieces(record),
        Kind::HashTable => hash::pieces(record, most),
        Kind::Stream => stream::pieces(record, most),
    }
}

/// Whether dropping `record` takes some ten microseconds or more, so that a thread that serves
/// clients should pass it to another one. Passing a record on also has a cost: a few microseconds
/// on two threads, and the memory is freed on another thread than the one that allocates next. O(1)
/// for strings and small collections.
#[must_use]
pub fn is_long_to_free(record: &Record) -> bool {
    /// Calls of the allocator; each takes some tens of nanoseconds and a cache miss or two.
    const PIECES: usize = 128;
    /// Allocations from jemalloc's `oversize_threshold` on are returned to the system at once, on
    /// the thread that frees them. This is a safe distance below it.
    const BYTES: usize = 4 << 20;
    match Kind::of(record.kind()).type_of() {
        Type::String => {
            let is_many = pieces(record, PIECES) >= PIECES;
            is_many || record.alloc_size() >= BYTES || string::memory(record) >= BYTES
        }
        Type::List | Type::Set | Type::Zset | Type::Hash | Type::Stream => {
            pieces(record, PIECES) >= PIECES
        }
    }
}

/// Approximate work of [`duplicate`]: one for each element and one for each kilobyte, since
/// elements may be long. O(1) for strings, else like [`memory_about`].
#[must_use]
pub fn duplicate_work(record: &Record) -> usize {
    match Kind::of(record.kind()).type_of() {
        // Short, or shared with the original.
        Type::String => 1,
        Type::List | Type::Set | Type::Zset | Type::Hash | Type::Stream => {
            elements(record).max(memory_about(record) / 1024)
        }
    }
}

/// A record of `key` with the value and the encoding of `record`. `expiry` is in Unix milliseconds;
/// `clock` is as in [`Record::clock`]. Fields of hashes that have expired at `now_ms` are left out.
/// O(1) for strings, O(elements) for collections.
#[must_use]
pub fn duplicate(
    record: &Record,
    key: &[u8],
    expiry: Option<i64>,
    clock: u32,
    now_ms: i64,
) -> Record {
    match Kind::of(record.kind()).type_of() {
        Type::String => string::duplicate(record, key, expiry, clock),
        Type::List => list::duplicate(record, key, expiry, clock),
        Type::Set => set::duplicate(record, key, expiry, clock),
        Type::Zset => zset::duplicate(record, key, expiry, clock),
        Type::Hash => hash::duplicate(record, key, expiry, clock, now_ms),
        Type::Stream => stream::duplicate(record, key, expiry, clock),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::limits::PACKED_MAX;
    use crate::list::End;
    use crate::string::New;

    fn large(n: usize) -> [Record; 4] {
        let limits = Limits::default();
        let names: Vec<Vec<u8>> = (0..n).map(|i| format!("element:{i}").into_bytes()).collect();
        let texts: Vec<&[u8]> = names.iter().map(|t| &t[..]).collect();
        let list = list::create(b"k", 0, End::Right, &texts, &limits);
        let scored: Vec<(&[u8], f64)> = texts.iter().map(|t| (*t, 1.0)).collect();
        let mut hash = hash::create(b"k", &[], 0, &limits);
        let mut set = set::create(b"k", texts[0], n, None, 0, &limits);
        for text in &texts {
            hash = hash::set(hash, text, text, None, 0, &limits).0;
            set = set::add(set, crate::packed::Value::Bytes(text), &limits).0;
        }
        [list, set, zset::build(b"k", None, 0, &scored, &limits), hash]
    }

    #[test]
    fn large_values_take_long_to_free() {
        for record in large(200) {
            assert!(!is_long_to_free(&record), "{record:?}: few allocations");
        }
        for record in large(100_000) {
            assert!(is_long_to_free(&record), "{record:?}");
        }
        let text = |len| string::record(b"k", New::Bytes(&vec![b'v'; len]), None, 0);
        for len in [3, 4096, 64 << 10, 256 << 10, 1 << 20, 3 << 20] {
            assert!(!is_long_to_free(&text(len)), "{len}: one call of the allocator");
        }
        assert!(is_long_to_free(&text(8 << 20)));
    }

    #[test]
    fn memory_about_is_near_memory() {
        for record in large(100_000) {
            let (about, exactly) = (memory_about(&record), memory(&record, 0));
            assert!(about > exactly * 3 / 4 && about < exactly * 4 / 3, "{about} {exactly}");
        }
    }

    /// The directives may allow more than a record can hold.
    #[test]
    fn packed_collections_stay_below_packed_max() {
        let all = usize::MAX;
        let limits = Limits {
            hash_entries: all,
            hash_value: all,
            set_entries: all,
            set_value: all,
            zset_entries: all,
            zset_value: all,
            ..Limits::default()
        };
        let third = |n: u8| vec![b'a' + n; PACKED_MAX / 3];
        let mut hash = hash::create(b"k", &[], 0, &limits);
        let mut set = set::create(b"k", &third(0), 1, None, 0, &limits);
        let mut zset = zset::Edit::new(b"k", None, 0);
        for n in 0..3 {
            assert_eq!(Kind::of(hash.kind()), Kind::HashPacked, "{n}");
            hash = hash::set(hash, &[n], &third(n), None, 0, &limits).0;
            set = set::add(set, crate::packed::Value::Bytes(&third(n)), &limits).0;
            zset.change(&third(n), &limits, |_| Some(1.0));
        }
        let built: Vec<(Vec<u8>, f64)> = (0..4).map(|n| (third(n), 1.0)).collect();
        let built = zset::build(b"k", None, 0, &built, &limits);
        // The added bytes are as many as the first three entries have together.
        let (hash, old) = hash::set(hash, &[1], &[b'x'; PACKED_MAX / 2], None, 0, &limits);
        assert_eq!(old, hash::Old::Live);
        let (set, _) = set::add(set, crate::packed::Value::Bytes(&third(4)), &limits);
        zset.change(&third(4), &limits, |_| Some(1.0));
        let kinds = [hash, set, zset.finish(), built].map(|r| Kind::of(r.kind()));
        assert_eq!(kinds, [Kind::HashTable, Kind::SetTable, Kind::ZsetTree, Kind::ZsetTree]);
    }
}
