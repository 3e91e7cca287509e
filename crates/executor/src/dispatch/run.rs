//! Third stage: call the command's function under the shards that it needs.
//!
//! The function replies, fails, or asks to be suspended ([`crate::dispatch::block`]). Next, still under the shards:
//! [`crate::dispatch::commit`].

use crate::access;
use crate::cluster;
use crate::dispatch::call::{Caller, DataFn, call, call_server, feed_monitors};
use crate::dispatch::core::Held;
use crate::dispatch::messages::{append_mail, append_messages};
use crate::dispatch::outcome::{Flow, Outcome, Suspend};
use crate::dispatch::request::{Request, Task};
use crate::dispatch::under::execute_under;
use crate::dispatch::{block, commit, needs, reply};
use crate::script;
use crate::script::functions::changes_functions;
use crate::tracking;
use crate::transaction;
use smallvec::SmallVec;
use std::sync::atomic::Ordering;
use weft_command_spec::Flags;
use weft_keyspace::invalidation::NO_CLIENT;
use weft_keyspace::{Db, Guard, Inside};
use weft_resp::Blob;
use weft_state::args::ArgBuf;
use weft_state::attention;
use weft_state::command_table::Run;
use weft_state::queued::{Queued, Watched};
use weft_state::session::FixedTime;

/// Runs a command on keys.
#[inline]
pub fn data(task: Task<'_>, run: DataFn, guard: Guard<'_>) -> Flow {
    // A separate function, so that the task of other clients is never changed, and needs no copy.
    if task.session.pushes.listens {
        return data_of_listener(task, run, guard);
    }
    data_after_mail(task, run, guard, false)
}

#[cold]
fn data_of_listener(mut task: Task<'_>, run: DataFn, guard: Guard<'_>) -> Flow {
    append_messages(&mut task);
    let Task { core, session, request, cmd, reply, mark, lane } = task;
    let tracks = session.pushes.tracks.is_some();
    core.context.client = session.own_changes();
    let task = Task { core: &mut *core, session, request, cmd, reply, mark, lane };
    let flow = data_after_mail(task, run, guard, tracks);
    core.context.client = NO_CLIENT;
    flow
}

/// As [`data`], after the published messages; `tracks`: the client uses client-side caching.
#[inline(always)]
fn data_after_mail(task: Task<'_>, run: DataFn, guard: Guard<'_>, tracks: bool) -> Flow {
    let Task { core, session, request, cmd, reply, mark, lane } = task;
    weft_process::crash::set_current_command(&cmd.full_name);
    // Under the shards, so that MONITOR shows two commands on one key in their order. A command that was shown before
    // it was suspended is not shown again.
    match &request.attempt.retry {
        None if !request.attempt.has_run => feed_monitors(core, session, cmd, request.args),
        None => {}
        Some(waiting) if block::has_data(core, &guard, waiting) => {}
        Some(waiting) => {
            let task = Task { core, session, request, cmd, reply, mark, lane };
            return block::stay_blocked(task, guard, waiting);
        }
    }
    let seen = (core.context.tally.hits, core.context.tally.misses);
    let caller = Caller { db: session.db, no_touch: session.options.no_touch, is_source: false };
    let (result, pause) = call(core, caller, cmd, run, request, reply, &guard, lane);
    let task = Task { core, session, request, cmd, reply, mark, lane };
    match pause {
        None if tracks => commit::commit_read(task, guard, Outcome::Ended(result)),
        None => commit::commit(task, guard, Outcome::Ended(result)),
        Some(pause) => block::suspend(task, guard, pause, seen),
    }
}

/// Runs a command on the connection or the server that holds no shards.
pub fn server(mut task: Task<'_>, number: usize, held: Held<'_>) -> Flow {
    append_messages(&mut task);
    let outcome = run_server(&mut task, number, held);
    if let Outcome::Suspended(Suspend::Slow { has_run: true }) = outcome {
        task.reply.truncate(task.mark);
    }
    reply::finish(task, outcome)
}

/// Runs a command on the connection or the server that holds shards.
pub fn server_with(mut task: Task<'_>, number: usize, guard: Guard<'_>) -> Flow {
    append_messages(&mut task);
    let outcome = run_server(&mut task, number, Held::Guard(&guard));
    commit::commit_read(task, guard, outcome)
}

fn run_server(task: &mut Task<'_>, number: usize, held: Held<'_>) -> Outcome {
    let Task { core, session, request, cmd, reply, lane, .. } = task;
    weft_process::crash::set_current_command(&cmd.full_name);
    let shown = session.transaction.is_some() || session.watched.is_some();
    let (result, suspend) = call_server(core, session, request, cmd, number, reply, held, *lane);
    if suspend.as_ref().is_none_or(|suspend| !suspend.is_before_start())
        && (shown || session.transaction.is_some())
    {
        transaction::renew_shared(session);
    }
    suspend.map_or(Outcome::Ended(result), Outcome::Suspended)
}

/// Shows a refused EXEC to monitors. Of other commands, they see only those that run.
#[cold]
pub fn show_refused(task: &Task<'_>) {
    if let Run::Exec = task.cmd.run {
        feed_monitors(task.core, task.session, task.cmd, task.request.args);
    }
}

