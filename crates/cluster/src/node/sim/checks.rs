//! Invariants: at each step, and at the end.

use super::tally::Count;
use super::world::{Pid, T, World};
use crate::id::{NodeId, ShardId};
use crate::node::FailoverMode;
use crate::node::NodeRequest;
use crate::node::action::{Action, Duty};
use crate::node::layout::IslandValue;

impl World {
    /// A client that has a reply finds the change that it reports.
    pub fn check_order(&mut self, pid: Pid) {
        let actions = &self.processes[pid].actions;
        let is_reply = |action: &Action| matches!(action, Action::Reply { .. });
        let is_effect = |action: &Action| {
            matches!(action, Action::Publish | Action::Serve(_) | Action::Duty(_))
        };
        let mut after = actions.iter().skip_while(|action| !is_reply(action));
        if after.any(is_effect) {
            let actions = format!("{actions:?}");
            self.fault(format!("{pid} replies before the change is in force: {actions}"));
        }
    }

    /// A process that would answer a client now is the one that the store names.
    pub fn check_serving(&mut self, pid: Pid) {
        if self.processes[pid].serves(self.now)
            && let Some(wrong) = self.processes[pid].check(&self.store, None)
        {
            self.fault(wrong);
        }
    }

    /// A new primary has each acknowledged write, with a quorum.
    pub fn check_data(&mut self, pid: Pid) {
        let process = &self.processes[pid];
        let Duty::Lead { shard, epoch } = process.duty else { return };
        // A stopped process may see its promotion after its successor's. It doesn't serve.
        let is_named = self.store.truth.shards.get(&shard).is_some_and(|now| now.epoch == epoch);
        if self.plan.settings.quorum == 0 || !is_named {
            return;
        }
        let acked = self.acked.entry(shard).or_default();
        if self.takeovers.get(&pid).is_some_and(|until| self.now < *until) {
            // The operator has accepted the loss.
            acked.retain(|(offset, write)| process.log.has(*offset, *write));
            self.takeovers.remove(&pid);
            self.tally.count(Count::Takeovers);
        }
        let acked = &self.acked[&shard];
        let lost = acked.iter().find(|(offset, write)| !process.log.has(*offset, *write));
        if let Some((offset, write)) = lost {
            let wrong = format!("{pid} leads {shard:?} without write {write} at {offset}");
            self.fault(wrong);
        }
    }

    /// A shard whose replica moves away by itself keeps as many as `cluster-migration-barrier` says.
    pub fn check_migrations(&mut self) {
        let truth = &self.store.truth;
        let moved: Vec<(NodeId, ShardId)> = truth
            .nodes
            .iter()
            .filter(|(id, line)| self.shard_of.get(id).is_some_and(|shard| *shard != line.shard))
            .map(|(id, _)| (*id, self.shard_of[id]))
            .collect();
        let kept = |shard| truth.nodes_of(shard).count().saturating_sub(1);
        let few = moved.iter().find(|(_, from)| kept(*from) < 1).copied();
        self.shard_of = truth.nodes.iter().map(|(id, line)| (*id, line.shard)).collect();
        if !self.plan.settings.migrates {
            return;
        }
        self.tally.count_many(Count::Migrated, moved.len() as u64);
        if let Some((node, from)) = few {
            self.fault(format!("{node:?} leaves shard {from:?} without a replica"));
        }
    }

    /// Each shard's primary is one of its nodes.
    pub fn check_primaries(&mut self) {
        let truth = &self.store.truth;
        let is_here = |(id, node): &(ShardId, NodeId)| {
            truth.nodes.get(node).is_some_and(|line| line.shard == *id)
        };
        let mut primaries = truth.shards.iter().map(|(id, shard)| (*id, shard.value.primary.node));
        if let Some((id, node)) = primaries.find(|shard| !is_here(shard)) {
            self.fault(format!("{id:?} has the primary {node:?} of another shard"));
        }
    }

    /// Compares the keys with each other.
    pub fn check_layout(&mut self) {
        let wrong = self.wrong_layout();
        wrong.into_iter().for_each(|wrong| self.fault(wrong));
    }

