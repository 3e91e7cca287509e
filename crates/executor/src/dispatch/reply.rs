//! Fifth stage, after the shards were released: complete the reply, count and log the command, and free the objects
//! that it removed.

use crate::cluster::slot_stats;
use crate::dispatch::core::Core;
use crate::dispatch::outcome::{Flow, Outcome};
use crate::dispatch::request::{Request, Task};
use crate::transaction;
use weft_command_spec::Flags;
use weft_commands::{CmdResult, Error};
use weft_resp::Reply;
use weft_resp::reply::Mark;
use weft_state::clients::ClientShared;
use weft_state::command_table::Cmd;
use weft_state::commandlog::{LogEntry, LogKind, cut_args, cut_name};
use weft_state::session::Session;
use weft_state::stats::Histogram;
use weft_state::waiting::Waiting;

/// Ends the execution of a request.
#[inline(always)]
pub fn finish(task: Task<'_>, outcome: Outcome) -> Flow {
    let Task { core, session, request, cmd, reply, mark, .. } = task;
    core.free_deferred();
    match outcome {
        Outcome::Suspended(suspend) => return Err(suspend),
        Outcome::Killed => {}
        Outcome::Ended(result) => {
            finish_one(core, session, cmd, request, reply, (mark, mark), &result);
            if core.settings.log.counts_slots {
                slot_stats::count_bytes(core, session, cmd, request, (reply, mark));
            }
            if session.pushes.monitor && !cmd.spec.flags.has(Flags::SKIP_MONITOR.or(Flags::ADMIN)) {
                crate::monitor::append_own_command(core.srv, session, request.args, reply);
            }
        }
        Outcome::EndedInParts { from } => {
            transaction::discard(core.srv, session);
            transaction::renew_shared(session);
            count(core, cmd, false);
            if core.settings.log.counts_slots {
                slot_stats::count_exec(core, session, request, (reply, mark));
            }
            let ns = core.srv.process.time.clock.delta_as_nanos(from, core.last_tick);
            core.stats().commands[cmd.number].ns.add(ns);
        }
    }
    Ok(())
}

/// Completes the reply of one command, which begins at `mark`, and counts the command. The reply of the whole request
/// begins at `begin`: in a transaction, replies of other commands precede this one.
#[inline(always)]
pub fn finish_one(
    core: &mut Core,
    session: &Session,
    cmd: &'static Cmd,
    request: &Request<'_>,
    reply: &mut Reply,
    (begin, mark): (Mark, Mark),
    result: &CmdResult,
) {
    if let Err(e) = result {
        reply.truncate(mark);
        refuse(core, reply, e);
    }
    account(core, session, cmd, request, reply, begin, result.is_err());
}

/// As [`finish_one`], for a command of a script. Doesn't count an error, since the run may be undone. Returns the
/// command's nanoseconds.
pub fn finish_called(
    core: &mut Core,
    session: &Session,
    cmd: &'static Cmd,
    request: &Request<'_>,
    reply: &mut Reply,
    mark: Mark,
    result: &CmdResult,
) -> u64 {
    if let Err(e) = result {
        reply.truncate(mark);
        reply.error(&e.0);
    }
    account(core, session, cmd, request, reply, mark, result.is_err())
}

/// Counts an error, and appends it as the reply.
#[cold]
pub fn refuse(core: &Core, reply: &mut Reply, e: &Error) {
    count_error(core, e);
    reply.error(&e.0);
}

#[cold]
pub fn count_error(core: &Core, e: &Error) {
    core.stats().errors.replies.add(1);
    core.srv.count_error(&e.0);
}

/// Counts a command without its duration, which was measured as part of another command.
pub fn count(core: &Core, cmd: &'static Cmd, failed: bool) {
    let stats = &core.stats().commands[cmd.number];
    stats.calls.add(1);
    stats.failed.add(u64::from(failed));
}

/// Counts a command whose client was blocked and has its reply now, or has failed. Logs it if it was slow or large.
/// `ns`: the time spent on it, without the wait.
pub fn count_waited(core: &Core, waiting: &Waiting, ns: u64, reply: &Reply, failed: bool) {
    let cmd = waiting.cmd;
    count(core, cmd, failed);
    let stats = &core.stats().commands[cmd.number];
    stats.ns.add(ns);
    let settings = &core.settings;
    if settings.log.latency_tracking {
        stats.latency.get_or_init(|| new_histogram(core)).record(ns);
    }
    if settings.log.counts_slots {
        slot_stats::count_waited(core, waiting, ns, reply);
    }
    // At least as many bytes as an argument's header and line end take on the wire.
    const HEAD: usize = 32;
    let bytes: usize = waiting.args.iter().map(|arg| arg.bytes().len() + HEAD).sum();
    let is_notable = ns >= settings.log.slow_ns
        || reply.len() >= settings.log.large_reply
        || bytes + HEAD >= settings.log.large_request;
    if is_notable {
        log_waited(core, waiting, ns, reply);
    }
}

