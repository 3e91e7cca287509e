//! Second stage: take the shards that the command needs.
//!
//! A command declares its keys, or that it stops the world; later stages can't take more. If a shard is busy, nothing
//! has happened, and the connection is parked. An I/O thread never waits for the slow lane: a command that would have
//! to wait for it runs there itself ([`crate::dispatch::take`]). Next: [`crate::dispatch::run`].

use crate::access;
use crate::cluster;
use crate::dispatch::core::Held;
use crate::dispatch::needs;
use crate::dispatch::needs::{data_need, watch_need};
use crate::dispatch::outcome::{Flow, Outcome, Suspend};
use crate::dispatch::paused::is_request_paused;
use crate::dispatch::refusals;
use crate::dispatch::request::{Request, Task};
use crate::dispatch::take::{Try, Wait, WaitOrGiveUp, take_shards};
use crate::dispatch::{busy, commit, messages, reply, run};
use crate::script;
use crate::transaction;
use crate::work;
use std::cell::Cell;
use std::sync::atomic::Ordering;
use weft_command_spec::Flags;
use weft_commands::{Error, FAST_WORK, Lane};
use weft_keyspace::planted::{self, Fault};
use weft_keyspace::{Busy, Guard, Inside, ShardSet, SlowLaneThread};
use weft_state::command_table::{Cmd, Need, Run};
use weft_state::mailbox::Message;
use weft_state::push::PushMessage;
use weft_state::session::Session;

/// Takes the shards that the command needs, on an I/O thread, and runs it.
#[inline]
pub fn hold(task: Task<'_>, inside: &mut Inside<'static>) -> Flow {
    let ks = inside.keyspace();
    match task.cmd.run {
        Run::Data { .. } if is_bulky(task.cmd, task.request, task.lane) => Err(Suspend::SLOW),
        Run::Data { lock, run } => {
            match data_need(ks, task.cmd, lock, task.request, task.session.db) {
                Need::One(shard) => match inside.guard_one(&mut task.core.context, shard) {
                    Ok(guard) => run::data(task, run, guard),
                    Err(busy) => Err(Suspend::Busy(busy)),
                },
                need => hold_many(task, inside, need),
            }
        }
        Run::Server(number) => match task.cmd.need(ks, task.request.args) {
            Need::Nothing => run::server(task, number, Held::Nothing(inside)),
            Need::Stop => stop_and_run(task, inside, number),
            Need::Aside => Err(Suspend::SLOW),
            need => hold_many(task, inside, need),
        },
        Run::Exec => hold_transaction(task, inside),
        Run::Watch if task.lane == Lane::Fast && task.request.args.len() > FAST_WORK => {
            Err(Suspend::SLOW)
        }
        Run::Watch => {
            let need = watch_need(ks, task.request);
            hold_many(task, inside, need)
        }
        Run::Script(command) => script::hold(task, inside, command),
    }
}

/// As [`hold`], for a command whose slot is in transit: whether its keys are here is known under their shards. Commands with
/// several keys, transactions and scripts run in the slow lane, which checks all its commands.
#[cold]
pub fn hold_in_transit(mut task: Task<'_>, inside: &mut Inside<'static>) -> Flow {
    let Run::Data { lock, run } = task.cmd.run else { return Err(Suspend::SLOW) };
    let need = data_need(inside.keyspace(), task.cmd, lock, task.request, task.session.db);
    let Need::One(shard) = need else { return Err(Suspend::SLOW) };
    if is_bulky(task.cmd, task.request, task.lane) {
        return Err(Suspend::SLOW);
    }
    let guard = inside.guard_one(&mut task.core.context, shard).map_err(Suspend::Busy)?;
    match cluster::check_held(&mut task, Some(&guard)) {
        Ok(()) => run::data(task, run, guard),
        Err(e) => turn_away(task, guard, Standing::Refused(e)),
    }
}

/// As [`hold`], for a command that needs more than one shard.
fn hold_many(mut task: Task<'_>, inside: &mut Inside<'static>, need: Need) -> Flow {
    let taker = Try::new(inside, task.request.attempt);
    let guard = take_shards(taker, &mut task.core.context, need)?;
    if !guard.stops_io_threads() {
        return run_held(task, guard);
    }
    match recheck(&mut task, &guard) {
        Standing::Runs => run_last(task, |task| run_held(task, guard)),
        turned_away => turn_away(task, guard, turned_away),
    }
}

