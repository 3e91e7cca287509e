//! DEBUG: for tests of the server, and of clients against it.
//!
//! COMMAND knows DEBUG as one command without subcommands, so this module dispatches its own.
//! `enable-debug-command` sets which clients may use it.

mod cluster;
mod digest;
mod effects;
mod hooks;
mod inspect;
mod populate;
mod protocol;
mod restart;
mod switches;

use crate::active_threads as control;
use crate::commands::shape::unknown_subcommand;
use crate::commands::shape::{ADMIN, answer_help, holding, spec};
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::time::Duration;
use weft_base::num::parse_i64;
use weft_command_spec::{Flags, Protection, Spec, Special};
use weft_commands::{CmdResult, Error, error};
use weft_config::Config;
use weft_durability::aof::aof;
use weft_durability::persistence::reload;
use weft_durability::persistence::reload::Options;
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_executor::dispatch::refusals::check_protection;
use weft_process::log_warning;
use weft_replication_driver::hub;
use weft_state::command_table::Needs;
use weft_state::conn::MoveMessage;
use weft_state::mailbox::Message;

pub const DEBUG: ServerCommand = holding(
    needs,
    Spec {
        complexity: "Depends on subcommand.",
        special: Special::protection(Protection::Debug),
        ..spec(
            "debug",
            -2,
            ADMIN.or(Flags::SYSTEM),
            "1.0.0",
            "Holds the commands for debugging.",
            "",
        )
    },
    run,
);

const UNKNOWN_OPTION: Error =
    Error::new("ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.");

/// A subcommand: its name, how many arguments may follow, its needs, and its function.
struct Sub(&'static str, RangeInclusive<usize>, Needs, fn(&mut ConnCx<'_>) -> CmdResult);

