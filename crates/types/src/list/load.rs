//! Builds a list from saved data: node by node, or element by element.
//!
//! A list that was saved as nodes gets exactly these nodes, since OBJECT ENCODING depends on them.
//! A node too large for a chunk is divided into parts. Finally, a list of one node that is not
//! larger than a listpack may be moves into its record.

use super::chunk::Chunk;
use super::chunks::Chunks;
use super::fill::{FRAME, Fill};
use super::{End, write};
use crate::packed::{COUNT_MAX, Collected, Encoded, Entries, TwoWay};
use crate::{Kind, Limits, Record, boxed};

/// A list that is being loaded.
#[derive(Debug)]
pub struct Load {
    chunks: Chunks,
}

impl Load {
    /// An empty list. `limits` sets the size of nodes for elements that are pushed.
    #[must_use]
    pub fn new(limits: &Limits) -> Load {
        Load { chunks: Chunks::of(Entries::new(&[]), 0, limits) }
    }

    /// The number of elements so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends an element. Amortized O(length).
    pub fn push(&mut self, text: &[u8]) {
        self.chunks.push(End::Right, text);
    }

    /// Adds a node of these elements, unless there are none.
    ///
    /// # Panics
    ///
    /// If there are 2^32 or more.
    pub fn node(&mut self, elements: Collected<TwoWay>) {
        let count = elements.count();
        if count > 0 {
            self.add(Chunk::new(elements.into_bytes().into(), count), count);
        }
    }

    /// Adds an element alone in its node, which stays so.
    pub fn alone(&mut self, text: &[u8]) {
        self.add(Chunk::of_one(&Encoded::of(text), true), 1);
    }

    fn add(&mut self, chunk: Chunk, count: usize) {
        let chunks = &mut self.chunks;
        if let Some(last) = chunks.row.back_mut() {
            last.drop_slack();
        }
        chunks.row.push_back(chunk);
        chunks.len += count;
        let added = 1 + chunks.divide(chunks.row.len() - 1);
        chunks.update_compression(0..0, added);
    }

    /// The record of `key` with this list, which must not be empty. `expiry` is in Unix
    /// milliseconds; `clock` is as in [`Record::clock`]. With `settle`, a list that is short enough
    /// becomes a listpack.
    #[must_use]
    pub fn finish(
        self,
        key: &[u8],
        expiry: Option<i64>,
        clock: u32,
        limits: &Limits,
        settle: bool,
    ) -> Record {
        let mut chunks = self.chunks;
        let fill = Fill::of(limits);
        let one_node = chunks.row.iter().skip(1).all(|chunk| chunk.follows);
        let alone = chunks.row.front().is_some_and(Chunk::is_alone);
        if settle && one_node && !alone {
            let bytes = FRAME + chunks.row.iter().map(Chunk::bytes).sum::<usize>();
            let fits = match fill {
                Fill::Bytes(most) => bytes <= most,
                Fill::Elements(most) => chunks.len <= most,
                Fill::Whole => true,
            };
            if fits && bytes <= fill.most_bytes() && chunks.len <= COUNT_MAX {
                let text: Vec<u8> = chunks.texts().flat_map(|text| text.into_owned()).collect();
                let (kind, payload) = write::in_record(Entries::new(&text), chunks.len);
                return Record::from_bytes(key, expiry, kind as u8, clock, &payload);
            }
            if fits {
                chunks.mark_whole();
            }
        }
        let payload = boxed::store(Box::new(chunks));
        Record::from_bytes(key, expiry, Kind::ListChunks as u8, clock, &payload)
    }
}