/// Runs the command with the shards that it needs, on any thread.
#[inline]
fn run_held(mut task: Task<'_>, guard: Guard<'_>) -> Flow {
    match task.cmd.run {
        Run::Data { run, .. } => run::data(task, run, guard),
        Run::Server(number) => run::server_with(task, number, guard),
        Run::Exec => {
            let is_broken = is_broken(&mut task, &guard);
            run::exec(task, is_broken, guard)
        }
        Run::Watch => run::watch(task, guard),
        Run::Script(command) => script::run_slow(task, command, guard),
    }
}

/// As [`hold`], for EXEC. The transaction stays in the session until it runs.
fn hold_transaction(mut task: Task<'_>, inside: &mut Inside<'static>) -> Flow {
    if task.session.pushes.listens {
        messages::begin(&mut task);
    }
    if let Err(e) = transaction::check(task.core.srv, task.session) {
        messages::append_messages(&mut task);
        run::show_refused(&task);
        return reply::finish(task, Outcome::Ended(Err(e)));
    }
    // Each command and each watched key is work, even if a watched key has changed.
    if task.lane == Lane::Fast
        && (transaction::size(task.session) > FAST_WORK || transaction::has_script(task.session))
    {
        return Err(Suspend::SLOW);
    }
    if planted::is(Fault::Race) {
        return run::exec_one_by_one(task, inside);
    }
    let need = needs::transaction_need(inside.keyspace(), task.session);
    let taker = Try::new(inside, task.request.attempt);
    let guard = take_shards(taker, &mut task.core.context, need)?;
    let was_outside = guard.stops_io_threads();
    if was_outside {
        match recheck(&mut task, &guard) {
            Standing::Runs => {}
            turned_away => return turn_away(task, guard, turned_away),
        }
    }
    // Before `is_heavy`, which removes expired keys.
    let is_broken = is_broken(&mut task, &guard);
    if !is_broken && work::is_heavy(task.core, task.session, &guard) {
        return commit::commit(task, guard, Outcome::Suspended(Suspend::SLOW));
    }
    match was_outside {
        false => run::exec(task, is_broken, guard),
        true => run_last(task, |task| run::exec(task, is_broken, guard)),
    }
}

/// Whether the arguments alone are too much work for this thread.
#[inline]
fn is_bulky(cmd: &Cmd, request: &Request<'_>, lane: Lane) -> bool {
    let blobs = request.blobs;
    !blobs.is_empty()
        && lane == Lane::Fast
        && work::is_bulky(cmd.spec, blobs.iter().map(|(at, blob)| (*at, blob.len())))
}

/// Whether a command may still run after its shards were taken, which may have taken long.
enum Standing {
    Runs,
    Paused,
    /// The client was killed. The client that killed it may have its reply already, so its next command must not meet
    /// an effect of this one.
    Killed,
    Refused(Error),
}

/// Checks again whether a command may run: since it was admitted, the server may have become a replica or begun to load
/// a full sync, writes may be paused, the client killed, its user have other rights, or another node serve its slot.
fn check_standing(task: &mut Task<'_>, guard: &Guard<'_>) -> Standing {
    let (core, session) = (&mut *task.core, &*task.session);
    let flags = transaction::flags_of(session, task.cmd);
    // A client that should retry and has hung up has passed its turn to the next client.
    if is_killed(session)
        || task.request.attempt.retry.as_ref().is_some_and(|retry| retry.state.is_over())
    {
        return Standing::Killed;
    }
    if is_request_paused(core, session, task.request, task.cmd) {
        return Standing::Paused;
    }
    let loads = transaction::all_have(session, task.cmd, Flags::LOADING);
    let checked = refusals::admit_again(core, flags, loads)
        .and_then(|()| check_access(task))
        .and_then(|()| check_slot(task, Some(guard)));
    match checked {
        Ok(()) => Standing::Runs,
        Err(e) if is_exec(task.cmd) => Standing::Refused(refusals::aborted(&e)),
        Err(e) => Standing::Refused(e),
    }
}

/// Checks the rights of the client's user again, which may have changed. A command that has taken effect waits only for its
/// reply.
///
/// # Errors
/// NOAUTH or NOPERM.
fn check_access(task: &mut Task<'_>) -> Result<(), Error> {
    let Task { core, session, request, cmd, .. } = task;
    core.renew_access();
    if access::is_free(core, session) || request.attempt.has_run && cmd.takes_session() {
        return Ok(());
    }
    access::check_again(core, session, cmd, request.args)
}