const SUBCOMMANDS: &[Sub] = &[
    Sub("active-threads", 1..=1, Needs::Nothing, active_threads),
    Sub("aof-flush-sleep", 1..=1, Needs::Nothing, aof_flush_sleep),
    Sub("assert", 0..=0, Needs::Nothing, assert),
    Sub("change-repl-id", 0..=0, Needs::Nothing, change_replication_id),
    Sub("client-enforce-reply-list", 1..=1, Needs::Nothing, switches::any),
    Sub("client-eviction", 0..=0, Needs::Nothing, clients_by_size),
    Sub("close-cluster-link-on-packet-drop", 1..=1, Needs::Nothing, switches::any),
    Sub("cluster-abandon", 0..=0, Needs::Nothing, cluster::abandon),
    Sub("cluster-confirm", 1..=1, Needs::Nothing, cluster::confirm),
    Sub("cluster-lease", 1..=1, Needs::Nothing, cluster::lease),
    Sub("cluster-quorum", 1..=1, Needs::Aside, cluster::quorum),
    Sub("clusterlink", 3..=3, Needs::Nothing, switches::cluster_link),
    Sub("config-rewrite-force-all", 0..=0, Needs::Aside, rewrite_all),
    Sub("crash-and-recover", 0..=usize::MAX, Needs::World, restart::at_once),
    Sub("delay-rdb-client-free-seconds", 1..=1, Needs::Nothing, switches::number),
    Sub("dict-resizing", 1..=1, Needs::Nothing, switches::any),
    Sub("digest", 0..=0, Needs::World, digest::all),
    Sub("digest-value", 0..=usize::MAX, Needs::KeysFrom(2), digest::values),
    Sub("disable-cluster-random-ping", 1..=1, Needs::Nothing, switches::any),
    Sub("disable-cluster-reconnection", 1..=1, Needs::Nothing, switches::any),
    Sub("drop-cluster-packet-filter", 1..=1, Needs::Nothing, switches::number),
    Sub("effects", 0..=1, Needs::World, effects::effects),
    Sub("error", 1..=1, Needs::Nothing, answer_error),
    Sub("force-free-primary-async", 1..=1, Needs::Nothing, switches::any),
    Sub("force-tls-write-error", 1..=1, Needs::Nothing, switches::any),
    Sub("hashtable-can-abort-shrink", 1..=1, Needs::Nothing, switches::any),
    Sub("help", 0..=0, Needs::Nothing, |cx| answer_help(cx, HELP)),
    Sub("htstats", 1..=2, Needs::World, inspect::tables),
    Sub("htstats-key", 1..=2, Needs::Key(2), inspect::table_of_key),
    Sub("leak", 1..=1, Needs::Nothing, leak),
    Sub("listpack", 1..=1, Needs::Key(2), inspect::listpack),
    Sub("loadaof", 0..=0, Needs::World, load_log),
    Sub("log", 1..=1, Needs::Nothing, log),
    Sub("mallctl", 1..=2, Needs::Nothing, allocator_number),
    Sub("mallctl-str", 1..=1, Needs::Nothing, allocator_text),
    Sub("object", 1..=2, Needs::Key(2), inspect::object),
    Sub("move-clients", 0..=0, Needs::Nothing, move_clients),
    Sub("oom", 0..=0, Needs::Nothing, run_out_of_memory),
    Sub("panic", 0..=0, Needs::Nothing, panic),
    Sub("pause-after-fork", 1..=1, Needs::Nothing, switches::any),
    Sub("pause-cron", 1..=1, Needs::Nothing, hooks::pause_cron),
    Sub("pause-slow-lane", 1..=1, Needs::Nothing, hooks::pause_slow_lane),
    Sub("pause-snapshot", 1..=1, Needs::Nothing, hooks::pause_snapshot),
    Sub("populate", 1..=3, Needs::World, populate::populate),
    Sub("protect-client", 1..=1, Needs::Nothing, switches::protect_client),
    Sub("protocol", 1..=1, Needs::Nothing, protocol::protocol),
    Sub("quicklist", 1..=2, Needs::Key(2), inspect::quicklist),
    Sub("quicklist-packed-threshold", 1..=1, Needs::Nothing, switches::packed_threshold),
    Sub("reload", 0..=usize::MAX, Needs::World, reload),
    Sub("replicate", 1..=usize::MAX, Needs::Nothing, switches::any),
    Sub("replybuffer", 2..=2, Needs::Nothing, switches::reply_buffer),
    Sub("restart", 0..=usize::MAX, Needs::Aside, restart::in_order),
    Sub("script-restarts", 1..=1, Needs::Nothing, hooks::script_restarts),
    Sub("sdslen", 1..=1, Needs::Key(2), inspect::string_lengths),
    Sub("segfault", 0..=0, Needs::Nothing, segfault),
    Sub("set-active-expire", 1..=1, Needs::Nothing, set_active_expire),
    Sub("set-disable-deny-scripts", 1..=1, Needs::Nothing, switches::any),
    Sub("set-skip-checksum-validation", 1..=1, Needs::Nothing, switches::any),
    Sub("sleep", 1..=1, Needs::World, sleep),
    Sub("slotmigration", 2..=2, Needs::Nothing, switches::slot_migration),
    Sub("stringmatch-test", 0..=0, Needs::Nothing, match_strings),
    Sub("structsize", 0..=0, Needs::Nothing, inspect::sizes),
];

