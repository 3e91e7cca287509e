//! Closing a client from another thread.

use crate::blocking;
use crate::pubsub;
use std::sync::atomic::Ordering;
use weft_state::clients::ClientShared;
use weft_state::server::Server;

/// Marks a client as killed, so that its thread closes the connection. Executes none of its commands any more. If it
/// is blocked on keys, its wait ends, and the next client in the wait queues takes its turn. Returns whether it
/// was not marked before.
pub fn end_client(srv: &'static Server, client: &ClientShared) -> bool {
    // First: a thread that queues the client after the search below sees the mark.
    let was_marked = client.killed.swap(true, Ordering::SeqCst);
    if let Some(waiting) = srv.clients.blocked.of_client(client.id) {
        blocking::abandon(srv, &waiting);
    }
    // At once, although its thread has not closed it yet.
    if client.is_subscriber() {
        let _route = client.route();
        pubsub::leave_for_good(srv, client);
    }
    !was_marked
}
