//! REPLCONF: a replica's facts about itself, and its position in the stream.

use crate::commands::replication::address;
use crate::commands::shape::{ADMIN, command, spec};
use weft_command_spec::{Flags, Spec};
use weft_commands::CmdResult;
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_replication_driver::hub;

pub const REPLCONF: ServerCommand = command(
    Spec {
        ..spec(
            "replconf",
            -1,
            ADMIN.or(Flags::ALLOW_BUSY).or(Flags::SYSTEM),
            "3.0.0",
            "Reports a replica's state to its primary. For servers only.",
            "",
        )
    },
    run,
);

fn run(cx: &mut ConnCx<'_>) -> CmdResult {
    if let Some(result) = weft_cluster_links::incoming::execute(cx) {
        return result;
    }
    let srv = cx.srv();
    let (client, args) = (&cx.session.shared, &cx.args[1..]);
    let answer = hub(srv).hear(srv, client, None, |node, now, conn, out| {
        node.replconf(now, conn, address(client), args, out);
    });
    crate::commands::replication::sync::pass_on(cx, &answer)
}
