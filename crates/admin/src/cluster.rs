//! The map of the cluster at the start, and the facts of this node that follow from its configuration.

use std::path::PathBuf;
use weft_base::limits::SLOTS;
use weft_cluster::file;
use weft_cluster::views::View;
use weft_cluster::{Map, Node, NodeId, Slot};
use weft_config::{Config, Id};
use weft_executor::cluster::change;
use weft_process::errors::{Failure, words};
use weft_process::{log_notice, log_warning};
use weft_state::cluster::{Topology, addresses, settings_of};
use weft_state::nodes_file::NodesFile;
use weft_state::server::{Server, fill_random};

/// Directives that change how clients and other nodes see this node.
const DIRECTIVES: [Id; 19] = [
    Id::CLUSTER_REQUIRE_FULL_COVERAGE,
    Id::CLUSTER_ALLOW_READS_WHEN_DOWN,
    Id::CLUSTER_ALLOW_PUBSUBSHARD_WHEN_DOWN,
    Id::CLUSTER_PREFERRED_ENDPOINT_TYPE,
    Id::CLUSTER_REPLICA_NO_FAILOVER,
    Id::CLUSTER_ANNOUNCE_IP,
    Id::CLUSTER_ANNOUNCE_CLIENT_IPV4,
    Id::CLUSTER_ANNOUNCE_CLIENT_IPV6,
    Id::CLUSTER_ANNOUNCE_CLIENT_PORT,
    Id::CLUSTER_ANNOUNCE_CLIENT_TLS_PORT,
    Id::CLUSTER_ANNOUNCE_HOSTNAME,
    Id::CLUSTER_ANNOUNCE_HUMAN_NODENAME,
    Id::CLUSTER_ANNOUNCE_PORT,
    Id::CLUSTER_ANNOUNCE_TLS_PORT,
    Id::CLUSTER_ANNOUNCE_BUS_PORT,
    Id::AVAILABILITY_ZONE,
    Id::PORT,
    Id::TLS_PORT,
    Id::TLS_CLUSTER,
];

/// CLUSTER INFO, if this server is a node of a cluster that has read its map.
pub fn info(srv: &Server) -> Option<String> {
    let topology = srv.nodes.cluster.current().0?;
    // CLUSTER INFO has no position in the stream.
    let (map, settings) = (&topology.map, topology.settings);
    let has_lapsed = has_lapsed(srv, &topology);
    Some(View { map, me: topology.me, offset: 0, settings, has_lapsed }.info())
}

/// Whether this node is a primary with slots that may not acknowledge now.
pub fn has_lapsed(srv: &Server, topology: &Topology) -> bool {
    topology.routes.is_primary()
        && !srv.nodes.cluster.authority.lasts(srv.mono_ms())
        && !topology.map.slots_of(topology.me).is_empty()
}

/// Reads the map, or makes one of this node alone. Must come before there are clients, and in the directory `dir`.
///
/// # Errors
/// The file can't be used, or names other nodes.
pub fn load_at_start(srv: &'static Server, config: &Config) -> Result<(), Failure> {
    if !srv.nodes.cluster.is_enabled() {
        return Ok(());
    }
    let name = config.str(Id::CLUSTER_CONFIG_FILE).into_owned();
    // Where it is now, though `dir` may change.
    let path = std::env::current_dir().map(|dir| dir.join(&name)).unwrap_or(PathBuf::from(&name));
    let (mut file, content) = NodesFile::open(&path)
        .map_err(|e| format!("Can't open {name} in order to acquire a lock: {}", words(&e)))?
        .ok_or_else(|| {
            format!(
                "Sorry, the cluster configuration file {name} is already used by a different \
                 Cluster node. Please make sure that different nodes use different cluster \
                 configuration files."
            )
        })?;
    let (map, me) = read(&name, &content, config)?;
    let map = with_facts(map, me, config);
    file.replace(file::write(&map, me).as_bytes())
        .map_err(|e| format!("Can't write {name}: {}", words(&e)))?;
    *srv.nodes.cluster.file() = Some(file);
    srv.nodes.cluster.publish(Topology::new(map, me, settings_of(config)));
    if weft_cluster_driver::is_configured(config) {
        weft_cluster_driver::create(srv, config)?;
    }
    Ok(())
}

