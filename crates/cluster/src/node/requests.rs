//! Commands of operators that change what the store has. Each is answered when this node has seen
//! its effect, so that the next command finds it.

use super::action::{Action, Ms, RequestId, Transaction, Write};
use super::cleanup::AT_ONCE;
use super::layout::{FailoverValue, HandoverValue, IslandValue, Key, NodeValue, ShardValue};
use super::parts::{Forced, Waiting};
use super::proposals::Purpose;
use super::request::{FailoverMode, NodeRequest};
use super::state::State;
use super::{Node, Role};
use crate::id::{NodeId, ShardId};
use crate::planted::{self, Fault};
use crate::slots::{Slot, SlotSet};
use std::collections::BTreeMap;

/// The next step of a request.
pub(super) enum Step {
    Done,
    Refuse(String),
    Wait,
    Commit(Transaction),
    /// This node becomes a candidate.
    Force(Forced),
}

pub(super) fn refuse<T>(text: impl Into<String>) -> Result<T, Step> {
    Err(Step::Refuse(text.into()))
}

fn put(key: Key, value: Vec<u8>) -> Write {
    Write::Put { key, value, lease: None }
}

pub(super) fn commit(state: &State, compared: &[Key], writes: Vec<Write>) -> Step {
    let compares = compared.iter().map(|key| state.compare(*key)).collect();
    Step::Commit(Transaction { compares, writes })
}

/// Writes the owners of an island, in which slots go from one shard to another one.
fn change_owners(
    state: &State,
    compared: &[Key],
    island: NodeId,
    owners: BTreeMap<ShardId, SlotSet>,
    (slots, from, to): (&SlotSet, Option<ShardId>, Option<ShardId>),
) -> Step {
    let mut compares = compared.iter().map(|key| state.compare(*key)).collect();
    let mut writes = vec![put(Key::Island(island), IslandValue::Slots(owners).encode())];
    state.end_marks(slots, from, to, &mut compares, &mut writes);
    Step::Commit(Transaction { compares, writes })
}

impl Node {
    /// An operator's command. Its answer is [`Action::Reply`].
    pub fn request(&mut self, now: Ms, id: RequestId, request: NodeRequest, out: &mut Vec<Action>) {
        let handover = (self.ids)();
        self.requests.push(Waiting { id, request, since: now, sent: false, handover });
        self.settle(now, out);
    }

    pub(super) fn run_requests(&mut self, now: Ms, out: &mut Vec<Action>) {
        let limit = 4 * self.settings.timeout;
        for mut waiting in std::mem::take(&mut self.requests) {
            let id = waiting.id;
            if self.proposals.is_possible(|purpose| *purpose == Purpose::Request(id)) {
                match now >= waiting.since + limit {
                    true => {
                        let text =
                            "ERR The cluster's store didn't answer: the change may still happen";
                        out.push(Action::Reply { request: id, result: Err(text.to_string()) });
                    }
                    false => self.requests.push(waiting),
                }
                continue;
            }
            if waiting.request == NodeRequest::CancelMoves && !waiting.sent {
                self.cancel_copies();
            }
            let result = match self.next_step(now, &waiting) {
                Step::Done => Some(Ok(())),
                Step::Refuse(text) => Some(Err(text)),
                Step::Wait | Step::Commit(_) if now >= waiting.since + limit => {
                    Some(Err("ERR The cluster's store didn't confirm the change".to_string()))
                }
                Step::Wait => None,
                Step::Commit(transaction) if self.has_lease(now) && self.may_propose(now) => {
                    waiting.sent = true;
                    self.propose(now, Purpose::Request(id), transaction);
                    None
                }
                Step::Commit(_) => None,
                Step::Force(forced) => {
                    self.candidate.forced = Some(forced);
                    Some(Ok(()))
                }
            };
            match result {
                Some(result) => out.push(Action::Reply { request: id, result }),
                None => self.requests.push(waiting),
            }
        }
    }

