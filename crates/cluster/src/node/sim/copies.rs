//! Moves of slots with their keys: a driver of the machine without keys, and what must hold.

use super::tally::Count;
use super::world::{Pid, World};
use crate::node::NodeRequest;
use crate::node::layout::{CopyPhase, HandoverId};
use crate::node::{CopyView, Node};
use crate::slots::SlotSet;
use std::collections::BTreeSet;

impl World {
    /// An operator's MIGRATESLOTS at the owner.
    pub fn order_copy(&mut self, slots: SlotSet, to: usize) {
        let truth = &self.store.truth;
        let owns =
            |id: &&_| truth.slots_of(**id).is_some_and(|own| slots.iter().all(|s| own.contains(s)));
        let Some(owner) = truth.shards.keys().find(owns) else { return };
        let primary = truth.shards[owner].value.primary;
        let owner = self.current.iter().copied().find(|pid| self.processes[*pid].member == primary);
        if let Some(pid) = owner.filter(|pid| self.processes[*pid].runs()) {
            let to = self.ids[to];
            self.request(pid, NodeRequest::CopySlots { slots: Box::new(slots), to });
        }
    }

    /// A step of the moves that a process takes part in.
    pub fn drive_copies(&mut self, pid: Pid) {
        for view in self.processes[pid].node.copy_views() {
            if view.is_source {
                self.drive_export(pid, &view);
            }
        }
        for due in self.processes[pid].node.cleanings() {
            self.check_cleaning(pid, due.id);
            if self.chance(30) {
                self.call(pid, |node, now, out| node.cleaned(now, due.id, out));
            }
        }
    }

    fn finish_export(&mut self, pid: Pid, id: HandoverId) {
        if self.chance(80) {
            self.call(pid, |node, now, out| node.copied(now, id, out));
        }
    }

    fn drive_export(&mut self, pid: Pid, view: &CopyView) {
        let id = view.id;
        match view.phase {
            _ if self.chance(1) => self.call(pid, |node, now, out| node.copy_failed(now, id, out)),
            CopyPhase::Copying if self.chance(80) => {
                self.call(pid, |node, now, out| node.copy_is_close(now, id, out));
            }
            CopyPhase::Final if self.prepared.get(&id).is_some_and(|(from, _)| *from == pid) => {
                self.finish_export(pid, id);
            }
            CopyPhase::Final if view.is_drained => {
                let is_there = |node: &Node| {
                    let mut views = node.copy_views().into_iter();
                    views.any(|v| v.id == id && !v.is_source && v.phase == CopyPhase::Final)
                };
                let target = self.current.iter().copied().find(|target| {
                    self.processes[*target].runs() && is_there(&self.processes[*target].node)
                });
                if let Some(target) = target {
                    self.prepared.insert(id, (pid, target));
                }
            }
            _ => {}
        }
    }

    /// The primary of a shard deletes no key of a slot that the shard owns.
    fn check_cleaning(&mut self, pid: Pid, id: HandoverId) {
        let (member, truth) = (self.processes[pid].member, &self.store.truth);
        let Some(slots) = self.processes[pid].node.may_clean(id) else { return };
        let Some((shard, of)) = truth.shard_of(member.node) else { return };
        let owned = truth.slots_of(shard);
        let owns = |slot| owned.is_some_and(|owned| owned.contains(slot));
        // The changes of a replaced primary are discarded.
        if of.value.primary == member
            && let Some(slot) = slots.iter().find(|slot| owns(*slot))
        {
            self.fault(format!("{pid} deletes keys of slot {slot}, which its shard owns"));
        }
    }

    /// The moves that have given slots away.
    pub fn moved_copies(&self) -> BTreeSet<HandoverId> {
        let copies = self.store.truth.copies();
        copies.filter(|(.., copy)| copy.phase == CopyPhase::Moved).map(|(id, ..)| id).collect()
    }

    /// Slots with keys only move between the two processes that know that everything was copied.
    pub fn check_copies(&mut self, before: &BTreeSet<HandoverId>) {
        for id in self.moved_copies() {
            if before.contains(&id) {
                continue;
            }
            self.tally.count(Count::Copied);
            let Some((from, to)) = self.prepared.get(&id).copied() else {
                return self.fault(format!("slots of {id:?} move before their keys"));
            };
            let truth = &self.store.truth;
            let of = &truth.handovers[&id];
            let primary = |shard| truth.shards.get(&shard).map(|shard| shard.value.primary);
            let is_right = primary(of.from) == Some(self.processes[from].member)
                && of.to.and_then(primary) == Some(self.processes[to].member);
            if !is_right {
                self.fault(format!("slots of {id:?} move to a node without their keys"));
            }
        }
    }
}
