//! Moves of slots with their keys (MIGRATESLOTS): `handovers/ID` with a phase.
//!
//! ```text
//!  copying ─► final ─► moved: the earlier owner deletes its keys ─► (deleted)
//!     └─────────┴────► failed: the target deletes what it got ────► (deleted)
//! ```
//!
//! The value exists from before the first copied key until the last superfluous key is deleted, so no
//! kill leaves keys that no node knows of. It names the epochs of both primaries, since only these
//! two processes know which keys were copied: after a failover of either one, the move fails.
//!
//! While it exists, no other change of ownership of its slots commits: its creation rewrites the
//! island, so a transaction that compares the island was decided with it.

use super::Node;
use super::action::{Action, Ms, Transaction, Write};
use super::layout::{CopyPhase, Copying, HandoverId, HandoverValue, IslandValue, Key};
use super::parts::{Copies, Waiting};
use super::proposals::Purpose;
use super::requests::{Step, commit, refuse};
use super::state::State;
use crate::id::{NodeId, ShardId};
use crate::planted::{self, Fault};
use crate::slots::SlotSet;

/// A move of keys from or to this shard that may still succeed, and that this process takes part in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyView {
    pub id: HandoverId,
    pub slots: SlotSet,
    /// The primary of the other shard.
    pub other: NodeId,
    /// This node has the slots.
    pub is_source: bool,
    pub phase: CopyPhase,
    /// The slots are suspended, and all commands on them have ended.
    pub is_drained: bool,
}

/// Keys that this primary must delete, since they belong to another shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleaning {
    pub id: HandoverId,
    pub slots: SlotSet,
}

impl State {
    /// Whether both primaries are those that have begun the move, in one island.
    fn is_valid(&self, of: &HandoverValue, copy: Copying) -> bool {
        let Some((from, to)) =
            self.shards.get(&of.from).zip(of.to.and_then(|to| self.shards.get(&to)))
        else {
            return false;
        };
        let owned = self.slots_of(of.from);
        from.epoch == copy.from_epoch
            && to.epoch == copy.to_epoch
            && self.island(from.value.island) == self.island(to.value.island)
            && owned.is_some_and(|owned| owned.contains_all(&of.slots))
    }

    /// Whether the primary of shard `mine` must delete the keys of a move.
    fn is_due(&self, mine: ShardId, of: &HandoverValue, copy: Copying) -> bool {
        match copy.phase {
            CopyPhase::Moved => of.from == mine,
            CopyPhase::Failed => of.to == Some(mine),
            CopyPhase::Copying | CopyPhase::Final => {
                of.to == Some(mine) && !self.shards.contains_key(&of.from)
            }
        }
    }
}

impl Node {
    // ---- what the driver asks and reports

    /// The moves of keys that this process takes part in.
    pub fn copy_views(&self) -> Vec<CopyView> {
        let (Some(state), Some((mine, _))) = (&self.state, self.led()) else { return Vec::new() };
        let view = |(id, of, copy): (HandoverId, &HandoverValue, Copying)| {
            let is_source = of.from == mine;
            let is_mine = is_source || of.to == Some(mine);
            if !is_mine || !copy.phase.is_open() || !state.is_valid(of, copy) {
                return None;
            }
            if is_source && self.copies.failed.contains(&id) {
                return None;
            }
            let other = if is_source { of.to? } else { of.from };
            Some(CopyView {
                id,
                slots: of.slots.clone(),
                other: state.shards.get(&other)?.value.primary.node,
                is_source,
                phase: copy.phase,
                is_drained: self.moving.get(&id).is_some_and(|moving| moving.drain.done),
            })
        };
        state.copies().filter_map(view).collect()
    }

    /// The phase of a move of keys, as seen; `None`: no trace is left.
    pub fn copy_phase(&self, id: HandoverId) -> Option<CopyPhase> {
        Some(self.state.as_ref()?.handovers.get(&id)?.copy?.phase)
    }

    /// The owner of a slot, as seen, is this node's shard.
    pub fn owns(&self, slots: &SlotSet) -> bool {
        let (Some(state), Some((mine, _))) = (&self.state, self.led()) else { return false };
        let owned = state.slots_of(mine);
        owned.is_some_and(|owned| slots.iter().all(|slot| owned.contains(slot)))
    }

    /// Keys that this primary must delete. Report [`Node::cleaned`] when it is done.
    pub fn cleanings(&self) -> Vec<Cleaning> {
        let (Some(state), Some((mine, _))) = (&self.state, self.led()) else { return Vec::new() };
        let due = state.copies().filter(|(_, of, copy)| state.is_due(mine, of, *copy));
        let due = due.filter(|(id, ..)| !self.ends_cleaning(*id));
        due.map(|(id, of, _)| Cleaning { id, slots: of.slots.clone() }).collect()
    }

