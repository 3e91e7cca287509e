//! `maxmemory-clients`: closes the clients that use most memory when all clients together use too
//! much.
//!
//! ```text
//!  each thread, after each change of a connection  its memory ─► the thread's account
//!  each thread, at the end of an iteration         sum of the accounts over the limit?
//!                                                  ─► mark the largest, notify their threads
//! ```
//!
//! Without a limit there is no accounting. A marked client's memory is subtracted at once, so that
//! a thread that checks before the client is closed doesn't close others instead. As in Valkey,
//! CLIENT NO-EVICT clients count but are not closed.

use crate::commands::logged_line;
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_executor::end_client::end_client;
use weft_process::log_notice;
use weft_state::clients::ClientShared;
use weft_state::conn::ConnectionMessage;
use weft_state::mailbox::Message;
use weft_state::server::Server;

/// Bytes used by all clients, except those marked for closing. O(threads).
fn clients_memory(srv: &Server) -> u64 {
    let all: u64 =
        srv.threads.iter().fold(0, |sum, t| t.stats.client_memory.get().wrapping_add(sum));
    all.saturating_sub(srv.clients.eviction.leaving.load(Ordering::Relaxed))
}

/// Closes clients, the largest first, until the rest hold no more than `limit` bytes.
pub fn evict_clients(srv: &'static Server, limit: u64) {
    if clients_memory(srv) > limit {
        choose_clients(srv, limit);
    }
}

/// O(clients * log(clients)).
#[cold]
fn choose_clients(srv: &'static Server, limit: u64) {
    // Another thread is choosing clients, or has panicked while it did.
    let Ok(_choosing) = srv.clients.eviction.choosing.try_lock() else { return };
    let mut left = clients_memory(srv);
    let mut all: Vec<(u64, Arc<ClientShared>)> = srv
        .clients
        .registry
        .all()
        .into_iter()
        .map(|client| (client.memory.total.load(Ordering::Relaxed), client))
        .filter(|(memory, client)| {
            let stays = [&client.options.no_evict, &client.replica.is_replica];
            *memory > 0 && !stays.iter().any(|stays| stays.load(Ordering::Relaxed))
        })
        .collect();
    all.sort_unstable_by_key(|(memory, client)| (Reverse(*memory), client.id));
    for (memory, client) in all {
        if left <= limit {
            return;
        }
        log_notice!("Evicting client: {}", logged_line(srv, &client));
        if end_client(srv, &client) {
            srv.statistics.totals.evicted_clients.fetch_add(1, Ordering::Relaxed);
            // Add first, so that nothing is subtracted that was not added. If the client is already
            // closed, the Kill message subtracts it.
            srv.clients.eviction.leaving.fetch_add(memory, Ordering::Relaxed);
            client.memory.evicted.store(memory, Ordering::Release);
            srv.clients.registry.remove(client.id);
            srv.threads[client.thread()]
                .mailbox
                .send(Message::Connection(ConnectionMessage::Kill { client }));
        }
        left = left.saturating_sub(memory);
    }
}
