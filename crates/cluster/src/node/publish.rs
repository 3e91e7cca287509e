//! The map that clients see: the nodes that this one has met.

use super::Node;
use super::action::{Action, Ms};
use crate::map::{self, Health, Map, Role};
use crate::slots::Slot;
use weft_base::limits::SLOTS;

impl Node {
    /// Reports that [`Node::map`] or [`Node::expected`] may be another one.
    pub(super) fn publish(&mut self, now: Ms, out: &mut Vec<Action>) {
        let revision = self.state.as_ref().map(|state| state.revision);
        let expects_role = self.expects_role(now);
        if revision != self.shown.map || expects_role != self.shown.expects_role {
            self.shown.map = revision;
            self.shown.expects_role = expects_role;
            out.push(Action::Publish);
        }
    }

    /// The map at the last seen revision; `None` before this node has a line.
    pub fn map(&self) -> Option<Map> {
        let state = self.state.as_ref()?;
        let island = state.island_of(self.me.node)?;
        let mut map: Option<Map> = None;
        for (id, line) in &state.nodes {
            let Some(shard) = state.shards.get(&line.shard) else { continue };
            if state.island(shard.value.island) != island {
                continue;
            }
            let mut node = map::Node::new(*id, line.shard);
            node.addresses = line.addresses.clone();
            node.zone.clone_from(&line.zone);
            node.no_failover = line.no_failover;
            node.config_epoch = shard.epoch;
            if shard.value.primary.node != *id {
                node.role = Role::ReplicaOf(shard.value.primary.node);
                // With a quorum, the list has only as many replicas as it needs.
                let is_listed = shard.value.list.iter().any(|member| member.node == *id);
                node.has_data = is_listed || shard.value.quorum > 0;
            }
            node.linked = state.leases.contains_key(id);
            // It may serve by promises: when the store comes back, all leases have ended at once.
            let continues = shard.value.continues && shard.value.primary.node == *id;
            node.health = if node.linked || continues { Health::Ok } else { Health::Failed };
            match &mut map {
                Some(map) => map.put_node(node),
                None => map = Some(Map::of_one(node)),
            }
        }
        let mut map = map?;
        map.version = state.revision;
        for (shard, slots) in state.owners(island) {
            let owner = state.shards.get(&shard).map(|shard| shard.value.primary.node);
            let owner = owner.filter(|owner| map.node(*owner).is_some());
            slots.iter().for_each(|slot| map.set_owner(slot, owner));
        }
        self.show_marks(island, &mut map);
        self.mark_handovers(&mut map);
        map.current_epoch = map.max_epoch();
        Some(map)
    }

    /// Slots that are to move are shown at both nodes.
    fn mark_handovers(&self, map: &mut Map) {
        let Some(state) = &self.state else { return };
        let primary = |shard| state.shards.get(&shard).map(|shard| shard.value.primary.node);
        // A slot whose keys are copied is served by its owner alone.
        for handover in state.handovers.values().filter(|handover| handover.copy.is_none()) {
            let (Some(from), Some(to)) = (primary(handover.from), handover.to.and_then(primary))
            else {
                continue;
            };
            if map.node(from).is_none() || map.node(to).is_none() {
                continue;
            }
            for slot in 0..SLOTS as Slot {
                if handover.slots.contains(slot) {
                    // Keys may have gone where a mark says.
                    let node = map.node_mut(from).expect("looked up");
                    node.migrating.entry(slot).or_insert(to);
                    let node = map.node_mut(to).expect("looked up");
                    node.importing.entry(slot).or_insert(from);
                }
            }
        }
    }
}
