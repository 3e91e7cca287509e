//! One server of the simulation: the machine, and what an I/O layer would have beside it.

use super::truth::{Data, EMPTY};
use crate::action::{ConnId, LinkId, Load, SnapshotId, Target};
use crate::apply::Splitter;
use crate::node::Node;
use crate::stream::Position;
use std::collections::{BTreeMap, VecDeque};

/// Commands with their databases, as bytes.
pub(super) type Texts = Vec<(usize, Vec<u8>)>;

/// A file of the data, with what it says about itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    pub data: Data,
    pub position: Option<Position>,
}

/// A snapshot that was asked for.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub id: SnapshotId,
    pub target: Target,
    /// Its bytes, once it has begun.
    pub bytes: Option<Vec<u8>>,
}

/// A copy that comes in.
#[derive(Clone, Debug)]
pub(super) struct Loading {
    pub link: LinkId,
    pub load: Load,
    pub bytes: Vec<u8>,
}

/// What is sent to a replica.
#[derive(Default)]
pub(super) struct Sender {
    pub bulk: Option<(Vec<u8>, usize)>,
    /// When the copy got on last.
    pub progress: u64,
    pub cursor: Option<u64>,
    pub scheduled: bool,
    /// Bytes of requests that have come and are not complete.
    pub asked: Vec<u8>,
}

pub(super) struct Server {
    pub life: u32,
    pub node: Node,
    pub data: Data,
    /// What was saved last.
    pub file: Option<File>,
    /// How much later than the world's its clock is.
    pub skew: u64,
    pub paused: bool,
    /// Units that are in the data and not yet in the stream: the data before each, and its commands.
    pub under_way: VecDeque<(Data, Texts)>,
    pub splitter: Option<(LinkId, Splitter)>,
    /// Bytes of the link that were not taken.
    pub held: Vec<u8>,
    pub loading: Option<Loading>,
    /// What was loaded beside, until it is swapped in.
    pub beside: Option<Data>,
    pub snapshots: Vec<Snapshot>,
    pub senders: BTreeMap<ConnId, Sender>,
    /// Which data it had at which offset of its stream, since the stream began. Between two of them only
    /// databases are selected.
    pub trace: BTreeMap<u64, Data>,
    /// Where the backlog began.
    pub kept_from: Option<u64>,
}

impl Server {
    pub fn new(node: Node, life: u32, data: Data, skew: u64) -> Server {
        Server {
            life,
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

    /// Whether the data are a whole.
    pub fn is_whole(&self) -> bool {
        self.loading.as_ref().is_none_or(|loading| loading.load != Load::Direct)
    }

    /// The data as the stream has them.
    pub fn streamed(&self) -> Data {
        self.under_way.front().map_or(self.data, |(before, _)| *before)
    }

    /// The data as bytes: what they are, the database that the stream has selected, and some more.
    pub fn image(&self, padding: usize) -> Vec<u8> {
        let db = self.node.stream().position().db;
        let mut bytes = format!("{}:{db}:", self.data).into_bytes();
        bytes.resize(bytes.len() + padding, b'.');
        bytes
    }

    /// What an image says.
    pub fn read_image(bytes: &[u8]) -> Option<(Data, u32)> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut parts = text.split(':');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }

    /// The data are gone, and what was known about where they came from.
    pub fn drop_data(&mut self) {
        self.data = EMPTY;
        self.trace.clear();
        self.kept_from = None;
    }
}
