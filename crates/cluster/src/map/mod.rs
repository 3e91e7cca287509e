//! The map of the cluster: nodes, epochs, and the owner of each slot.
//!
//! Readers share a map and never see it change. A change makes a new one: [`crate::change`].

mod node;

pub use node::{Addresses, Health, Node, Role};

use crate::id::NodeId;
use crate::settings::Settings;
use crate::slots::{Slot, SlotSet};
use weft_base::limits::SLOTS;

/// Index of no node.
const NOBODY: u16 = u16::MAX;

/// The map of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// Counts the changes, so that two of them can't be decided on the same map.
    pub version: u64,
    pub current_epoch: u64,
    pub last_vote_epoch: u64,
    /// Ascending by id.
    nodes: Vec<Node>,
    /// For each slot, the index of its owner, or [`NOBODY`].
    owners: Vec<u16>,
}

/// Whether the cluster serves commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Ok,
    Fail,
}

impl Map {
    /// A cluster of one node without slots.
    pub fn of_one(node: Node) -> Map {
        Map {
            version: 0,
            current_epoch: 0,
            last_vote_epoch: 0,
            nodes: vec![node],
            owners: vec![NOBODY; SLOTS],
        }
    }

    /// All nodes, ascending by id.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.index(id).map(|at| &self.nodes[at])
    }

    pub fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.index(id).map(|at| &mut self.nodes[at])
    }

    fn index(&self, id: NodeId) -> Option<usize> {
        self.nodes.binary_search_by_key(&id, |node| node.id).ok()
    }

    /// Adds or replaces a node.
    pub fn put_node(&mut self, node: Node) {
        match self.nodes.binary_search_by_key(&node.id, |node| node.id) {
            Ok(at) => self.nodes[at] = node,
            Err(at) => {
                self.nodes.insert(at, node);
                self.shift_owners(|owner| owner + u16::from(usize::from(owner) >= at));
            }
        }
    }

    /// Removes a node. Its slots have no owner afterwards, and none moves to it or from it.
    pub fn remove_node(&mut self, id: NodeId) -> Option<Node> {
        let at = self.index(id)?;
        self.shift_owners(|owner| match usize::from(owner).cmp(&at) {
            std::cmp::Ordering::Less => owner,
            std::cmp::Ordering::Equal => NOBODY,
            std::cmp::Ordering::Greater => owner - 1,
        });
        for node in &mut self.nodes {
            node.migrating.retain(|_, to| *to != id);
            node.importing.retain(|_, from| *from != id);
        }
        Some(self.nodes.remove(at))
    }

    fn shift_owners(&mut self, shift: impl Fn(u16) -> u16) {
        let owned = self.owners.iter_mut().filter(|owner| **owner != NOBODY);
        owned.for_each(|owner| *owner = shift(*owner));
    }

    /// The node that owns `slot`.
    pub fn owner(&self, slot: Slot) -> Option<&Node> {
        self.nodes.get(usize::from(self.owners[usize::from(slot)]))
    }

    /// The index of that node in [`Map::nodes`].
    pub fn owner_index(&self, slot: Slot) -> Option<usize> {
        let owner = self.owners[usize::from(slot)];
        (owner != NOBODY).then_some(usize::from(owner))
    }

    /// Gives `slot` to a node of the map, or to none.
    pub fn set_owner(&mut self, slot: Slot, owner: Option<NodeId>) {
        let index = owner.and_then(|id| self.index(id));
        debug_assert_eq!(index.is_some(), owner.is_some(), "the owner is a node of the map");
        self.owners[usize::from(slot)] = index.map_or(NOBODY, |at| at as u16);
    }

    /// The slots that a node owns.
    pub fn slots_of(&self, id: NodeId) -> SlotSet {
        let Some(at) = self.index(id) else { return SlotSet::default() };
        (0..SLOTS as Slot)
            .filter(|slot| usize::from(self.owners[usize::from(*slot)]) == at)
            .collect()
    }

    /// Gives a node another id, with all that refers to it.
    pub fn rename_node(&mut self, from: NodeId, to: NodeId) {
        let slots = self.slots_of(from);
        let Some(node) = self.node(from).cloned() else { return };
        self.put_node(Node { id: to, ..node });
        slots.iter().for_each(|slot| self.set_owner(slot, Some(to)));
        for node in &mut self.nodes {
            if node.role == Role::ReplicaOf(from) {
                node.role = Role::ReplicaOf(to);
            }
            let moves = node.migrating.values_mut().chain(node.importing.values_mut());
            moves.filter(|id| **id == from).for_each(|id| *id = to);
        }
        self.remove_node(from);
    }

    /// How many slots each node owns, in the order of [`Map::nodes`].
    pub fn slot_counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.nodes.len()];
        let owned = self.owners.iter().filter(|owner| **owner != NOBODY);
        owned.for_each(|owner| counts[usize::from(*owner)] += 1);
        counts
    }

    /// How many slots have an owner.
    pub fn slots_assigned(&self) -> usize {
        self.owners.iter().filter(|owner| **owner != NOBODY).count()
    }

    /// How many nodes own slots: `cluster_size`.
    pub fn size(&self) -> usize {
        self.slot_counts().into_iter().filter(|count| *count > 0).count()
    }

    /// The replicas of a node, ascending by id.
    pub fn replicas_of(&self, id: NodeId) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(move |node| node.role == Role::ReplicaOf(id))
    }

    /// The largest config epoch of the nodes and the current epoch.
    pub fn max_epoch(&self) -> u64 {
        let epochs = self.nodes.iter().map(|node| node.config_epoch);
        epochs.chain([self.current_epoch]).max().unwrap_or(0)
    }

    /// Whether the cluster serves: each slot has a healthy owner, if that is required, and most of
    /// the owners are healthy.
    pub fn state(&self, settings: &Settings) -> State {
        let counts = self.slot_counts();
        let owners = || self.nodes.iter().zip(&counts).filter(|(_, slots)| **slots > 0);
        let covered = self.slots_assigned() == SLOTS
            && owners().all(|(node, _)| node.health != Health::Failed);
        let healthy = owners().filter(|(node, _)| node.health == Health::Ok).count();
        let quorum = owners().count() / 2 + 1;
        match (covered || !settings.full_coverage) && healthy >= quorum {
            true => State::Ok,
            false => State::Fail,
        }
    }
}
