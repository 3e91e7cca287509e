//! What trimming keeps, and what it throws away.

use super::block::Block;
use super::{Stream, StreamId};
use crate::{Kind, Record, boxed};

/// What is to be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// MAXLEN: so many entries, the last ones.
    Newest(u64),
    /// MINID: those with this id and later ones.
    From(StreamId),
}

/// How a stream is trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    pub keep: Keep,
    /// Only whole blocks go: `~`.
    pub approximate: bool,
    /// The most entries that may go; whole blocks, too.
    pub limit: Option<u64>,
}

/// So many blocks are freed at once, by whoever removes them.
const FEW: usize = 8;

/// Blocks that were removed and are not freed yet: if they are many, whoever holds the lock frees
/// them after it, as the record of a stream.
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

    /// A record without a key whose value is all that is left to be freed, if anything is.
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
