//! The process: how it is started, supervised, named and stopped.

use super::{EFFECTIVE, INT_MAX};
use crate::checks::{SHUTDOWN_WORDS, shutdown_words, title_template};
use crate::directive::{Flags, Status};
use crate::kind::{Kind, checked, int, one_of, text};

const MEMORY_TEST: Status = Status::NotYet("the memory test after a crash");

section! {
    after: super::general::END,
    title: "Process",
    about: "",

    DAEMONIZE = "daemonize" {
        kind: Kind::Bool,
        default: "no",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Run in the background after start. Leave this off under a service manager.",
    }
    SUPERVISED = "supervised" {
        kind: one_of(&["upstart", "systemd", "auto", "no"]),
        default: "no",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Notify a service manager when the server is ready: systemd through NOTIFY_SOCKET, \
              upstart by stopping itself once, auto by whichever the environment names.",
    }
    PIDFILE = "pidfile" {
        kind: text(),
        default: "\"\"",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "File for the process id while the server runs. Empty writes one only in the \
              background, to /var/run.",
    }
    SET_PROC_TITLE = "set-proc-title" {
        kind: Kind::Bool,
        default: "yes",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Show what the process is and where it listens in ps and top.",
    }
    PROC_TITLE_TEMPLATE = "proc-title-template" {
        kind: checked(title_template),
        default: "\"{title} {listen-addr} {server-mode}\"",
        status: EFFECTIVE,
        doc: "The text for set-proc-title. Known variables: {title}, {listen-addr}, \
              {server-mode}, {port}, {tls-port}, {unixsocket} and {config-file}.",
    }
    SHUTDOWN_TIMEOUT = "shutdown-timeout" {
        kind: int(0, INT_MAX),
        default: "10",
        status: EFFECTIVE,
        doc: "How many seconds a shutdown waits for replicas that have not yet received every \
              write. 0 does not wait.",
    }
    SHUTDOWN_ON_SIGINT = "shutdown-on-sigint" {
        kind: Kind::Words { words: SHUTDOWN_WORDS, check: shutdown_words },
        default: "default",
        flags: Flags::MULTI,
        status: EFFECTIVE,
        doc: "How to shut down on SIGINT (Ctrl-C): one or more options of the SHUTDOWN command. \
              default saves if save points are configured.",
    }
    SHUTDOWN_ON_SIGTERM = "shutdown-on-sigterm" {
        kind: Kind::Words { words: SHUTDOWN_WORDS, check: shutdown_words },
        default: "default",
        flags: Flags::MULTI,
        status: EFFECTIVE,
        doc: "The same for SIGTERM.",
    }
    OOM_SCORE_ADJ = "oom-score-adj" {
        kind: Kind::Word {
            words: &["no", "yes", "relative", "absolute"],
            same: &[("relative", "yes")],
        },
        default: "no",
        status: EFFECTIVE,
        doc: "Set the OOM score, by which the kernel chooses a process to kill when memory runs \
              out, from oom-score-adj-values: as they are (absolute), or added to the score at \
              start (yes or relative).",
    }
    OOM_SCORE_ADJ_VALUES = "oom-score-adj-values" {
        kind: Kind::OomScores,
        default: "0 200 800",
        flags: Flags::MULTI,
        status: EFFECTIVE,
        doc: "OOM scores of a primary, of a replica and of a child process, each from -2000 to \
              2000. They should ascend: an unprivileged process can only raise its score.",
    }
    DISABLE_THP = "disable-thp" {
        kind: Kind::Bool,
        default: "yes",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Keep the kernel from giving this process huge pages that it did not request. The \
              keyspace still requests them, since the server never forks and no copy-on-write can \
              multiply them. Needs Linux 6.18; older kernels change nothing.",
    }
    IGNORE_WARNINGS = "ignore-warnings" {
        kind: text(),
        default: "\"\"",
        status: EFFECTIVE,
        doc: "Names of system checks whose warnings do not prevent the start, such as \
              ARM64-COW-BUG.",
    }
    CRASH_MEMCHECK_ENABLED = "crash-memcheck-enabled" {
        kind: Kind::Bool,
        default: "yes",
        status: MEMORY_TEST,
        doc: "Test memory after a crash, to distinguish broken hardware from a fault in the \
              program.",
    }
}
