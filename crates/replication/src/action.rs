//! What the machines want done. Whoever runs them does it in this order.

use crate::id::ReplicationId;
use crate::stream::Position;
use std::ops::Range;

/// A connection of a client that is, or may become, a replica of ours. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(pub u64);

/// One attempt to follow our primary. Never used twice: what comes late from an older one is known by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u64);

/// A snapshot that was asked for, for one or more replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SnapshotId(pub u64);

/// How loud something is said in the server's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Notice,
    Warning,
}

/// Where a snapshot goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// Into a file, which is then sent, with its length in front.
    Disk,
    /// Straight to the replicas, which see its end by a mark.
    Stream,
}

/// Which parts of the data a replica wants (`REPLCONF rdb-filter-only`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Parts {
    pub data: bool,
    pub functions: bool,
}

impl Parts {
    pub const ALL: Parts = Parts { data: true, functions: true };
}

/// What a snapshot for replicas is like. Replicas that want the same share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Form {
    pub parts: Parts,
    /// Version of the RDB format that all of its readers understand: [`Form::NEWEST`], or 11 for those that
    /// do not tell what they are.
    pub rdb_version: u32,
}

impl Form {
    /// What Valkey 9.0 reads.
    pub const NEWEST: u32 = 80;
    /// What anybody reads.
    pub const OLDEST: u32 = 11;
}

/// How a copy of the primary's data is taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Into a file. When it is complete the old data are dropped and it is loaded.
    File,
    /// The old data are dropped, and the copy is loaded as it comes.
    Direct,
    /// Loaded as it comes, beside the old data, which are dropped for it at [`Action::Swap`].
    Beside {
        /// Until then the old data may be read: they are of the same history.
        serve: bool,
    },
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    // ---- to replicas
    /// Send this, in front of anything that is sent because of a later action.
    Reply {
        conn: ConnId,
        bytes: Vec<u8>,
    },
    /// Take a snapshot as soon as that is possible, and tell `snapshot_began` in the order of the stream:
    /// what was appended before is in it.
    Snapshot {
        snapshot: SnapshotId,
        target: Target,
        form: Form,
    },
    /// Nobody wants it any longer.
    AbandonSnapshot {
        snapshot: SnapshotId,
    },
    /// Send this head and then the snapshot; then its mark, if it has one. Tell `bulk_sent` when the
    /// socket has all of it. For [`Target::Stream`] as it is made.
    SendBulk {
        conn: ConnId,
        snapshot: SnapshotId,
        head: Vec<u8>,
        mark: Option<[u8; 40]>,
    },
    /// From now on send the stream, from behind this many bytes on; tell `written`.
    SendStream {
        conn: ConnId,
        from: u64,
    },
    /// Close it. `flush`: when what was replied has been sent.
    Close {
        conn: ConnId,
        flush: bool,
    },
    /// Replicas have confirmed more: who waits for that can look again.
    Confirmed,

    // ---- the stream and the clients
    /// From this cut on, read the log of effects and append its units.
    KeepWrites,
    /// Nobody needs the log for replication any longer.
    DropWrites,
    /// Clients' writes wait, and nothing expires or is evicted: the data stay as they are. Tell
    /// `writes_paused` when that is so and all units of before have been appended.
    PauseWrites,
    ResumeWrites,
    /// We are a replica from here on; what waits for a key or for replicas is told so.
    Demoted,
    /// We are a primary from here on.
    Promoted,

    // ---- to our primary
    Connect {
        link: LinkId,
        host: String,
        port: u16,
    },
    /// Send this.
    Send {
        link: LinkId,
        bytes: Vec<u8>,
    },
    /// Close it, and forget what has come and was not applied.
    Disconnect {
        link: LinkId,
    },
    /// A copy begins, of this many bytes if that is known.
    BeginLoad {
        link: LinkId,
        load: Load,
        bytes: Option<u64>,
    },
    /// Bytes of it.
    Payload {
        link: LinkId,
        bytes: Vec<u8>,
    },
    /// That was all of it: tell `loaded` or `load_failed`. With [`Load::File`] the old data go now.
    EndLoad {
        link: LinkId,
    },
    /// The copy that was loaded beside takes the place of the old data, at once.
    Swap {
        link: LinkId,
    },
    /// What was received of it is thrown away. If the old data are gone already, there are none now.
    AbandonLoad {
        link: LinkId,
    },
    /// Units are to be applied from here on, in a stream with this database selected.
    BeginStream {
        link: LinkId,
        at: Position,
    },
    /// These of the bytes that were just received are of the stream.
    Stream {
        link: LinkId,
        bytes: Range<usize>,
    },
    /// Bytes that were not taken are to be presented again, and more read.
    Read {
        link: LinkId,
    },

    // ---- to the operator
    Log {
        level: Level,
        text: String,
    },
}

/// Makes ids that nobody has had before.
pub type Ids = Box<dyn FnMut() -> ReplicationId + Send>;
