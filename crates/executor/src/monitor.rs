//! MONITOR: shows every command to the monitoring clients, as a line of text.
//!
//! The line is put into their threads' mailboxes while the command's shards are held, so monitors see
//! two commands on one key in the order of execution.

use crate::dispatch::core::Core;
use crate::dispatch::trace::send_to_monitors;
use std::time::{SystemTime, UNIX_EPOCH};
use weft_resp::Reply;
use weft_state::attention;
use weft_state::command_table::CommandTable;
use weft_state::redact::hide_secrets;
use weft_state::server::Server;
use weft_state::session::Session;

/// Shows one command to all monitors but the client that sent it: see `own`.
#[cold]
pub fn feed(core: &Core, session: &Session, args: &[&[u8]]) {
    core.trace.show(core.srv, session.shared.id, session_line(&core.srv.table, session, args));
}

/// Shows one command of the primary, in database `db`.
#[cold]
pub fn feed_of_primary(srv: &Server, primary: &str, db: usize, args: &[&[u8]]) {
    send_to_monitors(srv, 0, line(&srv.table, primary, db, args));
}

/// Shows a monitor a command that it has sent itself. The line follows the command's reply, so that the
/// client can distinguish the two.
#[cold]
pub fn append_own_command(srv: &Server, session: &Session, args: &[&[u8]], reply: &mut Reply) {
    reply.raw(&session_line(&srv.table, session, args));
}

/// Adds a client to the monitors.
pub fn join(srv: &Server, client: u64, thread: usize) {
    let mut monitors = srv.clients.monitors.lock().unwrap_or_else(|p| p.into_inner());
    monitors.push((client, thread));
    srv.set_attention(attention::MONITOR, true);
}

/// Removes a client from the monitors.
pub fn leave(srv: &Server, client: u64) {
    let mut monitors = srv.clients.monitors.lock().unwrap_or_else(|p| p.into_inner());
    monitors.retain(|(id, _)| *id != client);
    srv.set_attention(attention::MONITOR, !monitors.is_empty());
}

fn session_line(table: &CommandTable, session: &Session, args: &[&[u8]]) -> Vec<u8> {
    let peer = match session.shared.origin.unix {
        _ if session.in_script => "lua".into(),
        true => format!("unix:{}", session.shared.origin.peer.trim_end_matches(":0")),
        false => session.shared.origin.peer.clone(),
    };
    line(table, &peer, session.db, args)
}

/// `+1700000000.123456 [0 127.0.0.1:5000] "get" "key"\r\n`
fn line(table: &CommandTable, peer: &str, db: usize, args: &[&[u8]]) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut out =
        format!("+{}.{:06} [{db} {peer}]", now.as_secs(), now.subsec_micros()).into_bytes();
    let shown = match table.find(args[0]) {
        Some(cmd) => {
            let sub = args.get(1).and_then(|name| cmd.subcommand(name));
            hide_secrets(sub.unwrap_or(cmd), args)
        }
        None => args.to_vec(),
    };
    for arg in shown {
        out.extend_from_slice(b" ");
        quote(arg, &mut out);
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// Appends `bytes` in double quotes, with the escapes that `valkey-cli` accepts as input.
pub fn quote(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for b in bytes {
        match b {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', *b]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            7 => out.extend_from_slice(b"\\a"),
            8 => out.extend_from_slice(b"\\b"),
            0x20..=0x7e => out.push(*b),
            other => out.extend_from_slice(format!("\\x{other:02x}").as_bytes()),
        }
    }
    out.push(b'"');
}
