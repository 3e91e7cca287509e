//! Fourth stage: commit the command's effects, then release the shards.
//!
//! The effects of a command are committed as one group, with those of the blocked clients that it serves: watches
//! break, the journals of walks are written, blocked clients are served, clients that track keys get invalidations,
//! the group gets its position in the effect log, and keyspace notifications are published. Last, the client is
//! recorded as a reader of its keys. Next: [`crate::dispatch::reply`].

use crate::blocking;
use crate::blocking::serve;
use crate::dispatch::call;
use crate::dispatch::core::Core;
use crate::dispatch::outcome::{Flow, Outcome, Suspend};
use crate::dispatch::reply;
use crate::dispatch::request::{Request, Task};
use crate::tracking;
use weft_keyspace::Guard;
use weft_keyspace::commit::{end_group, seal};
use weft_keyspace::invalidation::invalidate;
use weft_keyspace::planted::{self, Fault};
use weft_state::command_table::Cmd;
use weft_state::session::Session;

/// A key of a database.
pub type Name = (usize, Box<[u8]>);

/// Commits the effects of the task and releases its shards.
#[inline(always)]
pub fn commit(task: Task<'_>, mut guard: Guard<'_>, outcome: Outcome) -> Flow {
    commit_effects(task.core, task.session, task.request, &mut guard, &outcome);
    guard.release();
    reply::finish(task, outcome)
}

/// As [`commit`]. Records the client as a reader of its keys, if it tracks them.
#[cold]
pub fn commit_read(task: Task<'_>, mut guard: Guard<'_>, outcome: Outcome) -> Flow {
    commit_effects(task.core, task.session, task.request, &mut guard, &outcome);
    let has_read = match &outcome {
        // A blocked client has read that its key is missing.
        Outcome::Ended(_) | Outcome::Suspended(Suspend::Blocked(_)) => true,
        // The commands of a transaction were recorded one by one.
        Outcome::EndedInParts { .. } | Outcome::Suspended(_) | Outcome::Killed => false,
    };
    let late = planted::is(Fault::Stale);
    if has_read
        && !late
        && record_reader(task.core, task.session, task.cmd, task.request.args, &guard)
    {
        tracking::enforce(task.core, &mut guard);
    }
    guard.release();
    if has_read && late {
        remember_late(&task);
    }
    reply::finish(task, outcome)
}

/// Records the client as a reader of the keys of `cmd`, if it tracks them. Returns whether there are any.
#[cold]
pub fn record_reader(
    core: &mut Core,
    session: &Session,
    cmd: &Cmd,
    args: &[&[u8]],
    guard: &Guard<'_>,
) -> bool {
    let Some(reader) = session.pushes.tracks.as_ref().and_then(|own| own.reader(cmd.spec.flags))
    else {
        return false;
    };
    // Sends the earlier invalidations first: the client has read the result of those changes.
    invalidate(guard, &mut core.context);
    tracking::record_reader(core.srv, Some(guard), reader, cmd, args)
}

/// As [`record_reader`], with a fault: another command can run before it. Only compiled into a server that tests the
/// checker of histories.
#[cold]
fn remember_late(task: &Task<'_>) {
    std::thread::yield_now();
    if let Some(reader) =
        task.session.pushes.tracks.as_ref().and_then(|own| own.reader(task.cmd.spec.flags))
    {
        tracking::record_reader(task.core.srv, None, reader, task.cmd, task.request.args);
    }
}

/// Commits the effects of a request, if there are any, and ends the retry of a blocked client.
#[inline(always)]
fn commit_effects(
    core: &mut Core,
    session: &mut Session,
    request: &Request<'_>,
    guard: &mut Guard<'_>,
    outcome: &Outcome,
) {
    if request.attempt.retry.is_some() {
        let keys = end_retry(core, request, outcome);
        log_and_commit(core, guard, session, request, keys);
    } else if !core.context.effects.is_empty() {
        log_and_commit(core, guard, session, request, Vec::new());
    }
}

/// Logs the command's arguments, unless the command has logged others, and commits its effects: see [`commit_pending`].
#[cold]
fn log_and_commit(
    core: &mut Core,
    guard: &mut Guard<'_>,
    session: &mut Session,
    request: &Request<'_>,
    names: Vec<Name>,
) {
    let before = core.context.last_unit();
    call::log_words(core, guard, session.db, request);
    commit_pending(core, guard, names);
    let unit = core.context.last_unit();
    if unit != before {
        session.last_unit = unit;
    }
}

/// Commits the pending effects, and serves the clients that are blocked on created keys and on `names`.
#[cold]
pub fn commit_pending(core: &mut Core, guard: &mut Guard<'_>, names: Vec<Name>) {
    guard.begin_commit();
    if names.is_empty() && core.context.effects.is_only_logged() {
        // No client is blocked, watches, tracks or gets notifications: most writes of a server with a log.
        seal(guard, &mut core.context);
        if let Some(act) = core.at_commit.take() {
            act();
        }
        guard.publish();
        return;
    }
    let served = serve::serve(core, guard, names);
    seal(guard, &mut core.context);
    if let Some(act) = core.at_commit.take() {
        act();
    }
    // Before clients are notified: they may read all keys next, and must find the commit complete.
    guard.publish();
    end_group(guard, &mut core.context);
    let unit = core.context.last_unit();
    served.into_iter().for_each(|served| served.send_reply(core.srv, unit));
}

/// Ends the retry of a blocked client, while its keys are held: the client has its reply, or stays blocked. Returns
/// the keys whose wait queues have other clients, which are served next.
#[cold]
fn end_retry(core: &Core, request: &Request<'_>, outcome: &Outcome) -> Vec<Name> {
    let Some(waiting) = &request.attempt.retry else { return Vec::new() };
    match outcome {
        Outcome::Ended(_) | Outcome::EndedInParts { .. } => {
            waiting.state.finish();
            blocking::leave(core.srv, waiting);
        }
        Outcome::Killed => {
            waiting.state.quit();
            blocking::leave(core.srv, waiting);
        }
        Outcome::Suspended(Suspend::Blocked(_)) => {
            waiting.state.settle();
            core.srv.clients.blocked.remove_if_over(&core.srv.ks, waiting);
        }
        // It keeps its turn, in the slow lane or for a later attempt, which also serves the clients after it.
        Outcome::Suspended(
            Suspend::Slow { .. }
            | Suspend::Busy(_)
            | Suspend::MailboxFull(_)
            | Suspend::Paused
            | Suspend::InTransit,
        ) => return Vec::new(),
    }
    let queues = &core.srv.clients.blocked;
    let others = waiting
        .awaited
        .keys
        .iter()
        .filter(|(shard, key)| queues.has(*shard, waiting.context.db, key));
    others.map(|(_, key)| (waiting.context.db, key[..].into())).collect()
}