/// WATCH: records the keys under their shards.
pub fn watch(mut task: Task<'_>, guard: Guard<'_>) -> Flow {
    append_messages(&mut task);
    if task.session.watched.is_none() {
        task.session.watched = Some(Box::new(Watched::new(
            &task.core.srv.ks,
            &task.core.srv.process.background.bio,
            &task.session.shared.memory.holdings,
        )));
    }
    let mut db = Db::new(&guard, &mut task.core.context, task.session.db);
    if let Some(watched) = &mut task.session.watched {
        watched.add(&mut db, &task.request.args[1..]);
    }
    transaction::renew_shared(task.session);
    task.reply.ok();
    feed_monitors(task.core, task.session, task.cmd, task.request.args);
    commit::commit(task, guard, Outcome::Ended(Ok(())))
}

/// EXEC: runs the queue under the guard, unless a watched key has changed (`is_broken`).
pub fn exec(mut task: Task<'_>, is_broken: bool, mut guard: Guard<'_>) -> Flow {
    if task.core.srv.attention.load(Ordering::Relaxed) & attention::CLUSTER != 0 {
        task.session.slot = cluster::asked::find_slot(task.session, task.cmd, &[]).one();
    }
    let transaction = task.session.transaction.take().expect("checked before");
    append_mail(&mut task);
    let from = task.core.last_tick;
    task.session.watched = None;
    if is_broken {
        task.session.slot = None;
        task.reply.null_array();
    } else {
        if !access::is_free(task.core, task.session) {
            access::show_command(&task.session.shared, task.cmd);
        }
        // The pushes of a dropped reply remain.
        if !task.session.replies.mode.drops() {
            task.reply.array(transaction.queue.len());
        }
        task.session.fixed_time = Some(FixedTime::default());
        let mut stopped_before = 0;
        for (n, queued) in transaction.queue.iter().enumerate() {
            if changes_functions(queued.cmd) {
                stopped_before = next_change(&transaction.queue, n);
            }
            run_queued(&mut task, queued, &mut guard, n < stopped_before);
        }
        task.session.fixed_time = None;
    }
    feed_monitors(task.core, task.session, task.cmd, task.request.args);
    if let Some(own) = &mut task.session.pushes.tracks {
        // CLIENT CACHING in a transaction applies to the commands after it in the transaction.
        own.spend();
        tracking::enforce(task.core, &mut guard);
    }
    task.core.context.client = NO_CLIENT;
    commit::commit(task, guard, Outcome::EndedInParts { from })
}

/// EXEC with a fault: other commands can run between its commands. Only compiled into a server that tests the checker
/// of histories.
pub fn exec_one_by_one(mut task: Task<'_>, inside: &mut Inside<'static>) -> Flow {
    let transaction = task.session.transaction.take().expect("checked before");
    let from = task.core.last_tick;
    task.session.watched = None;
    task.reply.array(transaction.queue.len());
    for queued in &transaction.queue {
        if let Some(mut guard) = inside.world(&mut task.core.context) {
            run_queued(&mut task, queued, &mut guard, false);
            commit::commit_pending(task.core, &mut guard, Vec::new());
        }
        std::thread::yield_now();
    }
    reply::finish(task, Outcome::EndedInParts { from })
}

/// The next command after `n` that changes the libraries of functions, if no script precedes it; else `n`. Other clients
/// must not see the libraries between two such changes. But they must be able to kill a script.
fn next_change(queue: &[Queued], n: usize) -> usize {
    let mut rest = queue[n + 1..].iter().take_while(|q| !matches!(q.cmd.run, Run::Script(_)));
    rest.position(|queued| changes_functions(queued.cmd)).map_or(n, |after| n + 1 + after)
}

/// Runs one command of a transaction, and completes its part of the reply. `stays_stopped`: I/O threads that it stops
/// do not resume after it.
fn run_queued(task: &mut Task<'_>, queued: &Queued, guard: &mut Guard<'_>, stays_stopped: bool) {
    let Task { core, session, request, reply, mark: begin, .. } = task;
    let cmd = queued.cmd;
    let args: SmallVec<[&[u8]; 16]> = queued.args.iter().map(ArgBuf::bytes).collect();
    let mut blobs: SmallVec<[(usize, Blob); 1]> = SmallVec::new();
    for (at, arg) in queued.args.iter().enumerate() {
        if let ArgBuf::Blob(blob) = arg {
            blobs.push((at, blob.clone()));
        }
    }
    // The reference counts the bytes of EXEC as those read for each command of the transaction.
    let bytes_at_most = request.bytes();
    let request = Request { bytes_at_most, ..Request::new(Some(cmd), &args, &blobs) };
    let mark = reply.mark();
    // The command before may have changed the users.
    core.renew_access();
    let access = match access::is_free(core, session) {
        true => Ok(()),
        false => access::check_queued(core, session, cmd, &args),
    };
    let result = match cmd.run {
        _ if access.is_err() => access,
        Run::Script(command) => {
            script::run_in_transaction(core, session, &request, command, reply, guard)
        }
        Run::Data { .. } | Run::Server(_) | Run::Exec | Run::Watch
            if guard.leaves_io_threads()
                && needs::needs_stop(&core.srv.ks, cmd, &request, session.db) =>
        {
            guard.stop_io_threads();
            let result = execute_under(core, session, &request, cmd, reply, guard);
            if !stays_stopped {
                guard.resume_io_threads();
            }
            result
        }
        Run::Data { .. } | Run::Server(_) | Run::Exec | Run::Watch => {
            execute_under(core, session, &request, cmd, reply, guard)
        }
    };
    // HELLO may have changed it.
    reply.proto = session.proto;
    reply::finish_one(core, session, cmd, &request, reply, (*begin, mark), &result);
    let pushes = cmd.spec.flags.has(Flags::PUBSUB) && cmd.spec.flags.has(Flags::NOSCRIPT);
    if session.replies.mode.drops() && !pushes {
        reply.truncate(mark);
    }
}
