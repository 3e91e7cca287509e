//! CLIENT LIST and INFO: see [`weft_state::client_line`].

use crate::commands::connection::client::filter::Filter;
use std::sync::atomic::Ordering;
use weft_commands::CmdResult;
use weft_executor::dispatch::core::ConnCx;
use weft_state::client_line::{Shown, describe};
use weft_state::clients::ClientShared;
use weft_state::server::Server;

pub fn list(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.weigh_args()?;
    let filter = Filter::parse(&cx.args[2..], cx.srv(), false)?;
    renew_own(cx);
    let (me, now_ms) = (cx.session.shared.id, cx.srv().mono_ms());
    let mut lines = Vec::new();
    for client in cx.srv().clients.registry.all() {
        if filter.fits(&client, me, now_ms) {
            describe(&client, &cx.srv().table, now_ms, Shown::All, &mut lines);
        }
    }
    cx.reply.verbatim("txt", &lines);
    Ok(())
}

pub fn info(cx: &mut ConnCx<'_>) -> CmdResult {
    renew_own(cx);
    let mut line = Vec::new();
    describe(&cx.session.shared, &cx.srv().table, cx.srv().mono_ms(), Shown::All, &mut line);
    cx.reply.verbatim("txt", &line);
    Ok(())
}

/// Clients publish their state once per batch. Publish the caller's now, so that it sees its own
/// last changes.
fn renew_own(cx: &mut ConnCx<'_>) {
    let shared = &cx.session.shared;
    let table = &cx.srv().table;
    let this = table.all().iter().find(|c| c.full_name == cx.name);
    shared.activity.last_command.store(this.map_or(0, |c| c.number as u32 + 1), Ordering::Relaxed);
    shared.activity.last_ms.store(cx.srv().mono_ms(), Ordering::Relaxed);
    shared.activity.db.store(cx.session.db as u32, Ordering::Relaxed);
    let argv: usize = cx.args.iter().map(|a| a.len()).sum();
    shared.input.argv.store(argv as u64, Ordering::Relaxed);
    shared.input.len.store(on_the_wire(cx.args) as u64, Ordering::Relaxed);
    cx.session.replies.counted_own_request = true;
}

/// The bytes of a request on the wire.
fn on_the_wire(args: &[&[u8]]) -> usize {
    const BREAKS: usize = 2 * "\r\n".len();
    let header = |n: usize| 1 + n.max(1).ilog10() as usize + 1;
    let words = args.iter().map(|arg| header(arg.len()) + arg.len() + BREAKS);
    header(args.len()) + "\r\n".len() + words.sum::<usize>()
}

/// The line for the log: without names, unless `hide-user-data-from-log` is off.
pub fn logged_line(srv: &Server, client: &ClientShared) -> String {
    let shown = if srv.settings().log.hide_user_data { Shown::Redacted } else { Shown::All };
    let mut line = Vec::new();
    describe(client, &srv.table, srv.mono_ms(), shown, &mut line);
    String::from_utf8_lossy(&line).trim_end().into()
}
