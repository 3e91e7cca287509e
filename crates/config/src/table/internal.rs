//! Switches for tests and for debugging the server.
//!
//! They are answered under their exact names only and are not in `weft.conf`: so that users do not
//! meet them by accident. Test suites written for other servers set them.

use super::{EFFECTIVE, INT_MAX, LONG_MAX, PERSISTENCE};
use crate::directive::{Flags, Status};
use crate::kind::{Kind, int, text};

const NO_BUS: Status = Status::Obsolete("there is no cluster bus");
const CRASHES: Status = Status::NotYet("tuning of crashes");
const COPY_AVOIDANCE: Status = Status::NotYet("tuning of reply copies");

section! {
    after: super::compat::END,
    title: "Internal",
    about: "",

    USE_EXIT_ON_PANIC = "use-exit-on-panic" {
        kind: Kind::Bool,
        default: "no",
        flags: Flags::HIDDEN,
        status: CRASHES,
        doc: "Leave with an exit code and not by a signal after an internal error.",
    }
    ENABLE_DEBUG_ASSERT = "enable-debug-assert" {
        kind: Kind::Bool,
        default: "no",
        flags: Flags::HIDDEN.and(Flags::IMMUTABLE),
        status: CRASHES,
        doc: "Check more invariants than a server in use can afford.",
    }
    DEBUG_CONTEXT = "debug-context" {
        kind: text(),
        default: "\"\"",
        flags: Flags::HIDDEN.and(Flags::DEBUG),
        status: CRASHES,
        doc: "Text to show in a crash report.",
    }
    WATCHDOG_PERIOD = "watchdog-period" {
        kind: int(0, INT_MAX),
        default: "0",
        flags: Flags::HIDDEN,
        status: EFFECTIVE,
        doc: "Milliseconds after which an event loop that does not turn logs where it is.",
    }
    RDB_KEY_SAVE_DELAY = "rdb-key-save-delay" {
        kind: int(i32::MIN as i64, INT_MAX),
        default: "0",
        flags: Flags::HIDDEN,
        status: EFFECTIVE,
        doc: "Microseconds to wait after every key of a snapshot; negative waits once for so \
              many keys.",
    }
    KEY_LOAD_DELAY = "key-load-delay" {
        kind: int(i32::MIN as i64, INT_MAX),
        default: "0",
        flags: Flags::HIDDEN,
        status: EFFECTIVE,
        doc: "The same for loading.",
    }
    LOADING_PROCESS_EVENTS_INTERVAL_BYTES = "loading-process-events-interval-bytes" {
        kind: int(1024, INT_MAX),
        default: "2097152",
        flags: Flags::HIDDEN,
        status: PERSISTENCE,
        doc: "Bytes of a file that are loaded between looks at clients.",
    }
    AOF_DISABLE_AUTO_GC = "aof-disable-auto-gc" {
        kind: Kind::Bool,
        default: "no",
        flags: Flags::HIDDEN,
        status: EFFECTIVE,
        doc: "Keep append-only files that a rewrite has made superfluous.",
    }
    CLUSTER_PING_INTERVAL = "cluster-ping-interval" {
        kind: int(0, LONG_MAX),
        default: "0",
        flags: Flags::HIDDEN,
        status: NO_BUS,
        doc: "Milliseconds between pings to random nodes; 0 is the usual second.",
    }
    CLUSTER_MESSAGE_GOSSIP_PERC = "cluster-message-gossip-perc" {
        kind: int(1, 100),
        default: "10",
        flags: Flags::HIDDEN,
        status: NO_BUS,
        doc: "How many of the known nodes a message mentions, in percent.",
    }
    IO_THREADS_ALWAYS_ACTIVE = "io-threads-always-active" {
        kind: Kind::Bool,
        default: "no",
        flags: Flags::HIDDEN,
        status: EFFECTIVE,
        doc: "Spread connections over all I/O threads, whatever the load. For tests.",
    }
    MIN_IO_THREADS_AVOID_COPY_REPLY = "min-io-threads-avoid-copy-reply" {
        kind: int(0, INT_MAX),
        default: "7",
        flags: Flags::HIDDEN,
        status: COPY_AVOIDANCE,
        doc: "From how many I/O threads on replies refer to values and do not copy them.",
    }
    MIN_STRING_SIZE_AVOID_COPY_REPLY = "min-string-size-avoid-copy-reply" {
        kind: int(0, INT_MAX),
        default: "16384",
        flags: Flags::HIDDEN,
        status: COPY_AVOIDANCE,
        doc: "From how many bytes on replies refer to values, with one thread.",
    }
    MIN_STRING_SIZE_AVOID_COPY_REPLY_THREADED = "min-string-size-avoid-copy-reply-threaded" {
        kind: int(0, INT_MAX),
        default: "65536",
        flags: Flags::HIDDEN,
        status: COPY_AVOIDANCE,
        doc: "The same with several threads.",
    }
}
