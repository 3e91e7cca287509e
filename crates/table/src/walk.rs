//! A walk that passes each record once, for snapshots.
//!
//! The *position* of a record is the prefix of its hash, the top 32 bits. A walk covers the
//! positions from 0 to 2^32 in pieces, and passes in each piece exactly the records whose positions
//! are in it. Positions never change, so a record that exists throughout is passed exactly once,
//! whatever the shape of the table is at each piece. Merged segments may hold records of earlier
//! and later pieces; the walk skips those.
//!
//! Records need to be filtered only if a piece is not a whole number of segments: then keys are
//! hashed. [`TableMut::piece`] returns the end of a segment, so a walk that continues from there
//! usually hashes nothing.
//!
//! Compare `scan.rs`, whose walks keep no state but may pass a record twice.

use std::ops::Range;

use crate::borrow::RecordRef;
use crate::detached::Detached;
use crate::ops::TableMut;
use crate::prefetch::prefetch_read;
use crate::record::Owner;
use crate::segment::Segment;
use crate::table::KeyHasher;

/// The end of the positions: one more than the largest.
pub const POSITIONS: u64 = 1 << 32;

/// The position of a hash.
#[inline]
#[must_use]
pub fn position(hash: u64) -> u64 {
    hash >> 32
}

impl<O: Owner, H: KeyHasher> TableMut<'_, O, H> {
    /// The positions of the segment that covers `at`, which must be less than [`POSITIONS`]; `None`
    /// in an empty table. O(1).
    #[must_use]
    pub fn piece(&self, at: u64) -> Option<Range<u64>> {
        self.segment(at << 32).map(|(_, segment)| span(segment, at))
    }

    /// Passes the records with positions in `from..to` to `f`. O(entries of these segments).
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

    /// See [`TableMut::between`]. `H` is the hasher of the table from which this was taken.
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

/// The positions that a segment covers, including `at`.
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
            // SAFETY: a word in a slot stands for a live record, which is shared while the borrow
            // of `locate` lasts.
            let record = unsafe { RecordRef::<O>::from_raw(record) };
            if is_inside || (from..to).contains(&position(hasher.hash(record.key()))) {
                f(record);
            }
        }
        at = span.end;
    }
}
