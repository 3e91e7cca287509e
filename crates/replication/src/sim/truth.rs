//! The expected states: all data sets that primaries ever had, as a tree.
//!
//! A data set results from a unit that a primary applied to another data set; the root is the empty
//! one. A replica that applies a unit must reach a data set that a primary had. So its data are
//! always a prefix of a primary's history. A unit that is torn, skipped or applied twice leads to
//! no known data set.
//!
//! In addition, two servers at the same offset of the same history have the same data.

use crate::id::ReplicationId;
use std::collections::HashMap;

/// A data set.
pub(super) type Data = u32;
/// Databases and numbers of a unit's commands.
pub(super) type Unit = Vec<(u32, u32)>;

pub(super) const EMPTY: Data = 0;

#[derive(Default)]
pub(super) struct Truth {
    next: HashMap<(Data, Unit), Data>,
    /// The data set from which each one results.
    before: HashMap<Data, Data>,
    last: Data,
    /// The data seen at each offset of a history.
    places: HashMap<(ReplicationId, u64), Data>,
}

impl Truth {
    /// A primary applies this unit to its data.
    pub fn write(&mut self, data: Data, unit: Unit) -> Data {
        self.last += 1;
        let before = self.next.insert((data, unit), self.last);
        assert!(before.is_none(), "units are unique");
        self.before.insert(self.last, data);
        self.last
    }

    /// A replica applies this unit to its data.
    pub fn apply(&self, data: Data, unit: &Unit) -> Result<Data, String> {
        let key = (data, unit.clone());
        self.next
            .get(&key)
            .copied()
            .ok_or_else(|| format!("no primary applied {unit:?} to data {data}"))
    }

    /// A server has these data at this offset.
    pub fn see(&mut self, id: ReplicationId, offset: u64, data: Data) -> Result<(), String> {
        let seen = *self.places.entry((id, offset)).or_insert(data);
        if seen != data {
            return Err(format!("at {offset} of {id:?} are data {seen} and data {data}"));
        }
        Ok(())
    }

    /// Whether all writes of `part` are in `data`.
    pub fn is_part(&self, part: Data, mut data: Data) -> bool {
        while data != part {
            match self.before.get(&data) {
                Some(before) => data = *before,
                None => return false,
            }
        }
        true
    }

    pub fn at(&self, id: ReplicationId, offset: u64) -> Option<Data> {
        self.places.get(&(id, offset)).copied()
    }
}
