//! The mark in the manifest: the files have every write that this primary of a cluster's shard confirmed ([`Led`]). A process that finds
//! its predecessor's mark may lead again without asking an operator.
//!
//! The writing thread sets and removes it, between two releases of replies. So these hold while the mark of this process is there:
//!
//! * When it was set, everything in memory was durable in the files.
//! * Each later write is durable before its reply leaves: `appendfsync always` without `no-appendfsync-on-rewrite`, and a log with a base.
//!
//! It is durably gone before one of them ends. A failure to remove it stops the server, as any failure of the disk does under
//! `always`. A mark of an earlier process or epoch stays where it is: the shard has another primary by then.

use super::aof;
use super::order::Order;
use super::writer::end_for;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use weft_keyspace::log::LogReader;
use weft_persist::aof::Appender;
pub use weft_persist::aof::Led;
use weft_process::log_warning;
use weft_state::aof_policy::Policy;
use weft_state::server::Server;

/// What the cluster has said, and what the files have said.
#[derive(Debug, Default)]
pub struct Mark {
    /// This process, while it leads.
    wanted: Mutex<Option<Led>>,
    /// Counts its changes.
    changes: AtomicU64,
    /// The mark of the loaded files.
    found: Mutex<Option<Led>>,
}

impl Mark {
    /// This process leads, or doesn't any more.
    pub fn want(&self, srv: &Server, led: Option<Led>) {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = led;
        self.changes.fetch_add(1, Ordering::SeqCst);
        aof(srv).order(Order::Look);
    }

    /// The primary of which the loaded data have every confirmed write.
    pub fn found(&self) -> Option<Led> {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what [`Mark::found`] returns. It ends when the data change.
    pub fn set_found(&self, led: Option<Led>) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = led;
    }

    fn wanted(&self) -> Option<Led> {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writing thread's part.
#[derive(Debug, Default)]
pub(super) struct Marking {
    /// The changes of [`Mark::wanted`] that it has seen.
    seen: u64,
    wanted: Option<Led>,
    /// The last unit when it could begin to wait: replies of later ones wait for the disk.
    from: Option<u64>,
    /// The mark of this process, which may be on the disk.
    own: Option<Led>,
    /// The log is about to end.
    is_over: bool,
}

/// Whether each reply waits for the disk.
fn syncs_all(policy: &Policy) -> bool {
    policy.sync == weft_state::aof_policy::Sync::Always && !policy.pauses
}

impl Marking {
    /// Sets the mark if it is due. Replies are bounded by the policy already.
    pub fn renew(
        &mut self,
        srv: &Server,
        policy: &Policy,
        log: &LogReader,
        appender: &mut Appender,
    ) {
        let mark = &aof(srv).mark;
        let changes = mark.changes.load(Ordering::SeqCst);
        if self.seen != changes {
            (self.seen, self.wanted, self.from) = (changes, mark.wanted(), None);
        }
        let Some(led) = self.wanted.filter(|led| self.own != Some(*led)) else { return };
        let is_possible = syncs_all(policy)
            && !appender.waits_for_base()
            && !appender.is_doubtful()
            && !self.is_over
            && aof(srv).locks.are_real();
        if !is_possible {
            self.from = None;
            return;
        }
        let from = *self.from.get_or_insert_with(|| log.last());
        if appender.durable() < from {
            return;
        }
        match appender.set_led(Some(led)) {
            Ok(()) => self.own = Some(led),
            // The disk has it or not; either is true.
            Err(e) => {
                (self.own, self.wanted) = (Some(led), None);
                log_warning!("The AOF manifest can't be marked: {e}");
            }
        }
    }

    /// A changed policy is about to be in force.
    pub fn change_policy(&mut self, policy: &Policy, appender: &mut Appender) {
        if !syncs_all(policy) {
            self.remove(appender);
        }
    }

    /// The log is about to end.
    pub fn end(&mut self, appender: &mut Appender) {
        self.remove(appender);
        self.is_over = true;
    }

    fn remove(&mut self, appender: &mut Appender) {
        self.from = None;
        if self.own.take().is_some()
            && let Err(e) = appender.set_led(None)
        {
            end_for(&format!(
                "Can't remove the mark of this node from the AOF manifest: {e}. Exiting..."
            ));
        }
    }
}