const HELP: &[&str] = &[
    "ACTIVE-THREADS <count>",
    "    Use only the first <count> I/O threads; 0 lets the load decide again.",
    "AOF-FLUSH-SLEEP <microseconds>",
    "    Delay each write of the append-only file, to simulate a slow disk.",
    "ASSERT",
    "    Crash by a failed assertion.",
    "CHANGE-REPL-ID",
    "    Give the server another replication id.",
    "CLIENT-ENFORCE-REPLY-LIST <0|1>",
    "    No effect: clients have no reply buffers of a fixed size.",
    "CLIENT-EVICTION",
    "    Return the clients by memory use. Needs maxmemory-clients.",
    "CLOSE-CLUSTER-LINK-ON-PACKET-DROP <0|1>",
    "    No effect: there is no cluster bus.",
    "CLUSTER-ABANDON",
    "    Close the connections whose replies are withheld or have not left yet.",
    "CLUSTER-CONFIRM <offset|end>",
    "    Let the replies of writes leave that the stream has up to <offset>. Return the offset.",
    "CLUSTER-LEASE <milliseconds|none>",
    "    Let replies that depend on keys leave for this time only, or without a limit.",
    "CLUSTER-QUORUM <0|1>",
    "    Withhold the replies of writes until CLUSTER-CONFIRM.",
    "CLUSTERLINK KILL <to|from|all> <node-id>",
    "    An error: there is no cluster bus.",
    "CONFIG-REWRITE-FORCE-ALL",
    "    As CONFIG REWRITE, with all directives.",
    "CRASH-AND-RECOVER [<milliseconds>]",
    "    Stop all threads, wait, and execute the program anew in this process. Data that is not",
    "    on the disk is lost.",
    "DELAY-RDB-CLIENT-FREE-SECONDS <seconds>",
    "    No effect: a full sync and the stream after it share one connection.",
    "DICT-RESIZING <0|1>",
    "    No effect: tables grow in small steps, with the writes that make them grow.",
    "DIGEST",
    "    Return a hash of all databases; equal data has equal hashes on every server.",
    "DIGEST-VALUE <key> [<key> ...]",
    "    Return a hash of the value of each key.",
    "DISABLE-CLUSTER-RANDOM-PING <0|1>",
    "    No effect: there is no cluster bus.",
    "DISABLE-CLUSTER-RECONNECTION <0|1>",
    "    No effect: there is no cluster bus.",
    "DROP-CLUSTER-PACKET-FILTER <type>",
    "    No effect: there is no cluster bus.",
    "EFFECTS [<path>]",
    "    Start writing the effect log to a file; without a path, stop.",
    "ERROR <string>",
    "    Return an error with that text.",
    "FORCE-FREE-PRIMARY-ASYNC <0|1>",
    "    No effect: there is no primary yet.",
    "FORCE-TLS-WRITE-ERROR <0|1>",
    "    No effect: there is no TLS yet.",
    "HASHTABLE-CAN-ABORT-SHRINK <0|1>",
    "    No effect: tables shrink in small steps.",
    "HTSTATS <dbid> [full]",
    "    Return the shape of the tables of a database.",
    "HTSTATS-KEY <key> [full]",
    "    Return the shape of the table that is the value of <key>.",
    "LEAK <string>",
    "    Copy <string> and never free it.",
    "LISTPACK <key>",
    "    Log how the packed value of <key> is stored.",
    "LOADAOF",
    "    Flush the append-only file, empty all databases and load it.",
    "LOG <message>",
    "    Write <message> to the server's log.",
    "MALLCTL <name> [<value>]",
    "    Return or set a number of the allocator.",
    "MALLCTL-STR <name>",
    "    Return a string of the allocator.",
    "MOVE-CLIENTS",
    "    Move every connection that may move to a random I/O thread. Inactive threads pass",
    "    their connections on within a tick.",
    "OBJECT <key> [fast]",
    "    Return how the value of <key> is stored; with fast, without its length on disk.",
    "OOM",
    "    Crash as if there were no more memory.",
    "PANIC",
    "    Crash by a panic.",
    "PAUSE-AFTER-FORK <0|1>",
    "    No effect: nothing is forked.",
    "PAUSE-CRON <0|1>",
    "    Stop or restart the periodic work.",
    "PAUSE-SLOW-LANE <0|1>",
    "    Delay long commands before they begin, until this is switched off.",
    "PAUSE-SNAPSHOT <0|1>",
    "    Suspend running snapshots until this is switched off.",
    "POPULATE <count> [<prefix>] [<size>]",
    "    Create strings under <prefix>:0 (key:0 without a prefix) and so on, cut or",
    "    filled up with zero bytes to <size>. Existing keys are not changed.",
    "PROTECT-CLIENT <id>",
    "    No effect: a thread that works for a client keeps its memory alive.",
    "PROTOCOL <type>",
    "    Return a value of a type: string, integer, double, bignum, null, array, set,",
    "    map, attrib, push, verbatim, true or false.",
    "QUICKLIST <key> [<0|1>]",
    "    Log how the list of <key>, which is not packed whole, is stored.",
    "QUICKLIST-PACKED-THRESHOLD <size>",
    "    No effect: elements of any size are packed.",
    "RELOAD [MERGE] [NOFLUSH] [NOSAVE]",
    "    Save the data, remove it and load it again, while the world is stopped. With",
    "    NOSAVE the existing file is loaded, with NOFLUSH nothing is removed before,",
    "    and with MERGE keys of the file replace existing keys.",
    "REPLICATE <string>",
    "    No effect: there are no replicas yet.",
    "REPLYBUFFER <PEAK-RESET-TIME <NEVER|RESET|time>|RESIZING <0|1>>",
    "    No effect: reply buffers belong to threads, and are not resized for clients.",
    "RESTART [<milliseconds>]",
    "    Rewrite the configuration file, save, stop, wait, and execute the program anew in this",
    "    process.",
    "SCRIPT-RESTARTS <count>",
    "    Let scripts that start over more often than this hold all shards. The default is 4.",
    "SDSLEN <key>",
    "    Return the memory of the key and the string of <key>.",
    "SEGFAULT",
    "    Crash by a memory fault.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    With 0, expired keys stay until a command accesses them.",
    "SET-DISABLE-DENY-SCRIPTS <0|1>",
    "    No effect: scripts never call the commands that are denied to them.",
    "SET-SKIP-CHECKSUM-VALIDATION <0|1>",
    "    No effect: nothing with a checksum is loaded yet.",
    "SLEEP <seconds>",
    "    Stop the server for this time.",
    "SLOTMIGRATION <PREVENT-PAUSE|PREVENT-FAILOVER> <0|1>",
    "    No effect: there is no cluster mode.",
    "STRINGMATCH-TEST",
    "    Match random patterns against random texts, to find crashes.",
    "STRUCTSIZE",
    "    Return the sizes of some structures.",
];

