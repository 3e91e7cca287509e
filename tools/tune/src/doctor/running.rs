//! A running server: its process, and its reports about itself.

use anyhow::Context;

use super::Server;
use crate::apply::{Real, listening_on};
use crate::host::Host;
use crate::sweep::client::{Client, Reply};
use crate::sweep::server::setting;

/// A running server. Values that it doesn't report are none; with a password it reports nothing.
#[derive(Clone, Debug, Default)]
pub struct Running {
    /// Its port.
    pub port: u16,
    /// Its process.
    pub pid: u32,
    /// Weft, or a server that forks; none if it doesn't report it.
    pub kind: Option<Server>,
    /// The reason why the following values are unknown.
    pub silent: Option<String>,
    /// `maxclients`.
    pub max_clients: Option<u64>,
    /// `maxmemory`, in bytes; 0 is no limit.
    pub max_memory: Option<u64>,
    /// `tcp-backlog`.
    pub backlog: Option<u64>,
}

/// Finds the server on a port of this machine and reads its values.
///
/// # Errors
/// If no process listens there, or it is not visible.
pub fn find(host: &Host, port: u16) -> anyhow::Result<Running> {
    let pid = listening_on(&Real::at(host.root()), port).map_err(anyhow::Error::msg)?;
    let mut running = Running { port, pid, ..Running::default() };
    if let Err(error) = ask(&mut running) {
        running.silent = Some(format!("{error:#}"));
    }
    Ok(running)
}

fn ask(running: &mut Running) -> anyhow::Result<()> {
    let mut client = Client::connect(running.port)?;
    let Reply::Text(info) = client.ask(&["INFO", "server"])? else {
        anyhow::bail!("INFO is not text");
    };
    let name = info.lines().find_map(|line| line.trim().strip_prefix("server_name:"));
    running.kind = Some(match name {
        Some("weft") => Server::Weft,
        Some(_) | None => Server::Redis,
    });
    running.max_clients = setting(&mut client, "maxclients");
    running.max_memory = setting(&mut client, "maxmemory");
    running.backlog = setting(&mut client, "tcp-backlog");
    running.max_clients.context("CONFIG GET is refused").map(|_| ())
}
