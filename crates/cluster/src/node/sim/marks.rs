//! Marks of SETSLOT: orders of an operator, and what must hold.

use super::tally::Count;
use super::world::{Pid, SLOTS_EACH, World};
use crate::id::ShardId;
use crate::node::action::Duty;
use crate::node::{Direction, Mark, NodeRequest, RequestId};
use crate::slots::Slot;
use std::collections::{BTreeMap, BTreeSet};

/// A mark: the shard that has it, whether it is an import, the slot.
type Place = (ShardId, bool, Slot);

/// The orders of operators.
#[derive(Debug, Default)]
pub(super) struct MarkOrders {
    /// Requests that may still have an effect.
    pending: BTreeMap<RequestId, Vec<(Place, Option<ShardId>)>>,
    /// Places whose mark isn't known: a request without an answer may still be written.
    unsure: BTreeSet<Place>,
    /// Marks that were acknowledged, each with the other shard.
    acked: BTreeMap<Place, ShardId>,
}

impl MarkOrders {
    pub fn is_pending(&self, id: RequestId) -> bool {
        self.pending.contains_key(&id)
    }
}

impl World {
    /// SETSLOT MIGRATING at the owner, IMPORTING at another shard, or STABLE.
    pub fn order_mark(&mut self) {
        let slot = self.below(self.plan.shards as u64 * u64::from(SLOTS_EACH)) as Slot;
        let (one, host) = (self.below(self.plan.shards as u64), self.below(64) as usize);
        let (import, ends) = (self.chance(40), self.chance(15));
        let truth = &self.store.truth;
        let owns =
            |shard: &&ShardId| truth.slots_of(**shard).is_some_and(|slots| slots.contains(slot));
        let Some(owner) = self.shard_ids.iter().find(owns).copied() else { return };
        let other = self.shard_ids[one as usize];
        if other == owner {
            return;
        }
        let (at, with) = if import { (other, owner) } else { (owner, other) };
        let nodes: Vec<_> = truth.nodes_of(with).collect();
        let node = (!ends).then(|| nodes[host % nodes.len()]);
        let direction = if import { Direction::Importing } else { Direction::Migrating };
        let primary = truth.shards[&at].value.primary;
        let process = self
            .current
            .iter()
            .copied()
            .find(|pid| self.processes[*pid].member == primary && self.processes[*pid].runs());
        if let Some(pid) = process {
            let mark = Mark { slot, direction, other: node };
            self.request(pid, NodeRequest::Mark(vec![mark]));
        }
    }

    pub fn note_mark_order(&mut self, pid: Pid, id: RequestId, request: &NodeRequest) {
        let NodeRequest::Mark(changes) = request else { return };
        let truth = &self.store.truth;
        let shard_of = |node| truth.shard_of(node).expect("it has a shard").0;
        let shard = shard_of(self.processes[pid].member.node);
        let mut places = Vec::new();
        for mark in changes {
            let place = (shard, mark.direction == Direction::Importing, mark.slot);
            places.push((place, mark.other.map(shard_of)));
            self.marks.acked.remove(&place);
        }
        self.marks.pending.insert(id, places);
    }

    pub fn end_mark_order(&mut self, id: RequestId, is_ok: bool) {
        let places = self.marks.pending.remove(&id).unwrap_or_default();
        if !is_ok {
            self.marks.unsure.extend(places.into_iter().map(|(place, _)| place));
            return;
        }
        self.tally.count(Count::Marked);
        for (place, other) in places {
            let is_pending = |places: &Vec<(Place, _)>| places.iter().any(|(of, _)| *of == place);
            let is_sure =
                !self.marks.unsure.contains(&place) && !self.marks.pending.values().any(is_pending);
            // The slot may have moved since.
            if let Some(other) =
                other.filter(|other| is_sure && self.mark_at(place) == Some(*other))
            {
                self.marks.acked.insert(place, other);
            }
        }
    }

    /// The mark that the store has.
    fn mark_at(&self, (shard, is_import, slot): Place) -> Option<ShardId> {
        let marks = self.store.truth.marks.get(&shard)?;
        let marks = if is_import { &marks.importing } else { &marks.migrating };
        marks.get(&slot).copied()
    }

    /// At each commit: a slot's owner has no mark of its import, and only its owner one that it leaves. Acknowledged marks end
    /// with a change of the owner only.
    pub fn check_marks(&mut self) {
        let truth = &self.store.truth;
        let owns =
            |shard: ShardId, slot| truth.slots_of(shard).is_some_and(|slots| slots.contains(slot));
        let mut wrong = None;
        for (shard, marks) in &truth.marks {
            let leaving = marks.migrating.keys().find(|slot| !owns(*shard, **slot));
            let coming = marks.importing.keys().find(|slot| owns(*shard, **slot));
            if let Some(slot) = leaving.or(coming) {
                wrong = Some(format!("{shard:?} keeps a mark of slot {slot}, which has moved"));
            }
        }
        let mut ended = Vec::new();
        for (place, other) in &self.marks.acked {
            let (shard, is_import, slot) = *place;
            if self.mark_at(*place) == Some(*other) {
                continue;
            }
            ended.push(*place);
            let is_gone = [&shard, other].iter().any(|id| !truth.shards.contains_key(*id));
            if owns(shard, slot) != is_import && !is_gone {
                wrong = Some(format!("the mark of slot {slot} at {shard:?} is lost"));
            }
        }
        ended.iter().for_each(|place| _ = self.marks.acked.remove(place));
        wrong.into_iter().for_each(|wrong| self.fault(wrong));
    }

    /// A process that serves shows all acknowledged marks of its shard.
    pub fn check_shown_marks(&mut self, pid: Pid) {
        let process = &self.processes[pid];
        let Duty::Lead { shard: mine, .. } = process.duty else { return };
        if !process.serves(self.now) || !self.marks.acked.keys().any(|(shard, ..)| *shard == mine) {
            return;
        }
        let map = process.node.map().expect("it leads");
        let node = map.node(process.member.node).expect("it is in its map");
        let is_shown = |(_, is_import, slot): &Place, other: &ShardId| {
            let marks = if *is_import { &node.importing } else { &node.migrating };
            // By its own view: the node may have moved since.
            let view = process.node.state.as_ref().expect("it leads");
            let shown = marks.get(slot).and_then(|node| view.nodes.get(node));
            shown.is_some_and(|line| line.shard == *other)
        };
        let is_there = |other: &ShardId| self.store.truth.shards.contains_key(other);
        let acked = self.marks.acked.iter();
        let of_shard = acked.filter(|(place, other)| place.0 == mine && is_there(other));
        let mut hidden = of_shard.filter(|(place, other)| !is_shown(place, other));
        if let Some(((_, _, slot), _)) = hidden.next() {
            let wrong = format!("{pid} serves {mine:?} without its mark of slot {slot}");
            self.fault(wrong);
        }
    }
}
