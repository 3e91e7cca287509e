//! PUBSUB: lists channels with subscribers, and counts the subscribers.

use crate::commands::pubsub::{FLAGS, Plan, plan};
use crate::commands::shape::{ANYTIME, answer_help, container, help};
use weft_base::glob;
use weft_command_spec::{Flags, Group, Spec};
use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_pubsub::registry::Kind;

const HELP: &[&str] = &[
    "CHANNELS [<pattern>]",
    "    Return the currently active channels matching a <pattern> (default: '*').",
    "NUMPAT",
    "    Return number of subscriptions to patterns.",
    "NUMSUB [<channel> ...]",
    "    Return the number of subscribers for the specified channels, excluding",
    "    pattern subscriptions(default: no channels).",
    "SHARDCHANNELS [<pattern>]",
    "    Return the currently active shard level channels matching a <pattern> (default: '*').",
    "SHARDNUMSUB [<shardchannel> ...]",
    "    Return the number of subscribers for the specified shard level channel(s)",
];

pub const PUBSUB: ServerCommand = ServerCommand {
    spec: Spec { group: Group::PubSub, flags: Flags::NONE, ..CONTAINER.spec },
    needs: CONTAINER.needs,
    run: CONTAINER.run,
    subcommands: SUBCOMMANDS,
};

const CONTAINER: ServerCommand =
    container("pubsub", "2.8.0", "A container for commands about channels.", SUBCOMMANDS);

const HELP_COMMAND: ServerCommand = help("6.2.0", |cx| answer_help(cx, HELP));

const SUBCOMMANDS: &[ServerCommand] = &[
    sub("channels", -2, "2.8.0", |cx| channels(cx, Kind::Channel))
        .about("Lists the channels that have subscribers.", "[pattern:pattern]")
        .complexity("O(N) where N is the number of channels")
        .build(),
    ServerCommand {
        spec: Spec { group: Group::PubSub, flags: ANYTIME, ..HELP_COMMAND.spec },
        needs: HELP_COMMAND.needs,
        run: HELP_COMMAND.run,
        subcommands: &[],
    },
    sub("numpat", 2, "2.8.0", numpat)
        .about("Counts the patterns that have subscribers.", "")
        .build(),
    sub("numsub", -2, "2.8.0", |cx| numsub(cx, Kind::Channel))
        .about("Counts the subscribers of channels.", "[channel...]")
        .complexity("O(N) where N is the number of channels that are named")
        .build(),
    sub("shardchannels", -2, "7.0.0", |cx| channels(cx, Kind::Shard))
        .about("Lists the shard channels that have subscribers.", "[pattern:pattern]")
        .complexity("O(N) where N is the number of shard channels")
        .build(),
    sub("shardnumsub", -2, "7.0.0", |cx| numsub(cx, Kind::Shard))
        .about("Counts the subscribers of shard channels.", "[shardchannel...]")
        .complexity("O(N) where N is the number of shard channels that are named")
        .build(),
];

const fn sub(
    name: &'static str,
    arity: i16,
    since: &'static str,
    run: fn(&mut ConnCx<'_>) -> CmdResult,
) -> Plan {
    plan(name, arity, FLAGS, since, run)
}

/// Too many arguments: the reference finds no matching subcommand.
#[cold]
fn does_not_fit(name: &[u8]) -> Error {
    let (before, after) = ("ERR unknown subcommand or wrong number of arguments for '", "'. ");
    Error::owned([before.as_bytes(), name, after.as_bytes(), b"Try PUBSUB HELP."].concat())
}

fn channels(cx: &mut ConnCx<'_>, kind: Kind) -> CmdResult {
    let pattern = match cx.args {
        [_, _] => None,
        [_, _, pattern] => Some(*pattern),
        _ => return Err(does_not_fit(cx.args[1])),
    };
    cx.weigh(cx.srv().clients.pubsub.count(kind))?;
    let mut names = cx.srv().clients.pubsub.channels(kind);
    names.retain(|name| pattern.is_none_or(|pattern| glob::matches(pattern, name, false)));
    cx.reply.array(names.len());
    names.iter().for_each(|name| cx.reply.bulk(name));
    Ok(())
}

fn numpat(cx: &mut ConnCx<'_>) -> CmdResult {
    let patterns = cx.srv().clients.pubsub.count(Kind::Pattern);
    cx.reply.int(patterns as i64);
    Ok(())
}

fn numsub(cx: &mut ConnCx<'_>, kind: Kind) -> CmdResult {
    cx.weigh_args()?;
    let names = &cx.args[2..];
    cx.reply.array(2 * names.len());
    for name in names {
        cx.reply.bulk(name);
        let listen = cx.srv().clients.pubsub.subscribers(kind, name);
        cx.reply.int(listen as i64);
    }
    Ok(())
}
