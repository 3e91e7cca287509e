//! The last part of the stream, kept for replicas that lag behind.
//!
//! ```text
//!        start                                                        end
//!          ├────────────┬────────────┬─────┬──┬┐
//!  dropped │   block    │   block    │     │  ││  appended here
//!          └────────────┴────────────┴─────┴──┴┘
//!                 ▲ cursor of a replica
//! ```
//!
//! One sequence of blocks serves all replicas and all partial resynchronizations. Blocks are
//! immutable, so a sender holds one (`Arc`) without a lock. Each append adds a block. Two
//! neighbours at the end are joined while the younger is at least as large, as in a binary counter.
//! So a byte is copied at most a logarithmic number of times, and only in small appends. There are
//! few blocks: all but the last dozen are at least half of [`Backlog::block_bytes`].
//!
//! Whole blocks are dropped from the front while the rest is at least the configured size, but
//! never a block that a replica still needs. A replica's output limit (`primary/attached.rs`) bounds
//! its lag: memory is the greater of the two, plus a block.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use weft_resp::Blob;

use crate::planted::{self, Fault};

/// Maximum size of a block in bytes.
const BLOCK_MAX: usize = 64 << 10;
/// Smaller blocks are joined, whatever the size of the backlog.
const BLOCK_MIN: usize = 256;
/// Overhead of a block in bytes: reference counts, and its entry.
const BLOCK_COST: usize = 16 + size_of::<Vec<u8>>() + size_of::<Block>();

#[derive(Clone, Debug)]
struct Block {
    /// Offset of its first byte in the stream.
    start: u64,
    bytes: Blob,
}

impl Block {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// A part of the stream to send, held without a copy.
#[derive(Clone, Debug)]
pub struct Piece {
    bytes: Blob,
    skip: usize,
}

impl Piece {
    /// The whole block, if all of it may be sent.
    #[must_use]
    pub fn whole(&self) -> Option<&Blob> {
        (self.skip == 0).then_some(&self.bytes)
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.skip..]
    }
}

/// The kept part of the stream.
#[derive(Debug)]
pub struct Backlog {
    blocks: VecDeque<Block>,
    /// Range of the stream that is kept.
    kept: Range<u64>,
    /// Minimum number of bytes to keep, once that many were written.
    size: u64,
}

impl Backlog {
    /// Returns an empty backlog at offset `start` of the stream. `size` in bytes.
    #[must_use]
    pub fn new(start: u64, size: u64) -> Backlog {
        Backlog { blocks: VecDeque::new(), kept: start..start, size }
    }

    /// Offsets of the first kept byte and of the next byte to be written.
    #[must_use]
    pub fn kept(&self) -> Range<u64> {
        self.kept.clone()
    }