    fn next_step(&self, now: Ms, waiting: &Waiting) -> Step {
        let Some(state) = &self.state else { return Step::Wait };
        if state.shard_of(self.me.node).is_none() {
            return Step::Wait;
        }
        let step = match &waiting.request {
            NodeRequest::Meet(other) => self.meet(state, *other),
            NodeRequest::Replicate(primary) => self.replicate(state, *primary),
            NodeRequest::Failover(mode) => self.fail_over(now, state, *mode, waiting.sent),
            NodeRequest::Forget(node) if *node == self.me.node => {
                refuse("ERR I tried hard but I can't forget myself...")
            }
            NodeRequest::Forget(node) => self.forget(state, *node),
            NodeRequest::Leave => self.leave(state),
            NodeRequest::AddSlots(slots) => self.add_slots(state, slots, waiting.sent),
            NodeRequest::DeleteSlots(slots) => self.delete_slots(state, slots, waiting),
            NodeRequest::TakeSlots(slots) => self.take_from_all(state, slots, waiting),
            // `valkey-cli --cluster fix` may say this before the node that takes a deleted slot has it.
            NodeRequest::MoveSlots { slots, .. }
                if self.is_free(state, slots) && now < waiting.since + self.settings.timeout =>
            {
                Ok(Step::Wait)
            }
            NodeRequest::MoveSlots { slots, to, .. } => match state.nodes.get(to) {
                Some(node) => self.leave_slots(state, slots, Some(node.shard), waiting),
                None => refuse("ERR I don't know about node"),
            },
            NodeRequest::CopySlots { slots, to } => self.copy_slots(state, slots, *to, waiting),
            NodeRequest::Mark(changes) => self.mark(state, changes),
            NodeRequest::CancelMoves => self.cancel_moves(state),
        };
        step.unwrap_or_else(|step| step)
    }

    /// Whether one of these slots has no owner.
    fn is_free(&self, state: &State, slots: &SlotSet) -> bool {
        let Some(island) = state.island_of(self.me.node) else { return false };
        let owners = state.owners(island);
        slots.iter().any(|slot| !owners.values().any(|owned| owned.contains(slot)))
    }

    fn meet(&self, state: &State, other: NodeId) -> Result<Step, Step> {
        let Some(theirs) = state.island_of(other) else { return Ok(Step::Wait) };
        let Some(ours) = state.island_of(self.me.node) else { return Ok(Step::Wait) };
        if ours == theirs {
            return Ok(Step::Done);
        }
        let mut owners = state.owners(ours);
        let mut owned = SlotSet::default();
        owners.values().flat_map(SlotSet::iter).for_each(|slot| _ = owned.insert(slot));
        for (shard, slots) in state.owners(theirs) {
            if let Some(slot) = slots.iter().find(|slot| owned.contains(*slot)) {
                return refuse(format!("ERR Both clusters have an owner of slot {slot}"));
            }
            owners.insert(shard, slots);
        }
        let into = ours.min(theirs);
        let writes = vec![
            put(Key::Island(into), IslandValue::Slots(owners).encode()),
            put(Key::Island(ours.max(theirs)), IslandValue::Merged(into).encode()),
        ];
        Ok(commit(state, &[Key::Island(ours), Key::Island(theirs)], writes))
    }

    pub(super) fn replicate(&self, state: &State, primary: NodeId) -> Result<Step, Step> {
        let Some((target, theirs)) = state.shard_of(primary) else {
            return refuse(format!("ERR Unknown node {primary}"));
        };
        let Some((mine, shard)) = state.shard_of(self.me.node) else { return Ok(Step::Wait) };
        if target == mine && shard.value.primary.node != self.me.node {
            return Ok(Step::Done);
        }
        if primary == self.me.node {
            return refuse("ERR Can't replicate myself");
        }
        if theirs.value.primary.node != primary {
            return refuse("ERR I can only replicate a master, not a replica.");
        }
        let island = state.island(shard.value.island);
        if state.island(theirs.value.island) != island {
            return refuse(format!("ERR Unknown node {primary}"));
        }
        let line = NodeValue { shard: target, ..state.nodes[&self.me.node].clone() };
        // The shard that is joined is rewritten. So its primary, alone till now, can't end it by a transaction that was decided before.
        let joined = ShardValue { epoch: Some(theirs.epoch), ..theirs.value.clone() };
        let mut writes = vec![put(Key::Node(self.me.node), line.encode())];
        if !planted::is(Fault::JoinedUnseen) {
            writes.push(put(Key::Shard(target), joined.encode()));
        }
        match self.role() {
            Role::Leads { .. } => {
                let has_slots = state.slots_of(mine).is_some_and(|slots| !slots.is_empty());
                if has_slots || state.nodes_of(mine).count() > 1 {
                    return refuse(
                        "ERR To set a master the node must be empty and without assigned slots.",
                    );
                }
                writes.extend(
                    [Key::Shard(mine), Key::Failover(mine), Key::Marks(mine)]
                        .map(|key| Write::Delete { key }),
                );
            }
            Role::Follows { .. } => {
                let mut value = ShardValue { epoch: Some(shard.epoch), ..shard.value.clone() };
                value.list.retain(|member| member.node != self.me.node);
                writes.push(put(Key::Shard(mine), value.encode()));
            }
            Role::Restarted { .. } | Role::None => return Ok(Step::Wait),
        }
        let compared = [
            Key::Node(self.me.node),
            Key::Node(primary),
            Key::Shard(mine),
            Key::Shard(target),
            Key::Island(island),
        ];
        Ok(commit(state, &compared, writes))
    }