    /// The end of a cleaning is proposed. It may be in the store already, and the slots may belong to this shard again.
    fn ends_cleaning(&self, id: HandoverId) -> bool {
        self.proposals.is_possible(|purpose| *purpose == Purpose::Slots(id))
    }

    /// Slots of a cleaning that this shard doesn't own. No change of ownership commits before [`Node::cleaned`]. It is asked for
    /// each few keys.
    pub fn may_clean(&self, id: HandoverId) -> Option<SlotSet> {
        let (state, (mine, _)) = (self.state.as_ref()?, self.led()?);
        let of = state.handovers.get(&id)?;
        if !state.is_due(mine, of, of.copy?) || self.ends_cleaning(id) {
            return None;
        }
        Some(match state.slots_of(mine) {
            Some(owned) => of.slots.without(owned),
            None => of.slots.clone(),
        })
    }

    /// The target has nearly everything: the slots may be suspended.
    pub fn copy_is_close(&mut self, now: Ms, id: HandoverId, out: &mut Vec<Action>) {
        self.copies.close.insert(id);
        self.settle(now, out);
    }

    /// The target has everything, and keeps it until the outcome is seen. Only after the drain.
    pub fn copied(&mut self, now: Ms, id: HandoverId, out: &mut Vec<Action>) {
        if self.moving.get(&id).is_some_and(|moving| moving.drain.done) {
            self.copies.done.insert(id);
        }
        self.settle(now, out);
    }

    /// The move must end without effect. Too late after [`Node::copied`].
    pub fn copy_failed(&mut self, now: Ms, id: HandoverId, out: &mut Vec<Action>) {
        if !self.copies.done.contains(&id) {
            self.copies.failed.insert(id);
        }
        self.settle(now, out);
    }

    /// The keys of a cleaning are deleted.
    pub fn cleaned(&mut self, now: Ms, id: HandoverId, out: &mut Vec<Action>) {
        let is_due = self.cleanings().iter().any(|due| due.id == id);
        if let Some(state) = &self.state
            && is_due
            && self.has_lease(now)
        {
            let compares = vec![state.compare(Key::Handover(id))];
            let writes = vec![Write::Delete { key: Key::Handover(id) }];
            self.propose(now, Purpose::Slots(id), Transaction { compares, writes });
        }
        self.settle(now, out);
    }

    pub(super) fn cancel_copies(&mut self) {
        let (Some(state), Some((mine, _))) = (&self.state, self.led()) else { return };
        let own = state.copies().filter(|(_, of, copy)| of.from == mine && copy.phase.is_open());
        let Copies { done, failed, .. } = &mut self.copies;
        failed.extend(own.map(|(id, ..)| id).filter(|id| !done.contains(id)));
    }

    // ---- transactions

    /// MIGRATESLOTS at the owner.
    pub(super) fn copy_slots(
        &self,
        state: &State,
        slots: &SlotSet,
        to: NodeId,
        waiting: &Waiting,
    ) -> Result<Step, Step> {
        if state.handovers.contains_key(&waiting.handover) {
            return Ok(Step::Done);
        }
        let Some((mine, shard)) = self.led() else {
            return refuse("ERR Slot migration can only be used on primary nodes.");
        };
        let Some((to, target)) = state.shard_of(to) else {
            return refuse("ERR I don't know about node");
        };
        let owned = state.slots_of(mine);
        if owned.is_none_or(|owned| slots.iter().any(|slot| !owned.contains(slot))) {
            return refuse("ERR Slots are not served by this node.");
        }
        let mut deletes_rest = false;
        for other in state.handovers.values() {
            if other.slots.iter().any(|slot| slots.contains(slot)) {
                if !other.is_decided() {
                    return refuse("ERR I am already migrating some of these slots");
                }
                deletes_rest = true;
            }
        }
        if deletes_rest {
            return Ok(Step::Wait);
        }
        if state.has_mark(mine, slots) || state.has_mark(to, slots) {
            return refuse("ERR Slots are being manually migrated");
        }
        let island = state.island(shard.value.island);
        if to == mine || state.island(target.value.island) != island {
            return refuse("ERR Target node can not be this node.");
        }
        let copy =
            Copying { from_epoch: shard.epoch, to_epoch: target.epoch, phase: CopyPhase::Copying };
        let value = HandoverValue {
            from: mine,
            to: Some(to),
            slots: slots.clone(),
            copy: Some(copy),
            leave_keys: false,
        };
        let put = |key, value| Write::Put { key, value, lease: None };
        // The island is rewritten, so that no change of ownership commits that has not seen this.
        let writes = vec![
            put(Key::Handover(waiting.handover), value.encode()),
            put(Key::Island(island), IslandValue::Slots(state.owners(island)).encode()),
        ];
        let compared = [
            Key::Handover(waiting.handover),
            Key::Shard(mine),
            Key::Shard(to),
            Key::Island(island),
            Key::Marks(mine),
            Key::Marks(to),
        ];
        Ok(commit(state, &compared, writes))
    }

