//! The link to the primary as a client: CLIENT LIST has a line for it, and CLIENT KILL closes it.
//!
//! It exists from the beginning of the stream to the end of the link. No client-serving thread owns
//! the connection, so other operations on clients don't reach it.

use crate::Hub;
use crate::replica::handle::Link;
use rustix::fd::AsRawFd;
use rustix::net::{SocketAddrAny, getpeername, getsockname};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_replication::apply::{Kind, Unit};
use weft_state::clients::ClientShared;
use weft_state::command_table::CommandTable;
use weft_state::server::Server;

/// Adds the client entry when the stream begins, with `db` selected.
pub fn show(srv: &Server, link: &Link, db: u32) {
    let Some(socket) = link.socket() else { return };
    let name = |at: Option<SocketAddrAny>| {
        let at = at.and_then(|at| SocketAddr::try_from(at).ok());
        at.map_or_else(|| "?:0".into(), |at| at.to_string())
    };
    let ends = [name(getpeername(socket).ok().flatten()), name(getsockname(socket).ok())];
    let (id, fd, now) = (srv.clients.registry.next_id(), socket.as_raw_fd(), srv.mono_ms());
    let client = Arc::new(ClientShared::of_primary(id, fd, ends, now));
    client.activity.db.store(db, Ordering::Relaxed);
    if link.client.set(client.clone()).is_ok() {
        srv.clients.registry.insert(client);
    }
}

/// The link was closed.
pub fn hide(srv: &Server, link: &Link) {
    if let Some(client) = link.client.get() {
        srv.clients.registry.remove(client.id);
    }
}

/// Counts received bytes.
pub fn heard(srv: &Server, link: &Link, bytes: usize) {
    if let Some(client) = link.client.get() {
        client.activity.net_in.fetch_add(bytes as u64, Ordering::Relaxed);
        client.touch(srv.mono_ms());
    }
}

/// Counts applied commands; `last` is the unit with the last of them.
pub fn executed(client: &ClientShared, table: &CommandTable, commands: u64, last: &Unit<'_>) {
    client.activity.commands.fetch_add(commands, Ordering::Relaxed);
    client.activity.db.store(last.db(), Ordering::Relaxed);
    if let Some(cmd) = table.find_logged(last_word(last)) {
        client.activity.last_command.store(cmd.number as u32 + 1, Ordering::Relaxed);
    }
}

/// The number of commands that a unit counts as.
pub fn commands_in(unit: &Unit<'_>) -> u64 {
    unit.len().max(1) as u64
}

fn last_word<'a>(unit: &Unit<'a>) -> &'a [u8] {
    match (unit.kind(), unit.len()) {
        (Kind::Write, 1) => unit.arg(0, 0),
        (Kind::Write, _) => b"exec",
        // The name follows the count of words and its length. A malformed request needs no name.
        (Kind::Nothing | Kind::GetAck | Kind::AskPromise, _) => {
            let mut lines = unit.bytes().split(|byte| *byte == b'\n');
            lines.nth(2).unwrap_or_default().trim_ascii_end()
        }
    }
}

impl Hub {
    /// Closes the link with this client id; the next attempt begins at once.
    pub fn close_link(&self, client: u64) {
        let state = self.lock();
        let link = state.link.present();
        if let Some(link) = link.filter(|l| l.client.get().is_some_and(|own| own.id == client)) {
            link.close();
        }
    }
}
