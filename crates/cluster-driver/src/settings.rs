//! Directives that the machine reads, and the address of this node.

use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use weft_cluster::node::Settings;
use weft_cluster_store::Address;
use weft_config::{Config, Id};
use weft_state::cluster::addresses;

/// The directives on which [`of`] depends, and that don't change what this node announces. Others need a restart.
pub const DIRECTIVES: &[Id] = &[
    Id::CLUSTER_REPLICA_VALIDITY_FACTOR,
    Id::CLUSTER_STORE_OUTAGE,
    Id::REPLICA_PRIORITY,
    Id::CLUSTER_ALLOW_REPLICA_MIGRATION,
    Id::CLUSTER_MIGRATION_BARRIER,
];

/// The environment variable for `cluster-store`.
const VARIABLE: &str = "WEFT_CLUSTER_STORE";

/// The address of the store; empty: none.
pub fn store(config: &Config) -> String {
    let of_directive = config.str(Id::CLUSTER_STORE).into_owned();
    match of_directive.is_empty() {
        true => std::env::var(VARIABLE).unwrap_or_default(),
        false => of_directive,
    }
}

/// The shortest lease: etcd's default election timeout makes shorter ones longer.
const MIN_TIMEOUT_MS: i64 = 1000;

/// Valkey's CLUSTER_REPLICA_MIGRATION_DELAY.
const MIGRATION_DELAY_MS: u64 = 5000;

/// The settings of the machine. `store`: its address.
pub fn of(config: &Config, store: &Address) -> Settings {
    let timeout = config.int(Id::CLUSTER_NODE_TIMEOUT).max(MIN_TIMEOUT_MS);
    let mut addresses = addresses(config);
    if addresses.ip.is_empty()
        && let Some(ip) = own_address(store)
    {
        addresses.ip = ip.to_string();
    }
    Settings {
        timeout: (timeout as u64).div_ceil(1000) * 1000,
        quorum: config.int(Id::CLUSTER_WRITE_QUORUM) as u32,
        continues: config.word(Id::CLUSTER_STORE_OUTAGE) == "continue",
        no_failover: config.bool(Id::CLUSTER_REPLICA_NO_FAILOVER),
        priority: config.int(Id::REPLICA_PRIORITY) as u32,
        validity_factor: config.int(Id::CLUSTER_REPLICA_VALIDITY_FACTOR) as u64,
        migrates: config.bool(Id::CLUSTER_ALLOW_REPLICA_MIGRATION),
        migration_delay: MIGRATION_DELAY_MS,
        migration_barrier: config.int(Id::CLUSTER_MIGRATION_BARRIER) as u32,
        addresses,
        zone: config.str(Id::AVAILABILITY_ZONE).into_owned(),
    }
}

/// The address of this machine from which it reaches the store. Sends nothing.
fn own_address(store: &Address) -> Option<IpAddr> {
    store.endpoints.iter().find_map(|endpoint| {
        let mut addresses = (endpoint.host.as_str(), endpoint.port).to_socket_addrs().ok()?;
        addresses.find_map(|address| {
            let any: IpAddr = match address {
                std::net::SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
                std::net::SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
            };
            let socket = UdpSocket::bind((any, 0)).ok()?;
            socket.connect(address).ok()?;
            Some(socket.local_addr().ok()?.ip())
        })
    })
}
