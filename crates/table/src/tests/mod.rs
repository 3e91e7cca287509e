//! White-box tests: owners and hashers for testing, and a check of all invariants that hold between
//! two operations on a table.
//!
//! Sizes are smaller under Miri, which finds undefined behaviour within a few minutes:
//!
//! ```text
//! MIRIFLAGS="-Zmiri-tree-borrows -Zmiri-permissive-provenance -Zmiri-ignore-leaks" \
//!     cargo +nightly miri test -p weft-table --lib
//! ```
//!
//! Tree borrows, since the list of threads in `crossbeam-epoch` violates stacked borrows.
//! Permissive provenance, since that crate and [`Token`] turn integers into pointers. No leak
//! check, since the last retired blocks are never collected ([`Token`] detects leaked records). The
//! threads also run under ThreadSanitizer:
//!
//! ```text
//! RUSTFLAGS=-Zsanitizer=thread cargo +nightly test -Zbuild-std \
//!     --target x86_64-unknown-linux-gnu -p weft-table --lib threads
//! ```

mod model;
mod panics;
mod record;
mod scan;
mod threads;
mod walk;

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use proptest::prelude::*;

use crate::borrow::RecordRef;
use crate::directory::Root;
use crate::groups::{GROUP_BITS, GROUPS, group_of, grouped};
use crate::ops::TableMut;
use crate::record::{MARK, Owner, Record};
use crate::scan::Which;
use crate::segment::{Place, SegmentWord, home};
use crate::slot::{SLOTS, h16};
use crate::table::{KeyHasher, Table};

/// Payloads of this kind own the reference that [`Token::payload`] put there.
pub(crate) const TOKEN: u8 = 1;
/// Payloads of this kind own nothing.
pub(crate) const PLAIN: u8 = 0;

/// An owner whose payloads of kind [`TOKEN`] hold a counted reference. A payload dropped twice or
/// never shows in the count.
pub(crate) struct Counted;

impl Owner for Counted {
    unsafe fn drop_payload(kind: u8, payload: &mut [u8]) {
        if kind == TOKEN {
            // SAFETY: payloads of this kind are made by `Token::payload`.
            drop(unsafe { Token::from_payload(payload) });
        }
    }
}

/// Counts its copies, including those in payloads.
#[derive(Clone, Default)]
pub(crate) struct Token(Arc<()>);

impl Token {
    /// The bytes of a payload that owns a copy.
    pub(crate) fn payload(&self) -> [u8; 8] {
        let copy = Arc::into_raw(Arc::clone(&self.0));
        copy.expose_provenance().to_ne_bytes()
    }

    /// # Safety
    ///
    /// The bytes came from `payload` and are used only once.
    unsafe fn from_payload(payload: &[u8]) -> Token {
        let address = usize::from_ne_bytes(payload[..8].try_into().unwrap());
        // SAFETY: the address is that of an Arc that `payload` leaked and whose provenance it
        // exposed.
        Token(unsafe { Arc::from_raw(std::ptr::with_exposed_provenance(address)) })
    }

    /// The number of payloads that own a copy.
    pub(crate) fn owned(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }

    /// A record, marked if [`is_marked`] says so.
    pub(crate) fn record(&self, key: &[u8], expiry: Option<i64>) -> Record<Counted> {
        marked(Record::from_bytes(key, expiry, TOKEN, 0, &self.payload()))
    }
}

/// Whether records with this key and this expiry are marked in these tests.
pub(crate) fn is_marked(n: u32, expiry: Option<i64>) -> bool {
    (n + u32::from(expiry.is_some())).is_multiple_of(3)
}

/// Whether a sweep of `which` passes a record with this key and this expiry.
pub(crate) fn shown(which: Which, n: u32, expiry: Option<i64>) -> bool {
    match which {
        Which::All => true,
        Which::Expiring => expiry.is_some(),
        Which::Marked => is_marked(n, expiry),
    }
}

pub(crate) fn which() -> impl Strategy<Value = Which> {
    prop::sample::select(vec![Which::All, Which::Expiring, Which::Marked])
}

/// The record with the mark for its key, if the key is a number.
pub(crate) fn marked(mut record: Record<Counted>) -> Record<Counted> {
    if let Ok(n) = record.key().try_into() {
        let n = u32::from_le_bytes(n);
        record.set_owner_flags(if is_marked(n, record.expiry()) { MARK } else { 0 });
    }
    record
}

