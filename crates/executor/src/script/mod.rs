//! Scripts and functions: EVAL, FCALL and the like.
//!
//! ```text
//!  I/O thread   hold the shards of the declared keys ─► run ─┬─► commit
//!                                                            ├─► needs a busy shard: undo, wait, start over with it
//!                                                            └─► takes long, or needs all shards: undo, slow lane
//!  slow lane    hold (more) ─► run, without a limit of time ─┬─► commit
//!                                                            └─► needs a busy shard: undo, start over with it
//!  EXEC         the transaction holds everything
//! ```
//!
//! A command of a script on a key that isn't declared takes the key's shard if it is free. Locks taken in this way can't
//! deadlock, since nothing waits while it holds shards: a script that would have to wait is undone
//! ([`weft_keyspace::Guard::undo`]) and starts over. Its session keeps the list of needed shards until it has ended.
//!
//! * [`code`] - a script or a function
//! * [`functions`] - FUNCTION LOAD and the other commands that change the libraries
//! * [`resolve`] - the arguments, the script, and whether it may run
//! * [`host`] - the commands that it calls
//! * [`calls`] - the statistics of these commands
//! * [`thread`] - the thread's interpreter; `known`: the scripts that it has compiled
//!
//! See `docs/design/scripts.md`.

mod calls;
mod code;
pub mod functions;
mod host;
mod known;
pub mod resolve;
pub mod thread;

use crate::access;
use crate::dispatch::core::Core;
use crate::dispatch::outcome::{Flow, Outcome, Suspend};
use crate::dispatch::request::{Request, Task};
use crate::dispatch::take::{Try, take_shards};
use crate::dispatch::{commit, messages, reply};
use crate::tracking;
use code::Code;
use host::{End, Host, More, Shards};
use resolve::{Call, Refusal};
use std::sync::atomic::Ordering;
use std::time::Instant;
use weft_command_spec::ScriptCommand;
use weft_commands::{CmdResult, Error, FAST_WORK, Lane};
use weft_keyspace::hold::PATIENCE;
use weft_keyspace::invalidation::NO_CLIENT;
use weft_keyspace::{Guard, Inside, Keyspace, ShardSet, planted};
use weft_resp::Reply;
use weft_script::Scope;
use weft_script::engine::{Failure, ReplyErrors};
use weft_script::running::Called;
use weft_state::attention;
use weft_state::command_table::Need;
use weft_state::session::{ScriptNeeds, Session};

/// Holds the shards of the declared keys on an I/O thread, and runs the script.
pub fn hold(task: Task<'_>, inside: &mut Inside<'static>, command: ScriptCommand) -> Flow {
    let call = match resolve::resolve(task.core, task.request.args, command) {
        Ok(call) => call,
        Err(refusal) => return refuse(task, refusal),
    };
    let needs = need(inside.keyspace(), &call, task.session);
    let Need::Shards(set) = needs else { return Err(Suspend::SLOW) };
    let is_starved = task.request.attempt.tries >= PATIENCE && set.len() > 1;
    if call.code.is_long() || is_starved || call.keys.len() > FAST_WORK {
        return Err(Suspend::SLOW);
    }
    let taker = Try::new(inside, task.request.attempt);
    let guard = take_shards(taker, &mut task.core.context, Need::Shards(set))?;
    run_alone(task, call, guard, Lane::Script)
}

/// As [`hold`], on a thread of the slow lane that holds [`need_of`] the task.
pub fn run_slow(task: Task<'_>, command: ScriptCommand, guard: Guard<'_>) -> Flow {
    match resolve::resolve(task.core, task.request.args, command) {
        Ok(call) => run_alone(task, call, guard, Lane::Transaction),
        Err(refusal) => {
            drop(guard);
            refuse(task, refusal)
        }
    }
}

/// The shards that the script of a task needs as far as that is known. A script that can't run needs none.
pub fn need_of(task: &mut Task<'_>, command: ScriptCommand) -> Need {
    let ks = &task.core.srv.ks;
    match resolve::resolve(task.core, task.request.args, command) {
        Ok(call) => need(ks, &call, task.session),
        Err(_) => Need::Shards(ShardSet::of([])),
    }
}

