//! The plan of a CLUSTER command in a cluster with a store: the same checks as without one, and then requests to
//! [`crate::node::Node`], which changes the store.

use super::{Facts, Scene};
use crate::change::{Change, Edit};
use crate::id::NodeId;
use crate::map::Map;
use crate::node::{Direction, Mark, NodeRequest};
use crate::refusal::{Refusal, refusal};
use crate::request::{Request, Verb};
use crate::slots::{Slot, SlotSet};
use std::net::IpAddr;

/// The requests of a command. Its parts are done in this order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Requests of which each one waits for the one before it.
    pub requests: Vec<NodeRequest>,
    /// Meet the node at this address.
    pub meet: Option<(IpAddr, u16)>,
}

/// The plan for `request` to node `me`.
pub fn plan(
    map: &Map,
    me: NodeId,
    facts: &Facts<'_>,
    request: Request<'_>,
) -> Result<Plan, Refusal> {
    let scene = Scene { map, myself: map.node(me).expect("the map has this node"), facts };
    let args = request.args;
    let one = |request| Ok(Plan { requests: vec![request], ..Plan::default() });
    match request.verb {
        Verb::AddSlots => Ok(scene.plan_of(scene.add_slots(args)?)),
        Verb::AddSlotsRange => Ok(scene.plan_of(scene.add_slots_range(args)?)),
        Verb::DelSlots => Ok(scene.plan_of(scene.del_slots(args)?)),
        Verb::DelSlotsRange => Ok(scene.plan_of(scene.del_slots_range(args)?)),
        Verb::FlushSlots => Ok(scene.plan_of(scene.flush_slots()?)),
        Verb::SetSlot => Ok(scene.plan_of(scene.set_slot(args)?)),
        Verb::MigrateSlots => {
            let copy = |(slots, to)| NodeRequest::CopySlots { slots: Box::new(slots), to };
            let requests = scene.migrations(args)?.into_iter().map(copy).collect();
            Ok(Plan { requests, ..Plan::default() })
        }
        Verb::Meet => Ok(Plan { meet: Some(scene.address_to_meet(args)?), ..Plan::default() }),
        Verb::Failover => one(NodeRequest::Failover(scene.failover_mode(args)?)),
        Verb::Replicate => match scene.primary_to_replicate(args)? {
            Some(primary) => one(NodeRequest::Replicate(primary)),
            None if scene.myself.is_primary() => Ok(Plan::default()),
            None => one(NodeRequest::Leave),
        },
        // Tools send FORGET to each node. The first one changes the map of all.
        Verb::Forget if NodeId::parse(args[0]).is_some_and(facts.was_known) => Ok(Plan::default()),
        Verb::Forget => match scene.forget(args)?.edits.first() {
            Some(Edit::RemoveNode(node)) => one(NodeRequest::Forget(*node)),
            _ => Ok(Plan::default()),
        },
        Verb::Reset => scene.leave(args),
        // The epochs of a cluster with a store are revisions of the store.
        Verb::BumpEpoch => Ok(Plan::default()),
        Verb::SetConfigEpoch => scene.epoch_to_set(args).map(|_| Plan::default()),
    }
}

impl Scene<'_> {
    /// RESET: this node leaves the cluster, with an own shard and no slots.
    fn leave(&self, args: &[&[u8]]) -> Result<Plan, Refusal> {
        // A node that left its shard has that shard's data, which stay: the operator may delete them.
        let is_out = self.map.slots_of(self.myself.id).is_empty();
        let facts = Facts { has_keys: self.facts.has_keys && !is_out, ..*self.facts };
        let change = Scene { facts: &facts, ..*self }.reset(args)?;
        if change.id_after(self.myself.id) != self.myself.id {
            return Err(refusal(
                "CLUSTER RESET HARD isn't possible with a store: the store knows this node by its id",
            ));
        }
        let slots = Box::new(self.map.slots_of(self.myself.id));
        // The marks go with the slots and with the shard.
        let mut plan = Plan::default();
        if self.myself.is_primary() && !slots.is_empty() {
            plan.requests.push(NodeRequest::DeleteSlots(slots));
        }
        if self.map.nodes().len() > 1 {
            plan.requests.push(NodeRequest::Leave);
        }
        Ok(plan)
    }

    /// The plan that has the effect of a change of slots.
    fn plan_of(&self, change: Change) -> Plan {
        let mut plan = Plan::default();
        let mut marks = Vec::new();
        for edit in change.edits {
            match edit {
                Edit::SetOwner { slots, owner: None } => {
                    plan.requests.push(NodeRequest::DeleteSlots(slots));
                }
                Edit::SetOwner { slots, owner: Some(to) } => {
                    let owner = |slot| self.map.owner(slot).map(|node| node.id);
                    // Only this node can take a free slot for itself.
                    let is_free = |slot: &Slot| owner(*slot).is_none() && to == self.myself.id;
                    let is_other = |slot: &Slot| owner(*slot) != Some(to) && !is_free(slot);
                    let free: SlotSet = slots.iter().filter(is_free).collect();
                    let others: SlotSet = slots.iter().filter(is_other).collect();
                    if !free.is_empty() {
                        plan.requests.push(NodeRequest::AddSlots(Box::new(free)));
                    }
                    if !others.is_empty() {
                        plan.requests.push(NodeRequest::MoveSlots {
                            slots: Box::new(others),
                            to,
                            leave_keys: false,
                        });
                    }
                }
                Edit::SetMigrating { slot, to, .. } => {
                    marks.push(Mark { slot, direction: Direction::Migrating, other: to });
                }
                Edit::SetImporting { slot, from, .. } => {
                    marks.push(Mark { slot, direction: Direction::Importing, other: from });
                }
                // Epochs are revisions of the store.
                _ => {}
            }
        }
        // Last: a change of owners that fails leaves the marks.
        if !marks.is_empty() {
            plan.requests.push(NodeRequest::Mark(marks));
        }
        plan
    }
}
