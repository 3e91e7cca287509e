//! The list of moves that CLUSTER GETSLOTMIGRATIONS shows.

use std::collections::VecDeque;
use weft_cluster::node::layout::HandoverId;
use weft_cluster::{NodeId, SlotSet};
use weft_state::server::Server;

/// The moves that are remembered after their end, as `cluster-slot-migration-log-max-len` of Valkey by default.
const MOST: usize = 1000;

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

/// Newest first.
#[derive(Default)]
pub struct Records(VecDeque<Record>);

impl Records {
    pub fn iter(&self) -> impl Iterator<Item = &Record> {
        self.0.iter()
    }

    pub(crate) fn add(&mut self, record: Record) {
        self.0.push_front(record);
        self.0.truncate(MOST);
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
    }
}
