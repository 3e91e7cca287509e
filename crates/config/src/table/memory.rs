//! The memory limit, eviction, expiry, and keeping memory in shape.

use super::{EFFECTIVE, INT_MAX, LONG_MAX};
use crate::directive::{Flags, Status};
use crate::kind::{Kind, bytes, int, one_of};

const ALLOCATOR: Status = Status::NotYet("tuning of the allocator");

section! {
    after: super::clients::END,
    title: "Memory",
    about: "",

    MAXMEMORY = "maxmemory" {
        kind: bytes(0, u64::MAX),
        default: "0",
        status: EFFECTIVE,
        doc: "Bytes that the data may take. At the limit, keys are removed by maxmemory-policy, \
              and when none can be, writes get an error. 0 sets no limit. Leave room for buffers \
              of clients and replicas.",
    }
    MAXMEMORY_POLICY = "maxmemory-policy" {
        kind: one_of(&[
            "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "allkeys-lru",
            "allkeys-lfu", "allkeys-random", "noeviction",
        ]),
        default: "noeviction",
        status: EFFECTIVE,
        doc: "Which keys go at the limit: used least recently (lru), used least often (lfu), \
              any (random), or expiring first (ttl); of all keys, or only of those with a time \
              to live (volatile). noeviction removes none.",
    }
    MAXMEMORY_SAMPLES = "maxmemory-samples" {
        kind: int(1, 64),
        default: "5",
        status: EFFECTIVE,
        doc: "Among how many keys the one to remove is chosen. More is closer to the exact \
              order and slower.",
    }
    MAXMEMORY_EVICTION_TENACITY = "maxmemory-eviction-tenacity" {
        kind: int(0, 100),
        default: "10",
        status: EFFECTIVE,
        doc: "How hard the server works at removing keys while clients wait: 0 for the least \
              delay, 100 to continue until memory is under the limit.",
    }
    LFU_LOG_FACTOR = "lfu-log-factor" {
        kind: int(0, INT_MAX),
        default: "10",
        status: EFFECTIVE,
        doc: "How slowly the counter of uses grows: with 10, about a million uses fill it; with \
              0, two hundred do.",
    }
    LFU_DECAY_TIME = "lfu-decay-time" {
        kind: int(0, INT_MAX),
        default: "1",
        status: EFFECTIVE,
        doc: "Minutes without use after which the counter of uses goes down by one. 0 never \
              lowers it.",
    }
    ACTIVE_EXPIRE_EFFORT = "active-expire-effort" {
        kind: int(1, 10),
        default: "1",
        status: EFFECTIVE,
        doc: "How much processor time goes into finding expired keys that no client reads, from 1 \
              to 10. More frees memory earlier.",
    }
    ACTIVEDEFRAG = "activedefrag" {
        kind: Kind::Bool,
        default: "no",
        flags: Flags::DEBUG,
        status: EFFECTIVE,
        doc: "Move keys and small values together in the background, to give fragmented memory \
              back. Parts of large values outside the key stay in place.",
    }
    ACTIVE_DEFRAG_IGNORE_BYTES = "active-defrag-ignore-bytes" {
        kind: bytes(1, LONG_MAX as u64),
        default: "100mb",
        status: EFFECTIVE,
        doc: "Waste below which nothing is moved.",
    }
    ACTIVE_DEFRAG_THRESHOLD_LOWER = "active-defrag-threshold-lower" {
        kind: int(0, 1000),
        default: "10",
        status: EFFECTIVE,
        doc: "Waste in percent at which moving begins.",
    }
    ACTIVE_DEFRAG_THRESHOLD_UPPER = "active-defrag-threshold-upper" {
        kind: int(0, 1000),
        default: "100",
        status: EFFECTIVE,
        doc: "Waste in percent at which the most effort is made.",
    }
    ACTIVE_DEFRAG_CYCLE_MIN = "active-defrag-cycle-min" {
        kind: int(1, 99),
        default: "1",
        status: EFFECTIVE,
        doc: "Least effort, in percent of a processor.",
    }
    ACTIVE_DEFRAG_CYCLE_MAX = "active-defrag-cycle-max" {
        kind: int(1, 99),
        default: "25",
        status: EFFECTIVE,
        doc: "Most effort, in percent of a processor.",
    }
    ACTIVE_DEFRAG_CYCLE_US = "active-defrag-cycle-us" {
        kind: int(0, 100_000),
        default: "500",
        status: EFFECTIVE,
        doc: "The longest piece of this work, in microseconds.",
    }
    ACTIVE_DEFRAG_MAX_SCAN_FIELDS = "active-defrag-max-scan-fields" {
        kind: int(1, LONG_MAX),
        default: "1000",
        status: Status::Obsolete("large collections are not moved, small ones at once"),
        doc: "Collections with more elements than this would be moved in several pieces.",
    }
    JEMALLOC_BG_THREAD = "jemalloc-bg-thread" {
        kind: Kind::Bool,
        default: "yes",
        status: ALLOCATOR,
        doc: "Give unused memory back to the system from a thread of the allocator.",
    }
}
