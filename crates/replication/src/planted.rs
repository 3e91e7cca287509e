//! Faults that the simulation plants, to show that it finds them. Outside of this crate's tests the
//! checks for them are compiled away.

/// A planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The second id is valid beyond the offset at which the histories diverge.
    SecondIdForever,
    /// The backlog keeps less than configured.
    BacklogShort,
    /// A promoted replica keeps its primary's id.
    IdNotShifted,
    /// Received bytes count as applied.
    AcksReceived,
    /// Transactions are applied command by command.
    TornTransactions,
    /// A replica asks for a continuation after its data were dropped for a copy that failed.
    DroppedDataClaimed,
    /// Replicas of a replica stay connected when the id changes.
    ChainNotCut,
    /// A position has no selected database.
    DatabaseForgotten,
    /// Events of a closed connection count for the next one.
    LateAnswersCount,
    /// Writes that are not in the backlog don't end a history.
    UnkeptWritesIgnored,
    /// A primary hands over while writes of its clients are in progress.
    PauseNotAwaited,
    /// Unresponsive replicas are never disconnected.
    NoTimeouts,
    /// A copy replaces the data of a candidate.
    CopyNotAsked,
    /// The stream of an old epoch is applied.
    OldEpochApplied,
    /// A replica acknowledges data before it reports them to its shard.
    ReportedLate,
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
