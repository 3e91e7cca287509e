//! CONFIG: the directives while the server runs.

use crate::dispatch::{ConnCx, ServerCommand};
use weft_commands::{CmdResult, Flags, Group, Spec, error};

const fn sub(name: &'static str, arity: i16, run: fn(&mut ConnCx<'_>) -> CmdResult, summary: &'static str, syntax: &'static str) -> ServerCommand {
    ServerCommand {
        spec: Spec {
            name,
            arity,
            flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
            keys: &[],
            acl: &[],
            group: Group::Server,
            since: "2.0.0",
            summary,
            complexity: "O(N) where N is the number of directives",
            syntax,
            history: &[],
            tips: &[],
        },
        run,
        subcommands: &[],
    }
}

pub const CONFIG: ServerCommand = ServerCommand {
    spec: Spec {
        name: "config",
        arity: -2,
        flags: Flags::NONE,
        keys: &[],
        acl: &[],
        group: Group::Server,
        since: "2.0.0",
        summary: "Holds the commands on the configuration.",
        complexity: "Depends on subcommand.",
        syntax: "",
        history: &[],
        tips: &[],
    },
    run: |_| Err(error::SYNTAX),
    subcommands: &[sub("get", -3, get, "Answers the values of directives.", "pattern...")],
};

fn get(cx: &mut ConnCx<'_>) -> CmdResult {
    let found = cx.srv().config().get(&cx.args[2..]);
    cx.reply.map(found.len());
    for (name, value) in found {
        cx.reply.bulk(name.as_bytes());
        cx.reply.bulk(&value);
    }
    Ok(())
}
