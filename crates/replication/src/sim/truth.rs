//! What really happened: all data sets that primaries ever had, as a tree.
//!
//! A data set is what a primary made of another one by a unit; the empty one is the root. A replica that
//! applies a unit to its data must come to a data set that a primary had: so what it shows is always a
//! prefix of some primary's history, and a unit that is torn, left out or applied twice leads nowhere.
//!
//! And two servers at the same place of the same history have the same data, always and everywhere.

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
    last: Data,
    /// Which data were seen at which place of a history.
    places: HashMap<(ReplicationId, u64), Data>,
}

impl Truth {
    /// A primary does this to its data.
    pub fn write(&mut self, data: Data, unit: Unit) -> Data {
        self.last += 1;
        let before = self.next.insert((data, unit), self.last);
        assert!(before.is_none(), "units are told apart");
        self.last
    }

    /// A replica does this to its data.
    pub fn apply(&self, data: Data, unit: &Unit) -> Result<Data, String> {
        let key = (data, unit.clone());
        self.next
            .get(&key)
            .copied()
            .ok_or_else(|| format!("nobody ever did {unit:?} to data {data}"))
    }

    /// A server has these data there.
    pub fn see(&mut self, id: ReplicationId, offset: u64, data: Data) -> Result<(), String> {
        let seen = *self.places.entry((id, offset)).or_insert(data);
        if seen != data {
            return Err(format!("at {offset} of {id:?} are data {seen} and data {data}"));
        }
        Ok(())
    }

    pub fn at(&self, id: ReplicationId, offset: u64) -> Option<Data> {
        self.places.get(&(id, offset)).copied()
    }
}
