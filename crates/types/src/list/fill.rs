//! The capacity of nodes: the directive `list-max-listpack-size`.
//!
//! Valkey stores a list as one listpack or as a row of nodes, and OBJECT ENCODING shows which. So
//! limits here use Valkey's sizes, not those of our memory.

use crate::Limits;
use crate::packed::{Entries, Form, TwoWay};

/// The bytes that Valkey counts for the frame of each node. Our nodes have no frame, but must be
/// full at the same size, since OBJECT ENCODING depends on it.
pub(super) const FRAME: usize = 7;

/// The bytes that Valkey adds to the length of an element to estimate the length of its entry.
const GUESS: usize = 8;

/// The most bytes of a node whose limit is a number of elements.
const SAFE_BYTES: usize = 8192;

/// The capacity of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    Bytes(usize),
    Elements(usize),
    /// Unlimited: Valkey would store the list as one listpack, but it is too large for a record.
    Whole,
}

impl Fill {
    /// The capacity according to `list-max-listpack-size`.
    pub(super) fn of(limits: &Limits) -> Fill {
        match limits.list_size {
            0 => Fill::Elements(1),
            n if n > 0 => Fill::Elements(n as usize),
            n => Fill::Bytes(4096 << (-n - 1).min(4)),
        }
    }

    /// Whether this many bytes, including the frame, and this many elements exceed the capacity.
    #[inline]
    pub(super) fn exceeds(self, bytes: usize, elements: usize) -> bool {
        match self {
            Fill::Bytes(most) => bytes > most,
            Fill::Elements(most) => bytes > SAFE_BYTES || elements > most,
            Fill::Whole => false,
        }
    }

    /// Whether a node with this many bytes of entries and elements has room for a text of this
    /// length.
    #[inline]
    pub(super) fn takes(self, bytes: usize, elements: usize, text: usize) -> bool {
        !self.exceeds(bytes + FRAME + text + GUESS, elements + 1)
    }

    /// Whether an element of this length gets a node of its own, which is never joined.
    #[inline]
    pub(super) fn is_large(self, text: usize) -> bool {
        match self {
            Fill::Bytes(_) | Fill::Elements(_) => text > self.most_bytes(),
            Fill::Whole => false,
        }
    }

    /// Whether Valkey would convert a list with one node of this size, including the frame, to a
    /// listpack.
    pub(super) fn fits_half(self, bytes: usize, elements: usize) -> bool {
        match self {
            Fill::Bytes(most) => bytes <= most / 2,
            Fill::Elements(most) => elements <= most / 2,
            Fill::Whole => true,
        }
    }

    /// Whether a listpack of this many bytes, including the frame, moves back into its record. The
    /// limit is half of that for leaving it, so that between two conversions at least as many bytes
    /// are added or removed as a conversion copies.
    pub(super) fn fits_record(self, bytes: usize) -> bool {
        bytes <= self.most_bytes() / 2
    }

    /// The most bytes of entries for which slack is kept, and up to which neighbours in one node
    /// are joined.
    #[inline]
    pub(super) fn most_bytes(self) -> usize {
        match self {
            Fill::Bytes(most) => most,
            Fill::Elements(_) | Fill::Whole => SAFE_BYTES,
        }
    }
}

/// Bytes of a packed list as Valkey counts them. O(1) with backward lengths, else O(n).
pub(super) fn framed<F: Form>(entries: Entries<'_, F>) -> usize {
    let bytes = if F::BACKWARD { entries.end() } else { entries.len_in::<TwoWay>() };
    bytes + FRAME
}
