//! Walks over the whole table in small steps: SCAN, active expiry, snapshots.
//!
//! # Scan
//!
//! A client scans with a cursor and no other state, while the table grows, splits, shrinks and
//! merges. The guarantee: **an entry that exists from the first step to the last is returned at
//! least once.**
//!
//! Every entry has a *position* that depends only on its hash: its stripe (the top 6 bits of h16)
//! and its prefix (the top 32 bits of the hash). Ordered by stripe, then prefix, positions are the
//! numbers below 2^38, and a cursor is such a number.
//!
//! ```text
//!   cursor:    37        32 31                            0
//!             ┌────────────┬───────────────────────────────┐
//!             │ stripe     │ prefix                        │
//!             └────────────┴───────────────────────────────┘
//!              low 16 bits  top 32 bits of the hash
//!              of the hash
//! ```
//!
//! A step from cursor (s, p) finds the one segment that covers the prefix p; it covers an interval
//! of prefixes, up to q. The step returns all entries of the stripe s in this segment, in any of
//! its buckets. The next cursor is (s, q), or the start of stripe s+1 if q is the end. So a step
//! from c to d returns at least every entry with a position in c..d that exists at that time.
//! Positions never change, and the steps cover the interval from 0 to 2^38 without a gap. So an
//! entry that exists throughout is returned by the step over its position, whatever the shape of
//! the table at each step. QED.
//!
//! An entry is returned twice only if segments merge, so that a step covers
//! prefixes below its cursor.
//!
//! Why stripes, if prefix order alone would suffice? A step would then return a whole segment of
//! some 250 entries and ignore COUNT 10. A stripe of a segment is about four entries. The price is
//! that a full scan visits each segment's header 64 times, in 64 passes over the table. Small
//! tables avoid this: where one segment covers all prefixes, a step takes as many stripes as a
//! bucket has.
//!
//! # Sweep
//!
//! The server's own walks do not need small steps. A sweep walks positions by prefix alone and
//! takes whole segments, each once: better for the caches, with the same guarantee by the same
//! argument.

use std::ops::Range;

use crate::borrow::{RecordMut, RecordRef};
use crate::groups::{GROUP_BITS, group_of, prefixes_of};
use crate::ops::TableMut;
use crate::prefetch::prefetch_read;
use crate::record::{Owner, Record};
use crate::segment::{Place, Segment};
use crate::slot::{Bucket, SLOTS, Word};
use crate::table::KeyHasher;

/// The records that a sweep passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    All,
    /// Records that have an expiry.
    Expiring,
    /// Records with [`MARK`](crate::MARK).
    Marked,
}

impl Which {
    /// The number of such records.
    fn count(self, all: usize, expiring: usize, marked: usize) -> usize {
        match self {
            Which::All => all,
            Which::Expiring => expiring,
            Which::Marked => marked,
        }
    }

    #[inline(always)]
    fn has(self, word: Word) -> bool {
        match self {
            Which::All => true,
            Which::Expiring => word.expiring(),
            Which::Marked => word.marked(),
        }
    }
}

/// Stripes of h16.
const STRIPES: u64 = 64;
/// Values of h16 in a stripe.
const STRIPE: u64 = (1 << 16) / STRIPES;
const PREFIX_BITS: u32 = 32;

/// All cursors of [`TableMut::scan`] are less than this.
pub const CURSOR_END: u64 = STRIPES << PREFIX_BITS;

/// The result of a sweep's decision about a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Keep it.
    Keep,
    /// Remove it.
    Remove,
}

/// The first prefix after those of a segment; 2^32 at the end.
fn end_of(segment: Segment<'_>, prefix: u64) -> u64 {
    let width = PREFIX_BITS - segment.depth();
    ((prefix >> width) + 1) << width
}

