//! Faults that the simulation plants, to show that it finds them. Outside of this crate's tests the
//! checks for them are compiled away.

/// A planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A lease counts from its answer.
    DeadlineFromAnswer,
    /// A promotion doesn't compare the primary's lease key.
    LeaseNotCompared,
    /// A primary counts without a replica before its removal has committed.
    ListShortenedEarly,
    /// A primary waits for an added replica after the addition has committed.
    AdditionCountedLate,
    /// A replica follows a primary of an older epoch.
    OldEpochAccepted,
    /// The new owner serves slots before the handover has committed.
    SlotsServedEarly,
    /// The owner doesn't suspend slots before it hands them over.
    SlotsNotSuspended,
    /// An unknown outcome counts as a failure.
    UnknownIsFailure,
    /// A replica that loads may be promoted.
    LoadingPromoted,
    /// A replica that has restarted counts as the one that was listed.
    RestartForgotten,
    /// A primary that has restarted leads again.
    RestartedLeads,
    /// A node serves before it has seen all changes up to its lease key.
    ViewNotAwaited,
    /// A candidate follows on while its promotion may commit.
    CandidateFollows,
    /// A restarted node replaces the lease key of its earlier process.
    LeaseKeyReplaced,
    /// A replica that has promised not to tries a promotion.
    PromiseBroken,
    /// One promise is enough to continue without a lease.
    OnePromiseEnough,
    /// A replica is listed before it has all confirmed writes.
    ListedBehind,
    /// A replica that is not listed may be promoted.
    UnlistedPromoted,
    /// A primary hands over before its last commands have ended.
    DrainNotAwaited,
    /// A primary gives a copy to a replica while that may get its role.
    CopyWhileYielding,
    /// A replica moves to another shard, though its own keeps too few.
    MigrationBarrierIgnored,
    /// A restarted primary leads again with the data of another incarnation than the last one.
    DurableForgotten,
    /// A new primary of a shard doesn't know the marks of SETSLOT.
    MarksLostByFailover,
    /// A slot that moves keeps its marks.
    MarksKeptByMove,
    /// One replica that has a write is enough to confirm it.
    OneAckEnough,
    /// A new primary lists a replica that lacks data of its predecessor.
    InheritedNotConfirmed,
    /// A primary serves again while the transaction that gives its role away is possible.
    ServesWhileYielding,
    /// A transaction counts as settled with its answer, before its effect is seen.
    SettledByAnswer,
    /// A candidate promises not to try a promotion.
    CandidatePromises,
    /// A promise counts from its answer.
    PromiseFromAnswer,
    /// CLUSTER FAILOVER FORCE promotes a replica that isn't listed.
    ForceTakesUnlisted,
    /// Slots are taken from a primary that continues without a lease.
    TakenFromContinuing,
    /// Slots with keys move though a primary has changed since the copy began.
    MovedAfterFailover,
    /// Transactions don't compare the sender's lease key.
    OwnKeyNotCompared,
    /// An ordered failover makes a node primary that has moved to another shard.
    HandedToLeaver,
    /// A node joins a shard without a change that a transaction of its primary compares.
    JoinedUnseen,
    /// Slots count as suspended if those of an earlier handover with this id were.
    HandoverIdTrusted,
    /// The reply to a request comes before the actions that put its effect into force.
    RepliedEarly,
}

/// Whether this fault is planted.
#[cfg(test)]
pub(crate) fn is(fault: Fault) -> bool {
    plant::get() == Some(fault)
}

/// Whether this fault is planted.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn is(_fault: Fault) -> bool {
    false
}

#[cfg(test)]
pub mod plant {
    use super::Fault;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    /// Plants a fault on this thread, or removes it.
    pub fn set(fault: Option<Fault>) {
        PLANTED.set(fault);
    }

    pub(super) fn get() -> Option<Fault> {
        PLANTED.get()
    }
}
