//! The keys under the prefix as this node has seen them: all revisions up to one, in their order.
//!
//! Everything that a node decides is decided on this. Answers of transactions change nothing here,
//! since they overtake the changes of other nodes.

use super::action::{LeaseId, Member, Revision};
use super::layout::{
    CopyPhase, Copying, FailoverValue, HandoverId, HandoverValue, Invalid, IslandId, IslandValue,
    Key, LeaseValue, MarksValue, NodeValue, ShardValue,
};
use crate::id::{NodeId, ShardId};
use crate::slots::SlotSet;
use std::collections::BTreeMap;

/// A key as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Without the prefix.
    pub key: String,
    pub value: Vec<u8>,
    /// The revision of its last write.
    pub revision: Revision,
    pub lease: Option<LeaseId>,
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Put(Entry),
    Deleted { key: String },
}

/// A shard, with the epoch that its value may leave to its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    pub value: ShardValue,
    pub epoch: Revision,
}

/// The state of the prefix at a revision.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub revision: Revision,
    /// Of every key, also of those with an invalid value.
    revisions: BTreeMap<Key, Revision>,
    pub nodes: BTreeMap<NodeId, NodeValue>,
    pub shards: BTreeMap<ShardId, Shard>,
    pub islands: BTreeMap<IslandId, IslandValue>,
    pub handovers: BTreeMap<HandoverId, HandoverValue>,
    pub failovers: BTreeMap<ShardId, FailoverValue>,
    pub leases: BTreeMap<NodeId, (LeaseValue, Option<LeaseId>)>,
    pub marks: BTreeMap<ShardId, MarksValue>,
}

/// Longest chain of merged islands. Each merge points to an island that wasn't merged, so chains
/// have no circles; a wrong value could.
const MERGES: usize = 64;

impl State {
    /// The state of a snapshot. Adds what it can't read to `invalid`.
    pub fn of_snapshot(
        revision: Revision,
        entries: Vec<Entry>,
        invalid: &mut Vec<(String, Invalid)>,
    ) -> State {
        let mut state = State { revision, ..State::default() };
        for entry in entries {
            state.put(entry, invalid);
        }
        state
    }

    /// Applies all changes of one revision.
    pub fn apply(
        &mut self,
        revision: Revision,
        changes: Vec<Change>,
        invalid: &mut Vec<(String, Invalid)>,
    ) {
        for change in changes {
            match change {
                Change::Put(entry) => self.put(entry, invalid),
                Change::Deleted { key } => {
                    if let Some(key) = Key::parse(&key) {
                        self.revisions.remove(&key);
                        self.remove(key);
                    }
                }
            }
        }
        self.revision = revision;
    }

    fn put(&mut self, entry: Entry, invalid: &mut Vec<(String, Invalid)>) {
        let Some(key) = Key::parse(&entry.key) else {
            invalid.push((entry.key, Invalid("unknown key".to_string())));
            return;
        };
        self.revisions.insert(key, entry.revision);
        if let Err(wrong) = self.read(key, &entry) {
            // An invalid value counts as none: no node leads an invalid shard. Transactions still
            // compare its revision.
            self.remove(key);
            invalid.push((entry.key, wrong));
        }
    }

    fn read(&mut self, key: Key, entry: &Entry) -> Result<(), Invalid> {
        let value = &entry.value;
        match key {
            Key::Format => {}
            Key::Node(id) => drop(self.nodes.insert(id, NodeValue::parse(value)?)),
            Key::Shard(id) => {
                let value = ShardValue::parse(value)?;
                let epoch = value.epoch.unwrap_or(entry.revision);
                self.shards.insert(id, Shard { value, epoch });
            }
            Key::Island(id) => drop(self.islands.insert(id, IslandValue::parse(value)?)),
            Key::Handover(id) => drop(self.handovers.insert(id, HandoverValue::parse(value)?)),
            Key::Failover(id) => drop(self.failovers.insert(id, FailoverValue::parse(value)?)),
            Key::Lease(id) => {
                self.leases.insert(id, (LeaseValue::parse(value)?, entry.lease));
            }
            Key::Marks(id) => drop(self.marks.insert(id, MarksValue::parse(value)?)),
        }
        Ok(())
    }

