//! Faults that the simulation and the models plant, to show that they would find them. Outside of
//! this crate's own tests there are none, and what asks for them is compiled away.

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nobody remembers that a key was not there at the cut.
    NewcomersForgotten,
    /// Who writes behind the cursor hands over an image, too.
    CursorIgnored,
    /// What a sweep of expired keys removes is not handed over.
    SweepsForgotten,
    /// Walks stay where they are when databases are exchanged.
    SwapsForgotten,
    /// Emptied tables are let go.
    FlushesForgotten,
    /// Long commands do not ask whether a snapshot is about to begin.
    WishesIgnored,
    /// Writers do not wait when the snapshot is full.
    WritersNotHeld,
    /// What visitors are done with stays on the account.
    ChargesForgotten,
    /// What is shown of a segment is not only what lies ahead.
    MergesIgnored,
}

#[cfg(any(test, loom))]
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

/// Whether this fault is planted.
#[cfg(any(test, loom))]
pub(crate) fn is(fault: Fault) -> bool {
    plant::get() == Some(fault)
}

/// Whether this fault is planted.
#[cfg(not(any(test, loom)))]
#[inline(always)]
pub(crate) const fn is(_fault: Fault) -> bool {
    false
}
