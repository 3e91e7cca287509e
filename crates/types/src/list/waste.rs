//! Memory that a change removed from a list and that is not freed yet.
//!
//! A change of a list runs under the lock of its shard. It frees one or a few small chunks there.
//! More chunks, or a large element, are kept for the lock holder to free after unlock, as the
//! record of a list, since only records can be freed elsewhere.

use super::chunk::Chunk;
use super::chunks::Chunks;
use super::row::Row;
use crate::{Kind, Record, boxed};

/// A chunk of this many bytes is never freed at once.
const LARGE: usize = 16 * 1024;

/// The number of smaller chunks that are freed at once.
const FEW: usize = 8;

/// See the module documentation.
#[derive(Debug, Default)]
pub struct Waste {
    row: Row,
    freed: usize,
}

impl Waste {
    /// Takes a chunk that its list no longer needs.
    #[inline]
    pub(super) fn add(&mut self, chunk: Chunk) {
        if self.freed < FEW && chunk.memory() < LARGE {
            self.freed += 1;
        } else {
            self.row.push_back(chunk);
        }
    }

    /// Takes a row of chunks, which are freed later if they are many. O(pages).
    pub(super) fn add_row(&mut self, row: Row) {
        match row.len() > FEW {
            true => self.row.append(row),
            false => row.into_chunks().for_each(|chunk| self.add(chunk)),
        }
    }

    /// A record without a key that holds the remaining chunks to free, or `None` if there are none.
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
