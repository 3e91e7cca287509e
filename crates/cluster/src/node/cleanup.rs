//! Removes keys that nothing refers to any more: islands that were merged or left, failovers and handovers of shards that are gone.
//!
//! It is safe to delete what no key refers to, if no later transaction can refer to it:
//!
//! * A shard gets the island that it names when it is made, with a new id, or from [`Node::keep_list`], which compares that the
//!   island is unchanged, and so not merged. Islands are merged into those that are compared in the same way. So an island that is
//!   merged, or has no shard, never gets another reference.
//! * Ids of shards are random and never used again. A failover is committed by the primary of its shard alone.
//! * A handover is committed by the primary of the shard that has the slots. With keys, the other shard deletes what it got. Without these
//!   shards, it would only keep others from changing its slots.

use super::Node;
use super::action::{Ms, Transaction, Write};
use super::layout::{HandoverValue, IslandValue, Key};
use super::proposals::Purpose;
use super::state::State;
use std::collections::BTreeSet;

/// Most keys that one transaction deletes. etcd allows 128 operations, and as many comparisons.
pub(super) const AT_ONCE: usize = 32;

impl Node {
    /// Deletes keys that nothing refers to, if this node has the least id of those with a lease: one is enough.
    pub(super) fn clean_up(&mut self, now: Ms) {
        let is_ours = |purpose: &Purpose| *purpose == Purpose::CleanUp;
        let timeout = self.settings.timeout;
        let Some(state) = &self.state else { return };
        let is_first = state.leases.keys().next() == Some(&self.me.node);
        if !is_first || now < self.cleaned + timeout {
            return;
        }
        if !self.may_propose(now) || self.proposals.is_possible(is_ours) {
            return;
        }
        self.cleaned = now;
        let mut compares = Vec::new();
        let mut writes = Vec::new();
        for key in unused(state).into_iter().take(AT_ONCE) {
            compares.push(state.compare(key));
            match key {
                Key::Failover(shard) => compares.push(state.compare(Key::Shard(shard))),
                Key::Handover(id) => {
                    let of = &state.handovers[&id];
                    compares.extend(
                        [Some(of.from), of.to]
                            .into_iter()
                            .flatten()
                            .map(|shard| state.compare(Key::Shard(shard))),
                    );
                }
                _ => {}
            }
            writes.push(Write::Delete { key });
        }
        if !writes.is_empty() {
            self.propose(now, Purpose::CleanUp, Transaction { compares, writes });
        }
    }
}

/// The keys that nothing refers to.
fn unused(state: &State) -> Vec<Key> {
    let named: BTreeSet<_> = state.shards.values().map(|shard| shard.value.island).collect();
    let joined: BTreeSet<_> = state
        .islands
        .values()
        .filter_map(|island| match island {
            IslandValue::Merged(into) => Some(*into),
            IslandValue::Slots(_) => None,
        })
        .collect();
    // A value that this node can't read may refer to anything.
    if state.has_invalid() {
        return Vec::new();
    }
    let is_unused = |id: &&_| !named.contains(*id) && !joined.contains(*id);
    let islands = state.islands.keys().filter(is_unused).map(|id| Key::Island(*id));
    let is_gone = |id: &&_| state.revision_of(Key::Shard(**id)).is_none();
    let failovers = state.failovers.keys().filter(is_gone).map(|id| Key::Failover(*id));
    let is_left = |of: &HandoverValue| {
        is_gone(&&of.from) && (of.copy.is_none() || of.to.as_ref().is_none_or(|to| is_gone(&to)))
    };
    let handovers = state.handovers.iter().filter(|(_, of)| is_left(of));
    let handovers = handovers.map(|(id, _)| Key::Handover(*id));
    islands.chain(failovers).chain(handovers).collect()
}