/// Hashers of various quality. A key is a number of 4 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hasher {
    /// All bits are good.
    Good,
    /// Five values of h16: buckets overflow far, counters become sticky.
    FewHomes,
    /// h16 is always zero, as in an empty slot.
    ZeroHome,
    /// The first 7 bits are zero: a deep directory, most of whose entries are below one word.
    Deep,
    /// A tenth of the keys is in group 0, all others in group 37.
    Grouped,
}

pub(crate) fn mix(n: u64) -> u64 {
    let mut x = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl KeyHasher for Hasher {
    fn hash(&self, key: &[u8]) -> u64 {
        let number = u32::from_le_bytes(key.try_into().expect("keys of 4 bytes"));
        let hash = mix(u64::from(number));
        match self {
            Hasher::Good => hash,
            Hasher::FewHomes => (hash & !0xffff) | ((hash & 0xffff) % 5 * 13_000),
            Hasher::ZeroHome => hash & !0xffff,
            Hasher::Deep => hash >> 7,
            Hasher::Grouped => grouped(hash, if number.is_multiple_of(10) { 0 } else { 37 }),
        }
    }

    fn is_grouped(&self) -> bool {
        *self == Hasher::Grouped
    }
}

pub(crate) type TestTable = Table<Counted, Hasher>;

pub(crate) fn key(n: u32) -> [u8; 4] {
    n.to_le_bytes()
}

/// Random numbers, the same in every run.
pub(crate) fn rng(seed: u64) -> impl FnMut() -> u64 {
    let mut n = seed << 32;
    move || {
        n += 1;
        mix(n)
    }
}

pub(crate) fn keys_of<H: KeyHasher>(table: &TableMut<'_, Counted, H>) -> Vec<u32> {
    let mut keys = Vec::new();
    table.for_each(|record| keys.push(number(record)));
    keys.sort_unstable();
    keys
}

pub(crate) fn number(record: RecordRef<'_, Counted>) -> u32 {
    u32::from_le_bytes(record.key().try_into().unwrap())
}

/// Panics unless all invariants hold.
pub(crate) fn check<H: KeyHasher>(table: &TableMut<'_, Counted, H>) {
    let root = table.root();
    let mut found = Found::default();
    let mut group_words = 0;
    if root.is_forest() {
        let mut at = 0;
        while at < GROUPS {
            // SAFETY: the table is borrowed, so its directories live.
            let group = unsafe { root.group(at) };
            group_words += group.len();
            at += match group.depth() {
                0 => found.segment(table, SegmentWord::from_raw(group.into_raw()), root, at, 0),
                _ => {
                    let start = (at as u64) << (32 - GROUP_BITS);
                    found.directory(table, group, start, GROUP_BITS);
                    1
                }
            };
        }
        assert!(group_words > 0, "a forest has a group with a directory");
    } else if root.depth() > 0 {
        found.directory(table, root, 0, 0);
    } else if !root.is_empty() {
        found.segment(table, SegmentWord::from_raw(root.into_raw()), root, 0, 0);
    }
    assert_eq!(table.len(), found.len);
    assert_eq!((table.expiring(), table.marked()), (found.expiring, found.marked));
    assert_eq!(table.memory_usage(), root.bytes() + 8 * group_words + found.bytes);
    assert_eq!(table.table.segments.get(), found.segments);
    if root.depth() > 0 && !root.is_forest() {
        assert_eq!(table.table.deepest.get(), found.deepest);
    }
    if table.hasher().is_grouped() {
        assert!(root.depth() <= GROUP_BITS);
        let mut counts = [0; GROUPS];
        table.for_each(|record| counts[group_of(table.hasher().hash(record.key()))] += 1);
        assert!((0..GROUPS).all(|group| table.group_len(group) == counts[group]));
    }
}

/// Sums over the segments of a table.
#[derive(Default)]
struct Found {
    len: usize,
    expiring: usize,
    marked: usize,
    segments: usize,
    deepest: usize,
    bytes: usize,
}

impl Found {
    /// Checks a directory for the hashes that begin as the prefix `start` in `skip` bits.
    fn directory<H: KeyHasher>(
        &mut self,
        table: &TableMut<'_, Counted, H>,
        root: Root,
        start: u64,
        skip: u32,
    ) {
        // SAFETY: the table is borrowed, so its directories live.
        let words = unsafe { root.words() };
        let mut at = 0;
        while at < words.len() {
            let word = SegmentWord::from_raw(words[at].load(Ordering::Relaxed));
            let share = self.segment(table, word, root, at, skip);
            let first = (at as u64) << (32 - skip - root.depth());
            // SAFETY: it is a segment of the table, which is borrowed.
            let depth = unsafe { word.view() }.depth();
            // SAFETY: likewise.
            let located = unsafe { table.root().locate((start | first) << 32, Ordering::Relaxed) };
            assert!(located == word && depth >= skip);
            at += share;
        }
    }

    /// Checks a segment, which is the word `at` of `root`. Returns in how many words it is.
    fn segment<H: KeyHasher>(
        &mut self,
        table: &TableMut<'_, Counted, H>,
        word: SegmentWord,
        root: Root,
        at: usize,
        skip: u32,
    ) -> usize {
        // SAFETY: it is a segment of the table, which is borrowed.
        let segment = unsafe { word.view() };
        let depth = segment.depth() - skip;
        assert!(depth <= root.depth());
        let share = 1 << (root.depth() - depth);
        assert_eq!(at % share, 0, "a segment starts at a multiple of its share");
        // SAFETY: the table is borrowed, so its directories live.
        let words = unsafe { root.words() };
        for same in &words[at.min(words.len())..(at + share).min(words.len())] {
            assert!(SegmentWord::from_raw(same.load(Ordering::Relaxed)) == word);
        }
        check_segment(table.hasher(), segment, |hash| {
            words.is_empty() || root.index(hash << skip) / share == at / share
        });
        self.len += segment.len();
        self.expiring += segment.expiring();
        self.marked += segment.marked();
        self.bytes += word.bytes();
        self.segments += 1;
        self.deepest += usize::from(depth == root.depth());
        share
    }
}

fn check_segment<H: KeyHasher>(
    hasher: H,
    segment: crate::segment::Segment<'_>,
    belongs: impl Fn(u64) -> bool,
) {
    let count = segment.buckets.len();
    let (mut len, mut expiring, mut marked) = (0, 0, 0);
    let mut displaced = vec![0; count];
    let mut seen = HashSet::new();
    for bucket in 0..count {
        for slot in 0..SLOTS {
            let word = segment.word(Place { bucket, slot });
            let Some(record) = word.record() else {
                continue;
            };
            // SAFETY: records in slots are alive.
            let record = unsafe { RecordRef::<Counted>::from_raw(record) };
            let hash = hasher.hash(record.key());
            assert!(belongs(hash), "entry in the segment of another prefix");
            assert_eq!(word.h16(), h16(hash));
            assert_eq!(word.expiring(), record.has_expiry());
            assert_eq!(word.marked(), record.owner_flags() & MARK != 0);
            assert!(seen.insert(record.key().to_vec()), "key twice in the table");
            len += 1;
            expiring += usize::from(word.expiring());
            marked += usize::from(word.marked());
            let mut at = home(word.h16(), count);
            while at != bucket {
                displaced[at] += 1;
                at = (at + 1) % count;
            }
        }
    }
    assert_eq!(segment.len(), len);
    assert_eq!((segment.expiring(), segment.marked()), (expiring, marked));
    for (at, &count) in displaced.iter().enumerate() {
        let counter = usize::from(segment.displaced(at));
        assert!(counter == count || counter == 255, "{counter} displaced instead of {count}");
    }
}

thread_local! {
    /// If set, [`Touchy`] panics after this many calls.
    pub(crate) static FUSE: Cell<Option<u32>> = const { Cell::new(None) };
}

/// A good hasher that can be made to panic.
#[derive(Clone, Copy)]
pub(crate) struct Touchy;

impl KeyHasher for Touchy {
    fn hash(&self, key: &[u8]) -> u64 {
        match FUSE.get() {
            Some(0) => panic!("the hasher panics as planned"),
            Some(n) => FUSE.set(Some(n - 1)),
            None => {}
        }
        Hasher::Good.hash(key)
    }
}
