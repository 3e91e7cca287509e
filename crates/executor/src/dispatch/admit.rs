//! First stage: may this request run, and may it run now?
//!
//! Checks that need no shards: authentication, arity, pauses, `maxmemory`, the server's role. A request between
//! MULTI and EXEC is queued here. Next: [`crate::dispatch::hold`].

use crate::access;
use crate::authority;
use crate::cluster::{self, Served};
use crate::dispatch::core::Core;
use crate::dispatch::outcome::{Flow, Suspend};
use crate::dispatch::paused::is_request_paused;
use crate::dispatch::refusals::{
    LOADING, OOM, READ_ONLY, SHOWN, UNSAVED, aborted, check_protection, head, is_refused_write,
    restricted, unknown_subcommand,
};
use crate::dispatch::reply::refuse;
use crate::dispatch::request::{Request, Task};
use crate::dispatch::snapshot;
use crate::dispatch::{absent, busy, hold, messages, run};
use crate::pubsub;
use crate::script::resolve;
use crate::transaction;
use std::sync::atomic::Ordering;
use weft_command_spec::Flags;
use weft_commands::{Error, Lane, error};
use weft_keyspace::{Classes, Inside};
use weft_resp::Reply;
use weft_resp::reply::Mark;
use weft_state::attention;
use weft_state::command_table::{Cmd, Need, Run};
use weft_state::session::{ReplyMode, Session};

const FEW_REPLICAS: Error = Error::new("NOREPLICAS Not enough good replicas to write.");
const PRIMARY_DOWN: Error =
    Error::new("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.");

/// Executes one request on an I/O thread and appends its reply.
#[inline]
pub fn execute(
    core: &mut Core,
    inside: &mut Inside<'static>,
    session: &mut Session,
    request: &Request<'_>,
    reply: &mut Reply,
) -> Flow {
    let mark = reply.mark();
    let mode = session.replies.mode;
    if mode == ReplyMode::SkipNext {
        session.replies.mode = ReplyMode::Skipping;
    }
    let flow = match request.cmd {
        Some(cmd) => {
            // A retry serves a blocked client.
            let lane = if request.attempt.retry.is_some() { Lane::Served } else { Lane::Fast };
            let reply = &mut *reply;
            let mut task =
                Task { core: &mut *core, session: &mut *session, request, cmd, reply, mark, lane };
            match admit(&mut task, inside) {
                Ok(None)
                    if task.session.transaction.is_some()
                        && !cmd.spec.flags.has(Flags::RUNS_IN_MULTI) =>
                {
                    queue(task)
                }
                Ok(None) => hold::hold(task, inside),
                Ok(Some(Suspend::InTransit)) => hold::hold_in_transit(task, inside),
                Ok(Some(suspend)) => {
                    cluster::keep_asking(task.session);
                    Err(suspend)
                }
                Err(e) => reject(task, e),
            }
        }
        // HTTP, possibly a browser that a malicious page directs here: close without a reply.
        None if is_http(request.args[0]) => {
            core.srv.warn_about_http(&session.shared.origin.peer);
            session.close = true;
            Ok(())
        }
        None => {
            let error = match access::check_login(core, session, Flags::NONE) {
                Err(e) => e,
                Ok(()) => match absent::command(request.args[0], core.srv.is_in_cluster()) {
                    Some(_) if session.is_restricted() => {
                        restricted(&request.args[0].to_ascii_lowercase())
                    }
                    Some(absent) => absent,
                    None => unknown_command(request.args),
                },
            };
            fail_transaction(session);
            cluster::end_asking(session);
            if let Some(own) = &mut session.pushes.tracks {
                own.begin(false, session.transaction.is_some());
            }
            if session.pushes.listens {
                pubsub::append_messages(core, session, reply);
            }
            refuse(core, reply, &error);
            Ok(())
        }
    };
    let flow = match flow {
        Err(suspend) => answer_if_busy(core, session, request, reply, mark, suspend),
        Ok(()) => Ok(()),
    };
    if mode != ReplyMode::On {
        suppress(session, mode, &flow, reply, mark);
    }
    flow
}

