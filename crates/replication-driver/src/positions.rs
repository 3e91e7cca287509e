//! What files of the data say about their place in a history of replication, so that a server that is
//! started again goes on from there.
//!
//! A snapshot says it at its front, as its place is known when it begins. In the append-only file a line says it of all
//! that stands before ([`weft_persist::aof::Position`]). Two threads read the log of effects, each at its
//! own pace: one writes the file, the other the stream. So places are noted behind units: [`Places`]
//! has the last ones, and the writer of the file ends what it writes at a unit that has one. A file
//! of a process that was killed nearly always ends with such a line then.
//!
//! Pings and questions to replicas are in the stream and in no file: the place moves on behind the same
//! unit, and is noted again.

use crate::{Hub, State};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use weft_durability::aof::aof;
use weft_persist::aof;
use weft_persist::rdb::file::Origin;
use weft_replication::{Position, ReplicationId};
use weft_state::server::Server;

/// Places that are remembered.
const PLACES: usize = 4096;

/// What a file has said.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    id: ReplicationId,
    offset: u64,
    /// Older servers did not always say it.
    db: Option<u32>,
}

impl Found {
    /// The place of the data, as far as it can be said: who goes on as a replica must know which database
    /// the stream has selected.
    pub fn position(self, is_replica: bool) -> Option<Position> {
        let db = if is_replica { self.db? } else { self.db.unwrap_or(0) };
        Some(Position { id: self.id, offset: self.offset, db })
    }
}

/// What a snapshot says of itself.
pub fn of_snapshot(origin: &Origin) -> Option<Found> {
    let id = ReplicationId::parse(origin.history.as_ref()?.as_bytes())?;
    Some(Found { id, offset: origin.offset?, db: origin.stream_db })
}

/// What an append-only file says of itself.
pub fn of_log(position: &aof::Position) -> Option<Found> {
    let aof::Position { id, offset, db } = *position;
    Some(Found { id: ReplicationId::parse(&id)?, offset, db: Some(db) })
}

/// Where units of the log of effects end in the history, the last ones.
#[derive(Debug, Default)]
pub struct Places(VecDeque<(u64, Position)>);

impl Places {
    fn note(&mut self, unit: u64, position: Position) {
        while self.0.back().is_some_and(|(other, _)| *other >= unit) {
            self.0.pop_back();
        }
        if self.0.len() == PLACES {
            self.0.pop_front();
        }
        self.0.push_back((unit, position));
    }

    /// The last place at the unit or before it.
    fn up_to(&self, unit: u64) -> Option<Position> {
        let behind = self.0.partition_point(|(other, _)| *other <= unit);
        self.0.get(behind.checked_sub(1)?).map(|(_, position)| *position)
    }

    fn behind(&self, unit: u64) -> Option<Position> {
        let at = self.0.partition_point(|(other, _)| *other < unit);
        self.0.get(at).filter(|(other, _)| *other == unit).map(|(_, position)| *position)
    }
}

impl State {
    /// What was known of units says nothing of the data that are here now.
    pub fn forget_places(&mut self, srv: &Server) {
        self.places = Places::default();
        srv.replication.placed.store(0, Ordering::SeqCst);
    }

    /// The data as they are behind this unit are what the history has at its present end.
    pub fn note_place(&mut self, srv: &Server, unit: u64) {
        if !aof(srv).is_logging() || !self.pending.is_empty() {
            return;
        }
        let Some(position) = self.node.position() else { return };
        if self.places.behind(unit) != Some(position) {
            self.places.note(unit, position);
            srv.replication.placed.store(unit, Ordering::SeqCst);
            // It may have moved on behind what is in the file already.
            aof(srv).look_behind(unit);
        }
    }
}

impl Hub {
    /// What came from our primary has been applied up to here, with nobody between that and this call:
    /// `alone`, clients write nothing here, so the last unit is of what was applied.
    pub fn note_applied(&self, srv: &Server, alone: bool) {
        if alone && aof(srv).is_logging() {
            self.lock().note_place(srv, srv.ks.log().last());
        }
    }

    /// The last unit behind which a place is known, if it comes behind `unit`: there a part of the
    /// append-only file should end.
    pub fn placed_behind(&self, unit: u64) -> Option<u64> {
        let placed = self.published.placed.load(Ordering::SeqCst);
        (placed > unit).then_some(placed)
    }

    /// Whether a place is known behind the unit, which is the last one.
    pub fn has_place_at(&self, unit: u64) -> bool {
        unit > 0 && self.published.placed.load(Ordering::SeqCst) == unit
    }

    /// All up to this unit is safe on this server's disk: what our primary is told with the next confirmation.
    pub fn note_durable(&self, unit: u64) {
        if !self.published.is_replica() {
            return;
        }
        let mut state = self.lock();
        if let Some(position) = state.places.up_to(unit) {
            state.node.durable(Some(position.offset));
        }
    }

    /// What an append-only file may say behind this unit.
    pub fn place_behind(&self, unit: u64) -> Option<aof::Position> {
        if self.published.placed.load(Ordering::SeqCst) < unit {
            return None;
        }
        let Position { id, offset, db } = self.lock().places.behind(unit)?;
        Some(aof::Position { id: *id.as_bytes(), offset, db })
    }
}
