//! How much the pieces of a list may hold: what `list-max-listpack-size` says.
//!
//! The reference has a list as one listpack or as a row of nodes, and OBJECT ENCODING tells which;
//! so what fits where is decided here by its sizes, not by those of our memory.

use crate::Limits;
use crate::packed::{Entries, Form, TwoWay};

/// What the reference counts for the frame of each of its nodes (bytes). Here there is none, but
/// where a node is full must be the same, since OBJECT ENCODING depends on it.
pub(super) const FRAME: usize = 7;

/// What the reference adds to the length of an element to guess the length of its entry.
const GUESS: usize = 8;

/// The most bytes of a node whose limit is a number of elements.
const SAFE_BYTES: usize = 8192;

/// How much a node may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    Bytes(usize),
    Elements(usize),
    /// Everything: the list is one listpack to the reference, but too large for a record.
    Whole,
}

impl Fill {
    /// What `list-max-listpack-size` says.
    pub(super) fn of(limits: &Limits) -> Fill {
        match limits.list_size {
            0 => Fill::Elements(1),
            n if n > 0 => Fill::Elements(n as usize),
            n => Fill::Bytes(4096 << (-n - 1).min(4)),
        }
    }

    /// Whether entries of so many bytes, frame included, and so many elements are too much.
    #[inline]
    pub(super) fn exceeds(self, bytes: usize, elements: usize) -> bool {
        match self {
            Fill::Bytes(most) => bytes > most,
            Fill::Elements(most) => bytes > SAFE_BYTES || elements > most,
            Fill::Whole => false,
        }
    }

    /// Whether a node of so many bytes of entries and so many elements takes a text of this
    /// length besides.
    #[inline]
    pub(super) fn takes(self, bytes: usize, elements: usize, text: usize) -> bool {
        !self.exceeds(bytes + FRAME + text + GUESS, elements + 1)
    }

    /// Whether an element of this length is kept in a node of its own, which nothing joins.
    #[inline]
    pub(super) fn is_large(self, text: usize) -> bool {
        match self {
            Fill::Bytes(_) | Fill::Elements(_) => text > self.most_bytes(),
            Fill::Whole => false,
        }
    }

    /// Whether a list of one node of this size, frame included, is a listpack again to the
    /// reference.
    pub(super) fn fits_half(self, bytes: usize, elements: usize) -> bool {
        match self {
            Fill::Bytes(most) => bytes <= most / 2,
            Fill::Elements(most) => elements <= most / 2,
            Fill::Whole => true,
        }
    }

    /// Whether a listpack of so many bytes, frame included, goes back into its record: half of
    /// what makes it leave, so that as many bytes come or go between two conversions as a
    /// conversion copies.
    pub(super) fn fits_record(self, bytes: usize) -> bool {
        bytes <= self.most_bytes() / 2
    }

    /// The most bytes of entries for which slack is kept, and of which neighbours in one node
    /// make one chunk.
    #[inline]
    pub(super) fn most_bytes(self) -> usize {
        match self {
            Fill::Bytes(most) => most,
            Fill::Elements(_) | Fill::Whole => SAFE_BYTES,
        }
    }
}

/// Bytes of a packed list as the reference counts them. O(1) with backward lengths, else O(n).
pub(super) fn framed<F: Form>(entries: Entries<'_, F>) -> usize {
    let bytes = if F::BACKWARD { entries.end() } else { entries.len_in::<TwoWay>() };
    bytes + FRAME
}