/// Checks again whether this node serves the command. A command that has taken effect waits only for its reply.
///
/// # Errors
/// A redirect.
fn check_slot(task: &mut Task<'_>, guard: Option<&Guard<'_>>) -> Result<(), Error> {
    let has_effect = task.request.attempt.has_run && task.cmd.takes_session();
    match task.core.srv.is_in_cluster() && !has_effect {
        true => cluster::check_held(task, guard),
        false => Ok(()),
    }
}

/// As [`check_standing`], on an I/O thread that has been outside of its safepoint. A command that may run is begun again:
/// the role that the server has now decides what it does about expired keys.
#[cold]
fn recheck(task: &mut Task<'_>, guard: &Guard<'_>) -> Standing {
    let standing = check_standing(task, guard);
    if let Standing::Runs = standing {
        task.core.begin_command();
        let flags = transaction::flags_of(task.session, task.cmd);
        task.core.begin_import(task.session.options.import_source, flags);
    }
    standing
}

/// Ends a command that must not run, and releases its shards.
#[cold]
fn turn_away(mut task: Task<'_>, guard: Guard<'_>, standing: Standing) -> Flow {
    match standing {
        Standing::Runs => unreachable!("the command may run"),
        Standing::Paused => {
            cluster::keep_asking(task.session);
            Err(Suspend::Paused)
        }
        Standing::Killed => {
            end_transaction(&mut task);
            task.session.close = true;
            // If the client was retrying, the commit gives its turn to the next client in the wait queue.
            commit::commit(task, guard, Outcome::Killed)
        }
        Standing::Refused(e) => {
            end_transaction(&mut task);
            messages::append_messages(&mut task);
            run::show_refused(&task);
            // The command may have waited for a snapshot before, or a script may have started over.
            (task.session.snapshot_wait, task.session.script) = (None, None);
            commit::commit(task, guard, Outcome::Ended(Err(e)))
        }
    }
}

fn end_transaction(task: &mut Task<'_>) {
    if is_exec(task.cmd) {
        transaction::discard(task.core.srv, task.session);
        transaction::renew_shared(task.session);
    }
}

fn is_exec(cmd: &Cmd) -> bool {
    matches!(cmd.run, Run::Exec)
}

/// Whether the client was killed. Exact if the caller holds what its command needs, or is inside its safepoint: CLIENT
/// KILL runs while each I/O thread is between two batches or outside its safepoint.
fn is_killed(session: &Session) -> bool {
    session.shared.killed.load(Ordering::SeqCst)
}

/// Runs a command that stops the world. Closes the client if it was killed after the other threads continued and before
/// this thread was inside its safepoint again.
fn run_last(task: Task<'_>, run: impl FnOnce(Task<'_>) -> Flow) -> Flow {
    let Task { core, session, request, cmd, reply, mark, lane } = task;
    let flow = run(Task { core, session: &mut *session, request, cmd, reply, mark, lane });
    session.close |= is_killed(session);
    flow
}

/// Runs a command that needs the other I/O threads to be between two commands.
fn stop_and_run(mut task: Task<'_>, inside: &mut Inside<'static>, number: usize) -> Flow {
    let stop = inside.stop();
    if is_killed(task.session) {
        task.session.close = true;
        return Ok(());
    }
    if let Err(e) = check_access(&mut task) {
        drop(stop);
        messages::append_messages(&mut task);
        return reply::finish(task, Outcome::Ended(Err(e)));
    }
    task.core.begin_command();
    run_last(task, |task| run::server(task, number, Held::Stop(stop)))
}

/// Whether EXEC must fail, since a watched key has changed. The guard includes all watched keys.
fn is_broken(task: &mut Task<'_>, guard: &Guard<'_>) -> bool {
    let watched = task.session.watched.as_deref();
    watched.is_some_and(|watched| watched.is_broken(&mut task.core.context, guard))
}