#[cold]
fn queue(mut task: Task<'_>) -> Flow {
    let mut flags = task.cmd.spec.flags;
    if let Run::Script(command) = task.cmd.run {
        match resolve::check_queued(task.core, task.request.args, command) {
            Ok(true) => {}
            Ok(false) => flags = flags.or(Flags::MAY_REPLICATE),
            Err(e) => return reject(task, e),
        }
    }
    let protection = task.cmd.spec.special.protection;
    if let Err(e) = check_protection(task.core.srv, &task.session.shared, protection) {
        return reject(task, e);
    }
    messages::append_messages(&mut task);
    if let Some(transaction) = &mut task.session.transaction {
        transaction.push(task.cmd, flags, task.request.args, task.request.blobs);
        if task.core.srv.is_in_cluster() {
            let slot = cluster::asked::slot_of_queued(task.cmd, task.request);
            transaction.slot = transaction.slot.and(slot);
        }
    }
    let databases = task.core.srv.ks.databases();
    access::note_queued(task.session, task.cmd, task.request.args, databases);
    transaction::renew_shared(task.session);
    if task.core.settings.log.counts_slots {
        cluster::slot_stats::count_request(task.core, task.session, task.cmd, task.request);
    }
    task.reply.simple("QUEUED");
    Ok(())
}

/// Makes EXEC fail, because a command was refused before it could be queued.
fn fail_transaction(session: &mut Session) {
    if let Some(transaction) = &mut session.transaction {
        transaction.failed = true;
    }
}

#[cold]
fn reject(mut task: Task<'_>, e: Error) -> Flow {
    messages::append_messages(&mut task);
    // The command may have waited for a snapshot before, or a script may have started over.
    (task.session.snapshot_wait, task.session.script) = (None, None);
    // Unknown subcommands are not counted.
    if task.cmd.subcommands.is_empty() || task.request.args.len() < 2 {
        task.core.stats().commands[task.cmd.number].rejected.add(1);
    }
    if task.core.settings.log.counts_slots {
        cluster::slot_stats::count_request(task.core, task.session, task.cmd, task.request);
    }
    fail_transaction(task.session);
    cluster::end_asking(task.session);
    run::show_refused(&task);
    let e = match task.cmd.run {
        Run::Exec => {
            transaction::discard(task.core.srv, task.session);
            transaction::renew_shared(task.session);
            aborted(&e)
        }
        Run::Data { .. } | Run::Server(_) | Run::Watch | Run::Script(_) => e,
    };
    refuse(task.core, task.reply, &e);
    Ok(())
}

/// Answers a command that an I/O thread has suspended, if a busy script is the reason. Otherwise it stays suspended.
#[cold]
fn answer_if_busy(
    core: &mut Core,
    session: &mut Session,
    request: &Request<'_>,
    reply: &mut Reply,
    mark: Mark,
    suspend: Suspend,
) -> Flow {
    let (true, Some(cmd)) = (core.srv.scripts.busy.is_any(), request.cmd) else {
        return Err(suspend);
    };
    let mut task = Task { core, session, request, cmd, reply, mark, lane: Lane::Fast };
    let error = match suspend {
        Suspend::Busy(wait) => busy::error_of_need(&task, &Need::One(wait.shard)),
        Suspend::Slow { has_run: true } if cmd.takes_session() => None,
        Suspend::Slow { .. } => {
            let need = busy::need_of(&mut task);
            busy::error_of_need(&task, &need).or_else(|| busy::error_of_full_lane(&task))
        }
        Suspend::MailboxFull(_) | Suspend::Paused | Suspend::InTransit | Suspend::Blocked(_) => {
            None
        }
    };
    match error {
        Some(error) => reject(task, error),
        None => Err(suspend),
    }
}