/// Adds a command of a blocked client to each log whose threshold it exceeds.
#[cold]
fn log_waited(core: &Core, waiting: &Waiting, ns: u64, reply: &Reply) {
    let (settings, cmd) = (&core.settings, waiting.cmd);
    let args = waiting.client_args();
    let request_bytes = Request::new(Some(cmd), &args, &[]).bytes();
    let log = |kind, value| log(core, &waiting.shared, cmd, &args, kind, value);
    if ns >= settings.log.slow_ns {
        log(LogKind::Slow, (ns / 1000) as i64);
    }
    if reply.len() >= settings.log.large_reply && !waiting.context.drops_reply {
        log(LogKind::LargeReply, reply.len() as i64);
    }
    if request_bytes >= settings.log.large_request {
        log(LogKind::LargeRequest, request_bytes as i64);
    }
}

/// The first histogram of a command on this thread.
#[cold]
fn new_histogram(core: &Core) -> Histogram {
    core.srv.memory.add_statistics(Histogram::BYTES);
    Histogram::default()
}

/// Counts the command, and logs it if it was slow or large. Returns its nanoseconds.
#[inline(always)]
fn account(
    core: &mut Core,
    session: &Session,
    cmd: &'static Cmd,
    request: &Request<'_>,
    reply: &Reply,
    begin: Mark,
    failed: bool,
) -> u64 {
    let now = core.srv.process.time.clock.raw();
    let ns = core.srv.process.time.clock.delta_as_nanos(core.last_tick, now);
    core.last_tick = now;
    let stats = &core.stats().commands[cmd.number];
    stats.calls.add(1);
    stats.ns.add(ns);
    if failed {
        stats.failed.add(1);
    }
    let settings = &core.settings;
    if settings.log.latency_tracking {
        stats.latency.get_or_init(|| new_histogram(core)).record(ns);
    }
    if settings.log.counts_slots {
        slot_stats::count_time(core, cmd, request, ns);
    }
    if ns >= settings.log.notable_ns {
        note_slow(core, session, cmd, request, ns);
    }
    let replied = reply.len_since(begin);
    if replied >= settings.log.large_reply
        && is_large(session, reply, replied, settings.log.large_reply)
    {
        log_request(core, session, cmd, request, LogKind::LargeReply, replied as i64);
    }
    if request.bytes_at_most >= settings.log.large_request {
        note_large(core, session, cmd, request);
    }
    ns
}

/// Whether the client gets a large reply. Of the `replied` bytes, CLIENT REPLY may drop all but the pushes.
#[cold]
fn is_large(session: &Session, reply: &Reply, replied: usize, limit: usize) -> bool {
    let dropped = match session.replies.keep {
        _ if !session.replies.mode.drops() => 0,
        Some(keep) => reply.len_since(keep),
        None => replied,
    };
    replied - dropped.min(replied) >= limit
}

/// Logs a request if its exact size exceeds the limit for large requests.
#[cold]
fn note_large(core: &Core, session: &Session, cmd: &'static Cmd, request: &Request<'_>) {
    let bytes = request.bytes();
    if bytes >= core.settings.log.large_request {
        log_request(core, session, cmd, request, LogKind::LargeRequest, bytes as i64);
    }
}

/// Adds a long command to the latency monitor, and logs it if it was slow.
#[cold]
fn note_slow(core: &Core, session: &Session, cmd: &'static Cmd, request: &Request<'_>, ns: u64) {
    let us = (ns / 1000) as i64;
    let event = if cmd.spec.flags.has(Flags::FAST) { "fast-command" } else { "command" };
    core.trace.sample(core.srv, event, us / 1000, core.context.now_ms / 1000);
    if ns >= core.settings.log.slow_ns {
        log_request(core, session, cmd, request, LogKind::Slow, us);
    }
}

/// Logs a request with the arguments that its client sent: after a block, a command may run with other arguments.
#[cold]
fn log_request(
    core: &Core,
    session: &Session,
    cmd: &'static Cmd,
    request: &Request<'_>,
    kind: LogKind,
    value: i64,
) {
    let asked = request.attempt.retry.as_ref().map(|waiting| waiting.client_args());
    let args = asked.as_deref().unwrap_or(request.args);
    log(core, &session.shared, cmd, args, kind, value);
}

#[cold]
fn log(
    core: &Core,
    client: &ClientShared,
    cmd: &'static Cmd,
    args: &[&[u8]],
    kind: LogKind,
    value: i64,
) {
    if cmd.spec.flags.has(Flags::SKIP_COMMANDLOG) {
        return;
    }
    let entry = LogEntry {
        id: 0,
        time_s: core.context.now_ms / 1000,
        value,
        args: cut_args(&weft_state::redact::hide_secrets(cmd, args)),
        peer: client.origin.peer.clone(),
        name: client.with_names(|names| cut_name(&names.name)),
    };
    core.trace.log(core.srv, kind, entry);
}