    /// Minimum number of bytes to keep.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Memory in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        (self.kept.end - self.kept.start) as usize + self.blocks.len() * BLOCK_COST
    }

    /// Sets the size in bytes, which the next [`Backlog::trim`] applies.
    pub fn resize(&mut self, size: u64) {
        self.size = size;
    }

    fn block_bytes(&self) -> usize {
        usize::try_from(self.size / 16).unwrap_or(BLOCK_MAX).clamp(BLOCK_MIN, BLOCK_MAX)
    }

    /// Appends bytes. Amortized O(bytes * log(block / bytes)).
    pub fn append(&mut self, mut bytes: &[u8]) {
        let most = self.block_bytes();
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(most));
            self.blocks.push_back(Block { start: self.kept.end, bytes: Arc::new(now.to_vec()) });
            self.kept.end += now.len() as u64;
            bytes = later;
        }
        self.join(most);
    }

    /// Joins the youngest blocks while each is no smaller than its predecessor.
    fn join(&mut self, most: usize) {
        while self.blocks.len() >= 2 {
            let (before, last) =
                (&self.blocks[self.blocks.len() - 2], &self.blocks[self.blocks.len() - 1]);
            let length = before.bytes.len() + last.bytes.len();
            if before.bytes.len() > last.bytes.len() || length > most {
                return;
            }
            let bytes = Arc::new([&before.bytes[..], &last.bytes[..]].concat());
            let joined = Block { start: before.start, bytes };
            self.blocks.truncate(self.blocks.len() - 2);
            self.blocks.push_back(joined);
        }
    }

    /// Drops the blocks beyond the size that no reader needs. `needed` is the offset of the slowest
    /// reader. O(blocks dropped).
    pub fn trim(&mut self, needed: Option<u64>) {
        let spare = if planted::is(Fault::BacklogShort) { self.size / 2 } else { self.size };
        while let Some(first) = self.blocks.front() {
            let end = first.end();
            if self.kept.end - end < spare || needed.is_some_and(|needed| needed < end) {
                return;
            }
            self.kept.start = end;
            self.blocks.pop_front();
        }
    }

    /// Returns the bytes for a reader at `offset`: up to `most`, or slightly more, so that no block
    /// is split. Empty if the reader has everything. `None` if its offset is not in the backlog,
    /// because it lags too far behind or is ahead. O(log(blocks) + pieces).
    #[must_use]
    pub fn read_at(&self, offset: u64, most: usize) -> Option<Vec<Piece>> {
        if offset < self.kept.start || offset > self.kept.end {
            return None;
        }
        let first = self.blocks.partition_point(|block| block.end() <= offset);
        let (mut pieces, mut bytes) = (Vec::new(), 0);
        for block in self.blocks.range(first..) {
            if bytes >= most {
                break;
            }
            let skip = offset.saturating_sub(block.start) as usize;
            bytes += block.bytes.len() - skip;
            pieces.push(Piece { bytes: Arc::clone(&block.bytes), skip });
        }
        Some(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_base::rng::Rng;

    fn text(backlog: &Backlog, offset: u64) -> Option<Vec<u8>> {
        let pieces = backlog.read_at(offset, usize::MAX)?;
        Some(pieces.iter().flat_map(|piece| piece.as_ref().to_vec()).collect())
    }

    #[test]
    fn reads_at_any_offset_return_the_written_bytes() {
        let mut rng = Rng::new(7);
        let (mut backlog, mut all) = (Backlog::new(1000, 2000), Vec::new());
        let mut needed = None;
        for round in 0..400 {
            let bytes: Vec<u8> = (0..rng.below(90)).map(|_| rng.next_u64() as u8).collect();
            backlog.append(&bytes);
            all.extend(&bytes);
            let end = 1000 + all.len() as u64;
            if round % 50 == 0 {
                needed = (rng.below(2) == 0)
                    .then_some(backlog.kept().start.max(end - end.min(rng.below(4000))));
            }
            backlog.trim(needed);
            let kept = backlog.kept();
            assert_eq!(kept.end, end);
            assert!(kept.end - kept.start >= 2000.min(all.len() as u64), "at least the size");
            if let Some(needed) = needed {
                assert!(kept.start <= needed, "needed blocks are kept");
            } else {
                assert!(kept.end - kept.start <= 2000 + backlog.block_bytes() as u64);
            }
            let at = kept.start + rng.below(kept.end - kept.start + 1);
            assert_eq!(text(&backlog, at).as_deref(), Some(&all[(at - 1000) as usize..]));
            assert_eq!(text(&backlog, kept.end + 1), None);
            assert!(kept.start == 1000 || text(&backlog, kept.start - 1).is_none());
        }
    }

    #[test]
    fn small_appends_make_few_blocks() {
        let mut backlog = Backlog::new(0, 1 << 20);
        for _ in 0..100_000 {
            backlog.append(b"*1\r\n$4\r\nPING\r\n");
            backlog.trim(None);
        }
        assert!(backlog.blocks.len() < 64, "{} blocks", backlog.blocks.len());
        assert!(backlog.memory() < (1 << 20) + BLOCK_MAX + 64 * BLOCK_COST);
    }

    #[test]
    fn pieces_are_immutable() {
        let mut backlog = Backlog::new(0, 16);
        backlog.append(b"abc");
        let piece = backlog.read_at(1, 10).expect("kept").remove(0);
        for _ in 0..1000 {
            backlog.append(b"def");
            backlog.trim(None);
        }
        assert_eq!(piece.as_ref(), b"bc");
        assert_eq!(text(&backlog, 1), None);
        backlog.resize(0);
        backlog.trim(None);
        assert_eq!((backlog.kept(), backlog.memory()), (3003..3003, 0));
    }

    #[test]
    fn reads_end_between_blocks() {
        let mut backlog = Backlog::new(0, 1 << 20);
        backlog.append(&[7; 3 * BLOCK_MAX]);
        let lengths = |most| -> Vec<usize> {
            let pieces = backlog.read_at(5, most).expect("kept");
            pieces.iter().map(|piece| piece.as_ref().len()).collect()
        };
        assert_eq!(lengths(1), [BLOCK_MAX - 5]);
        assert_eq!(lengths(BLOCK_MAX), [BLOCK_MAX - 5, BLOCK_MAX]);
        assert_eq!(lengths(usize::MAX).len(), 3);
    }
}
