//! The path of one request: checks, guard, function, account.

use crate::commandlog::{LogEntry, LogKind, cut_args};
use crate::dispatch::guarded::{Ran, run_fast};
use crate::dispatch::table::{Cmd, Run};
use crate::dispatch::{ConnCx, Core, transaction};
use crate::io::{ReplyMode, Session};
use crate::pause::PauseMode;
use crate::server::attention;
use std::sync::atomic::Ordering;
use weft_commands::{CmdResult, Error, Flags, error};
use weft_keyspace::{Busy, Key};
use weft_resp::{Blob, Reply};

/// A request, ready to be executed.
#[derive(Debug)]
pub struct Request<'a> {
    pub cmd: Option<&'static Cmd>,
    pub args: &'a [&'a [u8]],
    pub blobs: &'a [(usize, Blob)],
    /// The first key, when the plan has hashed one.
    pub key: Option<Key<'a>>,
}

/// How an execution ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Done,
    /// A shard was not free: nothing has happened, try again when it is.
    Busy(Busy),
    /// CLIENT PAUSE holds the command back: nothing has happened.
    Paused,
    /// It is too much for this thread: nothing has happened, the slow lane is to run it.
    Slow,
    /// The client waits for a key; its session knows the details.
    Blocked,
}

const NO_AUTH: Error = Error::new("NOAUTH Authentication required.");
const OOM: Error = Error::new("OOM command not allowed when used memory > 'maxmemory'.");

/// Executes one request and appends its reply.
#[inline]
pub fn execute(
    core: &mut Core,
    session: &mut Session,
    request: &Request<'_>,
    reply: &mut Reply,
) -> Flow {
    let mark = reply.mark();
    let mode = session.reply_mode;
    if mode == ReplyMode::SkipNext {
        session.reply_mode = ReplyMode::Skipping;
    }
    let flow = match request.cmd {
        Some(cmd) => match admit(core, session, cmd, request) {
            Ok(None) if session.transaction.is_some() && !runs_in_multi(cmd) => {
                queue(session, cmd, request, reply)
            }
            Ok(None) => run(core, session, cmd, request, reply),
            Ok(Some(held_back)) => held_back,
            Err(e) => reject(core, session, cmd, reply, e),
        },
        // A browser that was led here by a malicious page speaks HTTP: hang up without a word.
        None if is_http(request.args[0]) => {
            session.close = true;
            Flow::Done
        }
        None => {
            let unknown = unknown_command(request.args);
            let error = if session.authenticated { unknown } else { NO_AUTH };
            fail_transaction(session);
            refuse(core, reply, &error);
            Flow::Done
        }
    };
    if mode != ReplyMode::On {
        suppress(session, mode, flow, reply, mark);
    }
    flow
}

/// Commands that are executed at once even between MULTI and EXEC.
fn runs_in_multi(cmd: &Cmd) -> bool {
    match cmd.run {
        Run::Exec | Run::Watch => true,
        Run::Data { .. } => false,
        Run::Server(_) => matches!(cmd.spec.name, "multi" | "discard" | "quit" | "reset"),
    }
}

#[cold]
fn queue(
    session: &mut Session,
    cmd: &'static Cmd,
    request: &Request<'_>,
    reply: &mut Reply,
) -> Flow {
    if let Some(transaction) = &mut session.transaction {
        transaction.push(cmd, request);
    }
    transaction::renew_shared(session);
    reply.simple("QUEUED");
    Flow::Done
}

/// A command was refused before it was run: EXEC will be, too.
fn fail_transaction(session: &mut Session) {
    if let Some(transaction) = &mut session.transaction {
        transaction.failed = true;
    }
}

#[cold]
fn reject(
    core: &Core,
    session: &mut Session,
    cmd: &'static Cmd,
    reply: &mut Reply,
    e: Error,
) -> Flow {
    core.stats().commands[cmd.number].rejected.add(1);
    fail_transaction(session);
    let e = match cmd.run {
        Run::Exec => {
            transaction::discard(session);
            let why = e.0.strip_prefix(b"ERR ").unwrap_or(&e.0);
            Error::owned([b"EXECABORT Transaction discarded because of: ", why].concat())
        }
        Run::Data { .. } | Run::Server(_) | Run::Watch => e,
    };
    refuse(core, reply, &e);
    Flow::Done
}

/// CLIENT REPLY OFF and SKIP: drops what the command answered.
#[cold]
fn suppress(
    session: &mut Session,
    mode: ReplyMode,
    flow: Flow,
    reply: &mut Reply,
    mark: weft_resp::reply::Mark,
) {
    if flow != Flow::Done {
        session.reply_mode = mode;
        return;
    }
    match session.reply_mode {
        // CLIENT REPLY ON and RESET answer, whatever was in force before them.
        ReplyMode::On => {}
        ReplyMode::Skipping => {
            session.reply_mode = ReplyMode::On;
            reply.truncate(mark);
        }
        ReplyMode::Off | ReplyMode::SkipNext => reply.truncate(mark),
    }
}

