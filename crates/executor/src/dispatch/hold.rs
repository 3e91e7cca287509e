//! Second stage: take hold of what the command needs, or find that it can't be had now.
//!
//! A command declares its keys, or that it needs the world; nothing further along can take more.
//! If a shard is busy nothing has happened, and the connection is parked. An I/O thread never
//! waits for the slow lane: what would have to goes there itself. Next: [`crate::dispatch::run`].

use crate::dispatch::core::Held;
use crate::dispatch::needs;
use crate::dispatch::needs::{of_data, of_watch};
use crate::dispatch::refusals;
use crate::dispatch::request::{Flow, Outcome, Request, Task};
use crate::dispatch::{commit, reply, run};
use crate::transaction;
use crate::work;
use std::sync::atomic::Ordering;
use weft_commands::{Error, FAST_WORK, Flags, Lane};
use weft_keyspace::hold::PATIENCE;
use weft_keyspace::{Guard, Inside, ShardSet, SlowHand, Turn};
use weft_state::command_table::{Cmd, Need, Run};
use weft_state::mailbox::Message;
use weft_state::queued::Transaction;
use weft_state::session::Session;
use weft_transfer as transfer;

/// Takes hold of what the command needs, on an I/O thread, and has it run.
#[inline]
pub fn hold(task: Task<'_>, inside: &mut Inside<'static>) -> Flow {
    let ks = inside.keyspace();
    match task.cmd.run {
        Run::Data { .. } if is_bulky(task.cmd, task.request, task.lane) => {
            Flow::Slow { looked: false }
        }
        Run::Data { lock, run } => match of_data(ks, task.cmd, lock, task.request, task.session.db)
        {
            Need::One(shard) => match inside.guard_one(&mut task.core.turn, shard) {
                Ok(guard) => run::data(task, run, guard),
                Err(busy) => Flow::Busy(busy),
            },
            need => match guard(&mut task.core.turn, inside, need, task.request) {
                Ok(got) => if_still(task, got, |task, guard| run::data(task, run, guard)),
                Err(flow) => flow,
            },
        },
        Run::Server(number) => match task.cmd.need(ks, task.request.args) {
            Need::Nothing => run::server(task, number, Held::Nothing(inside)),
            Need::Stop => stopped(task, inside, number),
            Need::Aside => Flow::Slow { looked: false },
            need => match guard(&mut task.core.turn, inside, need, task.request) {
                Ok(got) => if_still(task, got, |task, guard| run::server_with(task, number, guard)),
                Err(flow) => flow,
            },
        },
        Run::Exec => exec(task, inside),
        Run::Watch if task.lane == Lane::Fast && task.request.args.len() > FAST_WORK => {
            Flow::Slow { looked: false }
        }
        Run::Watch => {
            let need = of_watch(ks, task.request);
            match guard(&mut task.core.turn, inside, need, task.request) {
                Ok(got) => if_still(task, got, run::watch),
                Err(flow) => flow,
            }
        }
    }
}

/// Whether the arguments alone are too much for this thread.
#[inline]
fn is_bulky(cmd: &Cmd, request: &Request<'_>, lane: Lane) -> bool {
    let blobs = request.blobs;
    !blobs.is_empty()
        && lane == Lane::Fast
        && work::is_bulky(cmd.spec, blobs.iter().map(|(at, blob)| (*at, blob.len())))
}

/// What was taken, and whether the thread had to go outside of its gate for it: others may have stopped the
/// world meanwhile.
type Got<'g> = (Guard<'g>, Way);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Inside,
    Outside,
}

/// The guard of `need`, which is not nothing.
fn guard<'g>(
    turn: &mut Turn,
    inside: &'g mut Inside<'static>,
    need: Need,
    request: &Request<'_>,
) -> Result<Got<'g>, Flow> {
    let within = |guard| (guard, Way::Inside);
    match need {
        Need::One(shard) => inside.guard_one(turn, shard).map(within).map_err(Flow::Busy),
        // Those that take single ones of these shards could keep it waiting for ever.
        Need::Shards(set) if request.tries < PATIENCE || set.len() < 2 => {
            inside.guard(turn, set).map(within).map_err(Flow::Busy)
        }
        // Who stands in line is not sent away for that: those behind it would have to wait, too.
        Need::Shards(set) if request.retry.is_some() => match inside.alone() {
            Some(alone) => Ok((inside.world_alone(turn, alone), Way::Outside)),
            None => inside.guard(turn, set).map(within).map_err(Flow::Busy),
        },
        Need::Rest => Ok((inside.rest(turn), Way::Outside)),
        Need::Nothing | Need::Shards(_) | Need::Stop | Need::World | Need::Names | Need::Aside => {
            let world = inside.world(turn).ok_or(Flow::Slow { looked: false })?;
            Ok((world, Way::Outside))
        }
    }
}

