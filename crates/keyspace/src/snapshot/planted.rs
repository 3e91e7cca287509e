//! Faults that the simulation and the models inject, to show that they would detect them. Outside
//! of this crate's own tests there are none, and the checks for them are compiled away.

/// The kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A key created after the cut is not recorded as such.
    NewcomersForgotten,
    /// A writer hands over an image of a key that the walk has passed.
    CursorIgnored,
    /// A sweep does not hand over the expired keys that it removes.
    SweepsForgotten,
    /// Walks do not follow when databases are exchanged.
    SwapsForgotten,
    /// Emptied tables are dropped.
    FlushesForgotten,
    /// Long commands ignore that a snapshot is about to begin.
    WishesIgnored,
    /// Writers do not wait when the snapshot is full.
    WritersNotHeld,
    /// Charges stay on the account after visitors have finished.
    ChargesForgotten,
    /// A step shows the part of a segment before the cursor again.
    MergesIgnored,
}

#[cfg(any(test, loom))]
pub mod plant {
    use super::Fault;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    /// Injects a fault on this thread, or none.
    pub fn set(fault: Option<Fault>) {
        PLANTED.set(fault);
    }

    pub(super) fn get() -> Option<Fault> {
        PLANTED.get()
    }
}

/// Whether this fault is injected.
#[cfg(any(test, loom))]
pub(crate) fn is(fault: Fault) -> bool {
    plant::get() == Some(fault)
}

/// Whether this fault is injected.
#[cfg(not(any(test, loom)))]
#[inline(always)]
pub(crate) const fn is(_fault: Fault) -> bool {
    false
}
