//! Closing a client from another thread.

use crate::blocking;
use crate::pubsub;
use std::sync::atomic::Ordering;
use weft_state::clients::ClientShared;
use weft_state::server::Server;

/// Marks a client whose connection is to be closed by its thread: nothing more of it is
/// executed, and if it waits for a key it waits no more; if it was its turn, that is the next one's. Whether it
/// was not marked before.
pub fn end_client(srv: &'static Server, client: &ClientShared) -> bool {
    // First: who comes to stand in line behind this look sees it.
    let was_marked = client.killed.swap(true, Ordering::SeqCst);
    if let Some(waiting) = srv.clients.blocked.of_client(client.id) {
        blocking::abandon(srv, &waiting);
    }
    // It is no receiver any more, though its thread has yet to close it.
    if client.is_subscriber() {
        let _route = client.route();
        pubsub::leave_for_good(srv, client);
    }
    !was_marked
}
