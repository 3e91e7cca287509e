//! One server of the simulation: the machine, and the state of its I/O layer.

use super::shard::Reports;
use super::truth::{Data, EMPTY};
use crate::action::{ConnId, LinkId, Load, SnapshotId, Target};
use crate::apply::Splitter;
use crate::node::Node;
use crate::stream::Position;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Encoded commands with their databases.
pub(super) type Texts = Vec<(usize, Vec<u8>)>;

/// A file of the data, with the position that it records.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    pub data: Data,
    pub position: Option<Position>,
}

/// A requested snapshot.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub id: SnapshotId,
    pub target: Target,
    /// Its bytes, once it has begun.
    pub bytes: Option<Vec<u8>>,
}

/// A copy being received.
#[derive(Clone, Debug)]
pub(super) struct Loading {
    pub link: LinkId,
    pub load: Load,
    pub bytes: Vec<u8>,
}

/// Data to send to a replica.
#[derive(Default)]
pub(super) struct Sender {
    pub bulk: Option<(Vec<u8>, usize)>,
    /// Time at which the copy last advanced.
    pub progress: u64,
    pub cursor: Option<u64>,
    pub scheduled: bool,
    /// Bytes of incomplete requests.
    pub asked: Vec<u8>,
}

pub(super) struct Server {
    pub life: u32,
    /// Its knowledge of its shard, in a run with a shard.
    pub reports: Option<Arc<Reports>>,
    pub node: Node,
    pub data: Data,
    /// The last saved file.
    pub file: Option<File>,
    /// Offset of its clock from the simulation's clock.
    pub skew: u64,
    pub paused: bool,
    /// Units in the data that are not in the stream yet: the data before each, and its commands.
    pub under_way: VecDeque<(Data, Texts)>,
    pub splitter: Option<(LinkId, Splitter)>,
    /// Received bytes of the link that were not consumed.
    pub held: Vec<u8>,
    pub loading: Option<Loading>,
    /// The loaded copy until the swap.
    pub beside: Option<Data>,
    pub snapshots: Vec<Snapshot>,
    pub senders: BTreeMap<ConnId, Sender>,
    /// The data at each offset of its stream, since the stream began. Between two entries there are
    /// only SELECTs.
    pub trace: BTreeMap<u64, Data>,
    /// Start of the backlog.
    pub kept_from: Option<u64>,
}

impl Server {
    pub fn new(node: Node, life: u32, data: Data, skew: u64) -> Server {
        Server {
            life,
            reports: None,
            node,
            data,
            file: None,
            skew,
            paused: false,
            under_way: VecDeque::new(),
            splitter: None,
            held: Vec::new(),
            loading: None,
            beside: None,
            snapshots: Vec::new(),
            senders: BTreeMap::new(),
            trace: BTreeMap::new(),
            kept_from: None,
        }
    }

    /// Whether the data are complete.
    pub fn is_whole(&self) -> bool {
        self.loading.as_ref().is_none_or(|loading| loading.load != Load::Direct)
    }

    /// The data without the units that are not in the stream yet.
    pub fn streamed(&self) -> Data {
        self.under_way.front().map_or(self.data, |(before, _)| *before)
    }

    /// The data as bytes: their number, the selected database of the stream, and padding.
    pub fn image(&self, padding: usize) -> Vec<u8> {
        let db = self.node.stream().position().db;
        let mut bytes = format!("{}:{db}:", self.data).into_bytes();
        bytes.resize(bytes.len() + padding, b'.');
        bytes
    }

    /// Parses an image.
    pub fn read_image(bytes: &[u8]) -> Option<(Data, u32)> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut parts = text.split(':');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }

    /// Drops the data and their position.
    pub fn drop_data(&mut self) {
        self.data = EMPTY;
        self.trace.clear();
        self.kept_from = None;
    }
}
