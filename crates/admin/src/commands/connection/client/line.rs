//! CLIENT LIST and INFO: a client as a line of `field=value` words.
//!
//! Monitoring tools parse these lines, so the fields and their order are those of the reference. A
//! reply buffer of fixed size, which the reference reports as `rbs`, `rbp` and `obl`, does not
//! exist here. Replies not yet sent are `oll` pieces of `omem` bytes. A request that is read and
//! executed in the same iteration is in the thread's buffer, which is not counted for the client.

use crate::commands::connection::auth::DEFAULT_USER;
use crate::commands::connection::client::filter::Filter;
use crate::commands::connection::client::flags::{capabilities, flags};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_commands::CmdResult;
use weft_executor::dispatch::core::ConnCx;
use weft_memory::holdings::ClientMemoryKind;
use weft_state::clients::{ClientShared, Names};
use weft_state::command_table::CommandTable;
use weft_state::held::FIXED;
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

/// The user that runs the commands of our primary.
const SUPERUSER: &str = "(superuser)";

/// Whether to show values that clients have chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    All,
    Redacted,
}

/// Appends the client's line.
fn describe(
    client: &ClientShared,
    table: &CommandTable,
    now_ms: i64,
    shown: Shown,
    out: &mut Vec<u8>,
) {
    client.with_names(|names| describe_named(client, names, table, now_ms, shown, out));
}

fn describe_named(
    client: &ClientShared,
    names: &Names,
    table: &CommandTable,
    now_ms: i64,
    shown: Shown,
    out: &mut Vec<u8>,
) {
    let number = |n: &AtomicU64| n.load(Ordering::Relaxed);
    let text = |t: &[u8]| String::from_utf8_lossy(t).into_owned();
    let user = if client.origin.is_primary { SUPERUSER } else { DEFAULT_USER };
    let (name, user) = match shown {
        Shown::All => (text(&names.name), user),
        Shown::Redacted => ("*redacted*".into(), "*redacted*"),
    };
    let output = number(&client.output.bytes);
    let (argv, queue) =
        (number(&client.input.argv), client.memory.holdings.of(ClientMemoryKind::Queue));
    // The arguments of an incomplete request are part of the input's memory.
    let input = number(&client.input.room).max(argv);
    let total = output + input + client.memory.holdings.total() + FIXED as u64;
    let last = (client.activity.last_command.load(Ordering::Relaxed) as usize).checked_sub(1);
    let last = last.and_then(|n| table.all().get(n)).map_or("NULL", |c| c.full_name);
    // Writing to a vector can't fail.
    let _ = writeln!(
        out,
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} capa={} db={} sub={} psub={} \
         ssub={} multi={} watch={} qbuf={} qbuf-free={} argv-mem={argv} multi-mem={queue} rbs=0 rbp=0 \
         obl=0 oll={} omem={output} tot-mem={total} events={} cmd={last} user={user} \
         redir={} resp={} lib-name={} lib-ver={} tot-net-in={} tot-net-out={} tot-cmds={}",
        client.id,
        client.origin.peer,
        client.origin.local,
        client.origin.fd,
        name,
        (now_ms - client.origin.created_ms).max(0) / 1000,
        client.idle_seconds(now_ms),
        flags(client),
        capabilities(client),
        client.activity.db.load(Ordering::Relaxed),
        client.pushes.subscriptions.channels.load(Ordering::Relaxed),
        client.pushes.subscriptions.patterns.load(Ordering::Relaxed),
        client.pushes.subscriptions.shards.load(Ordering::Relaxed),
        client.transaction.queued.load(Ordering::Relaxed),
        if client.is_watch_broken() { 0 } else { number(&client.transaction.watched) },
        number(&client.input.len),
        number(&client.input.free),
        if output > 0 { number(&client.output.pieces) } else { 0 },
        if output > 0 { "rw" } else { "r" },
        crate::commands::connection::client::tracking::redirect(client),
        client.activity.resp.load(Ordering::Relaxed),
        text(&names.lib_name),
        text(&names.lib_version),
        number(&client.activity.net_in),
        number(&client.activity.net_out),
        number(&client.activity.commands),
    );
}
