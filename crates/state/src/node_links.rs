//! Links between the nodes of a cluster, which carry published messages.
//!
//! A node with subscribers opens a link to each other node, and listens there to what its clients listen to. Here is what the
//! threads of both ends share. The crate `weft-cluster-links` opens links and reads from them.

use crate::clients::ClientShared;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use weft_cluster::NodeId;
use weft_pubsub::registry::{Delivery, Registry};

/// The links of this node.
pub struct NodeLinks {
    /// What other nodes listen to. The clients in it are their links.
    pub registry: Registry,
    /// The number of links in `incoming`.
    count: AtomicUsize,
    incoming: Mutex<BTreeMap<u64, Incoming>>,
    outgoing: Mutex<Vec<Outgoing>>,
    /// Wakes the thread of the links.
    waker: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// A link that another node has opened: one of our clients.
#[derive(Clone)]
pub struct Incoming {
    pub node: NodeId,
    /// Unix time in milliseconds.
    pub created_ms: i64,
    pub client: Arc<ClientShared>,
}

/// A link that this node has opened, as CLUSTER LINKS shows it.
#[derive(Clone)]
pub struct Outgoing {
    pub node: NodeId,
    /// Unix time in milliseconds.
    pub created_ms: i64,
    /// Bytes of subscriptions that the other node has not taken, and their memory.
    pub unsent: usize,
    pub memory: usize,
}

impl Default for NodeLinks {
    fn default() -> NodeLinks {
        NodeLinks {
            registry: Registry::with_delivery(Delivery::Once),
            count: AtomicUsize::new(0),
            incoming: Mutex::default(),
            outgoing: Mutex::default(),
            waker: OnceLock::new(),
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(|p| p.into_inner())
}

impl NodeLinks {
    /// Whether another node has a link to this one.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Adds the link of another node. Returns its earlier links, which it has given up.
    pub fn add(&self, link: Incoming) -> Vec<Incoming> {
        let mut incoming = lock(&self.incoming);
        let earlier = incoming.values().filter(|l| l.node == link.node && l.client.id != link.client.id);
        let earlier = earlier.cloned().collect();
        incoming.insert(link.client.id, link);
        self.count.store(incoming.len(), Ordering::Relaxed);
        drop(incoming);
        self.wake();
        earlier
    }

    /// A link was closed.
    pub fn remove(&self, client: u64) {
        let mut incoming = lock(&self.incoming);
        incoming.remove(&client);
        self.count.store(incoming.len(), Ordering::Relaxed);
    }

    /// The links that other nodes have opened.
    pub fn incoming(&self) -> Vec<Incoming> {
        lock(&self.incoming).values().cloned().collect()
    }

    /// The links that this node has opened.
    pub fn outgoing(&self) -> Vec<Outgoing> {
        lock(&self.outgoing).clone()
    }

    pub fn show_outgoing(&self, links: Vec<Outgoing>) {
        *lock(&self.outgoing) = links;
    }

    /// `waker` wakes the thread of the links. Only the first call has an effect.
    pub fn set_waker(&self, waker: Box<dyn Fn() + Send + Sync>) {
        let _ = self.waker.set(waker);
    }

    fn wake(&self) {
        if let Some(wake) = self.waker.get() {
            wake();
        }
    }
}
