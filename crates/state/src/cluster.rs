//! The cluster as the threads of this node see it.
//!
//! A *topology* is the map of the cluster with the routes that were compiled from it. It is immutable. A change publishes
//! the next one while the I/O threads are between two commands: `weft_executor::cluster::change`. A thread keeps the
//! topology in force, and compares its number before it uses it: see [`weft_keyspace::generation`].

pub use crate::authority::Authority;
use crate::nodes_file::NodesFile;
use std::any::Any;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use weft_cluster::file::default_bus_port;
use weft_cluster::{Addresses, Map, NodeId, Preferred, Routes, Settings, Slot, SlotSet};
use weft_config::{Config, Id};
use weft_keyspace::generation::Generations;

/// The map of the cluster, and the routes of this node.
#[derive(Clone, Debug)]
pub struct Topology {
    pub me: NodeId,
    pub map: Map,
    pub settings: Settings,
    pub routes: Routes,
    /// Slots that are about to go to another node: requests on them wait.
    pub suspended: SlotSet,
    /// Slots that this replica is about to own: requests that it would redirect to their primary wait.
    pub expected: SlotSet,
}

impl Topology {
    /// Compiles the routes of node `me`, which the map must have.
    pub fn new(map: Map, me: NodeId, settings: Settings) -> Topology {
        let routes = Routes::compile(&map, me, settings);
        Topology {
            me,
            map,
            settings,
            routes,
            suspended: SlotSet::default(),
            expected: SlotSet::default(),
        }
    }

    /// Whether this node may soon own a slot that it doesn't own.
    pub fn is_coming(&self, slot: Slot) -> bool {
        self.suspended.contains(slot) || self.expected.contains(slot)
    }
}

/// The copy of slots' keys from the node that owns them to this one. It is open while this node may write the keys.
#[derive(Debug, Default)]
pub struct Import {
    slots: OnceLock<SlotSet>,
    phase: AtomicU8,
}

const NEW: u8 = 0;
const OPEN: u8 = 1;
const CLOSED: u8 = 2;

impl Import {
    /// Opens it for these slots, unless it was closed. Returns whether it is open.
    pub fn open(&self, slots: &SlotSet) -> bool {
        let _ = self.slots.set(slots.clone());
        let _ = self.phase.compare_exchange(NEW, OPEN, Ordering::SeqCst, Ordering::SeqCst);
        self.is_open()
    }

    pub fn is_open(&self) -> bool {
        self.phase.load(Ordering::SeqCst) == OPEN
    }

    /// Closes it for good. Commands that have been checked may still run: on I/O threads until they were stopped once, in the
    /// slow lane until they release their shards.
    pub fn close(&self) {
        self.phase.store(CLOSED, Ordering::SeqCst);
    }

    /// Whether the connection that copies may write keys of `slot`.
    pub fn accepts(&self, slot: Slot) -> bool {
        self.is_open() && self.slots.get().is_some_and(|slots| slots.contains(slot))
    }
}

/// The topology in force. There is none without cluster mode, and none before the start has read the map.
pub struct ClusterState {
    is_enabled: bool,
    topology: Generations<Option<Arc<Topology>>>,
    /// `cluster-config-file`, once the start has opened it.
    file: Mutex<Option<NodesFile>>,
    /// The driver of a node with a store (`weft-cluster-driver`).
    pub driver: OnceLock<&'static (dyn Any + Send + Sync)>,
    /// Until when this node may acknowledge.
    pub authority: Authority,
}

impl ClusterState {
    /// `is_enabled`: `cluster-enabled`.
    pub fn new(is_enabled: bool) -> ClusterState {
        ClusterState {
            is_enabled,
            topology: Generations::new(None),
            file: Mutex::default(),
            driver: OnceLock::new(),
            authority: Authority::default(),
        }
    }

