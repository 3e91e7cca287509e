//! `maxmemory-clients`: the clients that hold most are closed when all together hold too much.
//!
//! ```text
//!  each thread, after what changes a connection    what it holds ─► its thread's account
//!  each thread, at the end of a turn               all accounts over the limit?
//!                                                  ─► mark the largest, tell their threads
//! ```
//!
//! Nobody counts anything while there is no limit. What was marked is taken off at once, so that a
//! thread that looks before the connections are closed does not close others for it. Clients with
//! CLIENT NO-EVICT count and are left alone, as in the reference.

use crate::blocking::serve;
use crate::clients::ClientShared;
use crate::commands::logged_line;
use crate::io::Message;
use crate::pubsub;
use crate::server::Server;
use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use weft_process::log_notice;

/// See the module.
#[derive(Debug, Default)]
pub struct ClientEviction {
    /// Held by the thread that chooses.
    choosing: Mutex<()>,
    /// Bytes of clients that are marked and still there.
    leaving: AtomicU64,
}

impl Server {
    /// Bytes that all clients hold, as far as they are not about to go. O(threads).
    fn clients_memory(&self) -> u64 {
        let all: u64 =
            self.threads.iter().fold(0, |sum, t| t.stats.client_memory.get().wrapping_add(sum));
        all.saturating_sub(self.client_eviction.leaving.load(Ordering::Relaxed))
    }

    /// Closes clients, the largest first, until the rest hold no more than `limit` bytes.
    pub fn evict_clients(&'static self, limit: u64) {
        if self.clients_memory() > limit {
            self.choose_clients(limit);
        }
    }

    /// O(clients * log(clients)).
    #[cold]
    fn choose_clients(&'static self, limit: u64) {
        // Somebody else is at it, or was and has died of it.
        let Ok(_choosing) = self.client_eviction.choosing.try_lock() else { return };
        let mut left = self.clients_memory();
        let mut all: Vec<(u64, Arc<ClientShared>)> = self
            .clients
            .all()
            .into_iter()
            .map(|client| (client.memory.load(Ordering::Relaxed), client))
            .filter(|(memory, client)| {
                let stays = [&client.no_evict, &client.is_replica];
                *memory > 0 && !stays.iter().any(|stays| stays.load(Ordering::Relaxed))
            })
            .collect();
        all.sort_unstable_by_key(|(memory, client)| (Reverse(*memory), client.id));
        for (memory, client) in all {
            if left <= limit {
                return;
            }
            log_notice!("Evicting client: {}", logged_line(self, &client));
            if self.end_client(&client) {
                self.totals.evicted_clients.fetch_add(1, Ordering::Relaxed);
                // In this order: what has not been added is not taken off. If the client is gone by
                // now, the message takes it off.
                self.client_eviction.leaving.fetch_add(memory, Ordering::Relaxed);
                client.evicted.store(memory, Ordering::Release);
                self.clients.remove(client.id);
                self.threads[client.thread()].mailbox.send(Message::Kill { client });
            }
            left = left.saturating_sub(memory);
        }
    }

    /// Marks a client whose connection is to be closed by its thread: nothing more of it is
    /// executed, and if it waits for a key it waits no more; if it was its turn, that is the next one's. Whether it
    /// was not marked before.
    pub fn end_client(&'static self, client: &ClientShared) -> bool {
        // First: who comes to stand in line behind this look sees it.
        let was_marked = client.killed.swap(true, Ordering::SeqCst);
        if let Some(waiting) = self.lines.of_client(client.id) {
            serve::abandon(self, &waiting);
        }
        // It is no receiver any more, though its thread has yet to close it.
        if client.is_subscriber() {
            let _route = client.route();
            pubsub::leave_for_good(self, client);
        }
        !was_marked
    }

    /// The client is gone. May be said more than once: of one that was chosen while it left, it is
    /// said again when the message that it is to be closed arrives.
    pub fn evicted_client_left(&self, client: &ClientShared) {
        let memory = client.evicted.swap(0, Ordering::AcqRel);
        if memory > 0 {
            self.client_eviction.leaving.fetch_sub(memory, Ordering::Relaxed);
        }
    }
}
