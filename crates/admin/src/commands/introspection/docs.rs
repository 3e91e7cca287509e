//! COMMAND DOCS: the texts that a command line tool shows.

use crate::commands::introspection::named;
use weft_command_spec::syntax::{self, Arg, KeyRanks, Kind};
use weft_command_spec::{Deprecated, Flags};
use weft_commands::CmdResult;
use weft_executor::dispatch::core::ConnCx;
use weft_resp::Reply;
use weft_state::command_table::Cmd;

pub fn docs(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.weigh_args()?;
    // COMMAND INFO replies with null for an unknown name; DOCS skips it.
    let found: Vec<&Cmd> = named(&cx.srv().table, &cx.args[2..]).flatten().collect();
    cx.reply.map(found.len());
    found.iter().for_each(|cmd| entry(cx.reply, cmd));
    Ok(())
}

/// A command's name and its documentation.
fn entry(reply: &mut Reply, cmd: &Cmd) {
    reply.bulk(cmd.full_name.as_bytes());
    let spec = cmd.spec;
    let is_system = spec.flags.has(Flags::SYSTEM);
    let deprecated = spec.special.deprecated;
    let args = syntax::parse(spec.syntax).expect("a test parses every syntax");
    let optional = [
        !spec.complexity.is_empty(),
        is_system,
        deprecated.is_some(),
        deprecated.is_some(),
        deprecated.is_some(),
        !spec.history.is_empty(),
        !args.is_empty(),
        !cmd.subcommands.is_empty(),
    ];
    reply.map(3 + optional.iter().filter(|there| **there).count());
    text(reply, "summary", spec.summary);
    text(reply, "since", spec.since);
    text(reply, "group", spec.group.name());
    if !spec.complexity.is_empty() {
        text(reply, "complexity", spec.complexity);
    }
    if is_system {
        reply.bulk(b"doc_flags");
        reply.set(1);
        reply.simple("syscmd");
    }
    if let Some(Deprecated { since, replaced_by }) = deprecated {
        reply.bulk(b"doc_flags");
        reply.set(1);
        reply.simple("deprecated");
        text(reply, "deprecated_since", since);
        text(reply, "replaced_by", replaced_by);
    }
    if !spec.history.is_empty() {
        reply.bulk(b"history");
        reply.set(spec.history.len());
        for (version, change) in spec.history {
            reply.array(2);
            reply.bulk(version.as_bytes());
            reply.bulk(change.as_bytes());
        }
    }
    if !args.is_empty() {
        reply.bulk(b"arguments");
        arguments(reply, &args, &mut KeyRanks::new(spec));
    }
    if !cmd.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(cmd.subcommands.len());
        cmd.subcommands.iter().for_each(|sub| entry(reply, sub));
    }
}

fn text(reply: &mut Reply, field: &str, value: &str) {
    reply.bulk(field.as_bytes());
    reply.bulk(value.as_bytes());
}

fn arguments(reply: &mut Reply, args: &[Arg<'_>], ranks: &mut KeyRanks) {
    reply.array(args.len());
    args.iter().for_each(|arg| argument(reply, arg, ranks));
}

fn argument(reply: &mut Reply, arg: &Arg<'_>, ranks: &mut KeyRanks) {
    let parts = match &arg.kind {
        Kind::OneOf(parts) | Kind::Block(parts) => Some(parts),
        Kind::Value(_) | Kind::PureToken => None,
    };
    let rank = ranks.rank_of(arg);
    let flags: Vec<&str> = [
        ("optional", arg.optional),
        ("multiple", arg.multiple),
        ("multiple_token", arg.multiple_token),
    ]
    .iter()
    .filter(|(_, on)| *on)
    .map(|(name, _)| *name)
    .collect();
    let texts =
        [("token", arg.token), ("since", arg.since), ("deprecated_since", arg.deprecated_since)];
    let present = texts.iter().filter(|(_, value)| value.is_some()).count();
    // In a tree, only leaves have a display text. The other fields are always present.
    let fields = 3 + usize::from(rank.is_some()) + present + usize::from(!flags.is_empty());
    reply.map(fields);
    text(reply, "name", arg.name);
    text(reply, "type", arg.kind.name());
    if parts.is_none() {
        text(reply, "display_text", arg.display.unwrap_or(arg.name));
    }
    if let Some(rank) = rank {
        reply.bulk(b"key_spec_index");
        reply.int(rank as i64);
    }
    for (field, value) in texts {
        if let Some(value) = value {
            text(reply, field, value);
        }
    }
    if !flags.is_empty() {
        reply.bulk(b"flags");
        reply.set(flags.len());
        flags.iter().for_each(|flag| reply.simple(flag));
    }
    if let Some(parts) = parts {
        reply.bulk(b"arguments");
        arguments(reply, parts, ranks);
    }
}