    /// `sent`: the order was sent to the store. The primary may have obeyed before this node sees its own order.
    fn fail_over(
        &self,
        now: Ms,
        state: &State,
        mode: FailoverMode,
        sent: bool,
    ) -> Result<Step, Step> {
        let Some((id, shard)) = state.shard_of(self.me.node) else { return Ok(Step::Wait) };
        let until = now + 4 * self.settings.timeout;
        let unlisted = mode == FailoverMode::Takeover
            || mode == FailoverMode::Force && planted::is(Fault::ForceTakesUnlisted);
        let force = Step::Force(Forced { epoch: shard.epoch, until, unlisted });
        match self.role() {
            Role::None => Ok(Step::Wait),
            Role::Leads { .. } if sent => Ok(Step::Done),
            Role::Leads { .. } => refuse("ERR You should send CLUSTER FAILOVER to a replica"),
            Role::Restarted { .. } if unlisted => Ok(force),
            Role::Restarted { .. } => refuse("ERR This node has restarted: use TAKEOVER"),
            Role::Follows { primary, .. } if state.is_alive(primary) => {
                let value = FailoverValue { to: self.me, force: mode != FailoverMode::Plain };
                if state.failovers.get(&id) == Some(&value) {
                    return Ok(Step::Done);
                }
                let compared = [Key::Failover(id), Key::Shard(id), Key::Node(self.me.node)];
                Ok(commit(state, &compared, vec![put(Key::Failover(id), value.encode())]))
            }
            Role::Follows { .. } if mode == FailoverMode::Plain => {
                refuse("ERR Master is down or failed, please use CLUSTER FAILOVER FORCE")
            }
            Role::Follows { .. } => Ok(force),
        }
    }

    /// Once its line is gone, this node begins again.
    fn leave(&self, state: &State) -> Result<Step, Step> {
        let island = state.island_of(self.me.node);
        let is_alone = state.nodes.keys().filter(|id| state.island_of(**id) == island).count() == 1;
        if is_alone { Ok(Step::Done) } else { self.forget(state, self.me.node) }
    }

    /// Removes a node and what only it has.
    fn forget(&self, state: &State, node: NodeId) -> Result<Step, Step> {
        let Some(line) = state.nodes.get(&node) else { return Ok(Step::Done) };
        let id = line.shard;
        let mut writes = vec![Write::Delete { key: Key::Node(node) }];
        let mut compared = vec![Key::Node(node), Key::Lease(node), Key::Shard(id)];
        let Some(shard) = state.shards.get(&id) else {
            return Ok(commit(state, &compared, writes));
        };
        let mut value = ShardValue { epoch: Some(shard.epoch), ..shard.value.clone() };
        let is_alone = state.nodes_of(id).count() == 1;
        let has_slots = state.slots_of(id).is_some_and(|slots| !slots.is_empty());
        if value.primary.node != node {
            value.list.retain(|member| member.node != node);
            writes.push(put(Key::Shard(id), value.encode()));
        } else if !is_alone || has_slots {
            if node == self.me.node && has_slots {
                return refuse("ERR This node owns slots: move them or delete them first");
            }
            // The primary decides what belongs to its shard as long as it has a lease.
            if node != self.me.node && state.leases.contains_key(&node) {
                return refuse("ERR The node is a primary with slots or replicas, and it is alive");
            }
            if !is_alone {
                return refuse(
                    "ERR The node is the primary of replicas: promote one of them first",
                );
            }
        }
        if value.primary.node == node && is_alone {
            let island = state.island(shard.value.island);
            let mut owners = state.owners(island);
            owners.remove(&id);
            compared.push(Key::Island(island));
            writes.push(put(Key::Island(island), IslandValue::Slots(owners).encode()));
            let keys = [Key::Shard(id), Key::Failover(id), Key::Marks(id)];
            writes.extend(keys.map(|key| Write::Delete { key }));
            // Of a move of keys, the other shard deletes what it got.
            let is_leaving =
                |handover: &HandoverValue| handover.from == id && handover.copy.is_none();
            let leaving = state.handovers.iter().filter(|(_, handover)| is_leaving(handover));
            // The others are removed as keys that nothing refers to.
            writes.extend(
                leaving.take(AT_ONCE).map(|(id, _)| Write::Delete { key: Key::Handover(*id) }),
            );
        }
        Ok(commit(state, &compared, writes))
    }

