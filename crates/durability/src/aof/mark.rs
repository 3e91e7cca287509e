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

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use weft_keyspace::log::LogReader;
use weft_persist::aof::Appender;
pub use weft_persist::aof::Led;
use weft_process::log_warning;
use weft_state::aof_policy::Policy;

/// The mark that the cluster wants, and the one that was loaded.
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
    pub(super) fn want(&self, led: Option<Led>) {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = led;
        self.changes.fetch_add(1, Ordering::SeqCst);
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
    /// Sets the mark if it is due. Replies are bounded by the policy already, and `is_alone`: no other process can write the files.
    pub fn renew(
        &mut self,
        mark: &Mark,
        policy: &Policy,
        is_alone: bool,
        log: &LogReader,
        appender: &mut Appender,
    ) {
        let changes = mark.changes.load(Ordering::SeqCst);
        if self.seen != changes {
            (self.seen, self.wanted, self.from) = (changes, mark.wanted(), None);
        }
        let Some(led) = self.wanted.filter(|led| self.own != Some(*led)) else { return };
        let is_possible = syncs_all(policy)
            && !appender.waits_for_base()
            && !appender.is_doubtful()
            && !self.is_over
            && is_alone;
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
    ///
    /// # Errors
    /// The mark may still be there: the policy must not come into force.
    pub fn change_policy(&mut self, policy: &Policy, appender: &mut Appender) -> io::Result<()> {
        if syncs_all(policy) { Ok(()) } else { self.remove(appender) }
    }

    /// The log is about to end.
    ///
    /// # Errors
    /// The mark may still be there: the log must not end.
    pub fn end(&mut self, appender: &mut Appender) -> io::Result<()> {
        self.is_over = true;
        self.remove(appender)
    }

    fn remove(&mut self, appender: &mut Appender) -> io::Result<()> {
        self.from = None;
        if self.own.take().is_some() { appender.set_led(None) } else { Ok(()) }
    }
}
