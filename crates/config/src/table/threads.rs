//! Threads, and the rhythm of background work.

use super::{EFFECTIVE, INT_MAX};
use crate::directive::{Flags, Status};
use crate::kind::{Kind, int, text};

const PREFETCH: Status = Status::NotYet("tuning of prefetching");

section! {
    after: super::process::END,
    title: "Threads",
    about: "Every I/O thread reads, executes and answers the requests of its own connections; \
            there is no main thread that all commands pass through.",

    IO_THREADS = "io-threads" {
        kind: Kind::IntOrAuto { min: 1, max: 1024 },
        default: "auto",
        flags: Flags::DEBUG,
        status: EFFECTIVE,
        doc: "How many threads serve clients. auto takes as many as the processors that this \
              process may use. As many of them as the load needs have connections, the others \
              sleep: too many cost little. Changes at run time, up and down.",
    }
    IO_THREADS_DO_READS = "io-threads-do-reads" {
        kind: Kind::Bool,
        default: "yes",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Whether every I/O thread reads, executes and writes. With no, the first thread does \
              all but writing, as in Redis 6: to compare, not to be used.",
    }
    SERVER_CPULIST = "server-cpulist" aka "server_cpulist" {
        kind: text(),
        default: "\"\"",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "CPUs for the I/O threads: numbers and ranges, with an optional step, as in \
              0-7:2 or 1,3; or auto. With as many CPUs as threads or more, each thread gets one of \
              its own, cores of one NUMA node first; with fewer, all threads share the list. Empty \
              leaves the choice to the system. auto: all CPUs that the process may use.",
    }
    BIO_CPULIST = "bio-cpulist" aka "bio_cpulist" {
        kind: text(),
        default: "\"\"",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "CPUs for the threads that work in the background: today, the one that frees memory. \
              auto: those that the I/O threads leave over, or all.",
    }
    AOF_REWRITE_CPULIST = "aof-rewrite-cpulist" aka "aof_rewrite_cpulist" {
        kind: text(),
        default: "\"\"",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "CPUs for the threads that rewrite the append-only file, as bgsave-cpulist has them for \
              snapshots.",
    }
    BGSAVE_CPULIST = "bgsave-cpulist" aka "bgsave_cpulist" {
        kind: text(),
        default: "\"\"",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "CPUs for the threads that write snapshots, and as many threads; without it half as \
              many threads as the process may use CPUs. auto: as for bio-cpulist.",
    }
    HZ = "hz" {
        kind: Kind::Clamped { min: 0, max: INT_MAX, low: 1, high: 500 },
        default: "10",
        status: EFFECTIVE,
        doc: "How many times a second background work runs: expiry, timeouts of clients, \
              statistics. Values outside 1 to 500 are moved to the nearest of them. More is \
              smoother and costs more while idle.",
    }
    PREFETCH_BATCH_MAX_SIZE = "prefetch-batch-max-size" {
        kind: int(0, 128),
        default: "16",
        status: PREFETCH,
        doc: "How many commands of a batch have their keys fetched into the cache before the \
              first is executed. 0 and 1 fetch nothing ahead.",
    }
}