fn read(name: &str, content: &[u8], config: &Config) -> Result<(Map, NodeId), Failure> {
    let text = String::from_utf8_lossy(content);
    if text.trim().is_empty() {
        let (me, shard) = (new_id(), new_id());
        log_notice!("No cluster configuration found, I'm {me}");
        return Ok((Map::of_one(Node::new(me, shard)), me));
    }
    let tls_bus = config.bool(Id::TLS_CLUSTER);
    let (map, me) = file::parse(&text, tls_bus, &mut new_id)
        .map_err(|e| format!("The cluster configuration file {name} can't be read: {e}"))?;
    if weft_cluster_driver::is_configured(config) {
        log_notice!("Node configuration loaded, I'm {me}");
        // The store has the rest.
        return Ok((Map::of_one(Node::new(me, me)), me));
    }
    if map.nodes().len() > 1 {
        return Err(format!(
            "The cluster configuration file {name} names {} nodes, and this version supports \
             clusters of one node only. Start with another cluster-config-file.",
            map.nodes().len()
        ));
    }
    log_notice!("Node configuration loaded, I'm {me}");
    Ok((map, me))
}

/// An id that no node has.
pub fn new_id() -> NodeId {
    let mut random = [0; NodeId::LEN / 2];
    fill_random(&mut random);
    NodeId::from_random(random)
}

/// The map with the facts of this node that the configuration gives.
fn with_facts(mut map: Map, me: NodeId, config: &Config) -> Map {
    if let Some(node) = map.node_mut(me) {
        node.addresses = addresses(config);
        node.zone = config.str(Id::AVAILABILITY_ZONE).into_owned();
        node.no_failover = config.bool(Id::CLUSTER_REPLICA_NO_FAILOVER);
    }
    map
}

/// Applies directives that CONFIG SET has changed.
pub fn apply(srv: &Server, config: &Config, changed: &[Id]) {
    let is_enabled = srv.nodes.cluster.is_enabled();
    let is_relevant = |id: &Id| DIRECTIVES.contains(id) || weft_cluster_driver::is_relevant(*id);
    if !is_enabled || !changed.iter().any(is_relevant) {
        return;
    }
    if let Some(driver) = weft_cluster_driver::driver(srv) {
        return driver.set(config);
    }
    let topology = srv.nodes.cluster.topology();
    let map = with_facts(topology.map.clone(), topology.me, config);
    if map != topology.map
        && let Err(e) = srv.nodes.cluster.save(&map, topology.me)
    {
        // The next start reads the configuration anyway.
        log_warning!("Can't write the cluster configuration file: {}", words(&e));
    }
    change::apply_settings(srv, config, map);
}

/// Takes the slots over that have keys and no owner, after files were loaded. They may come from a server without cluster mode.
/// Must come before clients may write. With a store, the slots are only logged: another node may have newer keys of them.
///
/// # Errors
/// The map can't be written.
pub fn take_over_slots_with_keys(srv: &'static Server) -> Result<(), Failure> {
    if !srv.nodes.cluster.is_enabled() {
        return Ok(());
    }
    // CONFIG SET, which changes the map, too, waits.
    let config = srv.config();
    let topology = srv.nodes.cluster.topology();
    let slots = slots_without_owner(srv, &topology);
    let Some(first) = slots.first().filter(|_| topology.routes.is_primary()) else { return Ok(()) };
    if srv.nodes.cluster.has_store() {
        log_warning!(
            "I have keys of {} slots without an owner, from slot {first} on.",
            slots.len()
        );
        return Ok(());
    }
    let mut map = topology.map.clone();
    for slot in slots {
        log_notice!("I have keys for unassigned slot {slot}. Taking responsibility for it.");
        map.set_owner(slot, Some(topology.me));
    }
    srv.nodes
        .cluster
        .save(&map, topology.me)
        .map_err(|e| format!("Can't write the cluster configuration file: {}", words(&e)))?;
    // This node loses no slots, so no running command is affected.
    change::apply_settings(srv, &config, map);
    Ok(())
}

/// The slots with keys that no node owns and this node doesn't import. O(slots * databases that have had keys).
fn slots_without_owner(srv: &Server, topology: &Topology) -> Vec<Slot> {
    let ks = &srv.ks;
    let has_keys = |slot: Slot| ks.occupied_databases().any(|db| ks.slot_len(slot, db) > 0);
    let importing = topology.map.node(topology.me).map(|node| &node.importing);
    let is_importing = |slot: Slot| importing.is_some_and(|slots| slots.contains_key(&slot));
    let is_free = |slot: &Slot| topology.map.owner(*slot).is_none() && !is_importing(*slot);
    (0..SLOTS as Slot).filter(is_free).filter(|slot| has_keys(*slot)).collect()
}
