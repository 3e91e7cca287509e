//! Until when this node may acknowledge, as a primary that holds a lease.
//!
//! A *term* is a time without a gap in which this node was allowed to acknowledge. A command records the term before it
//! executes. Its reply may leave if the term still lasts at a reading of the clock after the execution: then the node
//! was allowed to acknowledge when the command executed. A comparison with the deadline alone would not do. A node that
//! loses its lease and gets another one would acknowledge what it has executed in between.
//!
//! See `docs/design/cluster-lease.md`.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// A deadline that never passes.
pub const NO_BOUND: u64 = u64::MAX;

/// No term: the reply needs no authority.
pub const NO_TERM: u64 = 0;

/// The authority of this node. All times are milliseconds of [`Server::mono_ms`](crate::server::Server::mono_ms).
#[derive(Debug)]
pub struct Authority {
    /// Replies may leave before this time.
    until_ms: AtomicU64,
    /// The number of the term, from 1.
    term: AtomicU64,
    /// Connections that were closed because their replies could not be acknowledged.
    closed: AtomicU64,
    /// No line is logged about them before this time.
    quiet_until_ms: AtomicI64,
    /// See [`Authority::changes_role`].
    changes_role: AtomicBool,
    /// Held while the deadline or the term changes.
    changing: Mutex<()>,
}

impl Default for Authority {
    fn default() -> Authority {
        Authority {
            until_ms: AtomicU64::new(NO_BOUND),
            term: AtomicU64::new(1),
            closed: AtomicU64::new(0),
            quiet_until_ms: AtomicI64::new(0),
            changes_role: AtomicBool::new(false),
            changing: Mutex::new(()),
        }
    }
}

impl Authority {
    fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// The deadline; [`NO_BOUND`] if there is none.
    pub fn bounded_until(&self) -> u64 {
        self.until_ms.load(Ordering::SeqCst)
    }

    /// Sets the deadline; 0: nothing may be acknowledged. It may go back. If the earlier one has passed at `now_ms`, a
    /// new term begins.
    pub fn set_until(&self, now_ms: u64, until_ms: u64) {
        let _alone = self.change();
        if now_ms >= self.bounded_until() {
            // Before the deadline: see `permits`.
            self.term.fetch_add(1, Ordering::SeqCst);
        }
        self.until_ms.store(until_ms, Ordering::SeqCst);
    }

    /// Whether a primary becomes a replica, or the other way round. As long as the topology in force has it as a replica, it answers
    /// reads as one.
    pub fn changes_role(&self) -> bool {
        self.changes_role.load(Ordering::SeqCst)
    }

    /// See [`Authority::changes_role`].
    pub fn set_changes_role(&self, changes: bool) {
        self.changes_role.store(changes, Ordering::SeqCst);
    }

    /// Ends the term: no reply of a command that has executed before may leave.
    pub fn end_term(&self) {
        let _alone = self.change();
        self.term.fetch_add(1, Ordering::SeqCst);
    }

    /// The number of the present term, which may have passed its deadline.
    #[inline]
    pub fn term(&self) -> u64 {
        self.term.load(Ordering::SeqCst)
    }

    /// Whether the deadline is after `now_ms`.
    #[inline]
    pub fn lasts(&self, now_ms: i64) -> bool {
        self.bounded_until() > now_ms as u64
    }

    /// Whether replies of a command may leave that recorded `term` before it executed. `now_ms` reads the clock.
    ///
    /// The term is compared last. If it is the same, the deadline was that of this term, since a new term has its
    /// number before its deadline.
    pub fn permits(&self, term: u64, now_ms: impl FnOnce() -> i64) -> bool {
        let until_ms = self.bounded_until();
        until_ms > now_ms() as u64 && self.term() == term
    }

    /// Counts a connection that is closed. Returns whether to log that, which is at most once a second.
    pub fn count_closed(&self, now_ms: i64) -> bool {
        const QUIET_MS: i64 = 1000;
        self.closed.fetch_add(1, Ordering::Relaxed);
        let logs = now_ms >= self.quiet_until_ms.load(Ordering::Relaxed);
        if logs {
            self.quiet_until_ms.store(now_ms + QUIET_MS, Ordering::Relaxed);
        }
        logs
    }

    /// Connections that were closed because their replies could not be acknowledged.
    pub fn closed(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_bound_everything_is_permitted() {
        let authority = Authority::default();
        assert!(authority.permits(authority.term(), || i64::MAX));
        assert_eq!(authority.bounded_until(), NO_BOUND);
    }

    #[test]
    fn reply_leaves_before_the_deadline_only() {
        let authority = Authority::default();
        authority.set_until(0, 100);
        let term = authority.term();
        assert!(authority.permits(term, || 99) && !authority.permits(term, || 100));
        authority.set_until(50, 0);
        assert!(!authority.permits(term, || 0));
    }

    #[test]
    fn term_lasts_while_the_deadline_is_extended_in_time() {
        let authority = Authority::default();
        authority.set_until(0, 100);
        let term = authority.term();
        authority.set_until(99, 200);
        assert!(authority.permits(term, || 150));
        // It may go back, and forward again.
        authority.set_until(150, 160);
        authority.set_until(155, 300);
        assert!(authority.permits(term, || 200));
    }

    #[test]
    fn commands_before_a_gap_are_not_acknowledged_after_it() {
        let authority = Authority::default();
        authority.set_until(0, 100);
        let first = authority.term();
        authority.set_until(100, 200);
        assert!(!authority.permits(first, || 150) && authority.permits(authority.term(), || 150));
        let second = authority.term();
        authority.set_until(150, 0);
        authority.set_until(151, 300);
        assert!(!authority.permits(second, || 200) && authority.permits(authority.term(), || 200));
        let third = authority.term();
        authority.end_term();
        assert!(!authority.permits(third, || 200) && authority.permits(authority.term(), || 200));
    }
}