/// Applies CLIENT REPLY OFF and SKIP: drops the command's reply, and keeps pushes.
#[cold]
fn suppress(session: &mut Session, mode: ReplyMode, flow: &Flow, reply: &mut Reply, mark: Mark) {
    let mark = session.replies.keep.take().unwrap_or(mark);
    if flow.is_err() {
        session.replies.mode = mode;
        return;
    }
    match session.replies.mode {
        // CLIENT REPLY ON and RESET reply in any mode.
        ReplyMode::On => {}
        ReplyMode::Skipping => {
            session.replies.mode = ReplyMode::On;
            reply.truncate(mark);
        }
        ReplyMode::Off | ReplyMode::SkipNext => reply.truncate(mark),
    }
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

/// Checks whether a command may run. `Ok(Some(_))`: it must wait.
#[inline]
fn admit(task: &mut Task<'_>, inside: &mut Inside<'static>) -> Result<Option<Suspend>, Error> {
    if access::is_free(task.core, task.session) {
        check_form(task)?;
    } else {
        check_rights(task)?;
    }
    let Task { core, session, request, cmd, .. } = task;
    if session.is_restricted() && !cmd.spec.flags.has(Flags::WHILE_SUBSCRIBED) {
        return Err(refuse_restricted(task));
    }
    match core.srv.attention.load(Ordering::Relaxed) {
        0 => Ok(None),
        attention::CLUSTER if cluster::is_served(core, session, request, cmd) => Ok(None),
        attention::CLUSTER_LEASE
            if cluster::is_served(core, session, request, cmd)
                && authority::begin_fast(core, session) =>
        {
            Ok(None)
        }
        bits => admit_with_attention(task, inside, bits),
    }
}

/// The part of [`admit`] for a server that needs attention.
#[inline(never)]
fn admit_with_attention(
    task: &mut Task<'_>,
    inside: &mut Inside<'static>,
    bits: u32,
) -> Result<Option<Suspend>, Error> {
    let Task { core, session, request, cmd, .. } = task;
    let served = match bits & attention::CLUSTER {
        0 => Served::Here,
        _ if cluster::is_served(core, session, request, cmd) => Served::Here,
        _ => cluster::check(core, session, request, cmd)?,
    };
    if served == Served::Soon {
        return Ok(Some(Suspend::Paused));
    }
    if bits & attention::CROWDED != 0
        && request.attempt.retry.is_none()
        && may_publish(core, session, cmd)
        && let Some(thread) = pubsub::crowded_thread(core.srv)
    {
        return Ok(Some(Suspend::MailboxFull(thread)));
    }
    let held_back = check_server_state(core, inside, session, request, cmd, bits)?;
    if bits & attention::SNAPSHOT != 0
        && held_back.is_none()
        && snapshot::holds_back(core, session, request, cmd)
    {
        return Ok(Some(Suspend::Paused));
    }
    // A request that waits while the role goes away is redirected later.
    let changes_role = || held_back.is_some() && authority::has_no_role(core.srv);
    if bits & attention::LEASE != 0 && !changes_role() {
        authority::begin(core, session, request, cmd)?;
    }
    Ok(match served {
        Served::Here | Served::Soon => held_back,
        Served::IfKeysAreHere => held_back.or(Some(Suspend::InTransit)),
    })
}

/// The error of a RESP2 client with subscriptions. If another node serves its command, the client gets the redirect.
#[cold]
fn refuse_restricted(task: &mut Task<'_>) -> Error {
    let Task { core, session, request, cmd, .. } = task;
    let redirect = match core.srv.attention.load(Ordering::Relaxed) & attention::CLUSTER {
        0 => None,
        _ => cluster::check(core, session, request, cmd).err(),
    };
    redirect.unwrap_or_else(|| restricted(cmd.full_name.as_bytes()))
}

/// Checks a request of a user that may not do everything, or that must log in.
///
/// # Errors
/// Those of [`check_form`], NOAUTH, NOPERM.
#[cold]
fn check_rights(task: &mut Task<'_>) -> Result<(), Error> {
    access::check_login(task.core, task.session, task.cmd.spec.flags)?;
    check_form(task)?;
    if !access::is_free(task.core, task.session) {
        access::check(task.core, task.session, task.cmd, task.request.args)?;
    }
    Ok(())
}

/// Checks the number of arguments, the subcommand, and whether a transaction may have the command.
#[inline]
fn check_form(task: &Task<'_>) -> Result<(), Error> {
    let Task { session, request, cmd, .. } = task;
    if !cmd.spec.fits(request.args.len()) {
        return Err(error::wrong_arity(cmd.full_name));
    }
    // COMMAND also runs without a subcommand; the arity of other containers requires one.
    if !cmd.subcommands.is_empty() && request.args.len() > 1 {
        return Err(unknown_subcommand(task.core.srv, session, cmd, request.args));
    }
    if session.transaction.is_some() && cmd.spec.flags.has(Flags::NO_MULTI) {
        return Err(Error::owned(format!(
            "ERR Command '{}' not allowed inside a transaction",
            cmd.full_name
        )));
    }
    Ok(())
}

/// Whether the command may publish messages, and can't wait for a mailbox once it runs: PUBLISH in a transaction,
/// and commands that cause keyspace notifications or invalidations. Ignores reads that remove an expired key,
/// which are rare.
fn may_publish(core: &Core, session: &Session, cmd: &Cmd) -> bool {
    let wanted = core.context.effects.wanted();
    let writes_notify = !wanted.is_none() || core.srv.clients.tracking.clients() > 0;
    let notifies =
        |flags: Flags| writes_notify && flags.has(Flags::WRITE) || wanted.has(Classes::MISS);
    let flags = transaction::flags_of(session, cmd);
    match cmd.run {
        Run::Data { .. } => notifies(flags),
        Run::Exec => notifies(flags) || flags.has(Flags::PUBSUB),
        // It may call any command.
        Run::Script(script) => !script.only_reads,
        Run::Server(_) | Run::Watch => false,
    }
}

/// The part of [`admit`] that depends on the server's state: pauses, its role, loading, memory, persistence.
fn check_server_state(
    core: &mut Core,
    inside: &mut Inside<'static>,
    session: &Session,
    request: &Request<'_>,
    cmd: &'static Cmd,
    bits: u32,
) -> Result<Option<Suspend>, Error> {
    if is_request_paused(core, session, request, cmd) {
        return Ok(Some(Suspend::Paused));
    }
    let flags = transaction::flags_of(session, cmd);
    if bits & attention::REPLICA != 0 {
        if bits & attention::LEASE != 0 {
            authority::check(core, session, request, cmd)?;
        }
        admit_on_replica(core, session, cmd)?;
    }
    if bits & attention::LOADING != 0 && !transaction::all_have(session, cmd, Flags::LOADING) {
        return Err(LOADING);
    }
    core.begin_import(session.options.import_source, flags);
    let ignores_maxmemory =
        bits & attention::REPLICA != 0 && core.settings.replica.ignores_maxmemory;
    if bits & attention::MAXMEMORY != 0
        && !ignores_maxmemory
        && !crate::eviction::make_room(core, inside)
        && flags.has(Flags::DENYOOM)
    {
        core.srv.statistics.totals.oom_errors.fetch_add(1, Ordering::Relaxed);
        return Err(OOM);
    }
    let fails_with_disk = flags.has(Flags::WRITE) || cmd.spec.flags.has(Flags::REPORTS_DISK_ERRORS);
    if bits & attention::AOF_FAILING != 0
        && fails_with_disk
        && let Some(refusal) = core.srv.links.journal.refusal()
    {
        return Err(Error::owned(refusal));
    }
    if bits & attention::UNSAVED != 0 && fails_with_disk {
        return Err(UNSAVED);
    }
    if bits & attention::FEW_REPLICAS != 0 && flags.has(Flags::WRITE) {
        return Err(FEW_REPLICAS);
    }
    Ok(None)
}

/// Checks whether a replica may run a client's command.
///
/// # Errors
/// The command is a write and the replica is read-only, the data may be stale, or a full sync is being loaded.
fn admit_on_replica(core: &Core, session: &Session, cmd: &'static Cmd) -> Result<(), Error> {
    if is_refused_write(core, transaction::flags_of(session, cmd)) {
        return Err(READ_ONLY);
    }
    let published = &core.srv.nodes.replication;
    let is_linked = || published.is_linked.load(Ordering::Relaxed);
    if !core.settings.replica.serves_stale
        && !is_linked()
        && !transaction::all_have(session, cmd, Flags::STALE)
    {
        return Err(PRIMARY_DOWN);
    }
    let loads = || published.loads_async.load(Ordering::Relaxed);
    if transaction::flags_of(session, cmd).has(Flags::NO_ASYNC_LOADING) && loads() {
        return Err(LOADING);
    }
    Ok(())
}
