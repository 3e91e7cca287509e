//! A primary and its replicas: the list of replicas that may be promoted, and which writes are
//! confirmed.
//!
//! Quorum: a write is confirmed when *all* listed replicas have it, and those that a transaction
//! may list. So each replica that can ever be promoted has all confirmed writes.

use super::action::{Action, Member, Ms, Revision, Transaction, Write};
use super::layout::{Key, ShardValue};
use super::parts::Replica;
use super::proposals::Purpose;
use super::state::{Shard, State};
use super::{Node, Role};
use crate::id::{NodeId, ShardId};
use crate::planted::{self, Fault};
use std::collections::{BTreeMap, BTreeSet};

impl Node {
    /// A replica has reported: it has applied the stream of this epoch up to `acked`. `whole`: it
    /// isn't loading a copy. The driver also calls this, with `whole` false, before it sends a copy:
    /// from then on the replica may drop its data. It ignores the earlier links of this replica.
    pub fn replica_progress(
        &mut self,
        now: Ms,
        member: Member,
        epoch: Revision,
        acked: u64,
        whole: bool,
        out: &mut Vec<Action>,
    ) {
        let replica = Replica { epoch, acked, heard: now, whole };
        let current = self.replicas.get(&member);
        if current.is_none_or(|known| known.epoch <= epoch) {
            self.replicas.insert(member, replica);
        }
        self.confirm(out);
    }

    /// The link to a replica has ended.
    pub fn replica_gone(&mut self, now: Ms, member: Member, out: &mut Vec<Action>) {
        self.replicas.remove(&member);
        self.settle(now, out);
    }

    /// This primary has written up to this offset.
    pub fn written(&mut self, offset: u64) {
        self.data.offset = offset;
    }

    /// The shard that this node leads.
    pub(super) fn led(&self) -> Option<(ShardId, &Shard)> {
        match self.role() {
            Role::Leads { shard, .. } => Some((shard, self.state.as_ref()?.shards.get(&shard)?)),
            Role::None | Role::Restarted { .. } | Role::Follows { .. } => None,
        }
    }

    /// Whether this node is the primary of its shard, with data that it may serve.
    pub fn leads(&self) -> bool {
        matches!(self.role(), Role::Leads { .. }) && self.data.whole
    }

    /// The replicas of this node's shard that may be promoted. A process that was on the list when it ended is none.
    pub fn listed(&self) -> Vec<NodeId> {
        let Some(state) = &self.state else { return Vec::new() };
        let Some((_, shard)) = state.shard_of(self.me.node) else { return Vec::new() };
        let list = shard.value.list.iter().filter(|member| !state.has_restarted(**member));
        list.map(|member| member.node).collect()
    }

    /// With a quorum, as a primary: the end of the confirmed writes.
    pub fn confirmed_through(&self) -> Option<u64> {
        let (_, shard) = self.led()?;
        let leader = self.leader.as_ref()?;
        (self.quorum(&shard.value) > 0).then_some(leader.through)
    }

    /// All members that are listed, or that a transaction may list.
    pub(super) fn may_be_listed(&self) -> BTreeSet<Member> {
        let Some((_, shard)) = self.led() else { return BTreeSet::new() };
        if planted::is(Fault::ListShortenedEarly)
            && let Some(list) = self.proposals.lists().last()
        {
            return list.iter().copied().collect();
        }
        let listed = shard.value.list.iter().copied();
        if planted::is(Fault::AdditionCountedLate) {
            return listed.collect();
        }
        listed.chain(self.proposals.lists().flatten().copied()).collect()
    }

    /// How many listed replicas must have a write before it is confirmed.
    pub(super) fn quorum(&self, shard: &ShardValue) -> usize {
        self.settings.quorum.max(shard.quorum) as usize
    }

    /// The last offset that `member` has acknowledged in this epoch.
    fn acked(&self, member: &Member, epoch: Revision) -> Option<u64> {
        let replica = self.replicas.get(member)?;
        (replica.epoch == epoch && replica.whole).then_some(replica.acked)
    }

