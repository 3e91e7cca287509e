//! What makes data outlive the process: snapshots in files, and loading them.
//!
//! ```text
//!  BGSAVE, save points ─► begin: the cut, on the caller's thread ─► weft-save: walkers, writer
//!  SAVE, SHUTDOWN      ─► the same, and the caller waits for the end
//!  DEBUG RELOAD        ─► everything while the world is stopped
//!  the start           ─► weft-load: several threads; clients are told that the server is LOADING
//! ```
//!
//! No save holds anybody up: it is a snapshot of one moment ([`weft_keyspace::snapshot`]), written
//! by threads that hold a shard for microseconds at a time. There is one at a time.
//!
//! * this file: what INFO and others want to know; which save is under way
//! * [`save`] - from a snapshot to a file; [`background`]: BGSAVE and its like
//! * [`points`] - save points; [`stop`]: the last save
//! * [`load`] - from a file to the keyspace; [`reload`]: DEBUG RELOAD
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
    /// Says whether a file is being loaded, which most commands are refused during.
    pub fn set_loading(&self, on: bool) {
        self.persistence.loading.set(on);
        self.set_attention(attention::LOADING, on);
        weft_process::signals::set_loading(on);
    }

    /// Whether writes are refused, since the last save in the background has failed.
    pub fn renew_unsaved(&self) {
        let refuses = self.settings().refuses_unsaved && !self.persistence.saves().is_last_ok;
        self.set_attention(attention::UNSAVED, refuses);
    }

    /// Changes of the keyspace that all threads have told of.
    pub fn changes(&self) -> u64 {
        self.all_stats().fold(0, |sum, stats| sum.wrapping_add(stats.dirty.get()))
    }

    /// Changes since the last save, as far as threads have told of them.
    pub fn unsaved_changes(&self) -> i64 {
        self.changes().wrapping_sub(self.totals.dirty_base.load(Ordering::Relaxed)) as i64
    }

    /// Whether the files have more than is here: the data were dropped for a copy that has not come, and
    /// nobody but a primary writes what is not to be lost. Such data are saved only for who asks for that.
    pub fn is_file_better(&self) -> bool {
        let is_own = || !self.replication.is_replica() && self.unsaved_changes() > 0;
        self.persistence.is_hollow() && !is_own()
    }

    /// What has changed up to here has gone, and need not be saved.
    pub fn forget_changes(&self) {
        self.totals.dirty_base.store(self.changes(), Ordering::Relaxed);
    }

    /// All changes up to `changes` are in a file since now.
    fn note_saved(&self, changes: u64) {
        self.persistence.set_hollow(false);
        self.totals.dirty_base.store(changes, Ordering::Relaxed);
        self.totals.last_save_s.store(self.now_ms() / 1000, Ordering::Relaxed);
    }
}

/// Has the save in the background end, or the one that is to begin not begin.
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

/// What BGSAVE CANCEL found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    Running,
    Scheduled,
    Nothing,
}

/// All keys were removed: where there are save points, the file that brings them back should go
/// soon, too. A save that is under way is broken off.
#[cold]
pub fn note_flush(srv: &'static Server) {
    if srv.settings().save_points.is_empty() || srv.persistence.loading.is_on() {
        return;
    }
    cancel(srv);
    srv.persistence.saves().is_scheduled = true;
    // The first thread begins it at its next tick.
    srv.threads[0].mailbox.send(Message::Wake);
}
