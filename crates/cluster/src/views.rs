//! The contents of CLUSTER NODES, SLOTS, SHARDS, REPLICAS and INFO: texts and data, no replies.

use crate::id::{NodeId, ShardId};
use crate::map::{Health, Map, Node, Role, State};
use crate::settings::{Preferred, Settings, Via};
use crate::slots::{Slot, SlotRange, SlotSet};
use std::fmt::Write;
use weft_base::limits::SLOTS;

/// The map as node `me` shows it.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub map: &'a Map,
    pub me: NodeId,
    /// This node's position in the stream of its primary, or in its own.
    pub offset: i64,
    pub settings: Settings,
    /// This node is a primary that may not acknowledge now, so that requests on its slots fail.
    pub has_lapsed: bool,
}

/// A part of CLUSTER SLOTS: the primary of a range, then the replicas that clients may use.
#[derive(Debug, PartialEq, Eq)]
pub struct OwnedRange<'a> {
    pub range: SlotRange,
    pub nodes: Vec<&'a Node>,
}

/// A shard in CLUSTER SHARDS.
#[derive(Debug, PartialEq, Eq)]
pub struct Shard<'a> {
    pub id: ShardId,
    pub slots: Vec<SlotRange>,
    /// Its primary first.
    pub nodes: Vec<&'a Node>,
}

/// A node as CLUSTER SLOTS names it to a client.
#[derive(Debug, PartialEq, Eq)]
pub struct Reached<'a> {
    /// None: the endpoint that the client used.
    pub endpoint: Option<&'a str>,
    pub port: u16,
    /// Other facts: names that are not the endpoint, the availability zone.
    pub others: Vec<(&'static str, &'a str)>,
}

impl<'a> View<'a> {
    /// The lines of CLUSTER NODES.
    pub fn nodes(&self, via: Via) -> String {
        let slots = self.slots_by_node();
        let lines = self.map.nodes().iter().zip(&slots);
        lines.map(|(node, slots)| self.line(node, slots, &address(node, via)) + "\n").collect()
    }

    /// The line of one node.
    pub fn node(&self, node: &Node, via: Via) -> String {
        self.line(node, &self.map.slots_of(node.id), &address(node, via))
    }

    /// The lines of `cluster-config-file`, except the last one.
    pub(crate) fn file(&self) -> String {
        let slots = self.slots_by_node();
        let lines = self.map.nodes().iter().zip(&slots);
        lines.map(|(node, slots)| self.line(node, slots, &file_address(node)) + "\n").collect()
    }

    fn line(&self, node: &Node, slots: &SlotSet, address: &str) -> String {
        let is_me = node.id == self.me;
        let primary = match node.role {
            Role::Primary => "-".to_string(),
            Role::ReplicaOf(primary) => primary.to_string(),
        };
        let mut line = format!(
            "{} {address} {} {primary} {} {} {} {}",
            node.id,
            flags(node, is_me),
            node.ping_sent,
            node.pong_received,
            self.epoch(node),
            if node.linked || is_me { "connected" } else { "disconnected" },
        );
        for range in slots.ranges() {
            _ = write!(line, " {range}");
        }
        if is_me {
            line += &moves(node);
        }
        line
    }

    /// The config epoch of a node's shard.
    fn epoch(&self, node: &Node) -> u64 {
        self.map.node(node.primary()).unwrap_or(node).config_epoch
    }

    fn slots_by_node(&self) -> Vec<SlotSet> {
        let nodes = self.map.nodes();
        let mut sets = vec![SlotSet::default(); nodes.len()];
        for slot in 0..SLOTS as Slot {
            if let Some(at) = self.map.owner_index(slot) {
                sets[at].insert(slot);
            }
        }
        sets
    }

