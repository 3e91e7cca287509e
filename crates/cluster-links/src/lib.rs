//! Published messages between the nodes of a cluster.
//!
//! ```text
//!  node with subscribers                                    node with a publisher
//!  SUBSCRIBE ─► registry ─► names that have changed
//!               weft-links: REPLCONF weft-subscribe ──────► registry of links
//!                                                           PUBLISH ─► registry of clients: the reply counts these
//!               weft-links ◄─────────── one push per link ◄────────── registry of links
//!  clients   ◄─ registry
//! ```
//!
//! * [`wanted`] - what the clients of this node listen to; [`thread`]: weft-links, which opens links and reads from them
//! * [`link`] - one connection to another node; [`frame`]: the replies and messages on it
//! * [`incoming`] - the other end: a client that is the link of another node
//!
//! See `docs/design/cluster-links.md`.

pub mod frame;
pub mod incoming;
pub mod link;
pub mod thread;
pub mod wanted;

use std::sync::Arc;
use wanted::Changes;
use weft_state::server::Server;

/// Starts the thread of the links. The map of this node was published, and there are no clients yet.
///
/// # Errors
/// Those of the system.
pub fn begin(srv: &'static Server) -> std::io::Result<()> {
    let changes = Arc::new(Changes::new()?);
    let for_registry = changes.clone();
    srv.clients.pubsub.listen(Box::new(wanted::Reports(for_registry)));
    let for_links = changes.clone();
    srv.clients.links.set_waker(Box::new(move || for_links.wake()));
    thread::start(srv, changes)
}
