//! ROLE: this server's role, its primary or its replicas.

use crate::commands::shape::{command, spec};
use weft_command_spec::{Flags, Spec};
use weft_commands::CmdResult;
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_replication_driver::hub;

pub const ROLE: ServerCommand = command(
    Spec {
        acl: &["@admin", "@dangerous"],
        ..spec(
            "role",
            1,
            Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE).or(Flags::FAST),
            "2.8.12",
            "Returns the server's role, and its primary or replicas.",
            "",
        )
    },
    run,
);

fn run(cx: &mut ConnCx<'_>) -> CmdResult {
    let srv = cx.srv();
    let state = hub(srv).up_to_date(srv);
    let offset = state.node.stream().offset();
    let reply = &mut *cx.reply;
    if let Some(follower) = state.node.follower() {
        let (host, port) = follower.primary();
        reply.array(5);
        reply.bulk(b"slave");
        reply.bulk(host.as_bytes());
        reply.int(i64::from(port));
        reply.bulk(follower.state_name().as_bytes());
        reply.int(if follower.is_online() { offset as i64 } else { -1 });
        return Ok(());
    }
    let views = state.node.primary().views(0, offset);
    let online: Vec<_> = views.iter().filter(|view| view.is_online).collect();
    reply.array(3);
    reply.bulk(b"master");
    reply.int(offset as i64);
    reply.array(online.len());
    for view in online {
        reply.array(3);
        reply.bulk(view.host.as_bytes());
        reply.bulk(view.port.to_string().as_bytes());
        reply.bulk(view.ack_offset.to_string().as_bytes());
    }
    Ok(())
}