    /// CLUSTER SLOTS.
    pub fn slots(&self) -> Vec<OwnedRange<'a>> {
        let mut ranges: Vec<OwnedRange<'a>> = Vec::new();
        for slot in 0..SLOTS as Slot {
            let Some(owner) = self.map.owner(slot) else { continue };
            match ranges.last_mut() {
                Some(last) if last.range.last + 1 == slot && last.nodes[0].id == owner.id => {
                    last.range.last = slot;
                }
                _ => {
                    let nodes = vec![owner];
                    ranges.push(OwnedRange { range: SlotRange { first: slot, last: slot }, nodes });
                }
            }
        }
        for range in &mut ranges {
            let replicas = self.map.replicas_of(range.nodes[0].id);
            range.nodes.extend(replicas.filter(|node| self.serves_reads(node)));
        }
        ranges
    }

    /// Whether clients may read from a replica.
    fn serves_reads(&self, node: &Node) -> bool {
        node.health != Health::Failed && self.has_data(node)
    }

    /// Whether a replica has a copy of its primary's data, as far as this node knows.
    fn has_data(&self, node: &Node) -> bool {
        self.offset_of(node) != 0 || node.has_data
    }

    /// A node's position in the stream.
    pub fn offset_of(&self, node: &Node) -> i64 {
        if node.id == self.me { self.offset } else { node.offset }
    }

    /// How a client reaches `node`.
    pub fn reached(&self, node: &'a Node, via: Via) -> Reached<'a> {
        let (addresses, preferred) = (&node.addresses, self.settings.preferred);
        let endpoint = match preferred {
            Preferred::Unknown => None,
            Preferred::Ip | Preferred::HostName => Some(addresses.endpoint(preferred, via)),
        };
        let mut others = Vec::new();
        if preferred != Preferred::Ip {
            others.push(("ip", addresses.ip_for(via)));
        }
        if preferred != Preferred::HostName && !addresses.host_name.is_empty() {
            others.push(("hostname", addresses.host_name.as_str()));
        }
        if !node.zone.is_empty() {
            others.push(("availability-zone", node.zone.as_str()));
        }
        Reached { endpoint, port: addresses.port_for(via), others }
    }

    /// CLUSTER SHARDS, ascending by id.
    pub fn shards(&self) -> Vec<Shard<'a>> {
        let mut nodes: Vec<&Node> = self.map.nodes().iter().collect();
        nodes.sort_by_key(|node| (node.shard, !node.is_primary(), node.id));
        let shards = nodes.chunk_by(|one, next| one.shard == next.shard);
        let owned = |nodes: &[&Node]| {
            let owned = nodes.iter().map(|node| self.map.slots_of(node.id));
            owned.map(|slots| slots.ranges()).find(|ranges| !ranges.is_empty()).unwrap_or_default()
        };
        let shard = |nodes: &[&'a Node]| {
            let id = nodes[0].shard;
            Shard { id, slots: owned(nodes), nodes: nodes.to_vec() }
        };
        shards.map(shard).collect()
    }

    /// `online`, `fail` or `loading` in CLUSTER SHARDS.
    pub fn health(&self, node: &Node) -> &'static str {
        match node.health {
            Health::Failed => "fail",
            _ if !node.is_primary() && !self.has_data(node) => "loading",
            _ => "online",
        }
    }

    /// CLUSTER INFO.
    pub fn info(&self) -> String {
        let (map, mut by_health) = (self.map, [0; 3]);
        for (node, slots) in map.nodes().iter().zip(map.slot_counts()) {
            by_health[node.health as usize] += slots;
        }
        let state = match map.state(&self.settings) {
            State::Ok if !self.has_lapsed => "ok",
            State::Ok | State::Fail => "fail",
        };
        let myself = map.node(self.me).expect("the map has this node");
        let failed = |health| nodes_with(map, health, false);
        let voting = |health| nodes_with(map, health, true);
        let fields: [(&str, &dyn std::fmt::Display); 13] = [
            ("cluster_state", &state),
            ("cluster_slots_assigned", &map.slots_assigned()),
            ("cluster_slots_ok", &by_health[Health::Ok as usize]),
            ("cluster_slots_pfail", &by_health[Health::Suspected as usize]),
            ("cluster_slots_fail", &by_health[Health::Failed as usize]),
            ("cluster_nodes_pfail", &failed(Health::Suspected)),
            ("cluster_nodes_fail", &failed(Health::Failed)),
            ("cluster_voting_nodes_pfail", &voting(Health::Suspected)),
            ("cluster_voting_nodes_fail", &voting(Health::Failed)),
            ("cluster_known_nodes", &map.nodes().len()),
            ("cluster_size", &map.size()),
            ("cluster_current_epoch", &map.current_epoch),
            ("cluster_my_epoch", &self.epoch(myself)),
        ];
        // There is no bus between the nodes, so these counters stay 0.
        let zeros = [
            "cluster_stats_messages_sent",
            "cluster_stats_messages_received",
            "cluster_stats_bytes_sent",
            "cluster_stats_bytes_received",
            "cluster_stats_pubsub_bytes_sent",
            "cluster_stats_pubsub_bytes_received",
            "cluster_stats_module_bytes_sent",
            "cluster_stats_module_bytes_received",
            "total_cluster_links_buffer_limit_exceeded",
        ];
        let zeros = zeros.iter().map(|name| format!("{name}:0\r\n"));
        fields.iter().map(|(name, value)| format!("{name}:{value}\r\n")).chain(zeros).collect()
    }
}