    fn add_slots(&self, state: &State, slots: &SlotSet, sent: bool) -> Result<Step, Step> {
        let Some((mine, shard)) = self.led() else {
            return refuse("ERR Only a primary owns slots");
        };
        let island = state.island(shard.value.island);
        let mut owners = state.owners(island);
        let own = owners.entry(mine).or_default();
        if sent && slots.iter().all(|slot| own.contains(slot)) {
            return Ok(Step::Done);
        }
        if state.overlapping_copy(slots).is_some() {
            return refuse("ERR The slots are being migrated");
        }
        slots.iter().for_each(|slot| _ = own.insert(slot));
        let busy = owner_of_any(state, island, slots);
        if let Some((slot, _)) = busy {
            return refuse(format!("ERR Slot {slot} is already busy"));
        }
        let keys = [Key::Island(island), Key::Shard(mine)];
        Ok(change_owners(state, &keys, island, owners, (slots, None, Some(mine))))
    }

    /// Slots of this shard get no owner. Slots that another shard has taken meanwhile stay there: in Valkey, a node deletes slots
    /// of others from its own view only.
    fn delete_slots(
        &self,
        state: &State,
        slots: &SlotSet,
        waiting: &Waiting,
    ) -> Result<Step, Step> {
        let Some((mine, _)) = state.shard_of(self.me.node) else { return Ok(Step::Wait) };
        let owned = state.slots_of(mine);
        let owns = |slot: &Slot| owned.is_some_and(|owned| owned.contains(*slot));
        let left: SlotSet = slots.iter().filter(owns).collect();
        if left.is_empty() {
            return Ok(Step::Done);
        }
        let leaves = |of: &HandoverValue| {
            of.from == mine && of.to.is_some() && of.copy.is_none() && overlaps(&of.slots, &left)
        };
        match state.handovers.values().any(leaves) {
            true => Ok(Step::Wait),
            false => self.leave_slots(state, &left, None, waiting),
        }
    }

    /// Slots come to this shard, whatever happens to their owners meanwhile: `valkey-cli --cluster fix` sends DELSLOTS to the owner before
    /// that has handed the slot over.
    fn take_from_all(
        &self,
        state: &State,
        slots: &SlotSet,
        waiting: &Waiting,
    ) -> Result<Step, Step> {
        let Some((mine, shard)) = self.led() else {
            return refuse("ERR Only a primary owns slots");
        };
        let owners = state.owners(state.island(shard.value.island));
        let owns = |slot: &Slot| owners.get(&mine).is_some_and(|own| own.contains(*slot));
        let left: SlotSet = slots.iter().filter(|slot| !owns(slot)).collect();
        if left.is_empty() {
            return Ok(Step::Done);
        }
        if state.handovers.contains_key(&waiting.handover) {
            return Ok(Step::Wait);
        }
        match owners.values().find(|owned| overlaps(owned, &left)) {
            None => self.add_slots(state, &left, false),
            Some(owned) => {
                let of_owner = left.iter().filter(|slot| owned.contains(*slot)).collect();
                self.leave_slots(state, &of_owner, Some(mine), waiting)
            }
        }
    }

