//! Queries and reports about saves and loads for other parts of the server.

use crate::attention;
use crate::mailbox::{Message, ThreadMessage};
use crate::saves::Cancelled;
use crate::server::Server;
use std::sync::atomic::Ordering;

impl Server {
    /// Sets whether a file is being loaded. Most commands are refused meanwhile.
    pub fn set_loading(&self, on: bool) {
        self.persistence.loading.set(on);
        self.set_attention(attention::LOADING, on);
        weft_process::signals::set_loading(on);
    }

    /// Refuses writes after the last background save has failed, if configured.
    pub fn renew_unsaved(&self) {
        let refuses =
            self.settings().persistence.refuses_unsaved && !self.persistence.saves().is_last_ok;
        self.set_attention(attention::UNSAVED, refuses);
    }

    /// Changes of the keyspace, summed over the threads' published counters.
    pub fn changes(&self) -> u64 {
        self.all_stats().fold(0, |sum, stats| sum.wrapping_add(stats.keys.dirty.get()))
    }

    /// Changes since the last save, as far as threads have published them.
    pub fn unsaved_changes(&self) -> i64 {
        self.changes().wrapping_sub(self.statistics.totals.dirty_base.load(Ordering::Relaxed))
            as i64
    }

    /// Whether the file has more data than the keyspace: the data was dropped for a full sync that
    /// has not arrived, and since then, only a primary's writes have changed it. Such a keyspace is
    /// saved only on request.
    pub fn is_file_better(&self) -> bool {
        let is_own = || !self.nodes.replication.is_replica() && self.unsaved_changes() > 0;
        self.persistence.has_dropped_data() && !is_own()
    }

    /// Drops all changes up to now from the count: their data is gone and need not be saved.
    pub fn forget_changes(&self) {
        self.statistics.totals.dirty_base.store(self.changes(), Ordering::Relaxed);
    }

    /// Records that all changes up to `changes` are in a file.
    pub fn note_saved(&self, changes: u64) {
        self.persistence.set_hollow(false);
        self.statistics.totals.dirty_base.store(changes, Ordering::Relaxed);
        self.statistics.totals.last_save_s.store(self.now_ms() / 1000, Ordering::Relaxed);
    }

    /// Cancels the save in the background, or the one that is scheduled.
    pub fn cancel_save(&self) -> Cancelled {
        let mut saves = self.persistence.saves();
        if let Some(running) = saves.running().filter(|running| running.in_background) {
            running.cancel.store(true, Ordering::Relaxed);
            return Cancelled::Running;
        }
        match std::mem::take(&mut saves.is_scheduled) {
            true => Cancelled::Scheduled,
            false => Cancelled::Nothing,
        }
    }

    /// Schedules a save after all keys were removed, if there are save points: otherwise the file would
    /// bring the keys back. Cancels a save that is running.
    #[cold]
    pub fn note_flush(&self) {
        if self.settings().persistence.save_points.is_empty() || self.persistence.loading.is_on() {
            return;
        }
        self.cancel_save();
        self.persistence.saves().is_scheduled = true;
        // The first thread begins the save at its next tick.
        self.threads[0].mailbox.send(Message::Thread(ThreadMessage::Wake));
    }
}
