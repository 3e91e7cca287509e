//! Picks records at random: RANDOMKEY, and samples for eviction.
//!
//! Picking takes two draws, a word of the directory, then a slot in its segment, repeated until the
//! slot is occupied. A segment in more words is drawn more often, in proportion to its share of the
//! hash space. So every record has nearly the same probability; the bias is the difference between
//! the actual and the expected number of entries of a segment, a few percent. (Drawing a new
//! segment after every empty slot would be worse: it would halve the probability of every record in
//! a newly split segment.)

use crate::borrow::RecordRef;
use crate::groups::grouped;
use crate::ops::TableMut;
use crate::record::Owner;
use crate::segment::{Place, Segment};
use crate::slot::{SLOTS, Word};
use crate::table::KeyHasher;

/// Draws of a segment before walking to the next one that is not empty.
const SEGMENT_TRIES: usize = 32;
/// Draws of a slot before walking to the next one that is occupied. A segment is at least a quarter
/// full unless it is tiny, so one in 10^8 picks needs the walk.
const SLOT_TRIES: usize = 64;
/// A sample visits at most this many buckets for each record wanted.
const SAMPLE_BUCKETS: usize = 16;

/// A number less than `n`, from 64 random bits.
fn below(n: usize, random: u64) -> usize {
    // The high half of the product: uniform but for a part in 2^64 / n.
    ((u128::from(random) * n as u128) >> 64) as usize
}

/// The first hash after those that share `depth` bits with `hash`; zero follows the last.
fn after(hash: u64, depth: u32) -> u64 {
    let width = 64 - depth;
    let prefix = hash.checked_shr(width).unwrap_or(0);
    prefix.wrapping_add(1).checked_shl(width).unwrap_or(0)
}

impl<'t, O: Owner, H: KeyHasher> TableMut<'t, O, H> {
    /// A random record; `rng` returns 64 random bits per call. `None` only in an empty table. O(1)
    /// unless the table is nearly empty.
    pub fn random(&self, rng: &mut impl FnMut() -> u64) -> Option<RecordRef<'_, O>> {
        if self.is_empty() {
            return None;
        }
        let drawn = (0..SEGMENT_TRIES).find_map(|_| self.occupied(self.draw(rng)));
        let segment = drawn.or_else(|| self.segments().find(|segment| segment.len() > 0))?;
        let mut at = 0;
        for _ in 0..SLOT_TRIES {
            at = below(segment.slots(), rng());
            if let Some(record) = self.record_at(segment, at) {
                return Some(record);
            }
        }
        (at..segment.slots()).chain(0..at).find_map(|at| self.record_at(segment, at))
    }

    /// Calls `f` for up to `n` neighbouring records, starting at a random bucket. Their positions
    /// are not independent, but determined by the hash, so they are a fair sample. Fewer than `n`
    /// if the table has no more, or is nearly empty. Each at most once. O(n).
    pub fn sample<'s>(
        &'s self,
        n: usize,
        rng: &mut impl FnMut() -> u64,
        mut f: impl FnMut(RecordRef<'s, O>),
    ) {
        let mut hash = self.draw(rng);
        let Some((start, mut segment)) = self.segment(hash) else {
            return;
        };
        let start_bucket = below(segment.buckets.len(), rng());
        let mut bucket = start_bucket;
        let mut left = n;
        for _ in 0..n.saturating_mul(SAMPLE_BUCKETS) {
            for record in segment.buckets[bucket].words().filter_map(Word::record) {
                if left == 0 {
                    return;
                }
                left -= 1;
                // SAFETY: a word in a slot stands for a live record, which is
                // shared while `self` is borrowed.
                f(unsafe { RecordRef::from_raw(record) });
            }
            bucket += 1;
            if bucket == segment.buckets.len() {
                bucket = 0;
                hash = after(hash, segment.depth());
                match self.segment(hash) {
                    Some((_, next)) => segment = next,
                    None => return,
                }
            }
            let back =
                bucket == start_bucket && self.segment(hash).is_some_and(|(word, _)| word == start);
            if back {
                return;
            }
        }
    }

    /// A random hash. Groups are drawn in proportion to their records: a table may have records of
    /// one group only.
    fn draw(&self, rng: &mut impl FnMut() -> u64) -> u64 {
        match &self.table.groups {
            None => rng(),
            Some(groups) => grouped(rng(), groups.group_at(below(self.len(), rng()))),
        }
    }

    fn occupied(&self, hash: u64) -> Option<Segment<'t>> {
        let (_, segment) = self.segment(hash)?;
        (segment.len() > 0).then_some(segment)
    }

    fn record_at(&self, segment: Segment<'_>, at: usize) -> Option<RecordRef<'_, O>> {
        let record = segment.word(Place { bucket: at / SLOTS, slot: at % SLOTS }).record()?;
        // SAFETY: a word in a slot stands for a live record, which is shared
        // while `self` is borrowed.
        Some(unsafe { RecordRef::from_raw(record) })
    }
}