/// How a command stands that was admitted before it has waited for what it holds.
enum Standing {
    Runs,
    Paused,
    /// Its client was killed. Who asked for that has got his answer by now, and what he does next must not be met by
    /// this.
    Ended,
    Refused(Error),
}

/// Whether a command may run still: the server may have become a replica since it was admitted, or have begun
/// to load a copy, or writes may be paused, or its client has been killed. `transaction`: what EXEC runs.
fn look_again(task: &Task<'_>, transaction: Option<&Transaction>) -> Standing {
    let (core, flags) = (&*task.core, flags_of(task.cmd, transaction));
    // Who was to try again and has hung up meanwhile has passed its turn on.
    if is_killed(task.session) || task.request.retry.is_some_and(|retry| retry.state.is_over()) {
        return Standing::Ended;
    }
    if refusals::is_held_back(core, flags) {
        return Standing::Paused;
    }
    let queued = transaction.map_or(&[][..], |transaction| &transaction.queue);
    let loads = task.cmd.spec.flags.has(Flags::LOADING)
        && queued.iter().all(|queued| queued.cmd.spec.flags.has(Flags::LOADING));
    match refusals::admit_again(core, flags, loads) {
        Ok(()) => Standing::Runs,
        Err(e) if transaction.is_some() => Standing::Refused(refusals::aborted(&e)),
        Err(e) => Standing::Refused(e),
    }
}

fn flags_of(cmd: &Cmd, transaction: Option<&Transaction>) -> Flags {
    transaction.map_or(cmd.spec.flags, |transaction| cmd.spec.flags.or(Flags(transaction.flags)))
}

/// Whether the client is to end. With all that a command needs in hand, or inside of the gate: CLIENT KILL is between
/// two batches of each I/O thread, or where they are outside of their gates.
fn is_killed(session: &Session) -> bool {
    session.shared.killed.load(Ordering::SeqCst)
}

/// Has a command run with what it has got, unless it must not any more.
fn if_still<'g>(
    task: Task<'_>,
    (guard, way): Got<'g>,
    run: impl FnOnce(Task<'_>, Guard<'g>) -> Flow,
) -> Flow {
    match way {
        Way::Inside => run(task, guard),
        Way::Outside => if_still_outside(task, guard, run),
    }
}

#[cold]
fn if_still_outside<'g>(
    mut task: Task<'_>,
    guard: Guard<'g>,
    run: impl FnOnce(Task<'_>, Guard<'g>) -> Flow,
) -> Flow {
    match look_again(&task, None) {
        Standing::Runs => {
            let flags = task.cmd.spec.flags;
            begin_again(&mut task, flags);
        }
        Standing::Paused => return Flow::Paused,
        Standing::Ended => return end(task, guard, false),
        Standing::Refused(e) => return refuse(task, guard, e),
    }
    and_on(task, |task| run(task, guard))
}

/// Runs a command that stops all others, and ends the client if that was asked for when they went on, before this
/// thread was inside of its gate again.
fn and_on(task: Task<'_>, run: impl FnOnce(Task<'_>) -> Flow) -> Flow {
    let Task { core, session, request, cmd, reply, mark, lane } = task;
    let flow = run(Task { core, session: &mut *session, request, cmd, reply, mark, lane });
    session.close |= is_killed(session);
    flow
}

/// Runs a command for which the other I/O threads are to be between two commands.
fn stopped(task: Task<'_>, inside: &mut Inside<'static>, number: usize) -> Flow {
    let stop = inside.stop();
    if is_killed(task.session) {
        task.session.close = true;
        return Flow::Done;
    }
    task.core.begin_command();
    and_on(task, |task| run::server(task, number, Held::Stop(stop)))
}

