//! The requests of one iteration: read from many connections, planned, then executed together.
//!
//! An iteration reads every ready connection before it executes a request. Most requests are small
//! and arrive complete, so the reads share one *arena*: each connection's bytes follow those of the
//! previous one, and requests are executed from there without a copy. Only the tail of an
//! incomplete request is moved to a buffer of its connection. The requests of all connections form
//! one flat list. Buckets and records are prefetched some requests ahead of the execution, so that
//! the cache misses of many clients overlap (design: "Prefetch before use").

use weft_resp::{ProtocolError, Span};
use weft_state::args::ArgBuf;
use weft_state::attempt::Attempt;
use weft_state::command_table::Cmd;

/// Bytes that one read may take from a socket. More means fewer system calls for a deep
/// pipeline, and longer iterations for the other clients.
pub const READ_SIZE: usize = 64 * 1024;
/// Bytes for the reads of one batch: one full read, and many small ones before it.
const ARENA: usize = 4 * READ_SIZE;
/// A batch is executed when it holds this many requests.
const FULL: usize = 512;

/// Initial capacity in jobs.
const JOBS: usize = 64;

/// The location of a request's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Spans of the job's buffer.
    Spans,
    /// Copied arguments: an index into [`Batch::owned`].
    Owned(u32),
}

/// One complete request.
#[derive(Clone, Copy, Debug)]
pub struct Req {
    /// `None` if no command has that name.
    pub cmd: Option<&'static Cmd>,
    pub source: Source,
    /// The range of its spans in [`Batch::spans`].
    pub first_span: u32,
    pub spans: u32,
    /// Hash and slot of its first key, if it has one.
    pub hash: u64,
    pub slot: u16,
    /// Cache lines to prefetch of that key's record; 0 without a key.
    pub lines: u8,
    pub db: u16,
}

/// The requests of one connection in a batch.
#[derive(Debug)]
pub struct Job {
    pub conn: usize,
    /// Whether the bytes are in the connection's buffer, not in the arena.
    pub in_conn: bool,
    /// The range of the job's bytes in the arena. In a connection's buffer, `base` is 0.
    pub base: usize,
    pub end: usize,
    pub first_req: usize,
    pub reqs: usize,
    /// The history of its first request. The others have none.
    pub attempt: Attempt,
    /// The bytes after the last request are no valid request.
    pub error: Option<ProtocolError>,
    /// Planning stopped early: the rest of the connection's buffer needs another iteration.
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
    /// Number of requests with a key, which is prefetched.
    pub keyed: usize,
}

impl Default for Batch {
    fn default() -> Self {
        // Enough for most batches, so that memory use doesn't grow with the first clients.
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
    /// A batch without allocations: a placeholder for one that is being executed.
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
