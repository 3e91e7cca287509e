//! The list of moves that CLUSTER GETSLOTMIGRATIONS shows.

use std::collections::VecDeque;
use weft_cluster::node::CopyView;
use weft_cluster::node::layout::HandoverId;
use weft_cluster::{NodeId, SlotSet};
use weft_config::Id;
use weft_state::server::Server;

/// A move from or to this node.
#[derive(Clone, Debug)]
pub struct Record {
    pub id: HandoverId,
    pub is_export: bool,
    pub slots: SlotSet,
    pub source: NodeId,
    pub target: NodeId,
    /// Unix seconds.
    pub created: i64,
    pub updated: i64,
    /// In Valkey's words.
    pub state: &'static str,
    pub message: String,
}

impl Record {
    /// A move that begins now, as the node `me` sees it.
    pub(crate) fn begun(view: &CopyView, me: NodeId, srv: &Server) -> Record {
        let now = srv.now_ms() / 1000;
        let (source, target, state) = match view.is_source {
            true => (me, view.other, "connecting"),
            false => (view.other, me, "receiving-snapshot"),
        };
        Record {
            id: view.id,
            is_export: view.is_source,
            slots: view.slots.clone(),
            source,
            target,
            created: now,
            updated: now,
            state,
            message: String::new(),
        }
    }

    fn has_ended(&self) -> bool {
        matches!(self.state, "success" | "failed" | "canceled")
    }
}

/// Newest first.
#[derive(Default)]
pub struct Records(VecDeque<Record>);

impl Records {
    pub fn iter(&self) -> impl Iterator<Item = &Record> {
        self.0.iter()
    }

    pub(crate) fn add(&mut self, record: Record, srv: &Server) {
        self.0.push_front(record);
        self.shorten(srv);
    }

    /// Forgets the oldest moves that have ended, beyond `cluster-slot-migration-log-max-len`.
    fn shorten(&mut self, srv: &Server) {
        let most = srv.config().int(Id::CLUSTER_SLOT_MIGRATION_LOG_MAX_LEN).max(0) as usize;
        let ended = self.0.iter().filter(|record| record.has_ended()).count();
        for _ in most..ended {
            if let Some(oldest) = self.0.iter().rposition(Record::has_ended) {
                self.0.remove(oldest);
            }
        }
    }

    /// Another one than the thread of the move has ended it.
    pub(crate) fn cancel(&mut self, id: &HandoverId, srv: &Server) {
        if self.0.iter().any(|record| record.id == *id && !record.has_ended()) {
            self.note(id, srv, "canceled", "The move was ended");
        }
    }

    pub(crate) fn note(
        &mut self,
        id: &HandoverId,
        srv: &Server,
        state: &'static str,
        message: &str,
    ) {
        if let Some(record) = self.0.iter_mut().find(|record| record.id == *id) {
            (record.state, record.updated) = (state, srv.now_ms() / 1000);
            record.message = message.to_string();
        }
        self.shorten(srv);
    }
}
