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

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
pub use weft_persist::aof::Led;

/// The wish of the cluster, and the mark of the files.
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
    /// This process leads, or doesn't any more. The caller wakes the writing thread.
    pub(super) fn want(&self, led: Option<Led>) {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = led;
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// How often [`Mark::want`] was called.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// The primary of which the loaded data have every confirmed write.
    pub fn found(&self) -> Option<Led> {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what [`Mark::found`] returns. It ends when the data change.
    pub fn set_found(&self, led: Option<Led>) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = led;
    }

    pub(super) fn wanted(&self) -> Option<Led> {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
