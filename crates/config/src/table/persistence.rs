//! Snapshots and the append-only file.

use super::{EFFECTIVE, INT_MAX, LONG_MAX, SIZE_MAX};
use crate::checks::{append_dir_name, append_file_name, db_file_name};
use crate::directive::{Flags, Status};
use crate::kind::{Kind, bytes, checked, int, one_of};

section! {
    after: super::lazyfree::END,
    title: "Persistence",
    about: "",

    SAVE = "save" {
        kind: Kind::SavePoints,
        default: "3600 1 300 100 60 10000",
        flags: Flags::MULTI.and(Flags::REPEATABLE),
        status: EFFECTIVE,
        doc: "Pairs of seconds and changes: write a snapshot after this many seconds if at least \
              this many keys have changed. Pairs on one or more lines add up. \"\" removes the \
              pairs before it; alone it turns snapshots off.",
    }
    DBFILENAME = "dbfilename" {
        kind: checked(db_file_name),
        default: "dump.rdb",
        flags: Flags::PROTECTED,
        status: EFFECTIVE,
        doc: "Name of the snapshot in dir.",
    }
    RDBCOMPRESSION = "rdbcompression" {
        kind: Kind::Bool,
        default: "yes",
        status: EFFECTIVE,
        doc: "Compress strings in snapshots.",
    }
    RDBCHECKSUM = "rdbchecksum" {
        kind: Kind::Bool,
        default: "yes",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "End snapshots with a checksum and check it when they are loaded.",
    }
    RDB_VERSION_CHECK = "rdb-version-check" {
        kind: one_of(&["strict", "relaxed"]),
        default: "strict",
        status: EFFECTIVE,
        doc: "Treatment of a snapshot of an unknown version: refuse it, or load it as far as \
              the server understands it.",
    }
    RDB_DEL_SYNC_FILES = "rdb-del-sync-files" {
        kind: Kind::Bool,
        default: "no",
        status: Status::Obsolete("files written for replication are always temporary"),
        doc: "Delete snapshots written only for replication, if this server keeps no other \
              files.",
    }
    RDB_SAVE_INCREMENTAL_FSYNC = "rdb-save-incremental-fsync" {
        kind: Kind::Bool,
        default: "yes",
        status: EFFECTIVE,
        doc: "Sync a snapshot every few megabytes while it is written, so that the disk never \
              has to write all of it at once.",
    }
    SNAPSHOT_MEMORY_LIMIT = "snapshot-memory-limit" {
        kind: bytes(0, SIZE_MAX),
        default: "0",
        status: EFFECTIVE,
        doc: "Memory that a snapshot may use in addition to the data, for old values of keys that \
              change meanwhile. Near this limit, writes to keys that are not saved yet wait, for \
              snapshot-max-write-delay at most. Reads and all other writes continue. 0: a quarter \
              of the memory in use, at least 64mb.",
    }
    SNAPSHOT_MAX_WRITE_DELAY = "snapshot-max-write-delay" {
        kind: int(0, INT_MAX),
        default: "1000",
        status: EFFECTIVE,
        doc: "Milliseconds that a write may wait for a snapshot at its memory limit. After that \
              the write continues, and the limit of this snapshot grows by an eighth. So the \
              snapshot uses more memory but never fails for it. 0: writes never wait.",
    }
    STOP_WRITES_ON_BGSAVE_ERROR = "stop-writes-on-bgsave-error" {
        kind: Kind::Bool,
        default: "yes",
        status: EFFECTIVE,
        doc: "Refuse writes after a snapshot has failed, until one succeeds, so that the failure \
              is noticed.",
    }
    APPENDONLY = "appendonly" {
        kind: Kind::Bool,
        default: "no",
        flags: Flags::DENY_LOADING,
        status: EFFECTIVE,
        doc: "Log every write to a file. With appendfsync everysec, a crash loses about the last \
              second.",
    }
    APPENDFILENAME = "appendfilename" {
        kind: checked(append_file_name),
        default: "appendonly.aof",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Beginning of the names of the append-only files.",
    }
    APPENDDIRNAME = "appenddirname" {
        kind: checked(append_dir_name),
        default: "appendonlydir",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Directory in dir for the append-only files.",
    }
    APPENDFSYNC = "appendfsync" {
        kind: one_of(&["everysec", "always", "no"]),
        default: "everysec",
        status: EFFECTIVE,
        doc: "When to sync writes to disk: once a second, before every reply, or when the system \
              chooses.",
    }
    NO_APPENDFSYNC_ON_REWRITE = "no-appendfsync-on-rewrite" {
        kind: Kind::Bool,
        default: "no",
        status: EFFECTIVE,
        doc: "Do not sync while a rewrite or a snapshot is written. Latency is steadier, but a \
              crash in that time loses more.",
    }
    AUTO_AOF_REWRITE_PERCENTAGE = "auto-aof-rewrite-percentage" {
        kind: int(0, INT_MAX),
        default: "100",
        status: EFFECTIVE,
        doc: "Rewrite the append-only file when it has grown by this many percent since the last \
              rewrite. 0 turns automatic rewrites off.",
    }
    AUTO_AOF_REWRITE_MIN_SIZE = "auto-aof-rewrite-min-size" {
        kind: bytes(0, LONG_MAX as u64),
        default: "64mb",
        status: EFFECTIVE,
        doc: "Size below which there is no automatic rewrite.",
    }
    AOF_LOAD_TRUNCATED = "aof-load-truncated" {
        kind: Kind::Bool,
        default: "yes",
        status: EFFECTIVE,
        doc: "Load an append-only file whose end is missing, as after a crash, and log a \
              warning. With no, refuse to start.",
    }
    AOF_LOAD_CORRUPT_TAIL_MAX_SIZE = "aof-load-corrupt-tail-max-size" {
        kind: bytes(0, LONG_MAX as u64),
        default: "0",
        status: EFFECTIVE,
        doc: "Bytes at the end of the last append-only file that may be damaged in any way, as \
              after a power loss. The server cuts them off and logs it. It refuses to start with \
              more damage.",
    }
    AOF_CHECKSUM = "aof-checksum" {
        kind: Kind::Bool,
        default: "yes",
        status: EFFECTIVE,
        doc: "Write a checksum before each batch in the append-only file, in a line that other \
              servers skip, and check it when the file is loaded.",
    }
    AOF_ZEROS_AHEAD = "aof-zeros-ahead" {
        kind: Kind::Bool,
        default: "yes",
        status: EFFECTIVE,
        doc: "Under appendfsync always, with aof-checksum and without no-appendfsync-on-rewrite, \
              keep up to a megabyte of zeros at the end of the append-only file, so that syncs \
              take about half as long. The server cuts them off when it closes the file. After a \
              crash, other servers need --check-aof --fix first.",
    }
    AOF_USE_RDB_PREAMBLE = "aof-use-rdb-preamble" {
        kind: Kind::Bool,
        default: "yes",
        status: EFFECTIVE,
        doc: "Begin a rewritten append-only file with a snapshot, which is smaller and loads \
              faster.",
    }
    AOF_REWRITE_INCREMENTAL_FSYNC = "aof-rewrite-incremental-fsync" {
        kind: Kind::Bool,
        default: "yes",
        status: EFFECTIVE,
        doc: "Sync a rewrite every few megabytes, as rdb-save-incremental-fsync does.",
    }
    AOF_TIMESTAMP_ENABLED = "aof-timestamp-enabled" {
        kind: Kind::Bool,
        default: "no",
        status: EFFECTIVE,
        doc: "Write time stamps to the append-only file, for restoring the data as of a given \
              time. Older servers cannot read such files.",
    }
}
