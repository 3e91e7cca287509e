//! A replica moves to a shard that has lost its replicas: `cluster-allow-replica-migration`.
//!
//! As in Valkey, it leaves a shard with the most working replicas, and with more than `cluster-migration-barrier` of them. Of such
//! replicas, the one with the least id moves, to a primary with slots whose replicas are all gone for some time. A replica that
//! leaves changes `shards/ID`, so of several that leave one shard at once only one succeeds.

use super::action::{Action, Ms};
use super::proposals::Purpose;
use super::requests::Step;
use super::state::State;
use super::{Node, Role};
use crate::id::{NodeId, ShardId};
use crate::planted::{self, Fault};
use std::collections::BTreeMap;

/// Interval of looks at the shards, which takes time for each node.
const LOOK: Ms = 500;

/// Which shards lack replicas, as far as this node has looked.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    looked: Ms,
    /// Since when.
    since: BTreeMap<ShardId, Ms>,
}

/// The replicas of a shard.
#[derive(Debug, Default)]
struct Replicas {
    working: Vec<NodeId>,
    /// Those without a lease.
    gone: usize,
}

impl Node {
    /// Moves this replica to another shard, if that is its turn.
    pub(super) fn migrate(&mut self, now: Ms, out: &mut Vec<Action>) {
        let Role::Follows { shard: mine, primary, .. } = self.role() else {
            return self.orphans = Orphans::default();
        };
        if !self.settings.migrates || now < self.orphans.looked + LOOK {
            return;
        }
        self.orphans.looked = now;
        let Some(state) = &self.state else { return };
        let shards = replicas_of_shards(state, self.me.node);
        let is_orphan = |(id, replicas): &(&ShardId, &Replicas)| {
            replicas.working.is_empty() && replicas.gone > 0 && has_slots(state, **id)
        };
        let orphans = shards.iter().filter(is_orphan).map(|(id, _)| *id);
        let since: BTreeMap<ShardId, Ms> =
            orphans.map(|id| (id, self.orphans.since.get(&id).copied().unwrap_or(now))).collect();
        self.orphans.since = since;
        let is_busy = self.is_candidate()
            || !self.requests.is_empty()
            || self.proposals.is_possible(|purpose| *purpose == Purpose::Migration);
        let is_due = |since: &Ms| now >= since + self.settings.migration_delay;
        let target = self.orphans.since.iter().find(|(_, since)| is_due(since));
        let Some((target, _)) = target.filter(|_| !is_busy && self.may_propose(now)) else {
            return;
        };
        if !state.is_alive(primary) || !is_ok(state, &shards) || !self.is_turn(state, &shards, mine)
        {
            return;
        }
        let primary = state.shards[target].value.primary.node;
        if let Ok(Step::Commit(transaction)) = self.replicate(state, primary) {
            out.push(Action::Log(format!("Migrating to orphaned primary {primary}")));
            self.propose(now, Purpose::Migration, transaction);
        }
    }

    /// Whether this node is the replica that can be spared best.
    fn is_turn(&self, state: &State, shards: &BTreeMap<ShardId, Replicas>, mine: ShardId) -> bool {
        let count = |id: &ShardId| shards.get(id).map_or(0, |shard| shard.working.len());
        let most = shards.keys().map(count).max().unwrap_or(0);
        // With a quorum, writes would wait without a listed replica.
        let listed = self.quorum(&state.shards[&mine].value);
        let barrier = (self.settings.migration_barrier as usize).max(listed);
        let keeps_enough = count(&mine) > barrier && most >= 2;
        if !keeps_enough && !planted::is(Fault::MigrationBarrierIgnored) || count(&mine) < most {
            return false;
        }
        let is_needed = |id: &ShardId, node: &NodeId| {
            let value = &state.shards[id].value;
            value.quorum > 0 && value.list.iter().any(|member| member.node == *node)
        };
        let spared = shards.iter().filter(|(id, _)| count(id) == most);
        let replicas = spared.flat_map(|(id, shard)| shard.working.iter().map(move |of| (id, of)));
        let best = replicas.min_by_key(|(id, node)| (is_needed(id, node), **node));
        best.is_some_and(|(_, node)| *node == self.me.node)
    }
}

/// The shards of the island of node `me` whose primaries work, with their replicas.
fn replicas_of_shards(state: &State, me: NodeId) -> BTreeMap<ShardId, Replicas> {
    let island = state.island_of(me);
    let is_here = |id: &ShardId| {
        let shard = state.shards.get(id);
        shard.is_some_and(|shard| {
            Some(state.island(shard.value.island)) == island && state.is_alive(shard.value.primary)
        })
    };
    let mut shards: BTreeMap<ShardId, Replicas> = BTreeMap::new();
    for (node, line) in &state.nodes {
        if !shards.contains_key(&line.shard) && !is_here(&line.shard) {
            continue;
        }
        let replicas = shards.entry(line.shard).or_default();
        if state.shards[&line.shard].value.primary.node == *node {
            continue;
        }
        match state.leases.contains_key(node) {
            true => replicas.working.push(*node),
            false => replicas.gone += 1,
        }
    }
    shards
}

fn has_slots(state: &State, shard: ShardId) -> bool {
    state.slots_of(shard).is_some_and(|slots| !slots.is_empty())
}

/// Whether the primaries of all slots work: as in Valkey, no replica moves while the cluster is down.
fn is_ok(state: &State, working: &BTreeMap<ShardId, Replicas>) -> bool {
    let Some(island) = working.keys().next().and_then(|id| state.shards.get(id)) else {
        return false;
    };
    let owners = state.owners(island.value.island);
    owners.iter().all(|(id, slots)| slots.is_empty() || working.contains_key(id))
}
