//! Persistence: saves snapshots into files, and loads them.
//!
//! ```text
//!  BGSAVE, save points ─► begin: the cut, on the caller's thread ─► weft-save: walkers, writer
//!  SAVE, SHUTDOWN      ─► the same, and the caller waits for the end
//!  DEBUG RELOAD        ─► everything while the world is stopped
//!  the start           ─► weft-load: several threads; clients get LOADING errors
//! ```
//!
//! A save blocks no other client: it writes a snapshot of one moment ([`weft_keyspace::snapshot`])
//! with threads that hold a shard for microseconds at a time. There is one snapshot at a time.
//!
//! * this file: counters for INFO and others; the running save
//! * [`save`] - writes a snapshot into a file; [`background`]: BGSAVE and SAVE
//! * [`points`] - save points; [`stop`]: the last save
//! * [`load`] - loads a file into the keyspace; [`reload`]: DEBUG RELOAD
//! * [`waits`] - writes that wait for a snapshot at its memory limit
//! * [`check`] - `--check-rdb`

pub mod background;
pub mod check;
pub mod load;
pub mod points;
pub mod reload;
pub mod save;
pub mod stop;
pub mod waits;

use crate::attention;
use crate::io::mailbox::Message;
use crate::server::Server;
use std::sync::atomic::Ordering;

pub use crate::saves::{Loading, Own, Persistence, Running, Saves};

impl Server {
    /// Sets whether a file is being loaded. Most commands are refused meanwhile.
    pub fn set_loading(&self, on: bool) {
        self.persistence.loading.set(on);
        self.set_attention(attention::LOADING, on);
        weft_process::signals::set_loading(on);
    }

    /// Refuses writes after the last save in the background has failed, if configured.
    pub fn renew_unsaved(&self) {
        let refuses = self.settings().refuses_unsaved && !self.persistence.saves().is_last_ok;
        self.set_attention(attention::UNSAVED, refuses);
    }

    /// Changes of the keyspace, summed over the threads' published counters.
    pub fn changes(&self) -> u64 {
        self.all_stats().fold(0, |sum, stats| sum.wrapping_add(stats.dirty.get()))
    }

    /// Changes since the last save, as far as threads have published them.
    pub fn unsaved_changes(&self) -> i64 {
        self.changes().wrapping_sub(self.totals.dirty_base.load(Ordering::Relaxed)) as i64
    }

    /// Whether the file has more data than the keyspace: the data was dropped for a full sync that
    /// has not arrived, and since then, only a primary's writes have changed it. Such a keyspace is
    /// saved only on request.
    pub fn is_file_better(&self) -> bool {
        let is_own = || !self.replication.is_replica() && self.unsaved_changes() > 0;
        self.persistence.is_hollow() && !is_own()
    }

    /// Drops all changes up to now from the count: their data is gone and need not be saved.
    pub fn forget_changes(&self) {
        self.totals.dirty_base.store(self.changes(), Ordering::Relaxed);
    }

    /// Records that all changes up to `changes` are in a file.
    fn note_saved(&self, changes: u64) {
        self.persistence.set_hollow(false);
        self.totals.dirty_base.store(changes, Ordering::Relaxed);
        self.totals.last_save_s.store(self.now_ms() / 1000, Ordering::Relaxed);
    }
}

/// Cancels the save in the background, or the scheduled one.
pub fn cancel(srv: &Server) -> Cancelled {
    let mut saves = srv.persistence.saves();
    if let Some(running) = saves.running().filter(|running| running.in_background) {
        running.cancel.store(true, Ordering::Relaxed);
        return Cancelled::Running;
    }
    match std::mem::take(&mut saves.is_scheduled) {
        true => Cancelled::Scheduled,
        false => Cancelled::Nothing,
    }
}

/// The save that BGSAVE CANCEL has cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    Running,
    Scheduled,
    Nothing,
}

/// All keys were removed. If there are save points, the file that could restore the keys should be
/// replaced soon, too. A running save is cancelled.
#[cold]
pub fn note_flush(srv: &'static Server) {
    if srv.settings().save_points.is_empty() || srv.persistence.loading.is_on() {
        return;
    }
    cancel(srv);
    srv.persistence.saves().is_scheduled = true;
    // The first thread begins the save at its next tick.
    srv.threads[0].mailbox.send(Message::Wake);
}