#[cold]
pub fn refuse(core: &Core, reply: &mut Reply, e: &Error) {
    core.stats().error_replies.add(1);
    core.srv.count_error(&e.0);
    reply.error(&e.0);
}

#[cold]
fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

#[cold]
fn unknown_command(args: &[&[u8]]) -> Error {
    let mut shown = Vec::new();
    for arg in &args[1..] {
        let room = SHOWN.saturating_sub(shown.len());
        if room == 0 {
            break;
        }
        shown.push(b'\'');
        shown.extend_from_slice(head(arg, room));
        shown.extend_from_slice(b"' ");
    }
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(head(args[0], SHOWN));
    text.extend_from_slice(b"', with args beginning with: ");
    text.extend(shown);
    Error::owned(text)
}

/// Bytes of a name, and of all arguments together, that an error message shows.
const SHOWN: usize = 128;

/// The first `room` bytes of `arg`, as far as the first NUL: the reference prints C strings.
fn head(arg: &[u8], room: usize) -> &[u8] {
    let end = arg.iter().take(room).position(|b| *b == 0).unwrap_or(arg.len().min(room));
    &arg[..end]
}

/// What must hold before a command may run. `Ok(Some(_))`: not now.
#[inline]
fn admit(
    core: &mut Core,
    session: &mut Session,
    cmd: &'static Cmd,
    request: &Request<'_>,
) -> Result<Option<Flow>, Error> {
    // Before all else: a stranger learns nothing of the commands.
    if !session.authenticated
        && !cmd.spec.flags.has(Flags::NO_AUTH)
        // The password may have been taken away since the client came.
        && !core.settings.password.is_empty()
    {
        return Err(NO_AUTH);
    }
    if !cmd.spec.fits(request.args.len()) {
        return Err(error::wrong_arity(cmd.full_name));
    }
    // COMMAND alone is a command too; other containers have an arity that forbids it.
    if !cmd.subcommands.is_empty() && request.args.len() > 1 {
        return Err(unknown_subcommand(cmd, request.args[1]));
    }
    if session.transaction.is_some() && cmd.spec.flags.has(Flags::NO_MULTI) {
        return Err(Error::owned(format!(
            "ERR Command '{}' not allowed inside a transaction",
            cmd.full_name
        )));
    }
    match core.srv.attention.load(Ordering::Relaxed) {
        0 => Ok(None),
        bits => admit_with_care(core, session, cmd, bits),
    }
}

#[cold]
fn unknown_subcommand(cmd: &Cmd, name: &[u8]) -> Error {
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend_from_slice(head(name, SHOWN));
    text.extend_from_slice(b"'. Try ");
    text.extend(cmd.spec.name.bytes().map(|b| b.to_ascii_uppercase()));
    text.extend_from_slice(b" HELP.");
    Error::owned(text)
}

fn admit_with_care(
    core: &mut Core,
    session: &Session,
    cmd: &'static Cmd,
    bits: u32,
) -> Result<Option<Flow>, Error> {
    let flags = transaction::flags_of(session, cmd);
    if bits & attention::PAUSED != 0
        && let Some((mode, _)) = core.srv.pause.in_force(core.turn.now_ms)
    {
        let held = match mode {
            PauseMode::All => true,
            PauseMode::Write => flags.has(Flags::WRITE.or(Flags::MAY_REPLICATE)),
        };
        if held {
            return Ok(Some(Flow::Paused));
        }
    }
    if bits & attention::MAXMEMORY != 0
        && !crate::eviction::make_room(core)
        && flags.has(Flags::DENYOOM)
    {
        core.srv.totals.oom_errors.fetch_add(1, Ordering::Relaxed);
        return Err(OOM);
    }
    Ok(None)
}

#[inline]
fn run(
    core: &mut Core,
    session: &mut Session,
    cmd: &'static Cmd,
    request: &Request<'_>,
    reply: &mut Reply,
) -> Flow {
    weft_process::crash::set_current_command(&cmd.full_name);
    let mark = reply.mark();
    let result = match cmd.run {
        Run::Data { lock, run } => {
            match run_fast(core, session, cmd, (lock, run), request, reply) {
                Ran::Ended(result) => result,
                Ran::Not(flow) => return flow,
            }
        }
        Run::Server(run) => run_server(core, session, cmd, run, request, reply),
        Run::Exec => {
            let flow = transaction::exec(core, session, cmd, request, reply);
            transaction::renew_shared(session);
            return flow;
        }
        Run::Watch => match transaction::watch(core, session, request) {
            Ok(()) => {
                transaction::renew_shared(session);
                reply.ok();
                Ok(())
            }
            Err(busy) => return Flow::Busy(busy),
        },
    };
    if let Err(e) = &result {
        reply.truncate(mark);
        refuse(core, reply, e);
    }
    account_since(core, session, cmd, request, reply, mark, result.is_err());
    if session.monitor && is_monitored(cmd) {
        crate::monitor::own(core.srv, session, request.args, reply);
    }
    Flow::Done
}

