//! A walk that shows each record once: what a snapshot is made with.
//!
//! The *position* of a record is the prefix of its hash, the top 32 bits. A walk goes over the
//! positions from 0 to 2^32 in pieces, and shows in each piece the records whose positions lie in
//! it, and no others. Positions never change, so a record that is there all the time is shown
//! exactly once, whatever the shape of the table is at each piece: segments that merge bring
//! records before a piece and after it together, but those outside of it are left out.
//!
//! Which records are outside is asked only where a piece is not a whole number of segments: keys
//! are hashed for it. [`TableMut::piece`] returns the end of a segment, so that a walk that
//! continues from there hashes nothing as a rule.
//!
//! Compare `scan.rs`, whose walks need no memory of what they have shown but may show a record
//! twice.

use std::ops::Range;

use crate::borrow::RecordRef;
use crate::detached::Detached;
use crate::ops::TableMut;
use crate::prefetch::prefetch_read;
use crate::record::Owner;
use crate::segment::Segment;
use crate::table::KeyHasher;

/// Where the positions end: one more than the largest.
pub const POSITIONS: u64 = 1 << 32;

/// The position of a hash.
#[inline]
#[must_use]
pub fn position(hash: u64) -> u64 {
    hash >> 32
}

impl<O: Owner, H: KeyHasher> TableMut<'_, O, H> {
    /// The positions of the segment that covers `at`, which is below [`POSITIONS`]; `None` in an
    /// empty table. O(1).
    #[must_use]
    pub fn piece(&self, at: u64) -> Option<Range<u64>> {
        self.segment(at << 32).map(|(_, segment)| span(segment, at))
    }

    /// Shows the records with positions in `from..to`. O(entries of the segments in question).
    pub fn between<'s>(&'s self, from: u64, to: u64, f: impl FnMut(RecordRef<'s, O>)) {
        let locate = |prefix: u64| self.segment(prefix << 32).map(|(_, segment)| segment);
        between(self.hasher(), from, to, locate, f);
    }
}

impl<O: Owner> Detached<O> {
    /// See [`TableMut::piece`].
    #[must_use]
    pub fn piece(&self, at: u64) -> Option<Range<u64>> {
        self.segment(at << 32).map(|segment| span(segment, at))
    }

    /// See [`TableMut::between`]; the hasher is that of the table from which this was taken.
    pub fn between<'s, H: KeyHasher>(
        &'s self,
        hasher: H,
        from: u64,
        to: u64,
        f: impl FnMut(RecordRef<'s, O>),
    ) {
        between(hasher, from, to, |prefix| self.segment(prefix << 32), f);
    }
}

/// The positions that a segment covers, of which `at` is one.
fn span(segment: Segment<'_>, at: u64) -> Range<u64> {
    let width = 32 - segment.depth();
    let start = at >> width << width;
    start..start + (1 << width)
}

fn between<'s, O: Owner + 's, H: KeyHasher>(
    hasher: H,
    from: u64,
    to: u64,
    locate: impl Fn(u64) -> Option<Segment<'s>>,
    mut f: impl FnMut(RecordRef<'s, O>),
) {
    let to = to.min(POSITIONS);
    let mut at = from;
    while at < to {
        let Some(segment) = locate(at) else { return };
        let span = span(segment, at);
        let is_inside = from <= span.start && span.end <= to;
        let words = || segment.words().filter_map(|word| word.record());
        words().for_each(|record| prefetch_read(record.as_ptr()));
        for record in words() {
            // SAFETY: a word in a slot stands for a live record, which is shared while what
            // `locate` borrows is borrowed.
            let record = unsafe { RecordRef::<O>::from_raw(record) };
            if is_inside || (from..to).contains(&position(hasher.hash(record.key()))) {
                f(record);
            }
        }
        at = span.end;
    }
}
