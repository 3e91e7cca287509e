//! The bytes of a string of any form: in one place or in [pieces](Pieces).
//!
//! Code that may handle a large string walks its slices. [`Text::to_whole`] is for short strings
//! and for rare commands outside the I/O threads.

use super::Pieces;
use std::borrow::Cow;
use std::ops::Range;

/// The bytes of a string, in one place or in several.
#[derive(Clone, Copy, Debug)]
pub enum Text<'a> {
    Whole(&'a [u8]),
    Pieces(&'a Pieces),
}

impl<'a> Text<'a> {
    pub fn len(self) -> usize {
        match self {
            Text::Whole(bytes) => bytes.len(),
            Text::Pieces(pieces) => pieces.len(),
        }
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The contiguous bytes from `at` on; empty at or after the end.
    #[inline]
    pub fn slice_from(self, at: usize) -> &'a [u8] {
        match self {
            Text::Whole(bytes) => bytes.get(at..).unwrap_or_default(),
            Text::Pieces(pieces) => pieces.slice_from(at),
        }
    }

    /// The byte at `at`.
    #[inline]
    pub fn get(self, at: usize) -> Option<u8> {
        self.slice_from(at).first().copied()
    }

    /// The parts of `range`, which must be in the string, in order.
    pub fn slices(self, range: Range<usize>) -> impl Iterator<Item = &'a [u8]> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let slice = self.slice_from(at);
            let slice = &slice[..slice.len().min(range.end.saturating_sub(at))];
            at += slice.len();
            (!slice.is_empty()).then_some(slice)
        })
    }

    /// All parts, in order.
    pub fn all(self) -> impl Iterator<Item = &'a [u8]> {
        self.slices(0..self.len())
    }

    /// Whether the bytes equal `other`.
    pub fn equals(self, other: &[u8]) -> bool {
        match self {
            Text::Whole(bytes) => bytes == other,
            Text::Pieces(pieces) => {
                let mut rest = other;
                pieces.len() == other.len()
                    && pieces.slices(0..pieces.len()).all(|slice| {
                        let (part, after) = rest.split_at(slice.len());
                        rest = after;
                        slice == part
                    })
            }
        }
    }

    /// The bytes in one place, copied if they are in several.
    pub fn to_whole(self) -> Cow<'a, [u8]> {
        match self {
            Text::Whole(bytes) => Cow::Borrowed(bytes),
            Text::Pieces(pieces) => Cow::Owned(pieces.to_vec()),
        }
    }
}

/// The bytes of a string that is being edited.
#[derive(Debug)]
pub enum TextMut<'a> {
    Whole(&'a mut [u8]),
    Pieces(&'a mut Pieces),
}

impl TextMut<'_> {
    /// Overwrites the bytes at `at` with `bytes`.
    ///
    /// # Panics
    ///
    /// If `bytes` don't fit into the string.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        match self {
            TextMut::Whole(all) => all[at..at + bytes.len()].copy_from_slice(bytes),
            TextMut::Pieces(pieces) => pieces.write(at, bytes),
        }
    }

    /// The byte at `at`, which must be in the string.
    pub fn byte(&self, at: usize) -> u8 {
        match self {
            TextMut::Whole(all) => all[at],
            TextMut::Pieces(pieces) => pieces.slice_from(at)[0],
        }
    }
}
