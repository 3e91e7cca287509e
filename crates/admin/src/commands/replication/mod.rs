//! Replication: the commands that a replica sends to its primary, and queries of clients.

mod failover;
mod replconf;
mod replicaof;
mod role;
mod sync;
pub mod wait;

use weft_executor::dispatch::ServerCommand;
use weft_state::clients::ClientShared;

/// The commands of this group.
pub const COMMANDS: &[&ServerCommand] = &[
    &failover::FAILOVER,
    &replconf::REPLCONF,
    &replicaof::REPLICAOF,
    &role::ROLE,
    &replicaof::SLAVEOF,
    &sync::PSYNC,
    &sync::SYNC,
    &wait::WAIT,
];

/// The address of a client, without its port.
fn address(client: &ClientShared) -> &str {
    let ip = client.origin.peer.rsplit_once(':').map_or(client.origin.peer.as_str(), |(ip, _)| ip);
    ip.trim_start_matches('[').trim_end_matches(']')
}
