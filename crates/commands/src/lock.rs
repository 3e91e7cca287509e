//! The locks of a command on keys.

/// The locks that a command needs.
#[derive(Clone, Copy, Debug)]
pub enum Lock {
    /// The shards of the command's keys.
    Keys,
    /// All shards: the world is stopped.
    World,
    /// All shards that the slow lane does not hold, and the key counts of the others.
    Rest,
    /// The names of all keys at one moment: a stopped world in the fast lane, a cut in the slow
    /// lane.
    Names,
    /// The shards of the keys at the positions that the function returns. All shards if it returns
    /// `None`, because the arguments do not determine the keys.
    Named(fn(&[&[u8]]) -> Option<Vec<usize>>),
    /// The shards from the one in SCAN's cursor on, until they have enough keys.
    ScanRange,
}