fn need(ks: &Keyspace, call: &Call<'_>, session: &Session) -> Need {
    let known = session.script.as_deref();
    let scope = known.map_or(Scope::Keys, |known| known.scope).max(call.code.history().scope());
    match scope {
        Scope::Keys => {
            let found = known.into_iter().flat_map(|known| known.shards.iter());
            let first = call.first_key.iter().map(|key| key.shard());
            let others = call.keys.iter().skip(1).map(|key| ks.shard(key));
            Need::Shards(ShardSet::of(first.chain(others).chain(found)))
        }
        Scope::AllShards => Need::AllShards,
    }
}

fn refuse(mut task: Task<'_>, refusal: Refusal) -> Flow {
    messages::append_messages(&mut task);
    let is_shown = task.session.script.take().is_some_and(|needs| needs.is_shown);
    if !is_shown && !refusal.is_by_state {
        show(task.core, task.session, task.request);
    }
    reply::finish(task, Outcome::Ended(Err(refusal.error)))
}

/// Runs a script that is not part of a transaction.
fn run_alone(mut task: Task<'_>, call: Call<'_>, mut guard: Guard<'_>, lane: Lane) -> Flow {
    messages::append_messages(&mut task);
    weft_process::crash::set_current_command(&task.cmd.full_name);
    let mut needs = task.session.script.take().unwrap_or_default();
    // Not by the history of the code: another thread may have changed it since the shards were taken.
    let can_restart = !guard.leaves_io_threads();
    // It may run long.
    if lane != Lane::Script && !needs.is_shown {
        show(task.core, task.session, task.request);
        needs.is_shown = true;
    }
    if can_restart {
        guard.begin_undo(&mut task.core.context);
        task.core.trace.begin();
    }
    if !needs.is_shown {
        show(task.core, task.session, task.request);
    }
    let shards = match can_restart {
        true => Shards::Growing(&mut guard),
        false => Shards::All(&mut guard),
    };
    planted::leave_out(|| needs.shards.iter().last());
    let Task { core, session, request, reply, .. } = &mut task;
    let end = run_script(core, session, &call, request, reply, shards, lane);
    task.core.context.client = NO_CLIENT;
    match end {
        End::Done(result) => {
            if can_restart {
                guard.end_undo(&mut task.core.context);
            }
            if let Some(own) = &mut task.session.pushes.tracks {
                own.spend();
                tracking::enforce(task.core, &mut guard);
            }
            commit::commit(task, guard, Outcome::Ended(result))
        }
        End::StartOver(more) => {
            assert!(can_restart, "a script that holds all shards needs no more");
            guard.undo(&mut task.core.context);
            drop(guard);
            task.reply.truncate(task.mark);
            task.core.free_deferred();
            start_over(task, &call, *needs, more)
        }
    }
}

/// Keeps the needs of the script for its next run.
fn start_over(task: Task<'_>, call: &Call<'_>, mut needs: ScriptNeeds, more: More) -> Flow {
    let history = call.code.history();
    history.count_restart();
    needs.restarts += 1;
    let most = task.core.srv.scripts.most_restarts.load(Ordering::Relaxed);
    let suspend = match more {
        More::Shard(busy) if needs.restarts <= most => {
            needs.shards = ShardSet::of(needs.shards.iter().chain([busy.shard]));
            Suspend::Busy(busy)
        }
        More::Shard(_) => {
            needs.scope = Scope::AllShards;
            Suspend::SLOW
        }
        More::Scope(scope) => {
            history.widen(scope);
            needs.scope = scope;
            Suspend::SLOW
        }
        More::Time => {
            history.set_long(true);
            Suspend::SLOW
        }
        // Not known to the history: it depends on monitors and rights.
        More::Shown => {
            needs.scope = Scope::AllShards;
            Suspend::SLOW
        }
    };
    task.session.script = Some(Box::new(needs));
    Err(suspend)
}

