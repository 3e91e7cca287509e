//! The server itself: databases, its directory, its log.

use super::{EFFECTIVE, INT_MAX};
use crate::directive::{Flags, Status};
use crate::kind::{Kind, one_of, text};

const ZONES: Status = Status::NotYet("availability zones");
const COLLATION: Status = Status::NotYet("collation in SORT");
const FIXED_SEED: Status = Status::NotYet("a fixed hash seed");

section! {
    after: super::tls::END,
    title: "General",
    about: "",

    DATABASES = "databases" {
        kind: crate::kind::int(1, INT_MAX),
        default: "16",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "How many numbered databases SELECT can choose from. Unused databases cost nearly \
              nothing.",
    }
    DIR = "dir" {
        kind: Kind::Directory,
        default: "./",
        flags: Flags::PROTECTED.and(Flags::DENY_LOADING),
        status: EFFECTIVE,
        doc: "Working directory, for data files and relative paths. It must exist.",
    }
    LOGLEVEL = "loglevel" {
        kind: one_of(&["debug", "verbose", "notice", "warning", "nothing"]),
        default: "notice",
        status: EFFECTIVE,
        doc: "Lowest level of messages to log.",
    }
    LOGFILE = "logfile" {
        kind: text(),
        default: "\"\"",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "File to append the log to. Empty writes to standard output, which a server in the \
              background does not have.",
    }
    LOG_FORMAT = "log-format" {
        kind: one_of(&["legacy", "logfmt", "json"]),
        default: "legacy",
        status: EFFECTIVE,
        doc: "Format of a log line: legacy, key=value pairs, or a JSON object.",
    }
    LOG_TIMESTAMP_FORMAT = "log-timestamp-format" {
        kind: one_of(&["legacy", "iso8601", "milliseconds"]),
        default: "legacy",
        status: EFFECTIVE,
        doc: "Format of the time in a log line: legacy, ISO 8601 with the time zone, or \
              milliseconds since 1970.",
    }
    SYSLOG_ENABLED = "syslog-enabled" {
        kind: Kind::Bool,
        default: "no",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Send the log to the system logger as well.",
    }
    SYSLOG_IDENT = "syslog-ident" {
        kind: text(),
        default: "weft",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Name under which the system logger shows this server.",
    }
    SYSLOG_FACILITY = "syslog-facility" {
        kind: one_of(&[
            "user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
        ]),
        default: "local0",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Facility of the system logger.",
    }
    HIDE_USER_DATA_FROM_LOG = "hide-user-data-from-log" {
        kind: Kind::Bool,
        default: "yes",
        status: EFFECTIVE,
        doc: "Keep keys, values and arguments of clients out of the log. Without them, some \
              faults are harder to trace.",
    }
    ALWAYS_SHOW_LOGO = "always-show-logo" {
        kind: Kind::Bool,
        default: "no",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Print the banner at start even when the log is not a terminal.",
    }
    CRASH_LOG_ENABLED = "crash-log-enabled" {
        kind: Kind::Bool,
        default: "yes",
        status: EFFECTIVE,
        doc: "Write a report to the log when the server crashes. Turn it off for a clean core \
              dump.",
    }
    EXTENDED_REDIS_COMPATIBILITY = "extended-redis-compatibility" {
        kind: Kind::Bool,
        default: "no",
        status: EFFECTIVE,
        doc: "Call this server Redis where clients look for the name: in HELLO, in INFO and in \
              some errors.",
    }
    AVAILABILITY_ZONE = "availability-zone" {
        kind: text(),
        default: "\"\"",
        status: ZONES,
        doc: "Where this server runs, for clients that prefer a nearby one. Shown by INFO and \
              HELLO.",
    }
    LOCALE_COLLATE = "locale-collate" {
        kind: text(),
        default: "\"\"",
        status: COLLATION,
        doc: "Locale by which SORT ... ALPHA compares strings. Empty takes it from the \
              environment.",
    }
    HASH_SEED = "hash-seed" {
        kind: text(),
        default: "\"\"",
        flags: Flags::IMMUTABLE,
        status: FIXED_SEED,
        doc: "Text to derive the seed of the hash functions from, so that servers with the same \
              text list keys in the same order. Empty takes a random seed, which is the safe \
              choice.",
    }
}
