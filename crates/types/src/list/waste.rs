//! What a change took out of a list and is not freed yet.
//!
//! A change of a list happens under the lock of its shard. The memory of a chunk or two is given
//! back there; more than that, or a large element, is kept for whoever holds the lock to free
//! after it, as the record of a list: nothing else knows how to free chunks.

use super::chunk::Chunk;
use super::chunks::Chunks;
use super::row::Row;
use crate::{Kind, Record, boxed};

/// A chunk of this many bytes is kept.
const LARGE: usize = 16 * 1024;

/// So many smaller chunks are freed at once.
const FEW: usize = 8;

/// See the module's description.
#[derive(Debug, Default)]
pub struct Waste {
    row: Row,
    freed: usize,
}

impl Waste {
    /// Takes a chunk that its list has no more use for.
    #[inline]
    pub(super) fn add(&mut self, chunk: Chunk) {
        if self.freed < FEW && chunk.memory() < LARGE {
            self.freed += 1;
        } else {
            self.row.push_back(chunk);
        }
    }

    /// Takes a row of chunks, which are freed elsewhere if they are many. O(pages).
    pub(super) fn add_row(&mut self, row: Row) {
        match row.len() > FEW {
            true => self.row.append(row),
            false => row.into_chunks().for_each(|chunk| self.add(chunk)),
        }
    }

    /// A record without a key whose value is all that is left to be freed, if anything is.
    /// O(chunks).
    #[inline]
    #[must_use]
    pub fn into_record(self) -> Option<Record> {
        (!self.row.is_empty()).then(|| record_of(self.row))
    }
}

#[cold]
fn record_of(row: Row) -> Record {
    let payload = boxed::store(Box::new(Chunks::of_waste(row)));
    Record::from_bytes(b"", None, Kind::ListChunks as u8, 0, &payload)
}
