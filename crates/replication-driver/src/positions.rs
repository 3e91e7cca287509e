//! Files of the data record their position in a replication history, so that a restarted server
//! continues from it.
//!
//! A snapshot records it at its start, because the position is known when the snapshot begins. In
//! the append-only file, a line gives the position of everything before it
//! ([`weft_persist::aof::Position`]). Two threads read the effect log independently: one writes the
//! file, the other the stream. So [`Positions`] maps recent units to positions, and the writer of the
//! file ends each write at a unit with a position. The file of a killed process then nearly always
//! ends with such a line.
//!
//! Pings and GETACKs are in the stream and in no file. They advance the position after the same
//! unit, and it is recorded again.

use crate::{Hub, State};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use weft_durability::aof::aof;
use weft_persist::aof;
use weft_persist::rdb::file::Origin;
use weft_replication::{Position, ReplicationId};
use weft_state::server::Server;

/// Number of positions kept.
const PLACES: usize = 4096;

/// The position that a file has recorded.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    id: ReplicationId,
    offset: u64,
    /// `None` in files of older servers.
    db: Option<u32>,
}

impl Found {
    /// The position of the data, if it is complete: a replica must know the selected database of
    /// the stream to continue.
    pub fn position(self, is_replica: bool) -> Option<Position> {
        let db = if is_replica { self.db? } else { self.db.unwrap_or(0) };
        Some(Position { id: self.id, offset: self.offset, db })
    }
}

/// The position that a snapshot records.
pub fn of_snapshot(origin: &Origin) -> Option<Found> {
    let id = ReplicationId::parse(origin.history.as_ref()?.as_bytes())?;
    Some(Found { id, offset: origin.offset?, db: origin.stream_db })
}

/// The position that an append-only file records.
pub fn of_log(position: &aof::Position) -> Option<Found> {
    let aof::Position { id, offset, db } = *position;
    Some(Found { id: ReplicationId::parse(&id)?, offset, db: Some(db) })
}

/// Recent units of the effect log with the positions at their ends.
#[derive(Debug, Default)]
pub struct Positions(VecDeque<(u64, Position)>);

impl Positions {
    fn note(&mut self, unit: u64, position: Position) {
        while self.0.back().is_some_and(|(other, _)| *other >= unit) {
            self.0.pop_back();
        }
        if self.0.len() == PLACES {
            self.0.pop_front();
        }
        self.0.push_back((unit, position));
    }

    /// The last position at or before the unit.
    fn up_to(&self, unit: u64) -> Option<Position> {
        let after = self.0.partition_point(|(other, _)| *other <= unit);
        self.0.get(after.checked_sub(1)?).map(|(_, position)| *position)
    }

    fn after(&self, unit: u64) -> Option<Position> {
        let at = self.0.partition_point(|(other, _)| *other < unit);
        self.0.get(at).filter(|(other, _)| *other == unit).map(|(_, position)| *position)
    }
}

impl State {
    /// Drops the recorded positions, because the data were replaced.
    pub fn forget_positions(&mut self, srv: &Server) {
        self.places = Positions::default();
        srv.nodes.replication.placed.store(0, Ordering::SeqCst);
    }

    /// Records that the data after this unit are at the end of the stream.
    pub fn note_place(&mut self, srv: &Server, unit: u64) {
        if !aof(srv).is_logging() || !self.pending.is_empty() {
            return;
        }
        let Some(position) = self.node.position() else { return };
        if self.places.after(unit) != Some(position) {
            self.places.note(unit, position);
            srv.nodes.replication.placed.store(unit, Ordering::SeqCst);
            // The position may have advanced after the file was written.
            aof(srv).look_behind(unit);
        }
    }
}

impl Hub {
    /// Units of the primary were applied up to here, and no other thread has logged since. `alone`:
    /// clients can't write here, so the last unit of the log is one of those.
    pub fn note_applied(&self, srv: &Server, alone: bool) {
        if alone && aof(srv).is_logging() {
            self.lock().note_place(srv, srv.ks.log().last());
        }
    }

    /// The last unit with a known position, if it is after `unit`. A write to the append-only file
    /// should end there.
    pub fn last_known_position_above(&self, unit: u64) -> Option<u64> {
        let placed = self.published.placed.load(Ordering::SeqCst);
        (placed > unit).then_some(placed)
    }

    /// Whether the position after `unit`, the last one, is known.
    pub fn has_position_after(&self, unit: u64) -> bool {
        unit > 0 && self.published.placed.load(Ordering::SeqCst) == unit
    }

    /// All units up to this one are durable on this server's disk. The next acknowledgement to the
    /// primary includes it.
    pub fn note_durable(&self, unit: u64) {
        if !self.published.is_replica() {
            return;
        }
        let mut state = self.lock();
        if let Some(position) = state.places.up_to(unit) {
            state.node.durable(Some(position.offset));
        }
    }

    /// The position that an append-only file may record after this unit.
    pub fn position_after(&self, unit: u64) -> Option<aof::Position> {
        if self.published.placed.load(Ordering::SeqCst) < unit {
            return None;
        }
        let Position { id, offset, db } = self.lock().places.after(unit)?;
        Some(aof::Position { id: *id.as_bytes(), offset, db })
    }
}
