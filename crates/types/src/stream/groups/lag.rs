//! How far a group has read, counted in entries.
//!
//! A stream counts the entries that it ever got, a group those that it has read: the difference is
//! its lag. Entries that were deleted from the middle break the count, since an id then no longer
//! tells how many entries came before it. The stream remembers only the greatest id that was deleted
//! (a *tombstone*): what is behind that can be counted, and a few ids tell their place by themselves.
//! Everything else is unknown, which clients see as null.

use crate::stream::{Log, StreamId};

/// What a stream knows of its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Entries that it has.
    pub length: u64,
    /// Entries that it ever got.
    pub entries_added: u64,
    /// The greatest id that it ever had.
    pub last_id: StreamId,
    /// The least id that it has; the least of all without entries.
    pub first_id: StreamId,
    /// The greatest id that was deleted by name; the least of all if none was.
    pub max_deleted_id: StreamId,
}

impl Counts {
    /// What `log` knows now.
    pub fn of(log: &Log) -> Self {
        Counts {
            length: log.len(),
            entries_added: log.entries_added,
            last_id: log.last_id,
            first_id: log.first_id(),
            max_deleted_id: log.max_deleted_id,
        }
    }

    fn has_deletions(&self) -> bool {
        self.max_deleted_id != StreamId::MIN
    }

    /// Whether an entry at or behind `id` may have been deleted.
    pub fn has_tombstone_from(&self, id: StreamId) -> bool {
        self.length > 0 && self.has_deletions() && id <= self.max_deleted_id
    }

    /// How many entries there ever were up to `id`, itself included, if that can be told.
    pub fn distance_from_first(&self, id: StreamId) -> Option<i64> {
        let added = self.entries_added as i64;
        if added == 0 || (self.length == 0 && id <= self.last_id) {
            return Some(added);
        }
        if (id != StreamId::MIN && id < self.max_deleted_id) || id > self.last_id {
            return None;
        }
        if id == self.last_id {
            return Some(added);
        }
        // Those that went from the front are counted; those that went from the middle are not.
        let is_whole = !self.has_deletions() || self.max_deleted_id < self.first_id;
        let before = added.wrapping_sub(self.length as i64);
        match id.cmp(&self.first_id) {
            std::cmp::Ordering::Less if is_whole => Some(before),
            std::cmp::Ordering::Equal if is_whole => Some(before.wrapping_add(1)),
            _ => None,
        }
    }

    /// How many entries are behind `last_id`, of a group that has counted `entries_read`.
    pub(super) fn lag(&self, last_id: StreamId, entries_read: Option<i64>) -> Option<i64> {
        let added = self.entries_added as i64;
        if added == 0 {
            return Some(0);
        }
        let counted = entries_read.filter(|_| !self.has_tombstone_from(last_id));
        let read = counted.or_else(|| self.distance_from_first(last_id))?;
        Some(added.wrapping_sub(read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ms: u64) -> StreamId {
        StreamId { ms, seq: 0 }
    }

    /// Entries 1 to 5, of which some are gone.
    fn stream(length: u64, first: u64, deleted: u64) -> Counts {
        Counts {
            length,
            entries_added: 5,
            last_id: id(5),
            first_id: id(first),
            max_deleted_id: id(deleted),
        }
    }

    #[test]
    fn a_whole_stream_tells_its_ends() {
        let whole = stream(5, 1, 0);
        let told = [0, 1, 2, 5, 6].map(|ms| whole.distance_from_first(id(ms)));
        assert_eq!(told, [Some(0), Some(1), None, Some(5), None]);
        let trimmed = stream(3, 3, 0);
        let told = [0, 1, 2, 3, 4, 5].map(|ms| trimmed.distance_from_first(id(ms)));
        assert_eq!(told, [Some(2), Some(2), Some(2), Some(3), None, Some(5)]);
    }

    #[test]
    fn a_deletion_hides_what_comes_before_it() {
        let holed = stream(4, 1, 3);
        let told = [0, 1, 3, 4, 5].map(|ms| holed.distance_from_first(id(ms)));
        assert_eq!(told, [None, None, None, None, Some(5)]);
        // The first entry was deleted: that is as if it had been trimmed, but for older ids.
        let headless = stream(4, 2, 1);
        let told = [0, 1, 2, 3].map(|ms| headless.distance_from_first(id(ms)));
        assert_eq!(told, [Some(1), Some(1), Some(2), None]);
    }

    #[test]
    fn lag_is_counted_or_estimated() {
        let whole = stream(5, 1, 0);
        assert_eq!(whole.lag(id(2), Some(2)), Some(3));
        assert_eq!(whole.lag(id(2), None), None);
        assert_eq!(whole.lag(id(0), None), Some(5));
        let holed = stream(4, 1, 3);
        assert_eq!(holed.lag(id(2), Some(2)), None, "a tombstone ahead");
        assert_eq!(holed.lag(id(4), Some(4)), Some(1), "it is behind the tombstone");
        let emptied = stream(0, 0, 5);
        assert_eq!(emptied.lag(id(3), None), Some(0));
        assert_eq!(emptied.lag(id(9), None), None);
        assert_eq!(Counts::default().lag(id(9), None), Some(0));
    }
}
