//! Threads, and the rhythm of background work.

use super::{EFFECTIVE, INT_MAX};
use crate::directive::{Flags, Status};
use crate::kind::{Kind, int, text};

const PREFETCH: Status = Status::NotYet("tuning of prefetching");

section! {
    after: super::process::END,
    title: "Threads",
    about: "Every I/O thread reads and executes the requests of its own connections and writes \
            their replies. There is no main thread that executes all commands.",

    IO_THREADS = "io-threads" {
        kind: Kind::IntOrAuto { min: 1, max: 1024 },
        default: "auto",
        flags: Flags::DEBUG,
        status: EFFECTIVE,
        doc: "How many threads serve clients. auto starts one for each CPU that this process may \
              use. As many threads as the load needs have connections, and the others sleep, so \
              too many cost little. The number can change at run time.",
    }
    IO_THREADS_DO_READS = "io-threads-do-reads" {
        kind: Kind::Bool,
        default: "yes",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Whether every I/O thread reads, executes and writes. With no, the first thread \
              does everything except writing, as in Redis 6. Use that only for comparisons.",
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
        doc: "CPUs for background threads: currently the one that frees memory. auto: the CPUs \
              that the I/O threads do not use, or all.",
    }
    AOF_REWRITE_CPULIST = "aof-rewrite-cpulist" aka "aof_rewrite_cpulist" {
        kind: text(),
        default: "\"\"",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "CPUs for the threads that rewrite the append-only file, in the same way as \
              bgsave-cpulist for snapshots.",
    }
    BGSAVE_CPULIST = "bgsave-cpulist" aka "bgsave_cpulist" {
        kind: text(),
        default: "\"\"",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "CPUs for the threads that write snapshots, one thread for each, up to eight. \
              Empty: half as many threads as the process may use CPUs. auto: as for bio-cpulist.",
    }
    HZ = "hz" {
        kind: Kind::Clamped { min: 0, max: INT_MAX, low: 1, high: 500 },
        default: "10",
        status: EFFECTIVE,
        doc: "How many times a second background work runs: expiry, timeouts of clients, \
              statistics. Values outside 1 to 500 become 1 or 500. More is smoother and costs \
              more while idle.",
    }
    PREFETCH_BATCH_MAX_SIZE = "prefetch-batch-max-size" {
        kind: int(0, 128),
        default: "16",
        status: PREFETCH,
        doc: "How many commands of a batch have their keys prefetched into the CPU's cache \
              before the first is executed. 0 and 1 prefetch nothing.",
    }
}
