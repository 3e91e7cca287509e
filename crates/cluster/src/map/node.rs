//! A node of the cluster.

use crate::id::{NodeId, ShardId};
use crate::settings::{Family, Preferred, Via};
use crate::slots::Slot;
use std::collections::BTreeMap;

/// Where a node is reached. Empty texts and zeros: not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    pub ip: String,
    pub port: u16,
    pub tls_port: u16,
    pub bus_port: u16,
    /// `cluster-announce-hostname`
    pub host_name: String,
    /// `cluster-announce-human-nodename`
    pub human_name: String,
    pub client_ipv4: String,
    pub client_ipv6: String,
    pub client_port: u16,
    pub client_tls_port: u16,
}

/// The role of a node in its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Primary,
    ReplicaOf(NodeId),
}

/// The health of a node, as the cluster sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    #[default]
    Ok,
    /// `fail?`
    Suspected,
    Failed,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub id: NodeId,
    pub shard: ShardId,
    pub addresses: Addresses,
    pub zone: String,
    pub role: Role,
    pub health: Health,
    /// Its address is not known: `noaddr`.
    pub no_address: bool,
    /// It does not take over: `cluster-replica-no-failover`.
    pub no_failover: bool,
    pub config_epoch: u64,
    pub offset: i64,
    /// A replica with a copy of its primary's data, whose offset isn't known here.
    pub has_data: bool,
    /// Milliseconds since 1970, 0 for never.
    pub ping_sent: i64,
    pub pong_received: i64,
    pub linked: bool,
    /// Slots that CLUSTER SETSLOT marked as moving to another node.
    pub migrating: BTreeMap<Slot, NodeId>,
    /// Slots that CLUSTER SETSLOT marked as coming from another node.
    pub importing: BTreeMap<Slot, NodeId>,
}

impl Node {
    /// A primary without slots and addresses.
    pub fn new(id: NodeId, shard: ShardId) -> Node {
        Node {
            id,
            shard,
            addresses: Addresses::default(),
            zone: String::new(),
            role: Role::Primary,
            health: Health::Ok,
            no_address: false,
            no_failover: false,
            config_epoch: 0,
            offset: 0,
            has_data: false,
            ping_sent: 0,
            pong_received: 0,
            linked: true,
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
        }
    }

    pub fn is_primary(&self) -> bool {
        self.role == Role::Primary
    }

    /// The primary of this node's shard: itself or the one it copies.
    pub fn primary(&self) -> NodeId {
        match self.role {
            Role::Primary => self.id,
            Role::ReplicaOf(primary) => primary,
        }
    }
}

impl Addresses {
    /// The address for a client's connection.
    pub fn ip_for(&self, via: Via) -> &str {
        let own = match via.family {
            Family::V4 => &self.client_ipv4,
            Family::V6 => &self.client_ipv6,
            Family::Other => "",
        };
        if own.is_empty() { &self.ip } else { own }
    }

    /// The port for a client's connection.
    pub fn port_for(&self, via: Via) -> u16 {
        let (announced, own) = match via.tls {
            true => (self.client_tls_port, self.tls_port),
            false => (self.client_port, self.port),
        };
        if announced == 0 { own } else { announced }
    }

    /// The endpoint of redirects. Empty: the one that the client used.
    pub fn endpoint(&self, preferred: Preferred, via: Via) -> &str {
        match preferred {
            Preferred::Ip => self.ip_for(via),
            Preferred::HostName if self.host_name.is_empty() => "?",
            Preferred::HostName => &self.host_name,
            Preferred::Unknown => "",
        }
    }
}
