//! MEMORY: reports the use of memory.

use crate::commands::server::memory_report;
use crate::commands::server::with_key;
use crate::commands::shape::{EACH_SHARD, answer_help, command, container, help, holding, spec};
use crate::info::memory::{Overhead, Usage};
use weft_base::num::parse_i64;
use weft_base::num_format::fmt_f64;
use weft_command_spec::{Flags, Spec, keys};
use weft_commands::{CmdResult, Error, error};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_state::command_table::Needs;

const SINCE: &str = "4.0.0";
const SLOW: &str = "Depends on how much memory is allocated, could be slow";

pub const MEMORY: ServerCommand = container(
    "memory",
    SINCE,
    "Holds the commands on the use of memory.",
    &[
        command(
            Spec {
                tips: EACH_SHARD,
                ..spec("doctor", 2, Flags::NONE, SINCE, "Reports problems of memory use.", "")
            },
            doctor,
        ),
        help(SINCE, |cx| answer_help(cx, HELP)),
        command(
            Spec {
                complexity: SLOW,
                tips: EACH_SHARD,
                ..spec(
                    "malloc-stats",
                    2,
                    Flags::LOADING,
                    SINCE,
                    "Returns the allocator's report.",
                    "",
                )
            },
            malloc_stats,
        ),
        command(
            Spec {
                complexity: SLOW,
                tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
                ..spec("purge", 2, Flags::LOADING, SINCE, "Returns unused pages to the system.", "")
            },
            purge,
        ),
        command(
            Spec {
                tips: EACH_SHARD,
                ..spec("stats", 2, Flags::NONE, SINCE, "Returns statistics of memory use.", "")
            },
            stats,
        ),
        holding(
            |_| Needs::Key(2),
            Spec {
                keys: &keys::at(2, &["RO"]),
                complexity: "O(N) where N is the number of samples.",
                ..spec(
                    "usage",
                    -3,
                    Flags::READONLY,
                    SINCE,
                    "Returns the bytes of a key and its value.",
                    "key [SAMPLES count:integer]",
                )
            },
            usage,
        ),
    ],
);

const HELP: &[&str] = &[
    "DOCTOR",
    "    Report problems of memory use.",
    "MALLOC-STATS",
    "    Return the allocator's report.",
    "PURGE",
    "    Make the allocator return unused pages to the system.",
    "STATS",
    "    Return statistics of memory use.",
    "USAGE <key> [SAMPLES <count>]",
    "    Return the bytes of <key> and its value. Of values with many elements,",
    "    <count> are sampled (default: 5, 0 means all).",
];

fn doctor(cx: &mut ConnCx<'_>) -> CmdResult {
    let report = memory_report::doctor(&Usage::now(cx.core));
    cx.reply.verbatim("txt", report.as_bytes());
    Ok(())
}

fn malloc_stats(cx: &mut ConnCx<'_>) -> CmdResult {
    let mut report = Vec::new();
    tikv_jemalloc_ctl::stats_print::stats_print(&mut report, Default::default())
        .map_err(|e| Error::owned(format!("ERR {e}")))?;
    cx.reply.verbatim("txt", &report);
    Ok(())
}

fn purge(cx: &mut ConnCx<'_>) -> CmdResult {
    weft_memory::mallctl::purge()
        .map_err(|e| Error::owned(format!("ERR Error purging dirty pages: {e}")))?;
    cx.srv().memory.invalidate_pages();
    cx.reply.ok();
    Ok(())
}

/// Elements that MEMORY USAGE samples by default.
const SAMPLES: usize = 5;

fn usage(cx: &mut ConnCx<'_>) -> CmdResult {
    // The option may be repeated. Each is validated before the next is read.
    let mut samples = SAMPLES;
    let mut at = 3;
    while at < cx.args.len() {
        if !cx.is(at, "samples") || at + 1 == cx.args.len() {
            return Err(error::SYNTAX);
        }
        let given = parse_i64(cx.args[at + 1]).ok_or(error::NOT_AN_INTEGER)?;
        samples = usize::try_from(given).map_err(|_| error::SYNTAX)?;
        at += 2;
    }
    let name = cx.args[2];
    let bytes = with_key(cx, name, |db, key| {
        db.peek(key).map(|record| weft_types::value::memory(&record, samples))
    });
    match bytes {
        Some(bytes) => cx.reply.int(bytes as i64),
        None => cx.reply.null(),
    }
    Ok(())
}

