//! Actions that the state machines request. The driver executes them in this order.

use crate::id::ReplicationId;
use crate::stream::Position;
use std::ops::Range;

/// A connection of a client that is, or may become, a replica of this server. Ids are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(pub u64);

/// One attempt to follow the primary. Ids are never reused, which identifies late events of an
/// older attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u64);

/// A requested snapshot, for one or more replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SnapshotId(pub u64);

/// The log level of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Notice,
    Warning,
}

/// The destination of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// A file, which is sent afterwards, with its length first.
    Disk,
    /// The replicas directly; a mark ends it.
    Stream,
}

/// The parts of the data that a replica requests (`REPLCONF rdb-filter-only`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Parts {
    pub data: bool,
    pub functions: bool,
}

impl Parts {
    pub const ALL: Parts = Parts { data: true, functions: true };
}

/// The properties of a snapshot for replicas. Replicas that request the same share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Form {
    pub parts: Parts,
    /// Version of the RDB format that all of its readers support: [`Form::NEWEST`], or 11 for
    /// replicas that don't report their version.
    pub rdb_version: u32,
}

impl Form {
    /// The version of Valkey 9.0.
    pub const NEWEST: u32 = 80;
    /// The version that every supported replica reads.
    pub const OLDEST: u32 = 11;
}

/// How to load a copy of the primary's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Receive it into a file. Once it is complete, drop the old data and load the file.
    File,
    /// Drop the old data, and load the copy while it arrives.
    Direct,
    /// Load the copy while it arrives and keep the old data until [`Action::Swap`].
    Staged {
        /// Clients may read the old data until then, because they belong to the same history.
        serve: bool,
    },
}

/// An action for the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    // ---- to replicas
    /// Send these bytes before anything that a later action sends.
    Reply {
        conn: ConnId,
        bytes: Vec<u8>,
    },
    /// Take a snapshot as soon as possible. Report `snapshot_began` in the order of the stream: the
    /// snapshot contains everything appended before.
    Snapshot {
        snapshot: SnapshotId,
        target: Target,
        form: Form,
    },
    /// The snapshot is no longer needed.
    AbandonSnapshot {
        snapshot: SnapshotId,
    },
    /// Send this head, then the snapshot, then its mark, if it has one. Report `bulk_sent` once the
    /// socket has taken all of it. A [`Target::Stream`] is sent while it is produced.
    SendBulk {
        conn: ConnId,
        snapshot: SnapshotId,
        head: Vec<u8>,
        mark: Option<[u8; 40]>,
    },
    /// Send the stream from this offset on; report `written`.
    SendStream {
        conn: ConnId,
        from: u64,
    },
    /// Close the connection. `flush`: only after the queued replies were sent.
    Close {
        conn: ConnId,
        flush: bool,
    },
    /// Replicas have acknowledged more: clients that wait for it can check again.
    Acknowledged,

    // ---- the stream and the clients
    /// From this cut on, read the effect log and append its units.
    KeepWrites,
    /// Replication no longer needs the effect log.
    DropWrites,
    /// Block clients' writes, expiration and eviction, so the data don't change. Report
    /// `writes_paused` once that is done and all earlier units are appended.
    PauseWrites,
    ResumeWrites,
    /// This server is a replica from here on. Clients blocked on a key or on replicas are notified.
    Demoted,
    /// This server is a primary from here on.
    Promoted,

    // ---- to the primary
    Connect {
        link: LinkId,
        host: String,
        port: u16,
    },
    /// Send these bytes.
    Send {
        link: LinkId,
        bytes: Vec<u8>,
    },
    /// Close the connection, and drop the received bytes that were not applied.
    Disconnect {
        link: LinkId,
    },
    /// A copy begins, with this length in bytes if known.
    BeginLoad {
        link: LinkId,
        load: Load,
        bytes: Option<u64>,
    },
    /// Bytes of the copy.
    Payload {
        link: LinkId,
        bytes: Vec<u8>,
    },
    /// The copy is complete: report `loaded` or `load_failed`. With [`Load::File`], drop the old
    /// data now.
    EndLoad {
        link: LinkId,
    },
    /// Replace the old data with the copy loaded in the meantime, atomically.
    Swap {
        link: LinkId,
    },
    /// Drop the received part of the copy. If the old data were dropped already, the server is
    /// empty now.
    AbandonLoad {
        link: LinkId,
    },
    /// Apply units from here on, in a stream with this database selected.
    BeginStream {
        link: LinkId,
        at: Position,
    },
    /// This range of the received bytes belongs to the stream.
    Stream {
        link: LinkId,
        bytes: Range<usize>,
    },
    /// Present the bytes again that were not consumed, and read more.
    Read {
        link: LinkId,
    },

    // ---- to the operator
    Log {
        level: Level,
        text: String,
    },
}

/// Generates unique ids.
pub type Ids = Box<dyn FnMut() -> ReplicationId + Send>;