impl<O: Owner, H: KeyHasher> TableMut<'_, O, H> {
    /// One step of a scan: calls `f` for a few records and returns the next cursor. Start at 0; the
    /// scan is complete when 0 is returned. Cursors that no step returned are harmless, and large
    /// ones end the scan.
    ///
    /// Every record that exists from the first step to the last is passed at least once, and more
    /// than once only if the table shrinks meanwhile. O(entries of a stripe in a segment): about 4
    /// entries, sometimes none.
    pub fn scan<'s>(&'s self, cursor: u64, f: impl FnMut(RecordRef<'s, O>)) -> u64 {
        self.scan_range(cursor, 0..1 << PREFIX_BITS, f)
    }

    /// One step of a scan over the records of a group: as [`TableMut::scan`], with a cursor of its
    /// own. O(entries of a stripe in a segment); of all stripes in a small table.
    pub fn scan_group<'s>(
        &'s self,
        group: usize,
        cursor: u64,
        mut f: impl FnMut(RecordRef<'s, O>),
    ) -> u64 {
        let hasher = self.hasher();
        let prefixes = prefixes_of(group);
        // A segment that has records of other groups has all records of this one.
        let first = self.segment(prefixes.start << PREFIX_BITS);
        let is_pure = first.is_some_and(|(_, segment)| segment.depth() >= GROUP_BITS);
        self.scan_range(cursor, prefixes, |record| {
            if is_pure || group_of(hasher.hash(record.key())) == group {
                f(record);
            }
        })
    }

    /// A step of a scan over the records whose segments cover one of `prefixes`. The cursor's prefix
    /// counts from their start.
    fn scan_range<'s>(
        &'s self,
        cursor: u64,
        prefixes: Range<u64>,
        mut f: impl FnMut(RecordRef<'s, O>),
    ) -> u64 {
        let stripe = cursor >> PREFIX_BITS;
        let prefix = prefixes.start + (cursor & ((1 << PREFIX_BITS) - 1));
        if cursor >= CURSOR_END || prefix >= prefixes.end {
            return 0;
        }
        let Some((_, segment)) = self.segment(prefix << PREFIX_BITS) else {
            return 0;
        };
        let end = end_of(segment, prefix);
        let width = PREFIX_BITS - segment.depth();
        let covers_all = 1 << width >= prefixes.end - prefixes.start;
        let stripes = if covers_all {
            (STRIPES / segment.buckets.len() as u64).max(1).min(STRIPES - stripe)
        } else {
            1
        };
        let first = (stripe * STRIPE) as u16;
        let last = ((stripe + stripes) * STRIPE - 1) as u16;
        segment.words_between(first, last, |word| {
            if let Some(record) = word.record() {
                // SAFETY: a word in a slot stands for a live record, which is
                // shared while `self` is borrowed.
                f(unsafe { RecordRef::from_raw(record) });
            }
        });
        let next = if end < prefixes.end {
            stripe << PREFIX_BITS | (end - prefixes.start)
        } else {
            (stripe + stripes) << PREFIX_BITS
        };
        if next == CURSOR_END { 0 } else { next }
    }

    /// One step of a walk by the server: passes the records of `which` in one segment and the next
    /// ones until `max_buckets` buckets have been visited, to the end of the segment. Does not
    /// touch other records. `f` decides; records that it removes are passed to `removed`.
    ///
    /// Start at 0; the walk is complete when 0 is returned. Every record that exists throughout is
    /// passed at least once. If a closure panics, the table keeps its state at that moment.
    pub fn sweep(
        &mut self,
        cursor: u64,
        max_buckets: usize,
        which: Which,
        mut f: impl FnMut(RecordMut<'_, O>) -> Verdict,
        mut removed: impl FnMut(Record<O>),
    ) -> u64 {
        let mut prefix = cursor;
        let mut visited = 0;
        while prefix < 1 << PREFIX_BITS {
            if which.count(self.len(), self.expiring(), self.marked()) == 0 {
                return 0;
            }
            let hash = prefix << PREFIX_BITS;
            let Some((_, segment)) = self.segment(hash) else {
                return 0;
            };
            prefix = end_of(segment, prefix);
            if which.count(segment.len(), segment.expiring(), segment.marked()) == 0 {
                visited += 1;
            } else {
                visited += segment.buckets.len();
                self.sweep_segment(segment, which, &mut f, &mut removed);
                if segment.len() * 4 < segment.slots() {
                    self.shrink(hash);
                }
            }
            if visited >= max_buckets {
                break;
            }
        }
        if prefix < 1 << PREFIX_BITS { prefix } else { 0 }
    }

    fn sweep_segment(
        &mut self,
        segment: Segment<'_>,
        which: Which,
        f: &mut impl FnMut(RecordMut<'_, O>) -> Verdict,
        removed: &mut impl FnMut(Record<O>),
    ) {
        prefetch_records(&segment.buckets[0], which);
        for at in 0..segment.buckets.len() {
            if let Some(next) = segment.buckets.get(at + 1) {
                prefetch_records(next, which);
            }
            for slot in 0..SLOTS {
                let place = Place { bucket: at, slot };
                let word = segment.word(place);
                let Some(record) = word.record() else {
                    continue;
                };
                if !which.has(word) {
                    continue;
                }
                // SAFETY: a word in a slot stands for a live record. `self` is borrowed
                // exclusively, and no other borrow of the record exists.
                match f(unsafe { RecordMut::from_raw(record) }) {
                    Verdict::Keep => {}
                    Verdict::Remove => {
                        if let Some(record) = self.vacate(segment, place) {
                            if let Some(groups) = &self.table.groups {
                                groups.sub(self.table.hasher.hash(record.key()));
                            }
                            removed(record);
                        }
                    }
                }
            }
        }
    }

    /// Calls `f` for every record.
    pub fn for_each<'s>(&'s self, mut f: impl FnMut(RecordRef<'s, O>)) {
        for segment in self.segments() {
            for bucket in segment.buckets {
                prefetch_records(bucket, Which::All);
                for record in bucket.words().filter_map(Word::record) {
                    // SAFETY: a word in a slot stands for a live record, which
                    // is shared while `self` is borrowed.
                    f(unsafe { RecordRef::from_raw(record) });
                }
            }
        }
    }

    /// All segments, in the order of prefixes.
    pub(crate) fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        // SAFETY: the directory and the segments live while `self` is borrowed shared, since they
        // are only replaced through `&mut self`.
        unsafe { self.root().segments() }
            // SAFETY: likewise, and the slots hold live records.
            .map(|word| unsafe { word.view() })
    }
}

/// Prefetches the start of each record of a bucket.
fn prefetch_records(bucket: &Bucket, which: Which) {
    for word in bucket.words() {
        if let Some(record) = word.record()
            && which.has(word)
        {
            prefetch_read(record.as_ptr());
        }
    }
}
