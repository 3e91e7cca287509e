//! Replicas and their primary.

use super::{EFFECTIVE, INT_MAX, LONG_MAX, MPTCP, PORT_MAX, SIZE_MAX};
use crate::directive::{Flags, Status};
use crate::kind::{Kind, bytes, int, one_of, text};

section! {
    after: super::persistence::END,
    title: "Replication",
    about: "",

    REPLICAOF = "replicaof" aka "slaveof" {
        kind: Kind::Primary,
        default: "no one",
        flags: Flags::IMMUTABLE.and(Flags::MULTI),
        status: EFFECTIVE,
        doc: "Host and port of this replica's primary, or no one. The command REPLICAOF changes \
              it at run time.",
    }
    PRIMARYAUTH = "primaryauth" aka "masterauth" {
        kind: text(),
        default: "\"\"",
        flags: Flags::SENSITIVE,
        status: EFFECTIVE,
        doc: "Password for AUTH at the primary.",
    }
    PRIMARYUSER = "primaryuser" aka "masteruser" {
        kind: text(),
        default: "\"\"",
        flags: Flags::SENSITIVE,
        status: EFFECTIVE,
        doc: "User for AUTH at the primary. Empty is the default user.",
    }
    REPLICA_SERVE_STALE_DATA = "replica-serve-stale-data" aka "slave-serve-stale-data" {
        kind: Kind::Bool,
        default: "yes",
        status: EFFECTIVE,
        doc: "Serve reads from the present data while the primary is unreachable or the first \
              copy is incomplete. With no, they get an error.",
    }
    REPLICA_READ_ONLY = "replica-read-only" aka "slave-read-only" {
        kind: Kind::Bool,
        default: "yes",
        flags: Flags::DEBUG,
        status: EFFECTIVE,
        doc: "Refuse clients' writes on a replica. This prevents accidents, not attacks.",
    }
    REPL_DISKLESS_SYNC = "repl-diskless-sync" {
        kind: Kind::Bool,
        default: "yes",
        flags: Flags::DEBUG,
        status: EFFECTIVE,
        doc: "Send the first copy to replicas directly from memory instead of from a file.",
    }
    REPL_DISKLESS_SYNC_DELAY = "repl-diskless-sync-delay" {
        kind: int(0, INT_MAX),
        default: "5",
        status: EFFECTIVE,
        doc: "Seconds to wait before a diskless copy, so that several replicas can share it.",
    }
    REPL_DISKLESS_SYNC_MAX_REPLICAS = "repl-diskless-sync-max-replicas" {
        kind: int(0, INT_MAX),
        default: "0",
        status: EFFECTIVE,
        doc: "Stop waiting when this many replicas have arrived. 0 waits the whole time.",
    }
    REPL_DISKLESS_LOAD = "repl-diskless-load" {
        kind: one_of(&["disabled", "on-empty-db", "swapdb", "flush-before-load"]),
        default: "disabled",
        flags: Flags::DEBUG.and(Flags::DENY_LOADING),
        status: EFFECTIVE,
        doc: "Load the first copy directly from the connection: never, if there is no data yet, in \
              addition to the old data (which is served until then), or after dropping the old \
              data.",
    }
    DUAL_CHANNEL_REPLICATION_ENABLED = "dual-channel-replication-enabled" {
        kind: Kind::Bool,
        default: "no",
        flags: Flags::DEBUG,
        status: Status::Obsolete(
            "a copy and the writes after it share one connection, and all replicas share one \
             backlog",
        ),
        doc: "Send the first copy over a connection of its own while writes already flow, which \
              saves the primary's memory.",
    }
    REPL_MPTCP = "repl-mptcp" {
        kind: Kind::Bool,
        default: "no",
        flags: Flags::IMMUTABLE,
        status: MPTCP,
        doc: "Connect to the primary with Multipath TCP.",
    }
    REPL_PING_REPLICA_PERIOD = "repl-ping-replica-period" aka "repl-ping-slave-period" {
        kind: int(1, INT_MAX),
        default: "10",
        status: EFFECTIVE,
        doc: "Seconds between pings of a primary to its replicas.",
    }
    REPL_TIMEOUT = "repl-timeout" {
        kind: int(1, INT_MAX),
        default: "60",
        status: EFFECTIVE,
        doc: "Seconds of silence after which the other side counts as gone. Keep it well above \
              repl-ping-replica-period.",
    }
    REPL_DISABLE_TCP_NODELAY = "repl-disable-tcp-nodelay" {
        kind: Kind::Bool,
        default: "no",
        status: EFFECTIVE,
        doc: "Send fewer, larger packets to replicas. This delays them by up to 40 ms.",
    }
    REPL_BACKLOG_SIZE = "repl-backlog-size" {
        kind: bytes(1, SIZE_MAX),
        default: "10mb",
        status: EFFECTIVE,
        doc: "Bytes of recent writes kept for replicas that were disconnected. A replica that \
              misses more needs a full copy.",
    }
    REPL_BACKLOG_TTL = "repl-backlog-ttl" {
        kind: int(0, LONG_MAX),
        default: "3600",
        status: EFFECTIVE,
        doc: "Seconds after the last replica has left until the backlog is freed. 0 keeps it.",
    }
    REPLICA_PRIORITY = "replica-priority" aka "slave-priority" {
        kind: int(0, INT_MAX),
        default: "100",
        status: EFFECTIVE,
        doc: "Which replica Sentinel prefers as the next primary: the lowest number. 0 is never \
              chosen.",
    }
    REPLICA_ANNOUNCED = "replica-announced" {
        kind: Kind::Bool,
        default: "yes",
        status: EFFECTIVE,
        doc: "Whether Sentinel lists this replica to clients.",
    }
    REPLICA_ANNOUNCE_IP = "replica-announce-ip" aka "slave-announce-ip" {
        kind: text(),
        default: "\"\"",
        status: EFFECTIVE,
        doc: "Address at which others reach this replica, if it differs from its own, as with \
              NAT or in a container.",
    }
    REPLICA_ANNOUNCE_PORT = "replica-announce-port" aka "slave-announce-port" {
        kind: int(0, PORT_MAX),
        default: "0",
        status: EFFECTIVE,
        doc: "Port at which others reach this replica. 0 is its own port.",
    }
    REPLICA_IGNORE_MAXMEMORY = "replica-ignore-maxmemory" aka "slave-ignore-maxmemory" {
        kind: Kind::Bool,
        default: "yes",
        status: EFFECTIVE,
        doc: "Leave eviction to the primary, which replicates it, so that both hold the same \
              keys.",
    }
    REPLICA_IGNORE_DISK_WRITE_ERRORS = "replica-ignore-disk-write-errors" {
        kind: Kind::Bool,
        default: "no",
        status: Status::NotYet("replicas that stop when they cannot write their own files"),
        doc: "Let a replica continue when it cannot write its own files. With no, it stops.",
    }
    MIN_REPLICAS_TO_WRITE = "min-replicas-to-write" aka "min-slaves-to-write" {
        kind: int(0, INT_MAX),
        default: "0",
        status: EFFECTIVE,
        doc: "Refuse writes while fewer replicas than this keep up. 0 never refuses.",
    }
    MIN_REPLICAS_MAX_LAG = "min-replicas-max-lag" aka "min-slaves-max-lag" {
        kind: int(0, INT_MAX),
        default: "10",
        status: EFFECTIVE,
        doc: "Seconds since its last report for which a replica counts as keeping up.",
    }
    PROPAGATION_ERROR_BEHAVIOR = "propagation-error-behavior" {
        kind: one_of(&["ignore", "panic", "panic-on-replicas"]),
        default: "ignore",
        status: EFFECTIVE,
        doc: "Reaction to a failed replicated or logged write, after which the data differ: \
              continue, stop, or stop on replicas only.",
    }
    IMPORT_MODE = "import-mode" {
        kind: Kind::Bool,
        default: "no",
        flags: Flags::DEBUG,
        status: EFFECTIVE,
        doc: "Set this while a tool imports data: the server neither expires nor evicts keys, \
              and clients that declare themselves the source see expired keys.",
    }
}