/// Takes the shards that the command needs, on a thread of the slow lane, and runs it. Waits until they are free. A
/// pause that has begun meanwhile delays the command.
pub fn hold_slow(mut task: Task<'_>, holder: &mut SlowLaneThread<'static>) -> Flow {
    if is_exec(task.cmd)
        && let Err(e) = transaction::check(task.core.srv, task.session)
    {
        run::show_refused(&task);
        return reply::finish(task, Outcome::Ended(Err(e)));
    }
    if let (true, Run::Server(number)) = (task.session.replies.pending.is_some(), task.cmd.run) {
        // CLIENT KILL, or a change of users: the commands that its reply has waited for have ended.
        return run::server(task, number, Held::Aside);
    }
    let need = busy::need_of(&mut task);
    let flags = transaction::flags_of(task.session, task.cmd);
    task.core.begin_import(task.session.options.import_source, flags);
    if let (Need::Aside, Run::Server(number)) = (&need, task.cmd.run) {
        return run_aside(task, number);
    }
    let outside = task.cmd.spec.flags.has(Flags::WAITS_FOR_SERVER)
        || is_exec(task.cmd) && needs::waits_outside(task.session);
    let need = slow_need(&task, need);
    if let Some(e) = busy::error_of_need(&task, &need) {
        return refuse_busy(task, e);
    }
    let srv = task.core.srv;
    // CLIENT PAUSE: its pause is in force, but is not confirmed yet.
    let is_pause = task.request.attempt.has_run && matches!(need, Need::Stop);
    let may_refuse = busy::may_refuse(task.cmd, task.request) || is_pause;
    let refusal = Cell::new(None);
    let gives_up = |busy: Option<Busy>| {
        let is_in_the_way = |held| busy.is_none_or(|busy| busy.shard == held);
        let error = busy::error(srv, is_in_the_way).filter(|_| may_refuse);
        let gives_up = error.is_some();
        refusal.set(error);
        gives_up
    };
    let wait = Wait::new(holder).outside(outside);
    let taker = WaitOrGiveUp { wait, gives_up: &gives_up };
    let guard = match take_shards(taker, &mut task.core.context, need) {
        Ok(guard) => guard,
        Err(_) => {
            let e = refusal.take().expect("`gives_up` has set it");
            if is_pause {
                srv.unpause();
            }
            return refuse_busy(task, e);
        }
    };
    let slow = &task.core.srv.slow;
    let may_write = matches!(task.cmd.run, Run::Script(_) | Run::Exec);
    let writes = flags.has(Flags::WRITE) || may_write && flags.has(Flags::MAY_REPLICATE);
    // Both come before the check: a pause or a kill that the check misses finds these marks and waits.
    let _writing = writes.then(|| slow.writing());
    // CLIENT KILL does not wait for a command that waits for another server, and need not wait for one that only changes keys. A
    // change of its user waits for the first, and a change of slots for both.
    let delays_kill = task.cmd.takes_session() && !outside;
    let acts = delays_kill || outside || srv.is_in_cluster();
    let _acts = acts.then(|| slow.acts(&task.session.shared, delays_kill));
    // A command that has taken effect waits only for its reply.
    let has_effect = task.request.attempt.has_run && task.cmd.takes_session();
    if !has_effect {
        match check_standing(&mut task, &guard) {
            Standing::Runs => {}
            turned_away => return turn_away(task, guard, turned_away),
        }
    }
    // Messages that are published for the client from here on follow the reply.
    if task.session.pushes.listens || flags.has(Flags::PUBSUB) || is_exec(task.cmd) {
        let shared = &task.session.shared;
        let mailbox = &task.core.srv.threads[shared.thread()].mailbox;
        mailbox.send(Message::Push(PushMessage::HoldBack { client: shared.id }));
    }
    task.core.only_reads = !writes;
    task.core.begin_command();
    // The time of the wait does not count as time of the command.
    task.core.last_tick = task.core.srv.process.time.clock.raw();
    task.core.begin_import(task.session.options.import_source, flags);
    run_held(task, guard)
}

/// Runs a command of the slow lane that needs no shards.
fn run_aside(mut task: Task<'_>, number: usize) -> Flow {
    // Before the check: a change of its user that the check misses waits for the end of the command.
    let _acts = task.core.srv.slow.acts(&task.session.shared, false);
    if is_killed(task.session) {
        return reply::finish(task, Outcome::Killed);
    }
    if let Err(e) = check_access(&mut task).and_then(|()| check_slot(&mut task, None)) {
        return reply::finish(task, Outcome::Ended(Err(e)));
    }
    task.core.begin_command();
    run::server(task, number, Held::Aside)
}

/// Ends a command in the slow lane that would have to wait for a script that is busy.
#[cold]
fn refuse_busy(mut task: Task<'_>, e: Error) -> Flow {
    task.session.script = None;
    let e = if is_exec(task.cmd) { refusals::aborted(&e) } else { e };
    end_transaction(&mut task);
    messages::append_messages(&mut task);
    run::show_refused(&task);
    reply::finish(task, Outcome::Ended(Err(e)))
}

/// The shards that a thread of the slow lane takes for a request that needs `need`.
fn slow_need(task: &Task<'_>, need: Need) -> Need {
    match need {
        // A command that has taken effect holds all shards, so that it replies when no other slow command runs.
        Need::Nothing if !task.request.attempt.has_run => Need::Shards(ShardSet::default()),
        need => need,
    }
}