fn run_server(
    core: &mut Core,
    session: &mut Session,
    cmd: &'static Cmd,
    run: fn(&mut ConnCx<'_>) -> CmdResult,
    request: &Request<'_>,
    reply: &mut Reply,
) -> CmdResult {
    let args = request.args;
    let (name, guard) = (cmd.full_name, None);
    let shown = session.transaction.is_some() || session.watched.is_some();
    let result = run(&mut ConnCx { core, session, args, reply, name, guard });
    // Afterwards, as the line tells the database that SELECT has chosen.
    feed_monitors(core, session, cmd, args);
    // CONFIG SET is in force for what follows it in the same pipeline.
    core.renew_settings();
    if shown || session.transaction.is_some() {
        transaction::renew_shared(session);
    }
    result
}

/// Whether MONITOR shows the command.
fn is_monitored(cmd: &Cmd) -> bool {
    !cmd.spec.flags.has(Flags::SKIP_MONITOR.or(Flags::ADMIN))
}

#[inline]
pub fn feed_monitors(core: &Core, session: &Session, cmd: &Cmd, args: &[&[u8]]) {
    if core.srv.attention.load(Ordering::Relaxed) & attention::MONITOR != 0 && is_monitored(cmd) {
        crate::monitor::feed(core.srv, session, args);
    }
}

/// Counts a command that was executed in another's time.
pub fn count(core: &Core, cmd: &'static Cmd, failed: bool) {
    let stats = &core.stats().commands[cmd.number];
    stats.calls.add(1);
    stats.failed.add(u64::from(failed));
}

/// Counts a command that consisted of others, which began at the tick `from`.
pub fn count_since(core: &Core, cmd: &'static Cmd, from: u64) {
    count(core, cmd, false);
    let ns = core.srv.clock.delta_as_nanos(from, core.last_tick);
    core.stats().commands[cmd.number].ns.add(ns);
}

/// As [`account_since`], for a reply that is the command's alone.
pub fn account(
    core: &mut Core,
    session: &Session,
    cmd: &'static Cmd,
    request: &Request<'_>,
    reply: &Reply,
    failed: bool,
) {
    account_since(core, session, cmd, request, reply, Reply::default().mark(), failed);
}

/// Counts the command and logs it when it was slow or large.
#[inline]
pub fn account_since(
    core: &mut Core,
    session: &Session,
    cmd: &'static Cmd,
    request: &Request<'_>,
    reply: &Reply,
    mark: weft_resp::reply::Mark,
    failed: bool,
) {
    let now = core.srv.clock.raw();
    let ns = core.srv.clock.delta_as_nanos(core.last_tick, now);
    core.last_tick = now;
    let stats = &core.stats().commands[cmd.number];
    stats.calls.add(1);
    stats.ns.add(ns);
    if failed {
        stats.failed.add(1);
    }
    let settings = &core.settings;
    if settings.latency_tracking {
        stats.latency.get_or_init(Default::default).record(ns);
    }
    let us = (ns / 1000) as i64;
    let slow = settings.slow_us >= 0 && us >= settings.slow_us;
    let monitor = core.srv.latency.threshold_ms();
    if slow || (monitor > 0 && us / 1000 >= monitor) {
        note_slow(core, session, cmd, request, us, slow);
    }
    let replied = reply.len_since(mark) as i64;
    if settings.large_reply >= 0 && replied > settings.large_reply {
        log(core, session, cmd, request, LogKind::LargeReply, replied);
    }
    if settings.large_request >= 0 {
        let asked: usize = request.args.iter().map(|a| a.len()).sum();
        if asked as i64 > settings.large_request {
            log(core, session, cmd, request, LogKind::LargeRequest, asked as i64);
        }
    }
}

#[cold]
fn note_slow(
    core: &Core,
    session: &Session,
    cmd: &'static Cmd,
    request: &Request<'_>,
    us: i64,
    slow: bool,
) {
    let event = if cmd.spec.flags.has(Flags::FAST) { "fast-command" } else { "command" };
    core.srv.latency.sample(event, us / 1000, core.turn.now_ms / 1000);
    if slow {
        log(core, session, cmd, request, LogKind::Slow, us);
    }
}

#[cold]
fn log(
    core: &Core,
    session: &Session,
    cmd: &'static Cmd,
    request: &Request<'_>,
    kind: LogKind,
    value: i64,
) {
    if cmd.spec.flags.has(Flags::SKIP_COMMANDLOG) {
        return;
    }
    let entry = LogEntry {
        id: 0,
        time_s: core.turn.now_ms / 1000,
        value,
        args: cut_args(&crate::redact::hide_secrets(cmd, request.args)),
        peer: session.shared.peer.clone(),
        name: session.shared.names().name.clone(),
    };
    core.srv.commandlog.push(kind, entry);
}