    /// Slots of one shard go to another one, or to none. The shard's primary does it.
    fn leave_slots(
        &self,
        state: &State,
        slots: &SlotSet,
        to: Option<ShardId>,
        waiting: &Waiting,
    ) -> Result<Step, Step> {
        let Some(island) = state.island_of(self.me.node) else { return Ok(Step::Wait) };
        let owners = state.owners(island);
        let owner = |slot| owners.iter().find(|(_, owned)| owned.contains(slot)).map(|(id, _)| *id);
        let Some(first) = slots.iter().next() else { return Ok(Step::Done) };
        if slots.iter().all(|slot| owner(slot) == to) {
            return match to.is_some() || waiting.sent {
                true => Ok(Step::Done),
                false => refuse(format!("ERR Slot {first} is already unassigned")),
            };
        }
        if state.handovers.contains_key(&waiting.handover) {
            return Ok(Step::Wait);
        }
        if waiting.sent && !matches!(waiting.request, NodeRequest::TakeSlots(_)) {
            return refuse(
                "ERR The owner of the slots has refused to hand them over: it has keys of them",
            );
        }
        if self.is_free(state, slots) {
            return refuse(
                "ERR The slot has no owner: send CLUSTER ADDSLOTS to the node that gets it",
            );
        }
        let Some(from) =
            owner(first).filter(|from| slots.iter().all(|slot| owner(slot) == Some(*from)))
        else {
            return refuse("ERR The slots don't have one owner");
        };
        if let Some(to) = to
            && let Some(keys) = abandoned(state, from)
            && self.led().is_some_and(|(mine, _)| mine == to)
        {
            return Ok(self.take_slots(state, slots, from, to, keys));
        }
        if state.overlapping_copy(slots).is_some() {
            return refuse("ERR The slots are being migrated");
        }
        let leave_keys = match waiting.request {
            NodeRequest::MoveSlots { leave_keys, .. } => leave_keys,
            _ => true,
        };
        let value = HandoverValue { from, to, slots: slots.clone(), copy: None, leave_keys };
        // With the owners: a handover of slots that have gone already would be carried out when they come back.
        let mut compared = vec![Key::Handover(waiting.handover), Key::Shard(from)];
        compared.push(Key::Island(island));
        compared.extend(to.map(Key::Shard));
        let write = put(Key::Handover(waiting.handover), value.encode());
        Ok(commit(state, &compared, vec![write]))
    }

    /// Takes slots of a shard that no node can lead any more.
    fn take_slots(
        &self,
        state: &State,
        slots: &SlotSet,
        from: ShardId,
        to: ShardId,
        mut compared: Vec<Key>,
    ) -> Step {
        let Some(island) = state.island_of(self.me.node) else { return Step::Wait };
        // This shard may be deleting keys of these slots.
        for (id, _, copy) in state.copies().filter(|(_, of, _)| overlaps(&of.slots, slots)) {
            if !copy.phase.is_open() {
                return Step::Refuse("ERR The slots are being migrated".to_string());
            }
            compared.push(Key::Handover(id));
        }
        let mut owners = state.owners(island);
        let left = owners.entry(from).or_default();
        let taken: SlotSet = slots.iter().filter(|slot| left.remove(*slot)).collect();
        let own = owners.entry(to).or_default();
        taken.iter().for_each(|slot| _ = own.insert(slot));
        compared.extend([Key::Island(island), Key::Shard(from), Key::Shard(to)]);
        change_owners(state, &compared, island, owners, (&taken, Some(from), Some(to)))
    }

    fn cancel_moves(&self, state: &State) -> Result<Step, Step> {
        let Some((mine, _)) = self.led() else { return Ok(Step::Done) };
        let keys: Vec<Key> = state
            .handovers
            .iter()
            .filter(|(_, handover)| handover.from == mine || handover.to == Some(mine))
            .filter(|(_, handover)| handover.copy.is_none())
            .map(|(id, _)| Key::Handover(*id))
            // The next step ends the others.
            .take(AT_ONCE)
            .collect();
        if keys.is_empty() {
            let is_open =
                state.copies().any(|(_, of, copy)| of.from == mine && copy.phase.is_open());
            return Ok(if is_open { Step::Wait } else { Step::Done });
        }
        let writes = keys.iter().map(|key| Write::Delete { key: *key }).collect();
        Ok(commit(state, &keys, writes))
    }
}

fn overlaps(some: &SlotSet, others: &SlotSet) -> bool {
    some.iter().any(|slot| others.contains(slot))
}

/// A slot of these that has an owner.
fn owner_of_any(state: &State, island: NodeId, slots: &SlotSet) -> Option<(u16, ShardId)> {
    state.owners(island).into_iter().find_map(|(shard, owned)| {
        slots.iter().find(|slot| owned.contains(*slot)).map(|slot| (slot, shard))
    })
}

/// The lease keys that don't exist, if no node can lead this shard. A primary that may continue without
/// a lease is never known to have stopped.
fn abandoned(state: &State, shard: ShardId) -> Option<Vec<Key>> {
    let value = &state.shards.get(&shard)?.value;
    let nodes = value.list.iter().chain([&value.primary]).map(|member| member.node);
    let keys: Vec<Key> = nodes.map(Key::Lease).collect();
    let is_gone = keys.iter().all(|key| state.revision_of(*key).is_none());
    let continues = value.continues && !planted::is(Fault::TakenFromContinuing);
    (is_gone && !continues).then_some(keys)
}
