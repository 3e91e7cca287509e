//! The target's part of a move: CLUSTER SYNCSLOTS, which only nodes send.

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
        moves.imports.insert(id, import.clone());
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
            let result =
                driver.await_phase(id, CopyPhase::Final).and_then(|_| driver.close_import(id));
            driver.reply(&for_thread, result);
        });
        if started.is_err() {
            self.reply(&waiting, Err("ERR Can't start a thread".to_string()));
        }
    }

    fn close_import(&self, id: HandoverId) -> Result<(), String> {
        let import = self.moves().imports.get(&id).cloned();
        let ended = || "ERR The move of the slot has ended".to_string();
        let import = import.ok_or_else(ended)?;
        if !import.is_open() {
            return Err(ended());
        }
        import.close();
        self.stop_once();
        Ok(())
    }

    /// Waits until this node has seen that the store has a move to it in this phase.
    fn await_phase(&self, id: HandoverId, phase: CopyPhase) -> Result<CopyView, String> {
        let since = Instant::now();
        let timeout = Duration::from_millis(self.machine().node().timeout());
        loop {
            let view = self.view_of(id);
            if let Some(view) = view.filter(|view| !view.is_source && view.phase == phase) {
                return Ok(view);
            }
            if since.elapsed() > timeout {
                return Err("ERR This node knows no such move".to_string());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
