//! Handovers of a primary to another node: of slots, or of its role.
//!
//! Both follow the same order, so no two nodes ever serve a slot: stop to serve, wait until the
//! commands that run have ended and their replies have left, commit. Until the outcome is seen, the
//! slots stay suspended.

use super::action::{Action, DrainId, Duty, Member, Ms, Revision, Transaction, Write};
use super::layout::{HandoverId, HandoverValue, IslandValue, Key};
use super::parts::{Drain, Moving, Waiting, Yielding};
use super::proposals::Purpose;
use super::request::NodeRequest;
use super::{Node, Role};
use crate::id::{NodeId, ShardId};
use crate::planted::{self, Fault};
use crate::slots::SlotSet;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Node {
    fn new_drain(&mut self) -> Drain {
        self.drains += 1;
        Drain { id: DrainId(self.drains), requested: false, done: false }
    }

    /// The slots for whose requests this suspension waits.
    pub fn slots_of_drain(&self, id: DrainId) -> Option<SlotSet> {
        let moving = self.moving.values().find(|moving| moving.drain.id == id);
        moving.map(|moving| moving.slots.clone())
    }

    /// Slots that another node is handing over to this one.
    pub fn incoming(&self) -> SlotSet {
        let (Some(state), Some((mine, _))) = (&self.state, self.led()) else {
            return SlotSet::default();
        };
        let incoming = state.handovers.values();
        incoming
            .filter(|handover| handover.to == Some(mine) && state.suspends(handover))
            .flat_map(|handover| handover.slots.iter())
            .collect()
    }

    /// Whether the primary is about to give its role to this replica. An operator has asked for it, and the request is neither
    /// fulfilled nor withdrawn, as far as this node has seen. Without a lease it has seen too little.
    pub(super) fn expects_role(&self, now: Ms) -> bool {
        let (Role::Follows { shard, .. }, Some(state)) = (self.role(), &self.state) else {
            return false;
        };
        let is_asked =
            |waiting: &Waiting| waiting.sent && matches!(waiting.request, NodeRequest::Failover(_));
        let is_wanted = state.failovers.get(&shard).is_some_and(|request| request.to == self.me)
            || self.requests.iter().any(is_asked);
        is_wanted && self.has_lease(now)
    }

    /// The slots of the shard whose role this replica is about to get. The primary redirects clients here as soon as it has given
    /// the role away, perhaps before this node has seen it.
    pub fn expected(&self) -> SlotSet {
        match (&self.state, self.role()) {
            (Some(state), Role::Follows { shard, .. }) if self.shown.expects_role => {
                state.slots_of(shard).cloned().unwrap_or_default()
            }
            _ => SlotSet::default(),
        }
    }

    /// Everything on the slots that this node doesn't serve has ended. `has_keys`: there are keys of the slots.
    pub fn drained(&mut self, now: Ms, id: DrainId, has_keys: bool, out: &mut Vec<Action>) {
        for moving in self.moving.values_mut().filter(|moving| moving.drain.id == id) {
            moving.has_keys = has_keys;
        }
        let of_slots = self.moving.values_mut().map(|moving| &mut moving.drain);
        let of_role = self.yielding.iter_mut().filter_map(|yielding| yielding.drain.as_mut());
        for drain in of_slots.chain(of_role).filter(|drain| drain.id == id) {
            drain.done = true;
        }
        self.settle(now, out);
    }

    /// After the slots to serve were reported, so that nothing begins that the drain waits for.
    pub(super) fn request_drains(&mut self, out: &mut Vec<Action>) {
        let of_slots = self.moving.values_mut().map(|moving| &mut moving.drain);
        let of_role = self.yielding.iter_mut().filter_map(|yielding| yielding.drain.as_mut());
        for drain in of_slots.chain(of_role).filter(|drain| !drain.requested) {
            drain.requested = true;
            out.push(Action::Drain(drain.id));
        }
    }

    /// The slots that this node serves, if it has a lease.
    pub(super) fn serve(&self) -> Arc<SlotSet> {
        let none = || match self.shown.serve.is_empty() {
            true => self.shown.serve.clone(),
            false => Arc::default(),
        };
        let (Some(state), Some((id, _))) = (&self.state, self.led()) else { return none() };
        let yields = self.yielding.as_ref().is_some_and(|yielding| yielding.drain.is_some())
            || self.proposals.is_possible(|purpose| *purpose == Purpose::Failover);
        if yields && !planted::is(Fault::ServesWhileYielding) {
            return none();
        }
        let mut serve = state.slots_of(id).cloned().unwrap_or_default();
        if planted::is(Fault::SlotsServedEarly) {
            let early = state.handovers.values().filter(|handover| handover.to == Some(id));
            early.for_each(|early| early.slots.iter().for_each(|slot| _ = serve.insert(slot)));
        }
        if !planted::is(Fault::SlotsNotSuspended) {
            for moving in self.moving.values() {
                moving.slots.iter().for_each(|slot| _ = serve.remove(slot));
            }
        }
        match serve == *self.shown.serve {
            true => self.shown.serve.clone(),
            false => Arc::new(serve),
        }
    }

    /// Whether this primary accepts the handshake of a replica. A copy for the replica that gets the
    /// role would drop its data while the transaction commits.
    pub fn admits_replicas(&self) -> bool {
        planted::is(Fault::CopyWhileYielding)
            || !self.proposals.is_possible(|purpose| *purpose == Purpose::Failover)
    }

    /// Whether this primary accepts the handshake of a node that follows this epoch of this shard.
    pub fn admits_replica(&self, node: NodeId, shard: ShardId, epoch: Revision) -> bool {
        let is_member = self.state.as_ref().and_then(|state| state.nodes.get(&node));
        self.shown.duty == (Duty::Lead { shard, epoch })
            && is_member.is_some_and(|line| line.shard == shard)
            && self.admits_replicas()
    }

    /// Suspends the slots of each handover, and commits it when they are quiet.
    pub(super) fn hand_slots_over(&mut self, now: Ms) {
        let (Some(state), Some((mine, _))) = (&self.state, self.led()) else { return };
        let leaving: BTreeMap<HandoverId, HandoverValue> = state
            .handovers
            .iter()
            .filter(|(_, handover)| handover.from == mine && state.suspends(handover))
            .map(|(id, handover)| (*id, handover.clone()))
            .collect();
        let proposals = &self.proposals;
        let is_possible =
            |id: &HandoverId| proposals.is_possible(|purpose| *purpose == Purpose::Slots(*id));
        self.moving.retain(|id, _| leaving.contains_key(id) || is_possible(id));
        for (id, handover) in leaving {
            // A node that takes slots of several owners uses the id again, perhaps before the answer of the first transaction. That one
            // is decided by then, since it compares the earlier value.
            let is_suspended = |moving: &Moving| {
                moving.slots == handover.slots || planted::is(Fault::HandoverIdTrusted)
            };
            if !self.moving.get(&id).is_some_and(is_suspended) {
                let drain = self.new_drain();
                let slots = handover.slots.clone();
                self.moving.insert(id, Moving { slots, drain, has_keys: false });
            }
            let is_quiet = self.moving[&id].drain.done || planted::is(Fault::DrainNotAwaited);
            let is_possible = self.proposals.is_possible(|purpose| *purpose == Purpose::Slots(id));
            if is_quiet && !is_possible && self.may_propose(now) && handover.copy.is_none() {
                // Their keys would be unreachable.
                match self.moving[&id].has_keys && handover.to.is_some() && !handover.leave_keys {
                    true => self.refuse_handover(now, id),
                    false => self.commit_handover(now, id, &handover),
                }
            }
        }
        self.run_copies(now);
    }

    fn refuse_handover(&mut self, now: Ms, id: HandoverId) {
        let (Some(state), Some((mine, _))) = (&self.state, self.led()) else { return };
        let key = Key::Handover(id);
        let compares = [key, Key::Shard(mine)].iter().map(|key| state.compare(*key)).collect();
        let writes = vec![Write::Delete { key }];
        self.propose(now, Purpose::Slots(id), Transaction { compares, writes });
    }

    fn commit_handover(&mut self, now: Ms, id: HandoverId, handover: &HandoverValue) {
        let (Some(state), Some((mine, shard))) = (&self.state, self.led()) else { return };
        let island = state.island(shard.value.island);
        let keys = [Key::Handover(id), Key::Shard(mine), Key::Island(island)];
        let mut compares: Vec<_> = keys.iter().map(|key| state.compare(*key)).collect();
        let mut writes = vec![Write::Delete { key: Key::Handover(id) }];
        let mut owners = state.owners(island);
        let may_go = handover.to.is_none_or(|to| {
            let target = state.shards.get(&to);
            target.is_some_and(|target| state.island(target.value.island) == island)
        });
        // Without its target, the handover only ends.
        if may_go {
            let own = owners.entry(mine).or_default();
            let gone: SlotSet = handover.slots.iter().filter(|slot| own.remove(*slot)).collect();
            if let Some(to) = handover.to {
                compares.push(state.compare(Key::Shard(to)));
                let target = owners.entry(to).or_default();
                gone.iter().for_each(|slot| _ = target.insert(slot));
            }
            let value = IslandValue::Slots(owners).encode();
            writes.push(Write::Put { key: Key::Island(island), value, lease: None });
            state.end_marks(&gone, Some(mine), handover.to, &mut compares, &mut writes);
        }
        self.propose(now, Purpose::Slots(id), Transaction { compares, writes });
    }

    /// Hands the role to the replica that an operator has chosen.
    pub(super) fn run_failover(&mut self, now: Ms) {
        let is_ours =
            |purpose: &Purpose| matches!(purpose, Purpose::Failover | Purpose::Withdrawal);
        let (Some(state), Some((id, shard))) = (&self.state, self.led()) else { return };
        let request = state.failovers.get(&id).copied();
        let is_possible = self.proposals.is_possible(is_ours);
        let Some(request) = request else {
            if !is_possible {
                self.yielding = None;
            }
            return;
        };
        let shard = shard.clone();
        let is_new = self.yielding.as_ref().is_none_or(|yielding| yielding.to != request.to);
        if is_new && !is_possible {
            self.yielding = Some(Yielding { to: request.to, since: now, drain: None });
        }
        let (Some(state), Some(yielding)) = (&self.state, &self.yielding) else { return };
        if is_possible || !self.may_propose(now) {
            return;
        }
        let (to, since, drain) = (yielding.to, yielding.since, yielding.drain);
        let quorum = shard.value.quorum > 0;
        let replica = self
            .replicas
            .get(&to)
            .filter(|replica| replica.epoch == shard.epoch && replica.whole && state.is_alive(to));
        let replica = replica.copied();
        // A forced one may lack data, as after a failover without this primary.
        let is_listed = shard.value.list.contains(&to);
        let through = self.leader.as_ref().map_or(0, |leader| leader.through);
        let is_near = replica.is_some_and(|replica| !quorum || replica.acked >= through);
        let is_equal = replica.is_some_and(|replica| replica.acked >= self.data.offset);
        let forced = request.force && is_listed && replica.is_some();
        // It may have moved to another shard since the request.
        let is_member = state.nodes.get(&to.node).is_some_and(|line| line.shard == id)
            || planted::is(Fault::HandedToLeaver);
        if !is_member || now >= since + 2 * self.settings.timeout {
            let key = Key::Failover(id);
            let transaction = Transaction {
                compares: vec![state.compare(key)],
                writes: vec![Write::Delete { key }],
            };
            return self.propose(now, Purpose::Withdrawal, transaction);
        }
        match drain {
            None if is_near || forced => {
                let drain = Some(self.new_drain());
                self.yielding = Some(Yielding { to, since, drain });
            }
            None => {}
            Some(drain) if !drain.done && !planted::is(Fault::DrainNotAwaited) => {}
            Some(_) if is_equal || forced => self.commit_failover(now, to, is_equal),
            Some(_) => {}
        }
    }

    /// `is_equal`: the replica has everything that this node has, and the other way round.
    fn commit_failover(&mut self, now: Ms, to: Member, is_equal: bool) {
        let (Some(state), Some((id, shard))) = (&self.state, self.led()) else { return };
        let keys = [Key::Shard(id), Key::Failover(id), Key::Lease(to.node), Key::Node(to.node)];
        let compares = keys.iter().map(|key| state.compare(*key)).collect();
        let mut value = shard.value.clone();
        value.epoch = None;
        value.primary = to;
        value.list.retain(|member| member.node != to.node);
        if is_equal {
            value.list.push(self.me);
            value.list.sort_unstable();
        }
        let writes = vec![
            Write::Put { key: Key::Shard(id), value: value.encode(), lease: None },
            Write::Delete { key: Key::Failover(id) },
        ];
        self.propose(now, Purpose::Failover, Transaction { compares, writes });
    }
}