/// How many nodes have this health; `voting`: of the primaries with slots.
fn nodes_with(map: &Map, health: Health, voting: bool) -> usize {
    let nodes = map.nodes().iter().zip(map.slot_counts());
    let counted = nodes.filter(|(node, slots)| node.health == health && (!voting || *slots > 0));
    counted.count()
}

fn flags(node: &Node, is_me: bool) -> String {
    let flags = [
        (is_me, "myself"),
        (node.is_primary(), "master"),
        (!node.is_primary(), "slave"),
        (node.health == Health::Suspected, "fail?"),
        (node.health == Health::Failed, "fail"),
        (node.no_address, "noaddr"),
        (node.no_failover, "nofailover"),
    ];
    let set: Vec<&str> = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
    set.join(",")
}

/// The slots that are moving, as in CLUSTER NODES.
fn moves(node: &Node) -> String {
    let mut moves = std::collections::BTreeMap::new();
    for (slot, from) in &node.importing {
        moves.insert(*slot, format!(" [{slot}-<-{from}]"));
    }
    for (slot, to) in &node.migrating {
        moves.insert(*slot, format!(" [{slot}->-{to}]"));
    }
    moves.into_values().collect()
}

fn address(node: &Node, via: Via) -> String {
    let addresses = &node.addresses;
    let (ip, port, bus) = (addresses.ip_for(via), addresses.port_for(via), addresses.bus_port);
    match addresses.host_name.as_str() {
        "" => format!("{ip}:{port}@{bus}"),
        host => format!("{ip}:{port}@{bus},{host}"),
    }
}

/// With everything else that Valkey stores, in its order.
fn file_address(node: &Node) -> String {
    let a = &node.addresses;
    let mut text = format!("{}:{}@{},{}", a.ip, a.port, a.bus_port, a.host_name);
    let ports = |port: u16| if port == 0 { String::new() } else { port.to_string() };
    for (name, value) in [
        ("availability-zone", node.zone.clone()),
        ("client-tls-port", ports(a.client_tls_port)),
        ("client-tcp-port", ports(a.client_port)),
        ("client-ipv6", a.client_ipv6.clone()),
        ("client-ipv4", a.client_ipv4.clone()),
        ("tls-port", a.tls_port.to_string()),
        ("nodename", a.human_name.clone()),
        ("shard-id", node.shard.to_string()),
    ] {
        if !value.is_empty() {
            _ = write!(text, ",{name}={value}");
        }
    }
    text
}