    /// Advances the moves of keys that leave this shard.
    pub(super) fn run_copies(&mut self, now: Ms) {
        let (Some(state), Some((mine, _))) = (&self.state, self.led()) else { return };
        let is_there = |id: &HandoverId| state.handovers.contains_key(id);
        self.copies.close.retain(is_there);
        self.copies.done.retain(is_there);
        self.copies.failed.retain(is_there);
        let own: Vec<_> = state
            .copies()
            .filter(|(_, of, _)| of.from == mine || of.to == Some(mine))
            .map(|(id, of, copy)| (id, of.clone(), copy, state.is_valid(of, copy)))
            .collect();
        for (id, of, copy, is_valid) in own {
            let is_possible = self.proposals.is_possible(|purpose| *purpose == Purpose::Slots(id));
            if is_possible || !self.may_propose(now) {
                continue;
            }
            let is_valid = is_valid || planted::is(Fault::MovedAfterFailover);
            let fails = !is_valid || self.copies.failed.contains(&id);
            let is_quiet = self.moving.get(&id).is_some_and(|moving| moving.drain.done);
            match copy.phase {
                CopyPhase::Moved | CopyPhase::Failed => self.drop_orphan(now, id, &of, copy.phase),
                _ if of.from != mine => {}
                _ if fails => self.put_phase(now, id, &of, CopyPhase::Failed),
                CopyPhase::Copying if self.copies.close.contains(&id) => {
                    self.put_phase(now, id, &of, CopyPhase::Final);
                }
                CopyPhase::Final if is_quiet && self.copies.done.contains(&id) => {
                    self.commit_copy(now, id, &of, copy);
                }
                CopyPhase::Copying | CopyPhase::Final => {}
            }
        }
    }

    /// Deletes a handover whose cleaner is gone with its data.
    fn drop_orphan(&mut self, now: Ms, id: HandoverId, of: &HandoverValue, phase: CopyPhase) {
        let Some(state) = &self.state else { return };
        let cleaner = if phase == CopyPhase::Moved { Some(of.from) } else { of.to };
        if cleaner.is_some_and(|cleaner| state.shards.contains_key(&cleaner)) {
            return;
        }
        let compares = vec![state.compare(Key::Handover(id))];
        let writes = vec![Write::Delete { key: Key::Handover(id) }];
        self.propose(now, Purpose::Slots(id), Transaction { compares, writes });
    }

    fn put_phase(&mut self, now: Ms, id: HandoverId, of: &HandoverValue, phase: CopyPhase) {
        let (Some(state), Some((mine, _))) = (&self.state, self.led()) else { return };
        let copy = of.copy.map(|copy| Copying { phase, ..copy });
        let value = HandoverValue { copy, ..of.clone() };
        let compares = vec![state.compare(Key::Handover(id)), state.compare(Key::Shard(mine))];
        let writes =
            vec![Write::Put { key: Key::Handover(id), value: value.encode(), lease: None }];
        self.propose(now, Purpose::Slots(id), Transaction { compares, writes });
    }

    /// The new owner gets the slots. The handover was valid in this state, which the comparisons fix.
    fn commit_copy(&mut self, now: Ms, id: HandoverId, of: &HandoverValue, copy: Copying) {
        let (Some(state), Some((mine, shard)), Some(to)) = (&self.state, self.led(), of.to) else {
            return;
        };
        let island = state.island(shard.value.island);
        let keys = [Key::Handover(id), Key::Shard(mine), Key::Shard(to), Key::Island(island)];
        let mut compares: Vec<_> = keys.iter().map(|key| state.compare(*key)).collect();
        let mut owners = state.owners(island);
        let own = owners.entry(mine).or_default();
        of.slots.iter().for_each(|slot| _ = own.remove(slot));
        let target = owners.entry(to).or_default();
        of.slots.iter().for_each(|slot| _ = target.insert(slot));
        let moved = Some(Copying { phase: CopyPhase::Moved, ..copy });
        let value = HandoverValue { copy: moved, ..of.clone() };
        let put = |key, value| Write::Put { key, value, lease: None };
        let mut writes = vec![
            put(Key::Handover(id), value.encode()),
            put(Key::Island(island), IslandValue::Slots(owners).encode()),
        ];
        state.end_marks(&of.slots, Some(mine), Some(to), &mut compares, &mut writes);
        self.propose(now, Purpose::Slots(id), Transaction { compares, writes });
    }
}
