//! Slots that SETSLOT has marked as moving. As in Valkey, each node keeps its marks to itself, in `cluster-config-file`.

use crate::{Driver, Topology};
use std::collections::BTreeMap;
use weft_cluster::{Edit, Map, NodeId, Slot};
use weft_process::errors::words;
use weft_process::log_warning;

/// The marks of this node.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    migrating: BTreeMap<Slot, NodeId>,
    importing: BTreeMap<Slot, NodeId>,
}

impl Marks {
    /// The marks in the file, which the start has read.
    pub fn of(topology: &Topology) -> Marks {
        let node = topology.map.node(topology.me);
        node.map_or_else(Marks::default, |node| Marks {
            migrating: node.migrating.clone(),
            importing: node.importing.clone(),
        })
    }

    /// Changes marks.
    pub fn edit(&mut self, edits: &[Edit]) {
        for edit in edits {
            let (marks, slot, other) = match edit {
                Edit::SetMigrating { slot, to, .. } => (&mut self.migrating, slot, to),
                Edit::SetImporting { slot, from, .. } => (&mut self.importing, slot, from),
                _ => continue,
            };
            match other {
                Some(other) => _ = marks.insert(*slot, *other),
                None => _ = marks.remove(slot),
            }
        }
    }

    /// Adds the marks to node `me` of the map. Drops those that the owners of their slots have made pointless.
    pub fn apply(&mut self, map: &mut Map, me: NodeId) {
        let is_mine = |slot: &Slot| map.owner(*slot).is_some_and(|owner| owner.id == me);
        let is_known = |id: &NodeId| map.node(*id).is_some();
        // As in Valkey, only primaries have marks.
        if map.node(me).is_some_and(|node| !node.is_primary()) {
            *self = Marks::default();
        }
        // Before this node has seen the store, no slot has an owner.
        if map.slots_assigned() > 0 {
            self.migrating.retain(|slot, to| is_mine(slot) && is_known(to));
            self.importing.retain(|slot, from| !is_mine(slot) && is_known(from));
        }
        let Marks { migrating, importing } = self.clone();
        if let Some(node) = map.node_mut(me) {
            // A slot that the store hands over is marked by the machine.
            migrating.into_iter().for_each(|(slot, to)| _ = node.migrating.insert(slot, to));
            importing.into_iter().for_each(|(slot, from)| _ = node.importing.insert(slot, from));
        }
    }
}

impl Driver {
    /// Changes marks, in the file and for the next publication.
    pub fn mark(&self, edits: &[Edit]) {
        if edits.is_empty() {
            return;
        }
        self.marks().edit(edits);
        let topology = self.srv.nodes.cluster.topology();
        let mut map = topology.map.clone();
        if let Some(node) = map.node_mut(self.me) {
            node.migrating.clear();
            node.importing.clear();
        }
        self.marks().apply(&mut map, self.me);
        let saved = self.srv.nodes.cluster.save(&map, self.me);
        if let Err(e) = saved {
            log_warning!("Can't write the cluster configuration file: {}", words(&e));
        }
    }
}
