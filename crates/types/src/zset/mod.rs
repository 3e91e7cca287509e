//! Zsets.

use crate::Record;

/// The large form.
#[derive(Debug, Clone)]
pub struct Tree {}

/// Elements of the value of `record`. O(1).
pub fn len(_record: &Record) -> usize {
    unreachable!("no record of this type can be made yet")
}

/// See [`crate::value::memory`].
pub fn memory(_record: &Record, _samples: usize) -> usize {
    unreachable!("no record of this type can be made yet")
}

/// See [`crate::value::duplicate`].
pub fn duplicate(_record: &Record, _key: &[u8], _expiry: Option<i64>, _clock: u32) -> Record {
    unreachable!("no record of this type can be made yet")
}