    fn wrong_layout(&self) -> Option<String> {
        let truth = &self.store.truth;
        for (id, line) in &truth.nodes {
            if !truth.shards.contains_key(&line.shard) {
                return Some(format!("{id:?} belongs to a shard that is gone"));
            }
        }
        for (id, shard) in &truth.shards {
            let is_here = |node| truth.nodes.get(node).is_some_and(|line| line.shard == *id);
            let list = &shard.value.list;
            if let Some(stranger) = list.iter().find(|member| !is_here(&member.node)) {
                return Some(format!("{id:?} lists {stranger:?}, which isn't its node"));
            }
            if !matches!(
                truth.islands.get(&truth.island(shard.value.island)),
                Some(IslandValue::Slots(_))
            ) {
                return Some(format!("{id:?} has no island"));
            }
        }
        for island in truth.islands.keys().filter(|id| truth.island(**id) == **id) {
            for (owner, slots) in truth.owners(*island) {
                let shard = truth.shards.get(&owner);
                let is_near = shard.is_some_and(|of| truth.island(of.value.island) == *island);
                if !is_near && !slots.is_empty() {
                    return Some(format!("{owner:?} has slots of another island"));
                }
            }
        }
        let mut of_shards = truth.marks.keys().chain(truth.failovers.keys());
        let stray = of_shards.find(|id| !truth.shards.contains_key(*id));
        stray.map(|id| format!("{id:?} is gone, and has marks or a failover"))
    }

    pub fn made_primary(&mut self, id: ShardId) {
        self.say(|| format!("store: {:?}", self.store.truth.shards[&id]));
    }

    /// The process that leads a shard and serves.
    fn leader(&self, id: ShardId) -> Option<Pid> {
        self.current.iter().copied().find(|pid| {
            let process = &self.processes[*pid];
            matches!(process.duty, Duty::Lead { shard, .. } if shard == id)
                && process.runs()
                && process.local(self.now) < process.deadline
        })
    }

    /// Whether all is as it must be without faults. Otherwise, the reason.
    pub fn converged(&mut self) -> Result<(), String> {
        let shards: Vec<ShardId> = self.shard_ids.clone();
        for id in shards {
            let Some(leader) = self.leader(id) else {
                return Err(format!("no node leads {id:?}"));
            };
            let (process, truth) = (&self.processes[leader], &self.store.truth);
            let owned = truth.slots_of(id).cloned().unwrap_or_default();
            if *process.serve != owned {
                return Err(format!("{leader} serves {:?} of {owned:?}", process.serve));
            }
            if let Some(pending) = process.pending.last() {
                return Err(format!("{leader} doesn't confirm {pending:?}"));
            }
            let shard = &truth.shards[&id];
            let needed = self.plan.settings.quorum as usize;
            if shard.value.list.len() < needed {
                return Err(format!("{id:?} has a short list"));
            }
            let log = &process.log;
            for pid in &self.current {
                let follower = &self.processes[*pid];
                let is_here = truth.nodes.get(&follower.member.node).is_some_and(|n| n.shard == id);
                if is_here && (follower.log.len() != log.len() || !follower.whole) {
                    return Err(format!("{pid} has not caught up"));
                }
            }
        }
        if let Some((id, ..)) = self.store.truth.copies().next() {
            return Err(format!("the move {id:?} has not ended"));
        }
        self.check_maps()
    }

    /// All nodes show the same map.
    fn check_maps(&self) -> Result<(), String> {
        let maps: Vec<_> = self.current.iter().map(|pid| self.processes[*pid].node.map()).collect();
        match maps.iter().position(|map| map.is_none() || *map != maps[0]) {
            None => Ok(()),
            Some(host) => Err(format!("the map of host {host} is another one")),
        }
    }

    /// Asynchronous: each acknowledged write that is gone was reported.
    pub fn check_losses(&mut self) {
        for (id, acked) in &self.acked {
            let Some(leader) = self.leader(*id) else { continue };
            let log = &self.processes[leader].log;
            let lost = acked.iter().find(|(offset, write)| {
                !log.has(*offset, *write) && !self.reported.contains(write)
            });
            if let Some((offset, write)) = lost {
                let wrong = format!("write {write} of {id:?} at {offset} is lost without a report");
                return self.fault(wrong);
            }
        }
    }

    /// An operator promotes a node of a shard whose members are all gone for good.
    pub fn rescue(&mut self) {
        for id in self.shard_ids.clone() {
            if self.leader(id).is_some() {
                continue;
            }
            let value = self.store.truth.shards[&id].value.clone();
            let is_left = value.list.iter().chain([&value.primary]).any(|member| {
                self.current.iter().any(|pid| self.processes[*pid].member == *member)
            });
            let nodes: Vec<_> = self.store.truth.nodes_of(id).collect();
            let best = self
                .current
                .iter()
                .copied()
                .filter(|pid| nodes.contains(&self.processes[*pid].member.node))
                // A node that came from another shard may have its data still.
                .filter(|pid| self.processes[*pid].node.data.whole)
                .max_by_key(|pid| self.processes[*pid].log.len());
            if let (false, Some(pid)) = (is_left, best) {
                self.takeovers.insert(pid, self.now + 6 * T);
                self.request(pid, NodeRequest::Failover(FailoverMode::Takeover));
            }
        }
    }

    /// How long a cluster may take after the last fault.
    pub fn patience(&self) -> u64 {
        30 * T
    }
}
