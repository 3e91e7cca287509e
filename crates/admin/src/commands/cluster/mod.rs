//! CLUSTER, CLUSTERSCAN and ASKING.
//!
//! As in Valkey, only CLUSTER KEYSLOT works on a server without cluster mode. Every other subcommand, including HELP, replies
//! that cluster support is disabled.
//!
//! * [`show`] - subcommands that show the map
//! * [`change`] - subcommands that change it: [`weft_cluster::decide()`]
//! * [`keys`] - subcommands on the keys of a slot
//! * [`scan`] - CLUSTERSCAN

mod change;
mod keys;
mod scan;
mod show;
mod slot_stats;
mod specs;

use crate::commands::shape::answer_help;
use std::sync::Arc;
use weft_base::slot::key_slot;
use weft_cluster::Refusal;
use weft_commands::{CmdResult, Error, error};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::absent::DISABLED;
use weft_executor::dispatch::core::ConnCx;
use weft_state::cluster::Topology;
use weft_state::session::Asking;

/// The commands of this group.
pub const COMMANDS: &[&ServerCommand] = &[&specs::ASKING, &specs::CLUSTER, &specs::CLUSTERSCAN];

/// The topology in force.
///
/// # Errors
/// This server is not a node of a cluster.
fn topology(cx: &ConnCx<'_>) -> Result<Arc<Topology>, Error> {
    match cx.srv().nodes.cluster.is_enabled() {
        true => Ok(cx.srv().nodes.cluster.topology()),
        false => Err(DISABLED),
    }
}

/// The error reply of a refusal.
fn error_of(cx: &ConnCx<'_>, refusal: Refusal) -> Error {
    match refusal {
        Refusal::Error(text) => Error::owned(text),
        Refusal::Syntax => error::SYNTAX,
        Refusal::Form => crate::commands::shape::unknown_subcommand(cx, "CLUSTER"),
    }
}

fn keyslot(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.reply.int(i64::from(key_slot(cx.args[2])));
    Ok(())
}

fn asking(cx: &mut ConnCx<'_>) -> CmdResult {
    topology(cx)?;
    cx.session.options.asking = Asking::Next;
    cx.reply.ok();
    Ok(())
}

fn help(cx: &mut ConnCx<'_>) -> CmdResult {
    topology(cx)?;
    answer_help(cx, HELP)
}

const HELP: &[&str] = &[
    "COUNTKEYSINSLOT <slot>",
    "    Return the number of keys in <slot>.",
    "GETKEYSINSLOT <slot> <count>",
    "    Return key names stored by current node in a slot.",
    "INFO",
    "    Return information about the cluster.",
    "KEYSLOT <key>",
    "    Return the hash slot for <key>.",
    "MYID",
    "    Return the node id.",
    "MYSHARDID",
    "    Return the node's shard id.",
    "NODES",
    "    Return cluster configuration seen by node. Output format:",
    "    <id> <ip:port@bus-port[,hostname]> <flags> <primary> <pings> <pongs> <epoch> <link> <slot> ...",
    "REPLICAS <node-id>",
    "    Return <node-id> replicas.",
    "SLOTS",
    "    Return information about slots range mappings. Each range is made of:",
    "    start, end, primary and replicas IP addresses, ports and ids",
    "SLOT-STATS",
    "    Return an array of slot usage statistics for slots assigned to the current node.",
    "SHARDS",
    "    Return information about slot range mappings and the nodes associated with them.",
    "ADDSLOTS <slot> [<slot> ...]",
    "    Assign slots to current node.",
    "ADDSLOTSRANGE <start slot> <end slot> [<start slot> <end slot> ...]",
    "    Assign slots which are between <start-slot> and <end-slot> to current node.",
    "BUMPEPOCH",
    "    Advance the cluster config epoch.",
    "COUNT-FAILURE-REPORTS <node-id>",
    "    Return number of failure reports for <node-id>.",
    "DELSLOTS <slot> [<slot> ...]",
    "    Delete slots information from current node.",
    "DELSLOTSRANGE <start slot> <end slot> [<start slot> <end slot> ...]",
    "    Delete slots information which are between <start-slot> and <end-slot> from current node.",
    "FAILOVER [FORCE|TAKEOVER]",
    "    Promote current replica node to being a master.",
    "FORGET <node-id>",
    "    Remove a node from the cluster.",
    "FLUSHSLOTS",
    "    Delete current node own slots information.",
    "MEET <ip> <port> [<bus-port>]",
    "    Connect nodes into a working cluster.",
    "REPLICATE <node-id>",
    "    Configure current node as replica to <node-id>.",
    "RESET [HARD|SOFT]",
    "    Reset current node (default: soft).",
    "SET-CONFIG-EPOCH <epoch>",
    "    Set config epoch of current node.",
    "SETSLOT <slot> (IMPORTING <node-id>|MIGRATING <node-id>|STABLE|NODE <node-id>)",
    "    Set slot state.",
    "SAVECONFIG",
    "    Force saving cluster configuration on disk.",
    "LINKS",
    "    Return information about all network links between this node and its peers.",
    "    Output format is an array where each array element is a map containing attributes of a link",
    "MIGRATESLOTS SLOTSRANGE start-slot end-slot [start-slot end-slot ...] NODE node-id [SLOTSRANGE start-slot end-slot [start-slot end-slot ...] NODE node-id ...]",
    "    Migrate the specified slot ranges from this node to the specified node.",
    "CANCELSLOTMIGRATIONS ALL",
    "    Cancel all migrations.",
    "GETSLOTMIGRATIONS",
    "    Get information about ongoing and recently finished slot imports and exports.",
];
