//! LATENCY: the spikes of [`weft_state::latency`], and the histograms of all commands.

use crate::commands::server::latency_report;
use crate::commands::shape::{ADMIN, EACH_NODE, answer_help, command, container, help, spec};
use crate::info::totals::latency_since_reset;
use weft_command_spec::Spec;
use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_state::command_table::Cmd;
use weft_state::stats::Distribution;

const SINCE: &str = "2.8.13";

pub const LATENCY: ServerCommand = container(
    "latency",
    SINCE,
    "Holds the commands on the server's latency.",
    &[
        each_node("doctor", 2, SINCE, "Explains the latency spikes that were seen.", "", doctor),
        each_node("graph", 3, SINCE, "Draws the latest spikes of an event.", "event", graph),
        help(SINCE, |cx| answer_help(cx, HELP)),
        command(
            Spec {
                complexity: "O(N) where N is the number of commands with histograms",
                tips: EACH_NODE,
                ..spec(
                    "histogram",
                    -2,
                    ADMIN,
                    "7.0.0",
                    "Returns the latency distributions of commands.",
                    "[command...]",
                )
            },
            histogram,
        ),
        each_node("history", 3, SINCE, "Returns the latest spikes of an event.", "event", history),
        each_node("latest", 2, SINCE, "Returns the latest spike of every event.", "", latest),
        command(
            Spec {
                tips: &["request_policy:all_nodes", "response_policy:agg_sum"],
                ..spec("reset", -2, ADMIN, SINCE, "Removes the spikes of events.", "[event...]")
            },
            reset,
        ),
    ],
);

const fn each_node(
    name: &'static str,
    arity: i16,
    since: &'static str,
    summary: &'static str,
    syntax: &'static str,
    run: fn(&mut ConnCx<'_>) -> CmdResult,
) -> ServerCommand {
    let plain = spec(name, arity, ADMIN, since, summary, syntax);
    command(Spec { tips: EACH_NODE, ..plain }, run)
}

const HELP: &[&str] = &[
    "DOCTOR",
    "    Explain the recorded spikes, and suggest remedies.",
    "GRAPH <event>",
    "    Draw the latest spikes of <event> in characters.",
    "HISTORY <event>",
    "    Return the latest spikes of <event>: Unix time and milliseconds.",
    "LATEST",
    "    Return for every event its name, the Unix time of its latest spike, the",
    "    milliseconds of that one, of the worst, and of all together, and their number.",
    "RESET [<event> ...]",
    "    Remove the spikes of the given events, or of all.",
    "HISTOGRAM [<command> ...]",
    "    Return for the given commands, or for all, how often they were called and how",
    "    many calls took at most so many microseconds.",
];

fn doctor(cx: &mut ConnCx<'_>) -> CmdResult {
    let report = latency_report::doctor(cx.srv());
    cx.reply.verbatim("txt", report.as_bytes());
    Ok(())
}

fn graph(cx: &mut ConnCx<'_>) -> CmdResult {
    let name = String::from_utf8_lossy(cx.args[2]).into_owned();
    let events = cx.srv().statistics.latency.events();
    let Some(series) = events.get(&name).filter(|series| !series.samples.is_empty()) else {
        return Err(Error::owned(format!("ERR No samples available for event '{name}'")));
    };
    let text = latency_report::graph(&name, series, cx.srv().now_ms() / 1000);
    cx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn history(cx: &mut ConnCx<'_>) -> CmdResult {
    let name = String::from_utf8_lossy(cx.args[2]).into_owned();
    let events = cx.srv().statistics.latency.events();
    let samples = events.get(&name).map(|series| &series.samples);
    cx.reply.array(samples.map_or(0, |s| s.len()));
    for (at, ms) in samples.into_iter().flatten() {
        cx.reply.array(2);
        cx.reply.int(*at);
        cx.reply.int(*ms);
    }
    Ok(())
}

fn latest(cx: &mut ConnCx<'_>) -> CmdResult {
    let events = cx.srv().statistics.latency.events();
    cx.reply.array(events.len());
    for (name, series) in events.iter() {
        let (at, ms) = series.samples.back().copied().unwrap_or_default();
        cx.reply.array(6);
        cx.reply.bulk(name.as_bytes());
        for number in [at, ms, series.max_ms, series.sum_ms, series.count] {
            cx.reply.int(number);
        }
    }
    Ok(())
}

fn reset(cx: &mut ConnCx<'_>) -> CmdResult {
    let mut events = cx.srv().statistics.latency.events();
    let before = events.len();
    match &cx.args[2..] {
        [] => events.clear(),
        names => names.iter().for_each(|name| {
            events.remove(String::from_utf8_lossy(name).as_ref());
        }),
    }
    cx.reply.int((before - events.len()) as i64);
    Ok(())
}

fn histogram(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.weigh_args()?;
    let srv = cx.srv();
    let mut wanted: Vec<&'static Cmd> = match &cx.args[2..] {
        [] => srv.table.all().to_vec(),
        names => names.iter().flat_map(|name| named(cx, name)).collect(),
    };
    let mut seen = std::collections::HashSet::new();
    wanted.retain(|cmd| seen.insert(cmd.number));
    let latencies = wanted.iter().map(|cmd| (cmd, latency_since_reset(srv, cmd.number)));
    let called: Vec<_> = latencies.filter(|(_, latency)| latency.count() > 0).collect();
    cx.reply.map(called.len());
    for (cmd, latency) in called {
        cx.reply.bulk(cmd.full_name.as_bytes());
        answer_histogram(cx, &latency);
    }
    Ok(())
}

/// The command of that name with its subcommands, or the single subcommand `container|name`.
fn named(cx: &ConnCx<'_>, name: &[u8]) -> Vec<&'static Cmd> {
    let table = &cx.srv().table;
    let mut parts = name.splitn(2, |b| *b == b'|');
    let top = parts.next().and_then(|container| table.find(container));
    match (top, parts.next()) {
        (None, _) => Vec::new(),
        (Some(top), None) => [top].into_iter().chain(top.subcommands.iter().copied()).collect(),
        (Some(top), Some(sub)) => top.subcommand(sub).into_iter().collect(),
    }
}

/// Calls, and how many of them took at most 1, 2, 4 ... microseconds. The bounds are those of the
/// reference's histogram, which has 128 steps for each doubling and reports the end of a step.
fn answer_histogram(cx: &mut ConnCx<'_>, latency: &Distribution) {
    let count = latency.count();
    cx.reply.map(2);
    cx.reply.bulk(b"calls");
    cx.reply.int(count as i64);
    cx.reply.bulk(b"histogram_usec");
    let bounds = cx.reply.map_deferred();
    let mut buckets = latency.buckets().peekable();
    let (mut shown, mut told, mut below) = (0, 0, 0);
    for doubling in 0.. {
        let bound = 1024u64 << doubling;
        while let Some((_, n)) = buckets.next_if(|(top, _)| *top < bound) {
            below += n;
        }
        if below > told {
            cx.reply.int(((bound + bound / 128 - 1) / 1000) as i64);
            cx.reply.int(below as i64);
            told = below;
            shown += 1;
        }
        // The last bucket holds all values above the other bounds.
        if told == count || doubling == 52 {
            break;
        }
    }
    cx.reply.finish(bounds, shown);
}
