//! FAILOVER: hands the role of primary to a replica that has all data.

use crate::commands::shape::{holding, spec};
use weft_command_spec::Flags;
use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_replication_driver::hub;
use weft_state::command_table::Needs;

const IN_CLUSTER: Error =
    Error::new("ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.");

pub const FAILOVER: ServerCommand = holding(
    // ABORT may change the role.
    |_| Needs::World,
    spec(
        "failover",
        -1,
        Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::STALE),
        "6.2.0",
        "Hands the role of primary to one of the replicas.",
        "[TO target=(host port:integer [force=FORCE])] [abort=ABORT] [TIMEOUT milliseconds:integer]",
    ),
    run,
);

fn run(cx: &mut ConnCx<'_>) -> CmdResult {
    let (srv, guard) = (cx.srv(), cx.guard());
    if srv.nodes.cluster.is_enabled() {
        return Err(IN_CLUSTER);
    }
    let args = &cx.args[1..];
    let done = hub(srv).cut(srv, Some(guard), |node, now, out| node.fail_over(now, args, out));
    done.map_err(Error::owned)?;
    cx.reply.ok();
    Ok(())
}