    /// Whether this server is a node of a cluster.
    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// `cluster` or `standalone`, as in INFO and HELLO.
    pub fn mode(&self) -> &'static str {
        if self.is_enabled { "cluster" } else { "standalone" }
    }

    /// The file of the map.
    pub fn file(&self) -> MutexGuard<'_, Option<NodesFile>> {
        self.file.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Writes the file of the map.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn save(&self, map: &Map, me: NodeId) -> std::io::Result<()> {
        let mut file = self.file();
        let file = file.as_mut().ok_or(std::io::ErrorKind::NotFound)?;
        file.replace(weft_cluster::file::write(map, me).as_bytes())
    }

    /// Whether the map is in a store that several nodes share.
    pub fn has_store(&self) -> bool {
        self.driver.get().is_some()
    }

    /// The number of the topology in force.
    #[inline]
    pub fn number(&self) -> u64 {
        self.topology.number()
    }

    /// The topology in force, and its number.
    pub fn current(&self) -> (Option<Arc<Topology>>, u64) {
        self.topology.current()
    }

    /// The topology in force.
    ///
    /// # Panics
    /// Without cluster mode, or before the start has published the first one.
    pub fn topology(&self) -> Arc<Topology> {
        self.topology.current().0.expect("a node of a cluster has a topology")
    }

    /// Puts a topology into force. The start calls it before there are clients. Later, the caller is
    /// `weft_executor::cluster::change`.
    pub fn publish(&self, topology: Topology) {
        let Ok(_) = self.topology.change(|_| Ok::<_, Infallible>(Some(Arc::new(topology))));
    }
}

/// The directives of the cluster on which routes and views depend.
pub fn settings_of(config: &Config) -> Settings {
    let preferred = match config.word(Id::CLUSTER_PREFERRED_ENDPOINT_TYPE) {
        "hostname" => Preferred::HostName,
        "unknown-endpoint" => Preferred::Unknown,
        _ => Preferred::Ip,
    };
    Settings {
        full_coverage: config.bool(Id::CLUSTER_REQUIRE_FULL_COVERAGE),
        reads_when_down: config.bool(Id::CLUSTER_ALLOW_READS_WHEN_DOWN),
        shard_channels_when_down: config.bool(Id::CLUSTER_ALLOW_PUBSUBSHARD_WHEN_DOWN),
        preferred,
    }
}

/// The addresses that this node announces. Without `cluster-announce-ip`, the IP address is empty.
pub fn addresses(config: &Config) -> Addresses {
    let text = |id| config.str(id).into_owned();
    let port = |id| config.int(id) as u16;
    let either = |announced, own| if port(announced) == 0 { port(own) } else { port(announced) };
    let tls_bus = config.bool(Id::TLS_CLUSTER);
    let own =
        Addresses { port: port(Id::PORT), tls_port: port(Id::TLS_PORT), ..Addresses::default() };
    let bus_port = match either(Id::CLUSTER_ANNOUNCE_BUS_PORT, Id::CLUSTER_PORT) {
        // Nothing listens there, so a client port without room above it is no error.
        0 => default_bus_port(&own, tls_bus).unwrap_or(0),
        port => port,
    };
    Addresses {
        ip: text(Id::CLUSTER_ANNOUNCE_IP),
        port: either(Id::CLUSTER_ANNOUNCE_PORT, Id::PORT),
        tls_port: either(Id::CLUSTER_ANNOUNCE_TLS_PORT, Id::TLS_PORT),
        bus_port,
        host_name: text(Id::CLUSTER_ANNOUNCE_HOSTNAME),
        human_name: text(Id::CLUSTER_ANNOUNCE_HUMAN_NODENAME),
        client_ipv4: text(Id::CLUSTER_ANNOUNCE_CLIENT_IPV4),
        client_ipv6: text(Id::CLUSTER_ANNOUNCE_CLIENT_IPV6),
        client_port: port(Id::CLUSTER_ANNOUNCE_CLIENT_PORT),
        client_tls_port: port(Id::CLUSTER_ANNOUNCE_CLIENT_TLS_PORT),
    }
}

/// The number of logical databases.
pub fn databases(config: &Config) -> usize {
    let id = match config.bool(Id::CLUSTER_ENABLED) {
        true => Id::CLUSTER_DATABASES,
        false => Id::DATABASES,
    };
    config.int(id) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_cluster::{Node, State};

    #[test]
    fn published_topology_has_the_routes_of_its_map() {
        let me = NodeId::from_random([7; 20]);
        let mut map = Map::of_one(Node::new(me, me));
        let state = ClusterState::new(true);
        assert_eq!((state.number(), state.current().0.is_none()), (1, true));
        state.publish(Topology::new(map.clone(), me, Settings::default()));
        assert!(!state.topology().routes.serves(0) && !state.topology().routes.is_up());
        (0..16_384).for_each(|slot| map.set_owner(slot, Some(me)));
        state.publish(Topology::new(map, me, Settings::default()));
        assert_eq!(state.number(), 3);
        let topology = state.topology();
        assert_eq!(topology.map.state(&topology.settings), State::Ok);
        assert!(topology.routes.serves(0) && topology.routes.serves(16_383));
    }
}
