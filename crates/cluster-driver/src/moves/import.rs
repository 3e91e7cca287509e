//! The target's part of a move: CLUSTER SYNCSLOTS, which only nodes send.

use super::Registered;
use super::record::Record;
use crate::{Driver, Shared, spawn};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_cluster::node::CopyView;
use weft_cluster::node::layout::{CopyPhase, HandoverId};
use weft_state::cluster::Import;
use weft_state::waiting::Waiting;

impl Driver {
    /// Deletes what this node has of the slots, then opens the import, for a client that is blocked meanwhile and has the
    /// import in its session.
    pub fn begin_import(&'static self, id: HandoverId, import: Arc<Import>, waiting: Arc<Waiting>) {
        let for_thread = waiting.clone();
        let started = spawn("weft-clean", move || {
            let driver: Shared = self;
            let result = driver.open_import(id, &import);
            driver.reply(&for_thread, result);
        });
        if started.is_err() {
            self.reply(&waiting, Err("ERR Can't start a thread".to_string()));
        }
    }

    fn open_import(&self, id: HandoverId, import: &Arc<Import>) -> Result<(), String> {
        let view = self.await_phase(id, CopyPhase::Copying)?;
        self.register(&view, import)?;
        let may = |_| self.importing(id).then_some(true);
        let is_clean = self.delete_keys(&view.slots, &may);
        match is_clean && self.importing(id) && import.open(&view.slots) {
            true => Ok(()),
            false => Err("ERR The move of the slot has ended".to_string()),
        }
    }

    fn register(&self, view: &CopyView, import: &Arc<Import>) -> Result<(), String> {
        let id = view.id;
        let mut moves = self.moves();
        if moves.imports.contains_key(&id) {
            return Err("ERR The move has begun before".to_string());
        }
        // Before the import is opened: what it has is complete as long as the number stays.
        let replacements = self.srv.ks.replacements();
        moves.imports.insert(id, Registered { import: import.clone(), replacements });
        moves.records.add(Record::begun(view, self.me, self.srv), self.srv);
        Ok(())
    }

    /// Whether the move may succeed: this node doesn't own the slots, and no transaction gives them to it yet.
    fn importing(&self, id: HandoverId) -> bool {
        self.view_of(id).is_some_and(|view| !view.is_source && view.phase == CopyPhase::Copying)
    }

    /// The source has sent everything. From the reply on, nothing of the import changes.
    pub fn prepare_import(&'static self, id: HandoverId, waiting: Arc<Waiting>) {
        let for_thread = waiting.clone();
        let started = spawn("weft-prepare", move || {
            let driver: Shared = self;
            let result = driver
                .await_phase(id, CopyPhase::Final)
                .and_then(|view| driver.close_import(&view));
            driver.reply(&for_thread, result);
        });
        if started.is_err() {
            self.reply(&waiting, Err("ERR Can't start a thread".to_string()));
        }
    }

    /// From here on, commands that empty or exchange databases wait for the outcome, since the slots are suspended in the topology
    /// in force. An earlier one ends the move.
    fn close_import(&self, view: &CopyView) -> Result<(), String> {
        let ended = || "ERR The move of the slot has ended".to_string();
        let registered = self.moves().imports.get(&view.id).cloned();
        let Registered { import, replacements } = registered.ok_or_else(ended)?;
        if !import.is_open() {
            return Err(ended());
        }
        import.close();
        self.await_suspension(view)?;
        self.stop_once();
        match self.srv.ks.replacements() == replacements {
            true => Ok(()),
            false => Err("ERR The target's keys were removed or exchanged".to_string()),
        }
    }

    /// Waits until the topology in force suspends the slots.
    fn await_suspension(&self, view: &CopyView) -> Result<(), String> {
        let is_suspended = || {
            let topology = self.srv.nodes.cluster.topology();
            view.slots.iter().all(|slot| topology.suspended.contains(slot))
        };
        self.wait_for(is_suspended)
            .then_some(())
            .ok_or_else(|| "ERR The slots were not suspended".to_string())
    }

    /// Waits until a condition holds, for the length of a lease at most. Returns whether it holds.
    fn wait_for(&self, mut condition: impl FnMut() -> bool) -> bool {
        let since = Instant::now();
        let timeout = Duration::from_millis(self.machine().node().timeout());
        loop {
            if condition() {
                return true;
            }
            if since.elapsed() > timeout {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until this node has seen that the store has a move to it in this phase.
    fn await_phase(&self, id: HandoverId, phase: CopyPhase) -> Result<CopyView, String> {
        let mut found = None;
        self.wait_for(|| {
            let view = self.view_of(id).filter(|view| !view.is_source && view.phase == phase);
            found = view;
            found.is_some()
        });
        found.ok_or_else(|| "ERR This node knows no such move".to_string())
    }
}
