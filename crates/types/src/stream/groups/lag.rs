//! The read position of a group, counted in entries.
//!
//! A stream counts the entries ever added, and a group those that it has read. The difference is
//! its lag. Deleting entries from the middle breaks the count, since an id no longer determines how
//! many entries precede it. The stream stores only the greatest deleted id (a *tombstone*): entries
//! after it can be counted, and for a few ids the number is known anyway. Everything else is
//! unknown, which clients see as null.

use crate::stream::{Log, StreamId};

/// The ids and counts of a stream that determine lags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of entries.
    pub length: u64,
    /// The number of entries ever added.
    pub entries_added: u64,
    /// The greatest id ever added.
    pub last_id: StreamId,
    /// The least id of an entry; [`StreamId::MIN`] if there are none.
    pub first_id: StreamId,
    /// The greatest id deleted by XDEL; [`StreamId::MIN`] if there is none.
    pub max_deleted_id: StreamId,
}

impl Counts {
    /// The current ids and counts of `log`.
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

    /// Whether an entry at or after `id` may have been deleted.
    pub fn has_tombstone_from(&self, id: StreamId) -> bool {
        self.length > 0 && self.has_deletions() && id <= self.max_deleted_id
    }

    /// The number of entries ever added up to and including `id`, if known.
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
        // Entries removed from the front are counted; entries removed from the middle are not.
        let is_whole = !self.has_deletions() || self.max_deleted_id < self.first_id;
        let before = added.wrapping_sub(self.length as i64);
        match id.cmp(&self.first_id) {
            std::cmp::Ordering::Less if is_whole => Some(before),
            std::cmp::Ordering::Equal if is_whole => Some(before.wrapping_add(1)),
            _ => None,
        }
    }

    /// The number of entries after `last_id`, for a group that has counted `entries_read`.
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

    /// A stream of entries 1 to 5, some of which are deleted.
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
    fn distances_are_known_at_the_ends_of_a_stream() {
        let whole = stream(5, 1, 0);
        let told = [0, 1, 2, 5, 6].map(|ms| whole.distance_from_first(id(ms)));
        assert_eq!(told, [Some(0), Some(1), None, Some(5), None]);
        let trimmed = stream(3, 3, 0);
        let told = [0, 1, 2, 3, 4, 5].map(|ms| trimmed.distance_from_first(id(ms)));
        assert_eq!(told, [Some(2), Some(2), Some(2), Some(3), None, Some(5)]);
    }

    #[test]
    fn distance_is_unknown_before_a_tombstone() {
        let holed = stream(4, 1, 3);
        let told = [0, 1, 3, 4, 5].map(|ms| holed.distance_from_first(id(ms)));
        assert_eq!(told, [None, None, None, None, Some(5)]);
        // Deleting the first entry has the same effect as trimming it, except for older ids.
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
        assert_eq!(holed.lag(id(4), Some(4)), Some(1), "the group is past the tombstone");
        let emptied = stream(0, 0, 5);
        assert_eq!(emptied.lag(id(3), None), Some(0));
        assert_eq!(emptied.lag(id(9), None), None);
        assert_eq!(Counts::default().lag(id(9), None), Some(0));
    }
}