/// What a command may do about keys that have expired follows from the role that the server has now.
fn begin_again(task: &mut Task<'_>, flags: Flags) {
    task.core.begin_command();
    task.core.begin_import(task.session.options.import_source, flags);
}

fn refuse(mut task: Task<'_>, guard: Guard<'_>, e: Error) -> Flow {
    run::catch_up(&mut task);
    run::show_refused(&task);
    // It may have waited for a snapshot before.
    task.session.snapshot_wait = None;
    commit::commit(task, guard, Outcome::Ended(Err(e)))
}

fn exec(mut task: Task<'_>, inside: &mut Inside<'static>) -> Flow {
    if task.session.pushes.listens {
        run::begin(&mut task);
    }
    let transaction = match transaction::take(task.core.srv, task.session) {
        Ok(transaction) => transaction,
        Err(e) => {
            run::catch_up(&mut task);
            run::show_refused(&task);
            return reply::finish(task, Outcome::Ended(Err(e)));
        }
    };
    // Each command and each watched key is looked at. It is run, or found to be broken, in the slow lane.
    let watched = task.session.watched.as_ref().map_or(0, |watched| watched.watched());
    if task.lane == Lane::Fast && transaction.commands() + watched > FAST_WORK {
        transaction::put_back(&mut task, transaction);
        return Flow::Slow { looked: false };
    }
    if cfg!(feature = "planted-race") {
        return run::exec_one_by_one(task, &transaction, inside);
    }
    let need = needs::of_transaction(&transaction, inside.keyspace(), task.session);
    let (guard, way) = match guard(&mut task.core.turn, inside, need, task.request) {
        Ok(got) => got,
        Err(flow) => {
            transaction::put_back(&mut task, transaction);
            return flow;
        }
    };
    if way == Way::Outside {
        match look_again(&task, Some(&transaction)) {
            Standing::Runs => {
                let flags = flags_of(task.cmd, Some(&transaction));
                begin_again(&mut task, flags);
            }
            Standing::Paused => {
                transaction::put_back(&mut task, transaction);
                return Flow::Paused;
            }
            Standing::Ended => return end(task, guard, true),
            Standing::Refused(e) => {
                transaction::discard(task.core.srv, task.session);
                transaction::renew_shared(task.session);
                return refuse(task, guard, e);
            }
        }
    }
    // In front of the look at its keys, which removes those that have expired.
    let is_broken = is_broken(&mut task, &guard);
    if !is_broken && work::is_heavy(&transaction, task.core, task.session, &guard) {
        transaction::put_back(&mut task, transaction);
        return commit::commit(task, guard, Outcome::Not(Flow::Slow { looked: false }));
    }
    match way {
        Way::Inside => run::exec(task, &transaction, is_broken, guard),
        Way::Outside => and_on(task, |task| run::exec(task, &transaction, is_broken, guard)),
    }
}

/// Whether EXEC is given up, since a watched key has changed. All of them are held.
fn is_broken(task: &mut Task<'_>, guard: &Guard<'_>) -> bool {
    let watched = task.session.watched.as_deref();
    watched.is_some_and(|watched| watched.is_broken(&mut task.core.turn, guard))
}