/// Finds the subcommand for these arguments.
fn find(args: &[&[u8]]) -> Option<&'static Sub> {
    let more = args.len().checked_sub(2)?;
    SUBCOMMANDS.iter().find(|Sub(name, count, ..)| {
        args[1].eq_ignore_ascii_case(name.as_bytes()) && count.contains(&more)
    })
}

fn needs(args: &[&[u8]]) -> Needs {
    find(args).map_or(Needs::Nothing, |Sub(_, _, needs, _)| *needs)
}

fn run(cx: &mut ConnCx<'_>) -> CmdResult {
    check_protection(cx.srv(), &cx.session.shared, Protection::Debug)?;
    match find(cx.args) {
        Some(Sub(.., run)) => run(cx),
        None => Err(unknown_subcommand(cx, "DEBUG")),
    }
}

fn move_clients(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.srv().broadcast(|| Message::Move(MoveMessage::Scatter));
    cx.reply.ok();
    Ok(())
}

fn active_threads(cx: &mut ConnCx<'_>) -> CmdResult {
    let srv = cx.srv();
    let count = parse_i64(cx.args[2]).and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|count| *count <= srv.threads.configured());
    let count = count.ok_or(error::NOT_AN_INTEGER)?;
    control::force(srv, Some(count).filter(|count| *count > 0));
    cx.reply.ok();
    Ok(())
}

/// Like C's `atoi(...) != 0`, with which the reference reads switches.
fn switch(arg: &[u8]) -> bool {
    let digits = arg.iter().skip_while(|b| matches!(b, b' ' | b'-' | b'+'));
    digits.take_while(|b| b.is_ascii_digit()).any(|b| *b != b'0')
}

/// Stops the whole server, as the command's name promises: it needs the world.
fn sleep(cx: &mut ConnCx<'_>) -> CmdResult {
    let seconds = weft_base::num::parse_f64(cx.args[2]).unwrap_or(0.0);
    let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    std::thread::sleep(time);
    cx.reply.ok();
    Ok(())
}

