//! Limits on clients.

use super::{EFFECTIVE, INT_MAX, LONG_MAX, SIZE_MAX};
use crate::directive::Flags;
use crate::kind::{Kind, bytes, int};

section! {
    after: super::security::END,
    title: "Clients",
    about: "",

    MAXCLIENTS = "maxclients" {
        kind: int(1, u32::MAX as i64),
        default: "10000",
        status: EFFECTIVE,
        doc: "How many clients may be connected at once. Further ones get an error and are \
              closed. The server raises the process's limit on open files as needed, or lowers \
              maxclients.",
    }
    UNAUTHENTICATED_CLIENTS_PERCENT = "unauthenticated-clients-percent" {
        kind: int(1, 100),
        default: "50",
        status: EFFECTIVE,
        doc: "The percentage of maxclients for clients that have not authenticated though they \
              must. Above it, and when maxclients is reached, a new client takes the place of the \
              oldest of them. So clients without a password can't keep others out.",
    }
    UNAUTHENTICATED_CLIENT_TIMEOUT = "unauthenticated-client-timeout" {
        kind: int(0, INT_MAX),
        default: "60",
        status: EFFECTIVE,
        doc: "Seconds after which a client is closed that has not authenticated though it must. 0 \
              sets no limit.",
    }
    MAXMEMORY_CLIENTS = "maxmemory-clients" {
        kind: Kind::MemoryOrPercent,
        default: "0",
        status: EFFECTIVE,
        doc: "Memory that all clients' buffers together may use, in bytes or as a percentage of \
              maxmemory. Above it, the clients that use most are closed. 0 sets no limit.",
    }
    CLIENT_QUERY_BUFFER_LIMIT = "client-query-buffer-limit" {
        kind: bytes(1 << 20, SIZE_MAX),
        default: "1gb",
        flags: Flags::DEBUG,
        status: EFFECTIVE,
        doc: "Bytes of an unfinished request after which its client is closed.",
    }
    CLIENT_OUTPUT_BUFFER_LIMIT = "client-output-buffer-limit" {
        kind: Kind::OutputBufferLimits,
        default: "normal 0 0 0 replica 256mb 64mb 60 pubsub 32mb 8mb 60",
        flags: Flags::MULTI.and(Flags::REPEATABLE),
        status: EFFECTIVE,
        doc: "For each class of clients (normal, replica, pubsub): a client is closed when its \
              pending output exceeds the first number of bytes, or the second for this many \
              seconds. 0 sets no limit. A line may have one class or several.",
    }
    PROTO_MAX_BULK_LEN = "proto-max-bulk-len" {
        kind: bytes(1 << 20, SIZE_MAX),
        default: "512mb",
        flags: Flags::DEBUG,
        status: EFFECTIVE,
        doc: "The longest single argument of a request, and so the longest string value.",
    }
    TRACKING_TABLE_MAX_KEYS = "tracking-table-max-keys" {
        kind: int(0, LONG_MAX),
        default: "1000000",
        status: EFFECTIVE,
        doc: "How many keys the server remembers for clients that cache values. Above it, some \
              are invalidated early. 0 sets no limit.",
    }
}
