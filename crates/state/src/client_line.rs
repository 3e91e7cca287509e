//! A client as a line of `field=value` words: for CLIENT LIST, for the log, and for ACL LOG.
//!
//! Monitoring tools parse these lines, so the fields and their order are those of the reference. A
//! reply buffer of fixed size, which the reference reports as `rbs`, `rbp` and `obl`, does not
//! exist here. Replies not yet sent are `oll` pieces of `omem` bytes. A request that is read and
//! executed in the same iteration is in the thread's buffer, which is not counted for the client.

use crate::clients::{ClientShared, Names};
use crate::command_table::CommandTable;
use crate::held::FIXED;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use weft_memory::holdings::ClientMemoryKind;
use weft_tracking::tracker::Mode;

/// The letters of the field `capa`.
pub fn capabilities(client: &ClientShared) -> &'static str {
    if client.options.redirect_capable.load(Ordering::Relaxed) { "r" } else { "" }
}

/// The letters of the field `flags`; `N` when none is set.
pub fn flags(client: &ClientShared) -> String {
    let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
    let mode = client.tracker().map_or(Mode::OFF, |tracker| tracker.mode());
    let tracks = |bit| mode.has(Mode::ON) && mode.has(bit);
    let letters = [
        ('S', is(&client.replica.is_replica)),
        ('O', is(&client.pushes.monitor)),
        ('M', client.origin.is_primary),
        ('P', client.is_subscriber()),
        ('x', is(&client.transaction.is_open)),
        ('b', is(&client.activity.blocked)),
        ('t', tracks(Mode::ON)),
        ('R', tracks(Mode::BROKEN)),
        ('B', tracks(Mode::BCAST)),
        ('d', client.is_watch_broken()),
        ('c', is(&client.closing)),
        ('A', is(&client.killed)),
        ('U', client.origin.unix),
        ('r', is(&client.options.readonly)),
        ('e', is(&client.options.no_evict)),
        ('T', is(&client.options.no_touch)),
        ('I', is(&client.options.import_source)),
    ];
    let set: String = letters.iter().filter(|(_, on)| *on).map(|(c, _)| *c).collect();
    if set.is_empty() { "N".into() } else { set }
}

/// The client that gets its invalidation messages: 0 for itself, -1 without tracking.
pub fn redirect(client: &ClientShared) -> i64 {
    match client.tracker().filter(|tracker| tracker.mode().has(Mode::ON)) {
        Some(tracker) => tracker.redirect().map_or(0, |id| id as i64),
        None => -1,
    }
}

/// Whether to show values that clients have chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    All,
    Redacted,
}

/// Appends the client's line.
pub fn describe(
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
    let (name, user) = match shown {
        Shown::All => (text(&names.name), text(names.user_name())),
        Shown::Redacted => ("*redacted*".into(), "*redacted*".into()),
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
        redirect(client),
        client.activity.resp.load(Ordering::Relaxed),
        text(&names.lib_name),
        text(&names.lib_version),
        number(&client.activity.net_in),
        number(&client.activity.net_out),
        number(&client.activity.commands),
    );
}
