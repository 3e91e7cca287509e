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
        doc: "Go to the background after start. Leave it to the service manager where there is \
              one.",
    }
    SUPERVISED = "supervised" {
        kind: one_of(&["upstart", "systemd", "auto", "no"]),
        default: "no",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Notify a service manager when the server is ready: systemd through NOTIFY_SOCKET, \
              upstart by stopping itself once, auto whichever the environment shows.",
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
        doc: "How to shut down on SIGINT (Ctrl-C): the options of the SHUTDOWN command, several \
              together. default saves when save points are configured.",
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
        doc: "Set which process the kernel stops first when memory runs out, by \
              oom-score-adj-values: as they are (absolute) or added to the value at start (yes or \
              relative).",
    }
    OOM_SCORE_ADJ_VALUES = "oom-score-adj-values" {
        kind: Kind::OomScores,
        default: "0 200 800",
        flags: Flags::MULTI,
        status: EFFECTIVE,
        doc: "OOM scores of a primary, of a replica and of a child process, each from -2000 to \
              2000. They should rise, or an unprivileged process cannot set them.",
    }
    DISABLE_THP = "disable-thp" {
        kind: Kind::Bool,
        default: "yes",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Keep the kernel from giving this process huge pages that it did not ask for. The \
              memory of the keyspace asks for them: no process is forked here that would have \
              to copy them. Needs Linux 6.18; older kernels leave things as they are.",
    }
    IGNORE_WARNINGS = "ignore-warnings" {
        kind: text(),
        default: "\"\"",
        status: EFFECTIVE,
        doc: "Names of checks of the system whose warning should not stop the server, such as \
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
