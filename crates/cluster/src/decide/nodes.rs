//! MEET, FORGET, REPLICATE, FAILOVER, RESET and the epochs.

use super::Scene;
use crate::arguments;
use crate::change::{Change, Edit};
use crate::id::NodeId;
use crate::node::FailoverMode;
use crate::refusal::{Refusal, c_string, refusal, refusal_with};
use crate::slots::SlotSet;
use std::net::IpAddr;
use weft_base::num::parse_i64;

/// Distance of the bus port from the client port.
pub const BUS_PORT_DISTANCE: i64 = 10_000;

const NOT_A_REPLICA: &str = "You should send CLUSTER FAILOVER to a replica";
const NO_STORE: &str = "This node is a cluster of its own: it can meet other nodes only with a store for \
                        all of them. Set the directive 'cluster-store' to the address of an etcd";

impl Scene<'_> {
    pub(super) fn meet(&self, args: &[&[u8]]) -> Result<Change, Refusal> {
        self.address_to_meet(args).and(Err(refusal(NO_STORE)))
    }

    /// The address in the arguments of MEET.
    pub(super) fn address_to_meet(&self, args: &[&[u8]]) -> Result<(IpAddr, u16), Refusal> {
        let (host, port, bus) = match *args {
            [host, port] => (host, port, None),
            [host, port, bus] => (host, port, Some(bus)),
            _ => return Err(Refusal::Form),
        };
        let base =
            parse_i64(port).ok_or_else(|| refusal_with("Invalid base port specified: ", port))?;
        let bus = match bus {
            None => base.wrapping_add(BUS_PORT_DISTANCE),
            Some(bus) => {
                parse_i64(bus).ok_or_else(|| refusal_with("Invalid bus port specified: ", bus))?
            }
        };
        let is_port = |port| (1..=i64::from(u16::MAX)).contains(&port);
        if !is_port(base) {
            return Err(refusal("Port number is out of range"));
        }
        if !is_port(bus) {
            return Err(refusal("Cluster bus port number is out of range"));
        }
        let host = c_string(host);
        match std::str::from_utf8(host).ok().and_then(|ip| ip.parse().ok()) {
            Some(ip) => Ok((ip, base as u16)),
            None => {
                let text = [host, b":".as_slice(), port].concat();
                Err(refusal_with("Invalid node address specified: ", &text))
            }
        }
    }

    pub(super) fn forget(&self, args: &[&[u8]]) -> Result<Change, Refusal> {
        let node = arguments::node(self.map, args[0], "Unknown node ")?;
        if node.id == self.myself.id {
            return Err(refusal("I tried hard but I can't forget myself..."));
        }
        if self.myself.primary() == node.id {
            return Err(refusal("Can't forget my master!"));
        }
        if self.map.replicas_of(node.id).next().is_some() {
            // Valkey would leave replicas without a primary.
            return Err(refusal("Can't forget a master that has replicas"));
        }
        Ok(self.change().with(Edit::RemoveNode(node.id)))
    }

    pub(super) fn replicate(&self, args: &[&[u8]]) -> Result<Change, Refusal> {
        match self.primary_to_replicate(args)? {
            Some(_) => Err(refusal(NO_STORE)),
            None if self.myself.is_primary() => Ok(self.change()),
            None => Err(refusal(NO_STORE)),
        }
    }

    /// The primary in the arguments of REPLICATE; `None`: NO ONE.
    pub(super) fn primary_to_replicate(&self, args: &[&[u8]]) -> Result<Option<NodeId>, Refusal> {
        let node = match *args {
            [id] => arguments::node(self.map, id, "Unknown node ")?,
            [no, one] if is_one_of(no, &["no"]) && is_one_of(one, &["one"]) => return Ok(None),
            _ => return Err(Refusal::Form),
        };
        if node.id == self.myself.id {
            return Err(refusal("Can't replicate myself"));
        }
        if !node.is_primary() {
            return Err(refusal("I can only replicate a master, not a replica."));
        }
        if self.myself.is_primary()
            && (self.facts.has_keys || !self.map.slots_of(self.myself.id).is_empty())
        {
            let text = "To set a master the node must be empty and without assigned slots.";
            return Err(refusal(text));
        }
        Ok(Some(node.id))
    }

    pub(super) fn fail_over(&self, args: &[&[u8]]) -> Result<Change, Refusal> {
        self.failover_mode(args)?;
        Err(refusal(match self.myself.is_primary() {
            true => NOT_A_REPLICA,
            false => NO_STORE,
        }))
    }

    /// The mode in the arguments of FAILOVER.
    pub(super) fn failover_mode(&self, args: &[&[u8]]) -> Result<FailoverMode, Refusal> {
        let mode = match *args {
            [] => FailoverMode::Plain,
            [word] if is_one_of(word, &["force"]) => FailoverMode::Force,
            [word] if is_one_of(word, &["takeover"]) => FailoverMode::Takeover,
            _ => return Err(Refusal::Syntax),
        };
        // With a store, a primary that has restarted may not lead yet.
        match self.myself.is_primary() && mode != FailoverMode::Takeover {
            true => Err(refusal(NOT_A_REPLICA)),
            false => Ok(mode),
        }
    }

    /// Adds to `change` a config epoch that no other node has, unless this node has it already.
    pub(super) fn bump_epoch(&self, change: Change) -> Change {
        let max = self.map.max_epoch();
        if self.myself.config_epoch != 0 && self.myself.config_epoch == max {
            return change;
        }
        let epoch = self.map.current_epoch + 1;
        let change = change.with(Edit::SetCurrentEpoch(epoch));
        change.with(Edit::SetConfigEpoch { node: self.myself.id, epoch })
    }

    /// The epoch in the arguments of SET-CONFIG-EPOCH.
    pub(super) fn epoch_to_set(&self, args: &[&[u8]]) -> Result<u64, Refusal> {
        let epoch = arguments::integer(args[0])?;
        let Ok(wanted) = u64::try_from(epoch) else {
            return Err(refusal(format!("Invalid config epoch specified: {epoch}")));
        };
        if self.map.nodes().len() > 1 {
            let text = "The user can assign a config epoch only when the node does not know any \
                        other node.";
            return Err(refusal(text));
        }
        Ok(wanted)
    }

    pub(super) fn set_config_epoch(&self, args: &[&[u8]]) -> Result<Change, Refusal> {
        let wanted = self.epoch_to_set(args)?;
        if self.myself.config_epoch != 0 {
            return Err(refusal("Node config epoch is already non-zero"));
        }
        let current = self.map.current_epoch.max(wanted);
        let change = self.change().with(Edit::SetCurrentEpoch(current));
        Ok(change.with(Edit::SetConfigEpoch { node: self.myself.id, epoch: wanted }))
    }

    pub(super) fn reset(&self, args: &[&[u8]]) -> Result<Change, Refusal> {
        let hard = match *args {
            [] => false,
            [word] if is_one_of(word, &["hard"]) => true,
            [word] if is_one_of(word, &["soft"]) => false,
            [_] => return Err(Refusal::Syntax),
            _ => return Err(Refusal::Form),
        };
        if self.myself.is_primary() && self.facts.has_keys {
            let text = "CLUSTER RESET can't be called with master nodes containing keys";
            return Err(refusal(text));
        }
        let (node, [new_id, new_shard]) = (self.myself.id, self.facts.new_ids);
        let mut change = self.change().with(Edit::BecomePrimary { node, shard: new_shard });
        for slot in self.myself.migrating.keys() {
            change = change.with(Edit::SetMigrating { node, slot: *slot, to: None });
        }
        for slot in self.myself.importing.keys() {
            change = change.with(Edit::SetImporting { node, slot: *slot, from: None });
        }
        let slots = Box::new(SlotSet::full());
        change = change.with(Edit::SetOwner { slots, owner: None });
        for other in self.map.nodes().iter().filter(|other| other.id != node) {
            change = change.with(Edit::RemoveNode(other.id));
        }
        if hard {
            change = change.with(Edit::SetCurrentEpoch(0)).with(Edit::SetLastVoteEpoch(0));
            change = change.with(Edit::SetConfigEpoch { node, epoch: 0 });
            change = change.with(Edit::RenameNode { from: node, to: new_id });
        }
        Ok(change)
    }
}

fn is_one_of(word: &[u8], words: &[&str]) -> bool {
    words.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}