    fn remove(&mut self, key: Key) {
        match key {
            Key::Format => {}
            Key::Node(id) => drop(self.nodes.remove(&id)),
            Key::Shard(id) => drop(self.shards.remove(&id)),
            Key::Island(id) => drop(self.islands.remove(&id)),
            Key::Handover(id) => drop(self.handovers.remove(&id)),
            Key::Failover(id) => drop(self.failovers.remove(&id)),
            Key::Lease(id) => drop(self.leases.remove(&id)),
            Key::Marks(id) => drop(self.marks.remove(&id)),
        }
    }

    /// The revision of a key, if it exists.
    pub fn revision_of(&self, key: Key) -> Option<Revision> {
        self.revisions.get(&key).copied()
    }

    /// Whether there are keys with a value that this node can't read.
    pub fn has_invalid(&self) -> bool {
        let read = self.nodes.len()
            + self.shards.len()
            + self.islands.len()
            + self.handovers.len()
            + self.failovers.len()
            + self.leases.len()
            + self.marks.len();
        let format = usize::from(self.revisions.contains_key(&Key::Format));
        self.revisions.len() != read + format
    }

    /// A comparison with the present revision of a key.
    pub fn compare(&self, key: Key) -> (Key, Option<Revision>) {
        (key, self.revision_of(key))
    }

    /// The shard of a node.
    pub fn shard_of(&self, node: NodeId) -> Option<(ShardId, &Shard)> {
        let id = self.nodes.get(&node)?.shard;
        Some((id, self.shards.get(&id)?))
    }

    /// The nodes of a shard.
    pub fn nodes_of(&self, shard: ShardId) -> impl Iterator<Item = NodeId> {
        self.nodes.iter().filter(move |(_, node)| node.shard == shard).map(|(id, _)| *id)
    }

    /// The island that `island` is part of now.
    pub fn island(&self, mut island: IslandId) -> IslandId {
        for _ in 0..MERGES {
            match self.islands.get(&island) {
                Some(IslandValue::Merged(into)) => island = *into,
                Some(IslandValue::Slots(_)) | None => break,
            }
        }
        island
    }

    /// The slots of all shards of an island.
    pub fn owners(&self, island: IslandId) -> BTreeMap<ShardId, SlotSet> {
        match self.islands.get(&self.island(island)) {
            Some(IslandValue::Slots(owners)) => owners.clone(),
            Some(IslandValue::Merged(_)) | None => BTreeMap::new(),
        }
    }

    /// The slots of a shard; `None` if it has none.
    pub fn slots_of(&self, id: ShardId) -> Option<&SlotSet> {
        match self.islands.get(&self.island(self.shards.get(&id)?.value.island)) {
            Some(IslandValue::Slots(owners)) => owners.get(&id),
            Some(IslandValue::Merged(_)) | None => None,
        }
    }

    /// The shard and the island of a node.
    pub fn island_of(&self, node: NodeId) -> Option<IslandId> {
        self.shard_of(node).map(|(_, shard)| self.island(shard.value.island))
    }

    /// The moves of keys whose traces are not removed yet.
    pub fn copies(&self) -> impl Iterator<Item = (HandoverId, &HandoverValue, Copying)> {
        self.handovers.iter().filter_map(|(id, of)| Some((*id, of, of.copy?)))
    }

    /// A move of keys that has one of these slots.
    pub fn overlapping_copy(&self, slots: &SlotSet) -> Option<HandoverId> {
        let overlaps = |of: &HandoverValue| of.slots.iter().any(|slot| slots.contains(slot));
        self.copies().find(|(_, of, _)| overlaps(of)).map(|(id, ..)| id)
    }

    /// Whether the owner must not serve the slots of a handover. A plain one waits for moves of keys.
    pub fn suspends(&self, handover: &HandoverValue) -> bool {
        match handover.copy {
            Some(copy) => copy.phase == CopyPhase::Final,
            None => self.overlapping_copy(&handover.slots).is_none(),
        }
    }

    /// Whether this start of a node holds a lease.
    pub fn is_alive(&self, member: Member) -> bool {
        self.leases
            .get(&member.node)
            .is_some_and(|(lease, _)| lease.incarnation == member.incarnation)
    }

    /// Whether another process of its node has a lease.
    pub fn has_restarted(&self, member: Member) -> bool {
        self.leases.contains_key(&member.node) && !self.is_alive(member)
    }
}
