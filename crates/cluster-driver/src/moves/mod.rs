//! MIGRATESLOTS: moves of slots with their keys.
//!
//! ```text
//!  source                                   target
//!  weft-move: export ── SYNCSLOTS IMPORT ─► deletes what it has of the slots, opens the import
//!                    ── RESTORE, UNLINK ──► executes them, for slots that it doesn't own
//!  (slots suspended) ── SYNCSLOTS PREPARE ► closes the import, keeps the keys until the outcome is seen
//!  the machine commits
//!  weft-clean: the source deletes its keys; after a failure, the target does
//! ```
//!
//! * [`export`] - the source's part
//! * [`import`] - the target's part
//! * [`record`] - CLUSTER GETSLOTMIGRATIONS
//!
//! The store's `handovers/ID` decides which of these run: `crates/cluster/src/node/copies.rs`. See
//! `docs/design/slot-moves.md`.

mod export;
mod import;
pub mod record;

use crate::{Driver, Shared, spawn};
use record::{Record, Records};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard};
use weft_cluster::node::layout::{CopyPhase, HandoverId};
use weft_cluster::node::{Cleaning, CopyView};
use weft_cluster::{Slot, SlotSet};
use weft_keyspace::ExecContext;
use weft_process::{log_notice, log_warning};
use weft_state::cluster::Import;

/// The moves that this process takes part in.
#[derive(Default)]
pub struct Moves {
    /// Those from this node that have begun here.
    exports: BTreeSet<HandoverId>,
    imports: BTreeMap<HandoverId, Registered>,
    /// Whether the keys are deleted.
    cleanings: BTreeMap<HandoverId, bool>,
    pub(crate) records: Records,
}

/// An import, and the number of replacements of keys ([`weft_keyspace::Keyspace::replacements`]) when it began.
#[derive(Clone)]
struct Registered {
    import: Arc<Import>,
    replacements: u64,
}

impl Driver {
    pub(crate) fn moves(&self) -> MutexGuard<'_, Moves> {
        self.moves.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// The moves that CLUSTER GETSLOTMIGRATIONS shows.
    pub fn slot_migrations(&self) -> Vec<Record> {
        self.moves().records.iter().cloned().collect()
    }

    /// Whether slots are being moved from this node.
    pub fn has_exports(&self) -> bool {
        self.machine().node().copy_views().iter().any(|view| view.is_source)
    }

    /// A move as the machine sees it now, if it may still succeed.
    fn view_of(&self, id: HandoverId) -> Option<CopyView> {
        let views = self.machine().node().copy_views();
        views.into_iter().find(|view| view.id == id)
    }

    /// Begins and ends the tasks that the machine's state needs. Only weft-duty calls it.
    pub(crate) fn follow_moves(&'static self) {
        let (views, cleanings) = {
            let machine = self.machine();
            (machine.node().copy_views(), machine.node().cleanings())
        };
        self.end_imports();
        for view in views.iter().filter(|view| view.is_source) {
            self.begin_export(view);
        }
        self.end_exports(&views);
        let mut moves = self.moves();
        moves.cleanings.retain(|id, _| cleanings.iter().any(|due| due.id == *id));
        drop(moves);
        cleanings.iter().for_each(|due| self.clean(due));
    }

    fn begin_export(&'static self, view: &CopyView) {
        if !self.moves().exports.insert(view.id) {
            return;
        }
        let is_known = view.phase == CopyPhase::Copying;
        if is_known {
            // Before MIGRATESLOTS is answered: `valkey-cli --cluster rebalance` waits for the end of the newest move.
            self.moves().records.add(Record::begun(view, self.me, self.srv), self.srv);
        }
        let (driver, view): (Shared, CopyView) = (self, view.clone());
        let id = view.id;
        let started = is_known && spawn("weft-move", move || export::run(driver, view)).is_ok();
        if !started {
            self.moves().records.note(&id, self.srv, "failed", "The move could not begin");
            self.pass(|event| event.node.copy_failed(event.now, id, event.out));
        }
    }

    /// Shows the end of exports that may not succeed any more. Their threads end later.
    fn end_exports(&self, views: &[CopyView]) {
        let mut moves = self.moves();
        let is_over = |id: &HandoverId| !views.iter().any(|view| view.id == *id);
        let over: Vec<_> = moves.exports.iter().copied().filter(is_over).collect();
        for id in over {
            moves.exports.remove(&id);
            if self.machine().node().copy_phase(id) != Some(CopyPhase::Moved) {
                moves.records.cancel(&id, self.srv);
            }
        }
    }

    /// Closes imports that may not succeed any more, or have. Afterwards no command of theirs runs on an I/O thread.
    fn end_imports(&'static self) {
        let mut moves = self.moves();
        // Read after the lock: the machine knows a move before its import is registered.
        let is_over = |id: &HandoverId| self.view_of(*id).is_none_or(|view| view.is_source);
        let over: Vec<_> = moves.imports.keys().copied().filter(|id| is_over(id)).collect();
        if over.is_empty() {
            return;
        }
        for id in &over {
            let Some(registered) = moves.imports.remove(id) else { continue };
            registered.import.close();
            let has_slots = self.machine().node().copy_phase(*id) == Some(CopyPhase::Moved);
            let state = if has_slots { "success" } else { "failed" };
            moves.records.note(id, self.srv, state, "");
        }
        drop(moves);
        self.stop_once();
    }

    /// Waits until commands that I/O threads execute have ended.
    fn stop_once(&self) {
        let mut hand = self.srv.hand();
        drop(hand.stop());
    }

    /// Deletes keys that belong to another shard, in a thread of its own.
    fn clean(&'static self, due: &Cleaning) {
        let id = due.id;
        match self.moves().cleanings.get(&id) {
            Some(true) => {
                // Repeated until the store shows it.
                return self.pass(|event| event.node.cleaned(event.now, id, event.out));
            }
            Some(false) => return,
            None => {}
        }
        self.moves().cleanings.insert(id, false);
        let (driver, slots): (Shared, SlotSet) = (self, due.slots.clone());
        let started = spawn("weft-clean", move || {
            let may = |slot: Slot| {
                let slots = driver.machine().node().may_clean(id);
                slots.map(|slots| slots.contains(slot))
            };
            let is_done = driver.delete_keys(&slots, &may);
            let mut moves = driver.moves();
            match is_done {
                true => _ = moves.cleanings.insert(id, true),
                false => _ = moves.cleanings.remove(&id),
            }
            drop(moves);
            driver.queued.notify_one();
        });
        if let Err(e) = started {
            log_warning!("Can't start a thread to delete the keys of moved slots: {e}");
            self.moves().cleanings.remove(&id);
        }
    }

    /// Deletes the keys of slots, as long as `may` is not `None`; it is asked while the slot's shard is held, and false for
    /// slots whose keys stay. Returns whether it has come to the end.
    fn delete_keys(&self, slots: &SlotSet, may: &dyn Fn(Slot) -> Option<bool>) -> bool {
        let mut hand = self.srv.hand();
        let mut context = ExecContext::new(self.srv.now_ms(), 0);
        let mut deleted = 0;
        for slot in slots.iter() {
            let mut is_over = false;
            let mut may_go_on = || {
                let answer = may(slot);
                is_over = answer.is_none();
                answer == Some(true)
            };
            deleted += self.srv.ks.clean_slot(&mut hand, &mut context, slot, &mut may_go_on);
            if is_over {
                return false;
            }
        }
        if deleted > 0 {
            log_notice!("Cluster: deleted {deleted} keys of slots that belong to another shard");
        }
        true
    }
}
