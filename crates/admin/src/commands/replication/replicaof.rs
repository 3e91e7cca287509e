//! REPLICAOF and its older name SLAVEOF: set the primary of this server.
//!
//! The role changes while the world is stopped. All earlier writes are in the stream, and no write
//! of the old primary comes later.

use crate::commands::connection::logged_line;
use crate::commands::shape::{holding, spec};
use weft_command_spec::{Deprecated, Flags, Spec, Special};
use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_executor::dispatch::refusals::LOADING;
use weft_process::log_notice;
use weft_replication_driver::hub;
use weft_state::command_table::Needs;

const FLAGS: Flags = Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::STALE).or(Flags::NO_ASYNC_LOADING);

const SYNTAX: &str = "args=(host-port=(host port:integer)|no-one=(no=NO one=ONE))";

const IN_CLUSTER: Error = Error::new("ERR REPLICAOF not allowed in cluster mode.");

pub const REPLICAOF: ServerCommand = holding(
    |_| Needs::World,
    spec("replicaof", 3, FLAGS, "5.0.0", "Follows another server, or none.", SYNTAX),
    replica_of,
);

pub const SLAVEOF: ServerCommand = holding(
    |_| Needs::World,
    Spec {
        special: Special {
            deprecated: Some(Deprecated { since: "5.0.0", replaced_by: "`REPLICAOF`" }),
            ..Special::NONE
        },
        ..spec("slaveof", 3, FLAGS, "1.0.0", "The older name of REPLICAOF.", SYNTAX)
    },
    replica_of,
);

fn replica_of(cx: &mut ConnCx<'_>) -> CmdResult {
    let (srv, guard) = (cx.srv(), cx.guard());
    if srv.nodes.cluster.is_enabled() {
        return Err(IN_CLUSTER);
    }
    // Loading may have begun while this command waited for the world.
    if srv.persistence.loading.is_on() {
        return Err(LOADING);
    }
    let hub = hub(srv);
    let said = |e: String| Error::owned(e);
    if cx.is(1, "no") && cx.is(2, "one") {
        let was = srv.nodes.replication.is_replica();
        hub.cut(srv, Some(guard), |node, now, out| node.replica_of_none(now, out)).map_err(said)?;
        if was {
            let line = logged_line(srv, &cx.session.shared);
            log_notice!("PRIMARY MODE enabled (user request from '{line}')");
        }
        cx.reply.ok();
        return Ok(());
    }
    let port = weft_base::num::parse_i64(cx.args[2]).and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or(Error::new("ERR Invalid master port"))?;
    let host = String::from_utf8_lossy(cx.args[1]).into_owned();
    let is_other = hub
        .cut(srv, Some(guard), |node, now, out| node.replica_of(now, &host, port, out))
        .map_err(said)?;
    if is_other {
        let line = logged_line(srv, &cx.session.shared);
        log_notice!("REPLICAOF {host}:{port} enabled (user request from '{line}')");
        cx.reply.ok();
    } else {
        log_notice!(
            "REPLICAOF would result into synchronization with the primary we are already connected \
             with. No operation performed."
        );
        cx.reply.simple("OK Already connected to specified master");
    }
    Ok(())
}