    /// Confirms what all replicas have that may be listed.
    pub(super) fn confirm(&mut self, out: &mut Vec<Action>) {
        let (Some((_, shard)), Some(leader)) = (self.led(), &self.leader) else { return };
        let needed = self.quorum(&shard.value);
        if needed == 0 || shard.value.quorum == 0 || shard.value.list.len() < needed {
            return;
        }
        let epoch = leader.epoch;
        let members = self.may_be_listed();
        let acked = members.iter().map(|member| self.acked(member, epoch).unwrap_or(0));
        let least = match planted::is(Fault::OneAckEnough) {
            true => acked.max(),
            false => acked.min(),
        };
        let least = least.unwrap_or(0);
        let leader = self.leader.as_mut().expect("it leads");
        leader.through = leader.through.max(least);
        if leader.through > self.shown.through {
            self.shown.through = leader.through;
            out.push(Action::Confirm { through: leader.through });
        }
    }

    /// The tasks of a primary with a lease.
    pub(super) fn lead(&mut self, now: Ms) {
        if self.led().is_none() {
            return;
        }
        self.run_failover(now);
        self.hand_slots_over(now);
        self.keep_marks(now);
        let hands_over = self.yielding.is_some()
            || self.proposals.is_possible(|purpose| *purpose == Purpose::Failover);
        if !hands_over {
            self.keep_list(now);
        }
    }

    /// Proposes the list that the replicas' progress asks for.
    fn keep_list(&mut self, now: Ms) {
        let is_list = |purpose: &Purpose| matches!(purpose, Purpose::List(_));
        let (Some(state), Some((id, shard))) = (&self.state, self.led()) else { return };
        if self.proposals.is_awaited(is_list) || !self.may_propose(now) {
            return;
        }
        let list = self.wanted_list(now, state, id, shard);
        let mut value = shard.value.clone();
        // So that the one that was merged into it can be removed.
        let island = state.island(value.island);
        let is_wanted = value.list == list
            && value.island == island
            && value.quorum == self.settings.quorum
            && value.continues == self.settings.continues;
        // One without an answer may change the list at any time. Any write ends that.
        if is_wanted && !self.proposals.is_unknown(is_list) {
            return;
        }
        value.list.clone_from(&list);
        value.epoch = Some(shard.epoch);
        value.quorum = self.settings.quorum;
        value.continues = self.settings.continues;
        let key = Key::Shard(id);
        let mut compares = vec![state.compare(key)];
        if value.island != island {
            // It isn't merged, and not removed: see `cleanup`.
            value.island = island;
            compares.push(state.compare(Key::Island(island)));
        }
        let writes = vec![Write::Put { key, value: value.encode(), lease: None }];
        self.propose(now, Purpose::List(list), Transaction { compares, writes });
    }

    /// Asynchronous: all that follow. Quorum: as many as it needs, those that follow best. A replica
    /// that doesn't follow stays until another one can replace it: an empty list has no
    /// successor.
    fn wanted_list(&self, now: Ms, state: &State, id: ShardId, shard: &Shard) -> Vec<Member> {
        let needed = self.quorum(&shard.value);
        let follows = |member: &Member| {
            self.acked(member, shard.epoch).is_some()
                && now < self.replicas[member].heard + self.settings.timeout / 2
                && state.is_alive(*member)
                && state.nodes.get(&member.node).is_some_and(|node| node.shard == id)
        };
        let confirmed = self.leader.as_ref().map_or(0, |leader| leader.through);
        let caught_up = |member: &&Member| {
            follows(member)
                && (needed == 0
                    || planted::is(Fault::ListedBehind)
                    || self.acked(member, shard.epoch).is_some_and(|acked| acked >= confirmed))
        };
        let (mut list, idle): (Vec<Member>, Vec<Member>) =
            shard.value.list.iter().partition(|member| follows(member));
        let mut others: Vec<Member> = self.replicas.keys().filter(caught_up).copied().collect();
        others.retain(|member| !shard.value.list.contains(member));
        let best_first = |members: &mut Vec<Member>, replicas: &BTreeMap<Member, Replica>| {
            members.sort_by_key(|member| std::cmp::Reverse(replicas[member].acked));
        };
        best_first(&mut list, &self.replicas);
        best_first(&mut others, &self.replicas);
        let size = if needed == 0 { usize::MAX } else { needed };
        list.extend(others);
        list.truncate(size);
        if list.len() < needed || list.is_empty() {
            let missing = needed.max(1) - list.len();
            list.extend(idle.into_iter().take(missing));
        }
        list.sort_unstable();
        list
    }
}
