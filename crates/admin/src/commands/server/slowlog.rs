//! COMMANDLOG, and SLOWLOG for its first log: see [`weft_state::commandlog`].

use crate::commands::shape::{
    ALL_NODES, ANYTIME, answer_help, command, container, help, spec, unknown_subcommand,
};
use weft_base::num::parse_i64;
use weft_command_spec::{Flags, Spec};
use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_state::commandlog::{LogEntry, LogKind};

/// Unlike most commands of the category, scripts may call these.
const READ: Flags = Flags::ADMIN.or(ANYTIME);
const GET_TIPS: &[&str] = &["request_policy:all_nodes", "nondeterministic_output"];
const LEN_TIPS: &[&str] =
    &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"];
const GET_COST: &str = "O(N) where N is the number of entries returned";
const RESET_COST: &str = "O(N) where N is the number of entries in the log";

const BAD_COUNT: Error = Error::new("ERR count should be greater than or equal to -1");
const BAD_KIND: Error =
    Error::new("ERR type should be one of the following: slow, large-request, large-reply");

/// Entries that SLOWLOG GET returns when no count is given.
const DEFAULT_COUNT: usize = 10;

pub const SLOWLOG: ServerCommand = container(
    "slowlog",
    "2.2.12",
    "Holds the commands on the log of slow commands.",
    &[
        command(
            Spec {
                complexity: GET_COST,
                history: &[("4.0.0", "Entries include the address and name of the client.")],
                tips: GET_TIPS,
                ..spec("get", -2, READ, "2.2.12", "Returns the latest entries.", "[count:integer]")
            },
            slow_get,
        ),
        help("6.2.0", |cx| answer_help(cx, SLOW_HELP)),
        command(
            Spec {
                tips: LEN_TIPS,
                ..spec("len", 2, READ, "2.2.12", "Returns the number of entries.", "")
            },
            |cx| len(cx, LogKind::Slow),
        ),
        command(
            Spec {
                complexity: RESET_COST,
                tips: ALL_NODES,
                ..spec("reset", 2, READ, "2.2.12", "Removes all entries.", "")
            },
            |cx| reset(cx, LogKind::Slow),
        ),
    ],
);

const TYPE: &str = "type=(slow=SLOW|large-request=LARGE-REQUEST|large-reply=LARGE-REPLY)";
const COUNT_AND_TYPE: &str =
    "count:integer type=(slow=SLOW|large-request=LARGE-REQUEST|large-reply=LARGE-REPLY)";

pub const COMMANDLOG: ServerCommand = container(
    "commandlog",
    "8.1.0",
    "Holds the commands on the logs of slow commands, large requests and large replies.",
    &[
        command(
            Spec {
                complexity: GET_COST,
                tips: GET_TIPS,
                ..spec(
                    "get",
                    4,
                    READ,
                    "8.1.0",
                    "Returns the latest entries of a log.",
                    COUNT_AND_TYPE,
                )
            },
            |cx| {
                let count = count(cx)?;
                let kind = kind(cx, 3)?;
                answer(cx, kind, count)
            },
        ),
        help("8.1.0", |cx| answer_help(cx, HELP)),
        command(
            Spec {
                tips: LEN_TIPS,
                ..spec("len", 3, READ, "8.1.0", "Returns the number of entries of a log.", TYPE)
            },
            |cx| {
                let kind = kind(cx, 2)?;
                len(cx, kind)
            },
        ),
        command(
            Spec {
                complexity: RESET_COST,
                tips: ALL_NODES,
                ..spec("reset", 3, READ, "8.1.0", "Removes all entries of a log.", TYPE)
            },
            |cx| {
                let kind = kind(cx, 2)?;
                reset(cx, kind)
            },
        ),
    ],
);

const SLOW_HELP: &[&str] = &[
    "GET [<count>]",
    "    Return the latest <count> entries (10 if not given, all for -1), newest first.",
    "    An entry is: id, Unix time, microseconds, array of arguments, address and name",
    "    of the client.",
    "LEN",
    "    Return the number of entries.",
    "RESET",
    "    Remove all entries.",
];

const HELP: &[&str] = &[
    "GET <count> <type>",
    "    Return the latest <count> entries (all for -1) of the log of that <type>: slow,",
    "    large-request or large-reply. An entry is: id, Unix time, microseconds (slow)",
    "    or bytes (the others), array of arguments, address and name of the client.",
    "LEN <type>",
    "    Return the number of entries of that log.",
    "RESET <type>",
    "    Remove all entries of that log.",
];

fn slow_get(cx: &mut ConnCx<'_>) -> CmdResult {
    let count = match cx.args.len() {
        2 => DEFAULT_COUNT,
        3 => count(cx)?,
        // The reference checks this arity itself, and has a separate error text.
        _ => return Err(unknown_subcommand(cx, "SLOWLOG")),
    };
    answer(cx, LogKind::Slow, count)
}

/// Parses argument 2 as a count; -1 means all.
fn count(cx: &ConnCx<'_>) -> Result<usize, Error> {
    match parse_i64(cx.args[2]) {
        Some(-1) => Ok(usize::MAX),
        Some(n) => usize::try_from(n).map_err(|_| BAD_COUNT),
        None => Err(BAD_COUNT),
    }
}

fn kind(cx: &ConnCx<'_>, at: usize) -> Result<LogKind, Error> {
    LogKind::ALL.into_iter().find(|kind| cx.is(at, kind.name())).ok_or(BAD_KIND)
}

fn answer(cx: &mut ConnCx<'_>, kind: LogKind, count: usize) -> CmdResult {
    let entries = cx.srv().statistics.commandlog.latest(kind, count);
    cx.reply.array(entries.len());
    for LogEntry { id, time_s, value, args, peer, name } in entries {
        cx.reply.array(6);
        [id, time_s, value].into_iter().for_each(|n| cx.reply.int(n));
        cx.reply.array(args.len());
        args.iter().for_each(|arg| cx.reply.bulk(arg));
        cx.reply.bulk(peer.as_bytes());
        cx.reply.bulk(&name);
    }
    Ok(())
}

fn len(cx: &mut ConnCx<'_>, kind: LogKind) -> CmdResult {
    cx.reply.int(cx.srv().statistics.commandlog.len(kind) as i64);
    Ok(())
}

fn reset(cx: &mut ConnCx<'_>, kind: LogKind) -> CmdResult {
    cx.srv().statistics.commandlog.clear(kind);
    cx.reply.ok();
    Ok(())
}
