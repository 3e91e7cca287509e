//! The command log, latency and events.

use super::{EFFECTIVE, LONG_MAX, PORT_MAX};
use crate::directive::Flags;
use crate::kind::{Kind, int};

section! {
    after: super::scripting::END,
    title: "Monitoring",
    about: "",

    COMMANDLOG_EXECUTION_SLOWER_THAN =
        "commandlog-execution-slower-than" aka "slowlog-log-slower-than" {
        kind: int(-1, LONG_MAX),
        default: "10000",
        status: EFFECTIVE,
        doc: "Record commands that run longer than this many microseconds, without waiting and \
              I/O. 0 records every command, -1 none.",
    }
    COMMANDLOG_SLOW_EXECUTION_MAX_LEN =
        "commandlog-slow-execution-max-len" aka "slowlog-max-len" {
        kind: int(0, LONG_MAX),
        default: "128",
        status: EFFECTIVE,
        doc: "How many such commands to keep.",
    }
    COMMANDLOG_REQUEST_LARGER_THAN = "commandlog-request-larger-than" {
        kind: int(-1, LONG_MAX),
        default: "1048576",
        status: EFFECTIVE,
        doc: "Record commands whose request has more bytes than this. -1 records none.",
    }
    COMMANDLOG_LARGE_REQUEST_MAX_LEN = "commandlog-large-request-max-len" {
        kind: int(0, LONG_MAX),
        default: "128",
        status: EFFECTIVE,
        doc: "How many such commands to keep.",
    }
    COMMANDLOG_REPLY_LARGER_THAN = "commandlog-reply-larger-than" {
        kind: int(-1, LONG_MAX),
        default: "1048576",
        status: EFFECTIVE,
        doc: "Record commands whose reply has more bytes than this. -1 records none.",
    }
    COMMANDLOG_LARGE_REPLY_MAX_LEN = "commandlog-large-reply-max-len" {
        kind: int(0, LONG_MAX),
        default: "128",
        status: EFFECTIVE,
        doc: "How many such commands to keep.",
    }
    LATENCY_MONITOR_THRESHOLD = "latency-monitor-threshold" {
        kind: int(0, LONG_MAX),
        default: "0",
        status: EFFECTIVE,
        doc: "Record internal events that take at least this many milliseconds, for the LATENCY \
              command. 0 records none.",
    }
    LATENCY_TRACKING = "latency-tracking" {
        kind: Kind::Bool,
        default: "yes",
        status: EFFECTIVE,
        doc: "Record how long each command's calls take, for INFO latencystats and LATENCY \
              HISTOGRAM.",
    }
    LATENCY_TRACKING_INFO_PERCENTILES = "latency-tracking-info-percentiles" {
        kind: Kind::Percentiles,
        default: "50 99 99.9",
        flags: Flags::MULTI,
        status: EFFECTIVE,
        doc: "Percentiles that INFO latencystats shows.",
    }
    NOTIFY_KEYSPACE_EVENTS = "notify-keyspace-events" {
        kind: Kind::KeyspaceEvents,
        default: "\"\"",
        status: EFFECTIVE,
        doc: "Publish events of keys: K on a channel of the key, E on a channel of the event; g \
              general commands, $ strings, l lists, s sets, h hashes, z sorted sets, t streams, d \
              module types, x expired, e evicted; A for all of these; n new keys, m misses. Empty \
              publishes nothing.",
    }
    METRICS_PORT = "metrics-port" {
        kind: int(0, PORT_MAX),
        default: "0",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "TCP port that serves HTTP: /metrics for Prometheus (docs/metrics.md), /healthz, \
              /readyz and /state.json. 0 serves none. If the default user has a password or is \
              off, /metrics and /state.json ask for the name and password of a user who may run \
              INFO.",
    }
    METRICS_BIND = "metrics-bind" {
        kind: Kind::Addresses { max: 16 },
        default: "127.0.0.1 -::1",
        flags: Flags::MULTI.and(Flags::IMMUTABLE),
        status: EFFECTIVE,
        doc: "Addresses of this machine on which metrics-port listens, written as those of bind. \
              HTTP is not encrypted: passwords of users can be read on the way.",
    }
}
