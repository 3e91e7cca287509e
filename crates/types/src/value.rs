//! What holds for values of every type: how large they are, and a copy of one.

use crate::{Kind, Record, Type, hash, list, set, stream, string, zset};

/// How many elements the value of `record` has: 1 for a string. O(1).
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

/// What OBJECT ENCODING answers for the value of `record`.
#[must_use]
pub fn encoding_name(record: &Record) -> &'static str {
    let kind = Kind::of(record.kind());
    match kind.type_of() {
        Type::List => list::encoding_name(record),
        Type::String | Type::Set | Type::Zset | Type::Hash | Type::Stream => kind.encoding_name(),
    }
}

/// Bytes of memory of `record` with all that it owns. Large collections are estimated from up to
/// `samples` of their elements; 0: all of them are looked at.
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

/// About the bytes of [`memory`], whatever the value: for who can't wait for an exact answer. O(1)
/// for strings, O(chunks) for lists, which are in a row; else a few samples, and a fraction of a
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

/// How many allocations the value of `record` is made of, beside the record itself, counted up to
/// `most` or a little beyond. O(most).
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

/// Whether dropping `record` takes so long that a thread which serves clients should leave it to
/// another: some ten microseconds and more. Handing a record over is not free either: it costs a
/// few microseconds of two threads, and memory that comes back on another thread than the one
/// that wants it next. O(1) for strings and small collections.
#[must_use]
pub fn is_long_to_free(record: &Record) -> bool {
    /// Calls of the allocator, each some tens of nanoseconds, and a cache miss or two.
    const PIECES: usize = 128;
    /// Pieces of memory that the allocator gives back to the system at once, on the thread that
    /// frees them (jemalloc: `oversize_threshold`), with some distance.
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

/// About how much work [`duplicate`] is, in elements looked at: those that there are, and for each
/// kilobyte one, since they may be long. O(1) for strings, else as [`memory_about`].
#[must_use]
pub fn duplicate_work(record: &Record) -> usize {
    match Kind::of(record.kind()).type_of() {
        // Short, or shared.
        Type::String => 1,
        Type::List | Type::Set | Type::Zset | Type::Hash | Type::Stream => {
            elements(record).max(memory_about(record) / 1024)
        }
    }
}

/// A record of `key` with the value and the encoding of `record`; `expiry` in Unix milliseconds,
/// `clock` as [`Record::clock`]. Fields of hashes that have expired at `now_ms` are left out. O(1)
/// for strings, O(elements) for collections.
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
    fn what_takes_long_to_free() {
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
    fn memory_is_told_about_right() {
        for record in large(100_000) {
            let (about, exactly) = (memory_about(&record), memory(&record, 0));
            assert!(about > exactly * 3 / 4 && about < exactly * 4 / 3, "{about} {exactly}");
        }
    }

    /// The directives may ask for more than a record can hold.
    #[test]
    fn no_packed_collection_outgrows_its_record() {
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
        // Longer by as much as the first three hold already.
        let (hash, old) = hash::set(hash, &[1], &[b'x'; PACKED_MAX / 2], None, 0, &limits);
        assert_eq!(old, hash::Old::Live);
        let (set, _) = set::add(set, crate::packed::Value::Bytes(&third(4)), &limits);
        zset.change(&third(4), &limits, |_| Some(1.0));
        let kinds = [hash, set, zset.finish(), built].map(|r| Kind::of(r.kind()));
        assert_eq!(kinds, [Kind::HashTable, Kind::SetTable, Kind::ZsetTree, Kind::ZsetTree]);
    }
}
