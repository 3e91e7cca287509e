//! A change of the map: what one transaction of a store writes.
//!
//! A change names the version of the map that it was decided on. It applies to that version only.

use crate::id::{NodeId, ShardId};
use crate::map::{Map, Role};
use crate::slots::{Slot, SlotSet};

/// A change of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The version of the map that this change was decided on.
    pub based_on: u64,
    pub edits: Vec<Edit>,
}

/// One part of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    SetOwner { slots: Box<SlotSet>, owner: Option<NodeId> },
    SetMigrating { node: NodeId, slot: Slot, to: Option<NodeId> },
    SetImporting { node: NodeId, slot: Slot, from: Option<NodeId> },
    SetCurrentEpoch(u64),
    SetLastVoteEpoch(u64),
    SetConfigEpoch { node: NodeId, epoch: u64 },
    BecomePrimary { node: NodeId, shard: ShardId },
    RenameNode { from: NodeId, to: NodeId },
    RemoveNode(NodeId),
}

/// The map is not the one that the change was decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict;

impl Change {
    /// A change of `map` that does nothing yet.
    pub fn of(map: &Map) -> Change {
        Change { based_on: map.version, edits: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Adds an edit.
    pub fn with(mut self, edit: Edit) -> Change {
        self.edits.push(edit);
        self
    }
}

impl Map {
    /// The map after `change`.
    pub fn apply(&self, change: &Change) -> Result<Map, Conflict> {
        if change.based_on != self.version {
            return Err(Conflict);
        }
        let mut map = self.clone();
        map.version += 1;
        change.edits.iter().for_each(|edit| map.edit(edit));
        Ok(map)
    }

    fn edit(&mut self, edit: &Edit) {
        match *edit {
            Edit::SetOwner { ref slots, owner } => {
                slots.iter().for_each(|slot| self.set_owner(slot, owner));
            }
            Edit::SetMigrating { node, slot, to } => {
                if let Some(node) = self.node_mut(node) {
                    set(&mut node.migrating, slot, to);
                }
            }
            Edit::SetImporting { node, slot, from } => {
                if let Some(node) = self.node_mut(node) {
                    set(&mut node.importing, slot, from);
                }
            }
            Edit::SetCurrentEpoch(epoch) => self.current_epoch = epoch,
            Edit::SetLastVoteEpoch(epoch) => self.last_vote_epoch = epoch,
            Edit::SetConfigEpoch { node, epoch } => {
                if let Some(node) = self.node_mut(node) {
                    node.config_epoch = epoch;
                }
            }
            Edit::BecomePrimary { node, shard } => {
                if let Some(node) = self.node_mut(node) {
                    node.role = Role::Primary;
                    node.shard = shard;
                }
            }
            Edit::RenameNode { from, to } => self.rename_node(from, to),
            Edit::RemoveNode(id) => _ = self.remove_node(id),
        }
    }
}

fn set(moves: &mut std::collections::BTreeMap<Slot, NodeId>, slot: Slot, other: Option<NodeId>) {
    match other {
        Some(other) => _ = moves.insert(slot, other),
        None => _ = moves.remove(&slot),
    }
}