/// One name of MEMORY STATS with its value.
enum Value {
    Int(i64),
    Double(f64),
    /// The bytes of a database's tables.
    Tables(u64),
}

fn stats(cx: &mut ConnCx<'_>) -> CmdResult {
    let usage = Usage::now(cx.core);
    let lines = lines(&usage);
    cx.reply.map(lines.len());
    for (name, value) in lines {
        cx.reply.bulk(name.as_bytes());
        match value {
            Value::Int(n) => cx.reply.int(n),
            Value::Double(n) => cx.reply.double(&String::from_utf8_lossy(&fmt_f64(n))),
            Value::Tables(bytes) => {
                cx.reply.map(2);
                cx.reply.bulk(b"overhead.hashtable.main");
                cx.reply.int(bytes as i64);
                // An expiry is part of its key's record, which counts as data.
                cx.reply.bulk(b"overhead.hashtable.expires");
                cx.reply.int(0);
            }
        }
    }
    Ok(())
}

fn lines(usage: &Usage) -> Vec<(String, Value)> {
    let mut lines: Vec<(String, Value)> = Vec::new();
    let mut int = |name: &str, n: u64| lines.push((name.into(), Value::Int(n as i64)));
    int("peak.allocated", usage.peak);
    int("total.allocated", usage.used);
    int("startup.allocated", usage.startup);
    int("replication.backlog", usage.stream - usage.behind);
    int("replicas.repl.buffer", 0);
    int("clients.slaves", usage.behind + usage.replicas);
    int("clients.normal", usage.clients);
    int("cluster.links", 0);
    int("aof.buffer", 0);
    int("lua.caches", usage.scripts);
    int("functions.caches", usage.functions);
    for (db, bytes) in &usage.tables {
        lines.push((format!("db.{db}"), Value::Tables(*bytes)));
    }
    let mut int = |name: &str, n: u64| lines.push((name.into(), Value::Int(n as i64)));
    int("overhead.db.hashtable.lut", usage.tables.iter().map(|(_, bytes)| bytes).sum());
    int("overhead.db.hashtable.rehashing", 0);
    int("overhead.total", usage.overhead);
    int("db.dict.rehashing.count", 0);
    int("keys.count", usage.keys);
    let per_key = usage.used.saturating_sub(usage.startup).checked_div(usage.keys);
    int("keys.bytes-per-key", per_key.unwrap_or(0));
    int("dataset.bytes", usage.dataset());
    lines.push(("dataset.percentage".into(), Value::Double(usage.dataset_percent())));
    lines.push(("peak.percentage".into(), Value::Double(usage.peak_percent())));
    let mut int = |name: &str, n: u64| lines.push((name.into(), Value::Int(n as i64)));
    int("allocator.allocated", usage.allocator.allocated);
    int("allocator.active", usage.allocator.active);
    int("allocator.resident", usage.allocator.resident);
    int("allocator.muzzy", 0);
    let mut pair = |ratio: &str, bytes: &str, of: Overhead| {
        lines.push((ratio.into(), Value::Double(of.ratio)));
        lines.push((bytes.into(), Value::Int(of.bytes)));
    };
    pair(
        "allocator-fragmentation.ratio",
        "allocator-fragmentation.bytes",
        usage.fragmentation_in_allocator(),
    );
    pair("allocator-rss.ratio", "allocator-rss.bytes", usage.resident_in_allocator());
    pair("rss-overhead.ratio", "rss-overhead.bytes", usage.resident_outside_allocator());
    pair("fragmentation", "fragmentation.bytes", usage.fragmentation());
    lines
}
