//! Marks of SETSLOT: slots whose keys move one by one, by MIGRATE.
//!
//! A mark belongs to a shard and names the other one, so it outlives a failover of either. Its shard's primary writes it. The transaction
//! that changes the owner of a slot removes the marks which it makes pointless.

use super::Node;
use super::action::{Ms, Transaction, Write};
use super::layout::{IslandId, Key, MarksValue};
use super::proposals::Purpose;
use super::request::{Direction, Mark};
use super::requests::{Step, commit, refuse};
use super::state::State;
use crate::id::{NodeId, ShardId};
use crate::map::Map;
use crate::planted::{self, Fault};
use crate::slots::{Slot, SlotSet};
use std::collections::BTreeMap;

/// The write of `marks/SHARD`.
fn write(shard: ShardId, marks: &MarksValue) -> Write {
    let key = Key::Marks(shard);
    match marks.is_empty() {
        true => Write::Delete { key },
        false => Write::Put { key, value: marks.encode(), lease: None },
    }
}

impl State {
    /// The marks of a shard, without those that can have no effect.
    fn effective_marks(&self, shard: ShardId, island: IslandId) -> MarksValue {
        let mut marks = self.marks.get(&shard).cloned().unwrap_or_default();
        let owned = self.slots_of(shard);
        let is_owned = |slot: &Slot| owned.is_some_and(|owned| owned.contains(*slot));
        let is_near = |other: &ShardId| {
            let other = self.shards.get(other);
            other.is_some_and(|other| self.island(other.value.island) == island)
        };
        marks.migrating.retain(|slot, to| is_owned(slot) && is_near(to));
        marks.importing.retain(|slot, from| !is_owned(slot) && is_near(from));
        marks
    }

    /// Whether one of these slots has a mark at this shard.
    pub fn has_mark(&self, shard: ShardId, slots: &SlotSet) -> bool {
        let Some(marks) = self.marks.get(&shard) else { return false };
        marks.migrating.keys().chain(marks.importing.keys()).any(|slot| slots.contains(*slot))
    }

    /// For a transaction in which the shard `from` loses slots, and `to` gets them: ends their marks. The
    /// transaction must compare the marks of both, so that none is added meanwhile.
    pub fn end_marks(
        &self,
        slots: &SlotSet,
        from: Option<ShardId>,
        to: Option<ShardId>,
        compares: &mut Vec<(Key, Option<u64>)>,
        writes: &mut Vec<Write>,
    ) {
        for shard in [from, to].into_iter().flatten() {
            compares.push(self.compare(Key::Marks(shard)));
            let Some(present) = self.marks.get(&shard) else { continue };
            let mut marks = present.clone();
            if Some(shard) == from {
                marks.migrating.retain(|slot, _| !slots.contains(*slot));
            }
            if Some(shard) == to {
                marks.importing.retain(|slot, _| !slots.contains(*slot));
            }
            if marks != *present && !planted::is(Fault::MarksKeptByMove) {
                writes.push(write(shard, &marks));
            }
        }
    }
}

impl Node {
    /// SETSLOT MIGRATING, IMPORTING and STABLE.
    pub(super) fn mark(&self, state: &State, changes: &[Mark]) -> Result<Step, Step> {
        let Some((mine, shard)) = self.led() else {
            return refuse("ERR Please use SETSLOT only with masters.");
        };
        let island = state.island(shard.value.island);
        let present = state.marks.get(&mine).cloned().unwrap_or_default();
        let mut marks = present.clone();
        let mut compared = vec![Key::Marks(mine), Key::Shard(mine), Key::Island(island)];
        let owned = state.slots_of(mine);
        for Mark { slot, direction, other } in changes {
            let of_direction = match direction {
                Direction::Migrating => &mut marks.migrating,
                Direction::Importing => &mut marks.importing,
            };
            let Some(other) = other else {
                of_direction.remove(slot);
                continue;
            };
            // A node that was forgotten meanwhile has a shard in another island.
            let near = state.shard_of(*other).filter(|_| state.island_of(*other) == Some(island));
            let Some((other, _)) = near else {
                return refuse(format!("ERR I don't know about node {other}"));
            };
            let owns = owned.is_some_and(|owned| owned.contains(*slot));
            match direction {
                _ if other == mine => return refuse("ERR Target node is myself"),
                Direction::Migrating if !owns => {
                    return refuse(format!("ERR I'm not the owner of hash slot {slot}"));
                }
                Direction::Importing if owns => {
                    return refuse(format!("ERR I'm already the owner of hash slot {slot}"));
                }
                _ => {}
            }
            if state.overlapping_copy(&SlotSet::from_iter([*slot])).is_some() {
                return refuse("ERR The slots are being migrated");
            }
            of_direction.insert(*slot, other);
            compared.push(Key::Shard(other));
        }
        match marks == present {
            true => Ok(Step::Done),
            false => Ok(commit(state, &compared, vec![write(mine, &marks)])),
        }
    }

    /// Removes marks that have become pointless: the other shard is gone, or a version without marks has moved the slot.
    pub(super) fn keep_marks(&mut self, now: Ms) {
        let (Some(state), Some((mine, shard))) = (&self.state, self.led()) else { return };
        let Some(present) = state.marks.get(&mine) else { return };
        let island = state.island(shard.value.island);
        let marks = state.effective_marks(mine, island);
        let is_possible = self.proposals.is_possible(|purpose| *purpose == Purpose::Marks);
        if marks == *present || is_possible || !self.may_propose(now) {
            return;
        }
        let keys = [Key::Marks(mine), Key::Shard(mine), Key::Island(island)];
        let compares = keys.iter().map(|key| state.compare(*key)).collect();
        let writes = vec![write(mine, &marks)];
        self.propose(now, Purpose::Marks, Transaction { compares, writes });
    }

    /// Shows the marks of each shard at all its nodes, with the id of the other shard's primary.
    pub(super) fn show_marks(&self, island: IslandId, map: &mut Map) {
        let Some(state) = &self.state else { return };
        for shard in state.marks.keys() {
            let mut marks = state.effective_marks(*shard, island);
            if planted::is(Fault::MarksLostByFailover)
                && state.revision_of(Key::Marks(*shard))
                    < state.shards.get(shard).map(|of| of.epoch)
            {
                marks = MarksValue::default();
            }
            let nodes: Vec<_> =
                state.nodes_of(*shard).filter(|node| map.node(*node).is_some()).collect();
            let primary = |shard: &ShardId| state.shards[shard].value.primary.node;
            let shown = |marks: BTreeMap<Slot, ShardId>| -> BTreeMap<Slot, NodeId> {
                let marks = marks.into_iter().map(|(slot, other)| (slot, primary(&other)));
                marks.filter(|(_, other)| map.node(*other).is_some()).collect()
            };
            let (migrating, importing) = (shown(marks.migrating), shown(marks.importing));
            for node in nodes {
                let node = map.node_mut(node).expect("it is in the map");
                node.migrating.extend(&migrating);
                node.importing.extend(&importing);
            }
        }
    }
}