/// Runs a script command of a transaction, which holds everything that its commands need.
///
/// # Errors
/// Those of the script.
pub(crate) fn run_in_transaction(
    core: &mut Core,
    session: &mut Session,
    request: &Request<'_>,
    command: ScriptCommand,
    reply: &mut Reply,
    guard: &mut Guard<'_>,
) -> CmdResult {
    show(core, session, request);
    let call = resolve::resolve(core, request.args, command).map_err(|refusal| refusal.error)?;
    let shards = Shards::All(guard);
    match run_script(core, session, &call, request, reply, shards, Lane::Transaction) {
        End::Done(result) => result,
        End::StartOver(_) => unreachable!("the transaction holds all shards"),
    }
}

/// Shows the script's command to monitors, before the commands that it calls.
fn show(core: &Core, session: &Session, request: &Request<'_>) {
    if core.srv.attention.load(Ordering::Relaxed) & attention::MONITOR != 0 {
        crate::monitor::feed(core, session, request.args);
    }
}

/// Runs the script with a session that looks to its commands as that of a new client.
fn run_script(
    core: &mut Core,
    session: &mut Session,
    call: &Call<'_>,
    request: &Request<'_>,
    reply: &mut Reply,
    shards: Shards<'_, '_>,
    lane: Lane,
) -> End {
    let (srv, db, mark) = (core.srv, session.db, reply.mark());
    let in_transaction = session.fixed_time.is_some();
    session.fixed_time.get_or_insert_default();
    if !in_transaction {
        session.slot = call.first_key.map(|key| key.slot);
    }
    session.in_script = true;
    if let Some(cmd) = request.cmd
        && !access::is_free(core, session)
    {
        access::show_command(&session.shared, cmd);
    }
    let mut threads = core.scripts.take().expect("`resolve` has made the interpreter");
    let entry =
        (lane != Lane::Script).then(|| core.srv.scripts.running.begin(called(call, request)));
    let mut host = Host::new(core, session, call, shards, lane, entry.as_ref().map(|e| &*e.run));
    let result = threads.run(srv, &call.code, call.keys, call.args, reply, &mut host);
    let more = host.finish();
    let errors = threads.take_errors();
    session.in_script = false;
    if !in_transaction {
        session.fixed_time = None;
    }
    session.db = db;
    threads.publish(core.srv);
    core.scripts = Some(threads);
    match (result, more) {
        (_, Some(more)) => End::StartOver(more),
        (Ok(()), None) => {
            count_errors(core, request, &errors);
            End::Done(Ok(()))
        }
        // Not a failure of the task: it would be counted twice.
        (Err(Failure::Error(text)), None) if errors.counted > 0 => {
            count_errors(core, request, &errors);
            reply.truncate(mark);
            reply.error(&text);
            End::Done(Ok(()))
        }
        (Err(Failure::Error(text)), None) => End::Done(Err(Error::owned(text))),
        (Err(Failure::Stopped), None) => End::Done(Err(match call.code {
            Code::Script(_) => host::KILLED,
            Code::Function(_) => host::FUNCTION_KILLED,
        })),
    }
}

/// Counts the errors in the result of a script.
fn count_errors(core: &Core, request: &Request<'_>, errors: &ReplyErrors) {
    for code in &errors.new {
        core.stats().errors.replies.add(1);
        core.srv.count_error(code);
    }
    let failed = errors.counted + u64::from(!errors.new.is_empty());
    if let Some(cmd) = request.cmd.filter(|_| failed > 0) {
        core.stats().commands[cmd.number].failed.add(failed);
    }
}

/// The entry of FUNCTION STATS for a call; `None` for a script.
fn called(call: &Call<'_>, request: &Request<'_>) -> Option<Called> {
    let Code::Function(found) = &call.code else { return None };
    let command = request.args.iter().map(|word| (*word).into()).collect();
    Some(Called { name: found.function().name.clone(), command, since: Instant::now() })
}
