//! PING: checks the connection.

use weft_command_spec::{Flags, Group, Spec, Special};
use weft_commands::{CmdResult, error};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_state::command_table::NOTHING;

pub const PING: ServerCommand = ServerCommand {
    spec: Spec {
        name: "ping",
        arity: -1,
        flags: Flags::FAST.or(Flags::WHILE_SUBSCRIBED).or(Flags::REPORTS_DISK_ERRORS),
        keys: &[],
        acl: &[],
        group: Group::Connection,
        since: "1.0.0",
        summary: "Returns PONG or the message.",
        complexity: "O(1)",
        syntax: "[message]",
        history: &[],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        special: Special::NONE,
    },
    needs: NOTHING,
    run: ping,
    subcommands: &[],
};

fn ping(cx: &mut ConnCx<'_>) -> CmdResult {
    // A subscriber gets messages between replies, so the reply has the form of a message.
    if cx.session.is_restricted() && cx.args.len() <= 2 {
        cx.reply.array(2);
        cx.reply.bulk(b"pong");
        cx.reply.bulk(cx.args.get(1).copied().unwrap_or_default());
        return Ok(());
    }
    match cx.args {
        [_] => cx.reply.simple("PONG"),
        [_, message] => cx.reply.bulk(message),
        _ => return Err(error::wrong_arity("ping")),
    }
    Ok(())
}
