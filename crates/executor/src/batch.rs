//! The requests of one turn: read from many connections, planned, then executed together.
//!
//! A turn reads every ready connection before it executes anything. Most requests are small and
//! arrive whole, so the reads share one *arena*: the bytes of the next connection follow those
//! of the last, and requests are executed from there without a copy. Only the tail of an
//! incomplete request is moved to its connection's own buffer. The requests of all connections
//! form one flat list, over which buckets and records are prefetched some places ahead of the
//! execution, so that the cache misses of many clients overlap (design: "Prefetch before use").

use weft_resp::{ProtocolError, Span};
use weft_state::args::ArgBuf;
use weft_state::attempt::Attempt;
use weft_state::command_table::Cmd;

/// Bytes that one read may take from a socket. More means fewer system calls for a deep
/// pipeline, and longer turns for everybody else.
pub const READ_SIZE: usize = 64 * 1024;
/// Room for the reads of one batch: one full read, and many small ones before it.
const ARENA: usize = 4 * READ_SIZE;
/// A batch is executed when it holds this many requests.
const FULL: usize = 512;

/// Jobs for which there is room from the beginning.
const JOBS: usize = 64;

/// Where a request's arguments are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Spans of the job's buffer.
    Spans,
    /// Arguments of their own: an index into [`Batch::owned`].
    Owned(u32),
}

/// One complete request.
#[derive(Clone, Copy, Debug)]
pub struct Req {
    /// `None` when no command has that name.
    pub cmd: Option<&'static Cmd>,
    pub source: Source,
    /// Its spans in [`Batch::spans`].
    pub first_span: u32,
    pub spans: u32,
    /// Of its first key, when there is one.
    pub hash: u64,
    pub shard: u16,
    /// Cache lines of that key's record that are prefetched; 0 when there is no such key.
    pub lines: u8,
    pub db: u16,
}

/// The requests of one connection in a batch.
#[derive(Debug)]
pub struct Job {
    pub conn: usize,
    /// Whether the bytes are in the connection's own buffer, or in the arena.
    pub in_conn: bool,
    /// Where the job's bytes start in the arena (0 in the connection's own buffer) and end.
    pub base: usize,
    pub end: usize,
    pub first_req: usize,
    pub reqs: usize,
    /// The history of its first request. The others have none.
    pub attempt: Attempt,
    /// What the connection sent after its last request makes no sense.
    pub error: Option<ProtocolError>,
    /// Planning stopped early: what is left in the connection's buffer wants another turn.
    pub more: bool,
}

/// See the module's description.
#[derive(Debug)]
pub struct Batch {
    pub arena: Box<[u8]>,
    pub used: usize,
    pub spans: Vec<Span>,
    pub owned: Vec<Vec<ArgBuf>>,
    pub reqs: Vec<Req>,
    pub jobs: Vec<Job>,
    /// Requests with a key, which is prefetched.
    pub keyed: usize,
}

impl Default for Batch {
    fn default() -> Self {
        // As much as most batches need, so that an empty server takes what a busy one does.
        Batch {
            arena: vec![0; ARENA].into(),
            spans: Vec::with_capacity(4 * FULL),
            reqs: Vec::with_capacity(FULL),
            jobs: Vec::with_capacity(JOBS),
            ..Batch::hollow()
        }
    }
}

impl Batch {
    /// A batch without room, to stand in for one that is being executed.
    pub fn hollow() -> Self {
        Batch {
            arena: Box::default(),
            used: 0,
            spans: Vec::new(),
            owned: Vec::new(),
            reqs: Vec::new(),
            jobs: Vec::new(),
            keyed: 0,
        }
    }

    /// Whether the next read might not fit, or enough is planned.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.arena.len() - self.used < READ_SIZE || self.reqs.len() >= FULL
    }

    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Makes room for the next batch.
    pub fn clear(&mut self) {
        self.used = 0;
        self.spans.clear();
        self.owned.clear();
        self.reqs.clear();
        self.jobs.clear();
        self.keyed = 0;
    }
}
