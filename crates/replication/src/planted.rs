//! Faults that the simulation plants, to show that it would find them. Outside of this crate's own
//! tests there are none, and what asks for them is compiled away.

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The second id is good for bytes beyond the place where the histories part.
    SecondIdForever,
    /// Less is kept than was asked for.
    BacklogShort,
    /// A replica that was promoted goes on under its primary's id.
    IdNotShifted,
    /// What was received counts as applied.
    AcksWhatCame,
    /// Transactions are applied command by command.
    TornTransactions,
    /// A replica asks for a continuation though its data were dropped for a copy that failed.
    DroppedDataClaimed,
    /// Replicas of a replica stay when the id changes.
    ChainNotCut,
    /// A place in a stream says nothing of the database that is selected there.
    DatabaseForgotten,
    /// Answers about a connection that is gone count for the next one.
    LateAnswersCount,
    /// Writes that nobody kept do not end a history.
    UnkeptWritesIgnored,
    /// A primary hands over while writes of its clients are under way.
    PauseNotAwaited,
    /// A replica that is not answering is kept for ever.
    NoTimeouts,
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

    /// Plants a fault on this thread, or none.
    pub fn set(fault: Option<Fault>) {
        PLANTED.set(fault);
    }

    pub(super) fn get() -> Option<Fault> {
        PLANTED.get()
    }
}
