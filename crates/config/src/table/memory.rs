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
        doc: "Bytes that the data may use. At the limit, the server evicts keys by \
              maxmemory-policy. If it can evict none, writes get an error. 0 sets no limit. Leave \
              room for buffers of clients and replicas.",
    }
    MAXMEMORY_POLICY = "maxmemory-policy" {
        kind: one_of(&[
            "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "allkeys-lru",
            "allkeys-lfu", "allkeys-random", "noeviction",
        ]),
        default: "noeviction",
        status: EFFECTIVE,
        doc: "Which keys to evict at the limit: used least recently (lru), used least often \
              (lfu), any (random), or expiring first (ttl); of all keys, or only of those with a \
              time to live (volatile). noeviction evicts none.",
    }
    MAXMEMORY_SAMPLES = "maxmemory-samples" {
        kind: int(1, 64),
        default: "5",
        status: EFFECTIVE,
        doc: "From how many sampled keys the one to evict is chosen. More is closer to the exact \
              order and slower.",
    }
    MAXMEMORY_EVICTION_TENACITY = "maxmemory-eviction-tenacity" {
        kind: int(0, 100),
        default: "10",
        status: EFFECTIVE,
        doc: "How long the server evicts keys while clients wait: 0 for the least delay, 100 to \
              continue until memory is below the limit.",
    }
    LFU_LOG_FACTOR = "lfu-log-factor" {
        kind: int(0, INT_MAX),
        default: "10",
        status: EFFECTIVE,
        doc: "How slowly the LFU counter of a key grows: with 10, about a million accesses fill \
              it; with 0, two hundred do.",
    }
    LFU_DECAY_TIME = "lfu-decay-time" {
        kind: int(0, INT_MAX),
        default: "1",
        status: EFFECTIVE,
        doc: "Minutes without access after which the LFU counter goes down by one. 0 never \
              lowers it.",
    }
    ACTIVE_EXPIRE_EFFORT = "active-expire-effort" {
        kind: int(1, 10),
        default: "1",
        status: EFFECTIVE,
        doc: "How much CPU time goes into finding expired keys that no client requests, from 1 \
              to 10. More frees memory earlier.",
    }
    ACTIVEDEFRAG = "activedefrag" {
        kind: Kind::Bool,
        default: "no",
        flags: Flags::DEBUG,
        status: EFFECTIVE,
        doc: "Move keys and small values together in the background, to return fragmented \
              memory. The parts of large values do not move.",
    }
    ACTIVE_DEFRAG_IGNORE_BYTES = "active-defrag-ignore-bytes" {
        kind: bytes(1, LONG_MAX as u64),
        default: "100mb",
        status: EFFECTIVE,
        doc: "Fragmentation below which nothing is moved, in bytes.",
    }
    ACTIVE_DEFRAG_THRESHOLD_LOWER = "active-defrag-threshold-lower" {
        kind: int(0, 1000),
        default: "10",
        status: EFFECTIVE,
        doc: "Fragmentation in percent at which moving begins.",
    }
    ACTIVE_DEFRAG_THRESHOLD_UPPER = "active-defrag-threshold-upper" {
        kind: int(0, 1000),
        default: "100",
        status: EFFECTIVE,
        doc: "Fragmentation in percent at which active-defrag-cycle-max applies.",
    }
    ACTIVE_DEFRAG_CYCLE_MIN = "active-defrag-cycle-min" {
        kind: int(1, 99),
        default: "1",
        status: EFFECTIVE,
        doc: "Least effort, in percent of a CPU.",
    }
    ACTIVE_DEFRAG_CYCLE_MAX = "active-defrag-cycle-max" {
        kind: int(1, 99),
        default: "25",
        status: EFFECTIVE,
        doc: "Most effort, in percent of a CPU.",
    }
    ACTIVE_DEFRAG_CYCLE_US = "active-defrag-cycle-us" {
        kind: int(0, 100_000),
        default: "500",
        status: EFFECTIVE,
        doc: "The longest uninterrupted step of defragmentation, in microseconds.",
    }
    ACTIVE_DEFRAG_MAX_SCAN_FIELDS = "active-defrag-max-scan-fields" {
        kind: int(1, LONG_MAX),
        default: "1000",
        status: Status::Obsolete("large collections are not moved, and small ones move in one \
                                  step"),
        doc: "Collections with more elements than this would be moved in several pieces.",
    }
    JEMALLOC_BG_THREAD = "jemalloc-bg-thread" {
        kind: Kind::Bool,
        default: "yes",
        status: ALLOCATOR,
        doc: "Return unused memory to the system from a thread of the allocator.",
    }
}
