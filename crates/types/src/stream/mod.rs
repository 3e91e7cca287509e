//! Streams: entries with ascending ids, and groups of consumers that read them.
//!
//! ```text
//!  Stream   payload ──► Stream { log, groups }
//!                                │
//!                                └► blocks in order of id   [block][block] ... [block]
//!                                                            up to 100 entries, 4 KiB
//! ```
//!
//! | file | holds |
//! |---|---|
//! | [`id`] | ids, their texts and their order |
//! | [`log`] | all entries: adding, walking, deleting, trimming |
//! | [`block`] | a run of entries in one piece of memory |
//! | [`index`] | the blocks in order |
//! | [`trim`] | options of trimming, and blocks to free |
//! | [`nodes`] | the size of Valkey's tree, for XINFO |
//! | [`groups`] | consumer groups |
//!
//! A block ends where a node of Valkey's tree would end (`stream-node-max-bytes` and
//! `stream-node-max-entries`): trimming with `~` removes whole nodes, and clients see which. A
//! stream of a few entries is its record, this struct, and one block.

mod block;
mod entry;
pub mod groups;
mod id;
mod index;
mod log;
mod nodes;
#[cfg(test)]
mod tests;
mod trim;
mod varint;

use crate::{Kind, Record, boxed};
pub use entry::{Entry, Pairs};
use groups::Groups;
pub use id::{IdText, StreamId, Wanted};
pub use log::{Back, Log, Range, TooLarge};
pub use trim::{Keep, Trim, Waste};

/// The value of a stream.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    pub log: Log,
    /// `None` if there never was a group.
    pub groups: Option<Box<Groups>>,
}

impl Stream {
    /// The stream of `record`, or `None` when it holds another type.
    #[inline]
    pub fn of(record: &Record) -> Option<&Stream> {
        is_stream(record)
            // SAFETY: a Stream payload holds a box of that type, made by `record`.
            .then(|| unsafe { boxed::view::<Stream>(record.payload()) })
    }

    /// The stream of `record`, mutable, or `None` when it holds another type.
    #[inline]
    pub fn of_mut(record: &mut Record) -> Option<&mut Stream> {
        is_stream(record)
            // SAFETY: as in `of`; the borrow of the record is exclusive.
            .then(|| unsafe { boxed::view_mut::<Stream>(record.payload_mut()) })
    }

    /// A record of `key` with this stream. `expiry` is in Unix milliseconds; `clock` is as in
    /// [`Record::clock`].
    pub fn into_record(self, key: &[u8], expiry: Option<i64>, clock: u32) -> Record {
        let payload = boxed::store(Box::new(self));
        Record::from_bytes(key, expiry, Kind::Stream as u8, clock, &payload)
    }
}

#[inline]
fn is_stream(record: &Record) -> bool {
    match Kind::of(record.kind()) {
        Kind::Stream => true,
        Kind::StrEmbedded | Kind::StrRaw | Kind::StrInt => false,
        Kind::StrBlob | Kind::StrPieces => false,
        Kind::ListPacked | Kind::ListTwoWay | Kind::ListChunks => false,
        Kind::SetInts | Kind::SetPacked | Kind::SetTable => false,
        Kind::ZsetPacked | Kind::ZsetTree | Kind::HashPacked | Kind::HashTable => false,
    }
}

/// The stream of a record, which must hold one.
fn stream(record: &Record) -> &Stream {
    Stream::of(record).expect("a stream")
}

/// The number of entries of the stream of `record`. O(1).
pub fn len(record: &Record) -> usize {
    usize::try_from(stream(record).log.len()).unwrap_or(usize::MAX)
}

/// See [`crate::value::memory`].
pub fn memory(record: &Record, samples: usize) -> usize {
    let stream = stream(record);
    let groups = stream.groups.as_ref().map_or(0, |groups| size_of::<Groups>() + groups.memory());
    record.alloc_size() + size_of::<Stream>() + stream.log.memory(samples) + groups
}

/// See [`crate::value::pieces`].
pub(crate) fn pieces(record: &Record, most: usize) -> usize {
    let stream = stream(record);
    1 + stream.log.blocks.pieces() + stream.groups.as_ref().map_or(0, |groups| groups.pieces(most))
}

/// See [`crate::value::duplicate`].
pub fn duplicate(record: &Record, key: &[u8], expiry: Option<i64>, clock: u32) -> Record {
    stream(record).clone().into_record(key, expiry, clock)
}