/// Takes hold of what the command needs, however long that takes, and has it run. A pause that has
/// come meanwhile holds it back.
pub fn hold_slow(mut task: Task<'_>, hand: &mut SlowHand<'static>) -> Flow {
    let ks = &task.core.srv.ks;
    let (need, transaction) = match task.cmd.run {
        Run::Data { lock, .. } => {
            (of_data(ks, task.cmd, lock, task.request, task.session.db), None)
        }
        Run::Server(_) => (task.cmd.need(ks, task.request.args), None),
        Run::Exec => match transaction::take(task.core.srv, task.session) {
            Ok(transaction) => {
                (needs::of_transaction(&transaction, ks, task.session), Some(transaction))
            }
            Err(e) => {
                run::show_refused(&task);
                return reply::finish(task, Outcome::Ended(Err(e)));
            }
        },
        Run::Watch => (of_watch(ks, task.request), None),
    };
    let flags = flags_of(task.cmd, transaction.as_deref());
    task.core.begin_import(task.session.options.import_source, flags);
    if let (Need::Aside, Run::Server(number)) = (&need, task.cmd.run) {
        if is_killed(task.session) {
            return reply::finish(task, Outcome::Not(Flow::Done));
        }
        task.core.begin_command();
        return run::server(task, number, Held::Aside);
    }
    let turn = &mut task.core.turn;
    let outside = transfer::waits_outside(task.cmd.spec.name)
        || transaction.as_ref().is_some_and(|transaction| needs::waits_outside(transaction));
    let guard = match need {
        Need::One(shard) if outside => hand.hold_outside(turn, &ShardSet::one(shard)),
        Need::Shards(set) if outside => hand.hold_outside(turn, &set),
        Need::One(shard) => hand.hold(turn, &ShardSet::one(shard)),
        Need::Shards(set) => hand.hold(turn, &set),
        Need::Names => hand.cut(turn),
        // CLIENT KILL: all that is left is to wait for these.
        Need::Stop if task.session.replies.answer_behind.is_some() => {
            let behind = task.session.replies.answer_behind.iter();
            behind.for_each(|behind| task.core.srv.slow.wait_for(&behind.clients));
            hand.hold(turn, &ShardSet::of([]))
        }
        // What has taken effect comes to be answered when nobody else is at work here.
        Need::Nothing if !task.request.looked => hand.hold(turn, &ShardSet::of([])),
        Need::Nothing | Need::Stop | Need::World | Need::Rest | Need::Aside => hand.world(turn),
    };
    let slow = &task.core.srv.slow;
    let writes = flags.has(Flags::WRITE);
    // Both said before the look: a pause, or a kill, that this look does not see, sees this.
    let _writing = writes.then(|| slow.writing());
    // Whoever kills a client whose command waits for another server has no reason to wait for that, too.
    let acts = task.cmd.takes_session() && !outside;
    let _acts = acts.then(|| slow.acts(&task.session.shared));
    // What has taken effect only waits for its answer.
    let has_effect = task.request.looked && task.cmd.takes_session();
    let standing = match has_effect {
        true => Standing::Runs,
        false => look_again(&task, transaction.as_deref()),
    };
    match standing {
        Standing::Runs => {}
        Standing::Ended => return end(task, guard, transaction.is_some()),
        Standing::Paused => {
            if let Some(transaction) = transaction {
                transaction::put_back(&mut task, transaction);
            }
            return Flow::Paused;
        }
        Standing::Refused(e) => {
            if transaction.is_some() {
                transaction::discard(task.core.srv, task.session);
                transaction::renew_shared(task.session);
            }
            task.session.snapshot_wait = None;
            run::show_refused(&task);
            return commit::commit(task, guard, Outcome::Ended(Err(e)));
        }
    }
    // What is published for the client from here on comes behind the reply.
    if task.session.pushes.listens || flags.has(Flags::PUBSUB) || transaction.is_some() {
        let shared = &task.session.shared;
        let mailbox = &task.core.srv.threads[shared.thread()].mailbox;
        mailbox.send(Message::SlowBegun { client: shared.id });
    }
    task.core.only_reads = !writes;
    task.core.begin_command();
    // What it has waited for is no part of what it takes.
    task.core.last_tick = task.core.srv.time.clock.raw();
    task.core.begin_import(task.session.options.import_source, flags);
    match (task.cmd.run, transaction) {
        (Run::Data { run, .. }, _) => run::data(task, run, guard),
        (Run::Server(number), _) => run::server_with(task, number, guard),
        (Run::Exec, Some(transaction)) => {
            let is_broken = is_broken(&mut task, &guard);
            run::exec(task, &transaction, is_broken, guard)
        }
        (Run::Watch, _) => run::watch(task, guard),
        (Run::Exec, None) => unreachable!("seen to above"),
    }
}

/// Releases everything: the client has been killed, and nothing has happened. If it was its turn in a line, that
/// passes to those behind it.
#[cold]
fn end(task: Task<'_>, guard: Guard<'_>, is_transaction: bool) -> Flow {
    if is_transaction {
        transaction::discard(task.core.srv, task.session);
        transaction::renew_shared(task.session);
    }
    task.session.close = true;
    commit::commit(task, guard, Outcome::Not(Flow::Done))
}
