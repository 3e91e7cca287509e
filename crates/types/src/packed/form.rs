//! Whether entries can be walked backwards: a type parameter, so that the two forms never mix.

use super::{Entries, Value};
use smallvec::SmallVec;

/// A form of entries.
///
/// | | [`OneWay`] | [`TwoWay`] |
/// |---|---|---|
/// | after an entry | nothing | its length, readable backwards |
/// | from the last entry to the first | all are listed first | step by step |
pub trait Form: Copy + std::fmt::Debug + 'static {
    /// Whether each entry is followed by a backward length.
    const BACKWARD: bool;

    /// See [`Form::back`].
    type Back<'a>: Iterator<Item = (usize, Value<'a>)>;

    /// The entries, with their offsets, from the last to the first.
    fn back(entries: Entries<'_, Self>) -> Self::Back<'_>;
}

/// Entries without backward lengths.
#[derive(Clone, Copy, Debug)]
pub struct OneWay;

/// Entries with backward lengths.
#[derive(Clone, Copy, Debug)]
pub struct TwoWay;

impl Form for OneWay {
    const BACKWARD: bool = false;
    type Back<'a> = Listed<'a>;

    fn back(entries: Entries<'_, OneWay>) -> Listed<'_> {
        let offsets = entries.offsets().map(|at| u32::try_from(at).expect("a record's payload"));
        Listed { offsets: offsets.collect(), entries }
    }
}

impl Form for TwoWay {
    const BACKWARD: bool = true;
    type Back<'a> = Steps<'a>;

    #[inline]
    fn back(entries: Entries<'_, TwoWay>) -> Steps<'_> {
        Steps { entries, end: entries.end() }
    }
}

/// Entries from the last to the first, whose offsets a forward pass has listed.
#[derive(Clone, Debug)]
pub struct Listed<'a> {
    entries: Entries<'a, OneWay>,
    /// Offsets not yet returned, in ascending order.
    offsets: SmallVec<[u32; 32]>,
}

impl<'a> Iterator for Listed<'a> {
    type Item = (usize, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let at = self.offsets.pop()? as usize;
        Some((at, self.entries.get(at)))
    }
}

/// Entries from the last to the first, by their backward lengths.
#[derive(Clone, Debug)]
pub struct Steps<'a> {
    entries: Entries<'a, TwoWay>,
    end: usize,
}

impl<'a> Iterator for Steps<'a> {
    type Item = (usize, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.end == 0 {
            return None;
        }
        self.end = before(self.entries.bytes(), self.end);
        Some((self.end, self.entries.get(self.end)))
    }
}

/// Bytes of the backward length that follows an entry with `front` bytes of head and data.
#[inline]
#[must_use]
pub const fn back_len<F: Form>(front: usize) -> usize {
    match front {
        _ if !F::BACKWARD => 0,
        0..=0x7f => 1,
        0x80..=0x3fff => 2,
        0x4000..=0x1f_ffff => 3,
        0x20_0000..=0xfff_ffff => 4,
        _ => 5,
    }
}

/// Writes the backward length `front` into `to`, which has exactly its size: groups of 7 bits, the
/// lowest last. Bit 7 says that another group precedes.
pub(super) fn write_back(front: usize, to: &mut [u8]) {
    let groups = to.len();
    for (n, byte) in to.iter_mut().rev().enumerate() {
        let more = if n + 1 < groups { 0x80 } else { 0 };
        *byte = (front >> (7 * n)) as u8 & 0x7f | more;
    }
}

/// The offset of the entry whose backward length ends at `end`, which must not be 0.
#[inline]
pub(super) fn before(bytes: &[u8], end: usize) -> usize {
    let mut front = 0;
    let mut shift = 0;
    let mut at = end;
    loop {
        at -= 1;
        let group = bytes[at];
        front |= usize::from(group & 0x7f) << shift;
        if group & 0x80 == 0 {
            return at - front;
        }
        shift += 7;
    }
}
