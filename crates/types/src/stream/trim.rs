//! Which entries trimming keeps, and the blocks that it removes.

use super::block::Block;
use super::{Stream, StreamId};
use crate::{Kind, Record, boxed};

/// The entries to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// MAXLEN: the last entries, up to this many.
    Newest(u64),
    /// MINID: entries with this id or a greater one.
    From(StreamId),
}

/// Options of trimming a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    pub keep: Keep,
    /// `~`: removes only whole blocks.
    pub approximate: bool,
    /// The most entries to remove, in whole blocks too.
    pub limit: Option<u64>,
}

/// The number of blocks that are freed at once, by the thread that removes them.
const FEW: usize = 8;

/// Removed blocks that are not freed yet. If they are many, the holder of the lock releases it
/// first, then frees them as the record of a stream.
#[derive(Debug, Default)]
pub struct Waste {
    blocks: Vec<Block>,
    freed: usize,
}

impl Waste {
    #[inline]
    pub(super) fn add(&mut self, block: Block) {
        if self.freed < FEW {
            self.freed += 1;
        } else {
            self.blocks.push(block);
        }
    }

    /// A record without a key that holds the remaining blocks to free, or `None` if there are none.
    /// O(blocks).
    #[inline]
    #[must_use]
    pub fn into_record(self) -> Option<Record> {
        (!self.blocks.is_empty()).then(|| record_of(self.blocks))
    }
}

#[cold]
fn record_of(blocks: Vec<Block>) -> Record {
    let mut stream = Stream::default();
    blocks.into_iter().for_each(|block| stream.log.blocks.push(block));
    let payload = boxed::store(Box::new(stream));
    Record::from_bytes(b"", None, Kind::Stream as u8, 0, &payload)
}
