//! Figures about a table for DEBUG HTSTATS.

use std::fmt;

use crate::ops::TableMut;
use crate::record::Owner;
use crate::slot::SLOTS;
use crate::table::KeyHasher;

/// Displacements up to this one have separate counters. The last counter includes all larger ones.
pub const DISPLACEMENTS: usize = 8;

/// The shape of a table at one moment. Its `Display` is a few lines of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records in the table.
    pub len: usize,
    /// Records with an expiry.
    pub expiring: usize,
    /// Segments.
    pub segments: usize,
    /// Leading bits of the hash that index the directory.
    pub depth: u32,
    /// Slots in all segments.
    pub capacity: usize,
    /// Bytes of directory and segments.
    pub memory: usize,
    /// The number of records 0, 1, 2 ... buckets after their home bucket.
    pub displaced: [usize; DISPLACEMENTS],
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, " records: {} ({} with expiry)", self.len, self.expiring)?;
        writeln!(f, " segments: {}, directory depth: {}", self.segments, self.depth)?;
        let percent = 100 * self.len / self.capacity.max(1);
        writeln!(f, " slots: {} ({percent}% full)", self.capacity)?;
        writeln!(f, " bytes apart from the records: {}", self.memory)?;
        writeln!(f, " records by distance from their home bucket:")?;
        for (distance, count) in self.displaced.iter().enumerate() {
            let more = if distance + 1 == DISPLACEMENTS { "+" } else { "" };
            writeln!(f, "   {distance}{more}: {count}")?;
        }
        Ok(())
    }
}

impl<O: Owner, H: KeyHasher> TableMut<'_, O, H> {
    /// Reads every slot, but no records: O(capacity).
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            len: self.len(),
            expiring: self.expiring(),
            depth: self.root().depth(),
            memory: self.memory_usage(),
            ..Stats::default()
        };
        for segment in self.segments() {
            stats.segments += 1;
            stats.capacity += segment.buckets.len() * SLOTS;
            for (at, bucket) in segment.buckets.iter().enumerate() {
                for word in bucket.words().filter(|word| !word.is_empty()) {
                    let distance = segment.displacement(word, at);
                    stats.displaced[distance.min(DISPLACEMENTS - 1)] += 1;
                }
            }
        }
        stats
    }
}
