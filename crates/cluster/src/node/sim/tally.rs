//! Counts of faults and events, so that tests can see that they happened.

use std::collections::BTreeMap;

/// An event that is counted. Those before [`Count::Acked`] are faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Count {
    LinkCut,
    LinkCutOneWay,
    StoreCut,
    StoreCutToOnly,
    StoreCutFromOnly,
    StoreDown,
    StoreSlow,
    Compaction,
    WatchLost,
    Kill,
    GivenUp,
    Stop,
    StopBeyondLease,
    /// A second process of a node is started, as an operator may who takes the first one for dead.
    RunsTwice,
    Acked,
    LinkReset,
    /// A request reaches the store long after its sender has given up, or its answer is lost.
    Unknown,
    Promotions,
    Takeovers,
    Handovers,
    /// Moves of slots with their keys.
    Copied,
    /// Changes of marks.
    Marked,
    Moved,
    Lost,
    Discarded,
    FullSyncs,
    Promised,
    /// Replicas that have moved to another shard.
    Migrated,
    /// The new primary is a later process of the node that led before.
    LedAgain,
    /// A handshake arrives while the role is being handed over.
    RefusedHandshake,
    /// A primary's process continues after a later process of its node has led.
    OldDataReturn,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Tally(BTreeMap<Count, u64>);

impl Tally {
    pub fn count(&mut self, what: Count) {
        self.count_many(what, 1);
    }

    pub fn count_many(&mut self, what: Count, many: u64) {
        *self.0.entry(what).or_default() += many;
    }

    pub fn of(&self, what: Count) -> u64 {
        self.0.get(&what).copied().unwrap_or(0)
    }

    /// The sum of all faults.
    pub fn faults(&self) -> u64 {
        self.0.range(..Count::Acked).map(|(_, many)| many).sum()
    }

    pub fn add(&mut self, other: &Tally) {
        other.0.iter().for_each(|(what, many)| self.count_many(*what, *many));
    }
}