fn set_active_expire(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.srv().process.background.active_expire.store(switch(cx.args[2]), Ordering::Relaxed);
    cx.reply.ok();
    Ok(())
}

/// Like C's `atoi`, which the reference uses: a word that is not a number counts as 0.
fn aof_flush_sleep(cx: &mut ConnCx<'_>) -> CmdResult {
    let us = parse_i64(cx.args[2]).and_then(|us| u64::try_from(us).ok()).unwrap_or(0);
    aof(cx.srv()).status.flush_sleep_us.store(us, Ordering::Relaxed);
    cx.reply.ok();
    Ok(())
}

/// The clients by memory use. The size classes are the reference's.
fn clients_by_size(cx: &mut ConnCx<'_>) -> CmdResult {
    const SMALLEST: u32 = 15;
    const LARGEST: u32 = 33;
    if cx.core.settings.clients.memory == 0 {
        return Err(Error::new("ERR maxmemory-clients is disabled."));
    }
    let mut classes = vec![(0u64, 0u64); (LARGEST - SMALLEST + 1) as usize];
    for client in cx.srv().clients.registry.all() {
        let memory = client.memory.total.load(Ordering::Relaxed);
        let class = memory.max(1).ilog2().clamp(SMALLEST - 1, LARGEST - 1) - (SMALLEST - 1);
        classes[class as usize].0 += memory;
        classes[class as usize].1 += 1;
    }
    let mut text = String::new();
    for (n, (memory, clients)) in (SMALLEST..).zip(classes) {
        let from = if n == SMALLEST { 0 } else { 1u64 << (n - 1) };
        let to = if n == LARGEST { u64::MAX } else { (1u64 << n) - 1 };
        text.push_str(&format!(
            "bucket {from:10} - {to:10}: tot-mem: {memory:10}, clients: {clients}\n"
        ));
    }
    cx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn rewrite_all(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.srv().rewrite_config(Config::rewrite_all).map_err(|e| {
        let reason = e.to_string();
        let reason = reason.strip_prefix("ERR ").unwrap_or(&reason);
        Error::owned(format!("ERR CONFIG-REWRITE-FORCE-ALL failed: {reason}"))
    })?;
    cx.reply.ok();
    Ok(())
}

fn change_replication_id(cx: &mut ConnCx<'_>) -> CmdResult {
    let srv = cx.srv();
    hub(srv).step(srv, |node, _, _| node.change_id());
    cx.reply.ok();
    Ok(())
}

/// Writes the text of an error, but INFO does not count it. Otherwise a client could invent error
/// names in INFO.
fn answer_error(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.reply.error(cx.args[2]);
    Ok(())
}

fn log(cx: &mut ConnCx<'_>) -> CmdResult {
    log_warning!("DEBUG LOG: {}", String::from_utf8_lossy(cx.args[2]));
    cx.reply.ok();
    Ok(())
}

fn leak(cx: &mut ConnCx<'_>) -> CmdResult {
    Vec::leak(cx.args[2].to_vec());
    cx.reply.ok();
    Ok(())
}

fn allocator_number(cx: &mut ConnCx<'_>) -> CmdResult {
    let new = match cx.args.get(3) {
        Some(value) => Some(parse_i64(value).ok_or(error::NOT_AN_INTEGER)?),
        None => None,
    };
    let old = weft_memory::mallctl::number(cx.args[2], new).map_err(allocator_error)?;
    cx.reply.int(old);
    Ok(())
}

fn allocator_text(cx: &mut ConnCx<'_>) -> CmdResult {
    let value = weft_memory::mallctl::text(cx.args[2]).map_err(allocator_error)?;
    cx.reply.bulk(value.as_bytes());
    Ok(())
}

fn allocator_error(e: weft_memory::mallctl::Errno) -> Error {
    Error::owned(format!("ERR {e}"))
}

fn load_log(cx: &mut ConnCx<'_>) -> CmdResult {
    let (srv, guard) = (cx.srv(), cx.guard());
    weft_durability::aof::load::again(srv, cx.core, guard).map_err(|fault| {
        log_warning!("{fault}");
        Error::new("ERR Error trying to load the AOF files, check server logs.")
    })?;
    log_warning!("Append Only File loaded by DEBUG LOADAOF");
    cx.reply.ok();
    Ok(())
}

fn reload(cx: &mut ConnCx<'_>) -> CmdResult {
    let known = |at: usize| ["merge", "noflush", "nosave"].iter().any(|word| cx.is(at, word));
    if !(2..cx.args.len()).all(known) {
        return Err(UNKNOWN_OPTION);
    }
    let has = |word| (2..cx.args.len()).any(|at| cx.is(at, word));
    let options = Options { saves: !has("nosave"), empties: !has("noflush"), merges: has("merge") };
    let srv = cx.srv();
    let guard = cx.guard();
    let done = reload::reload(srv, guard, &mut cx.core.context, options);
    // The data in memory now differs from the append-only file.
    let is_other = !options.saves || !options.empties || done == Err(reload::Failed::Loading);
    if is_other && let Err(e) = weft_durability::aof::start::again(srv, guard) {
        log_warning!("The append-only file could not be restarted, and is retried: {e}");
        weft_durability::aof::start::follow_soon(srv, super::config::stay_off);
    }
    done.map_err(|failed| match failed {
        reload::Failed::Saving => Error::new("ERR"),
        reload::Failed::Loading => {
            Error::new("ERR Error trying to load the RDB dump, check server logs.")
        }
    })?;
    cx.reply.ok();
    Ok(())
}

/// Matches random patterns against random texts of special characters, for some ten milliseconds.
fn match_strings(cx: &mut ConnCx<'_>) -> CmdResult {
    const ROUNDS: usize = 20_000;
    const LONGEST: u64 = 32;
    const LETTERS: &[u8] = b"*?[]^-\\\\aAb\0\xff";
    let context = &mut cx.core.context;
    let mut draw = || {
        let length = context.random() % LONGEST;
        let letter = |_| LETTERS[context.random() as usize % LETTERS.len()];
        (0..length).map(letter).collect::<Vec<u8>>()
    };
    for round in 0..ROUNDS {
        let (pattern, text) = (draw(), draw());
        std::hint::black_box(weft_base::glob::matches(&pattern, &text, round % 2 == 0));
    }
    cx.reply.simple("Apparently the server did not crash: test passed");
    Ok(())
}

fn segfault(_: &mut ConnCx<'_>) -> CmdResult {
    // SAFETY: raise has no preconditions. The signal's default action or the crash report ends the
    // process; if the signal is blocked, the panic below does.
    unsafe { libc::raise(libc::SIGSEGV) };
    unreachable!("DEBUG SEGFAULT")
}

fn panic(_: &mut ConnCx<'_>) -> CmdResult {
    panic!("DEBUG PANIC")
}

fn assert(cx: &mut ConnCx<'_>) -> CmdResult {
    assert!(cx.args.is_empty(), "DEBUG ASSERT");
    Ok(())
}

fn run_out_of_memory(_: &mut ConnCx<'_>) -> CmdResult {
    std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u8; 1 << 30]>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switch_reads_numbers_like_atoi() {
        for (arg, on) in
            [("1", true), ("2", true), ("-1", true), ("0", false), ("x", false), ("", false)]
        {
            assert_eq!(switch(arg.as_bytes()), on, "{arg}");
        }
    }

    #[test]
    fn help_lists_every_subcommand() {
        for Sub(name, ..) in SUBCOMMANDS.iter().filter(|Sub(name, ..)| *name != "help") {
            let upper = name.to_ascii_uppercase();
            let lines = HELP.iter().filter(|line| line.split(' ').next() == Some(&upper));
            assert_eq!(lines.count(), 1, "{name}");
        }
    }
}
