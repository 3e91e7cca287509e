//! Fourth stage: everybody who wants to know is told, then the shards are released.
//!
//! What a command has changed is committed here as one group, with the commands of the clients that
//! it served: watches break, journals of walks are written, clients that wait for keys are served,
//! clients that keep what they read are told, the group gets its place in the log of effects, keyspace
//! notifications go out. What the client itself has read is remembered last. Next: [`crate::dispatch::reply`].

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
use weft_state::command_table::Cmd;
use weft_state::session::Session;

/// A key of a database.
pub type Name = (usize, Box<[u8]>);

/// Commits what the task has changed and releases what it holds.
#[inline(always)]
pub fn commit(task: Task<'_>, mut guard: Guard<'_>, outcome: Outcome) -> Flow {
    tell_all(task.core, task.session, task.request, &mut guard, &outcome);
    guard.release();
    reply::finish(task, outcome)
}

/// As [`commit`], for a client that keeps what it reads: that it has read its keys is remembered.
#[cold]
pub fn commit_read(task: Task<'_>, mut guard: Guard<'_>, outcome: Outcome) -> Flow {
    tell_all(task.core, task.session, task.request, &mut guard, &outcome);
    let has_read = match &outcome {
        // A blocked client has read that its key is missing.
        Outcome::Ended(_) | Outcome::Suspended(Suspend::Blocked(_)) => true,
        // The commands of a transaction were recorded one by one.
        Outcome::EndedInParts { .. } | Outcome::Suspended(_) | Outcome::Killed => false,
    };
    let late = cfg!(feature = "planted-stale");
    if has_read && !late && remember(task.core, task.session, task.cmd, task.request.args, &guard) {
        tracking::enforce(task.core, &mut guard);
    }
    guard.release();
    if has_read && late {
        remember_late(&task);
    }
    reply::finish(task, outcome)
}

/// Remembers that the client has read the keys of `cmd`, if it keeps what it reads; whether there are any.
#[cold]
pub fn remember(
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
    // What was done before that has been read over.
    invalidate(guard, &mut core.context);
    tracking::remember(core.srv, Some(guard), reader, cmd, args)
}

/// As [`remember`], with a fault: others come in between. Compiled into a server that nobody uses but the
/// test that the checker of histories finds such faults.
#[cold]
fn remember_late(task: &Task<'_>) {
    std::thread::yield_now();
    if let Some(reader) =
        task.session.pushes.tracks.as_ref().and_then(|own| own.reader(task.cmd.spec.flags))
    {
        tracking::remember(task.core.srv, None, reader, task.cmd, task.request.args);
    }
}

/// Tells everybody who wants to know.
#[inline(always)]
fn tell_all(
    core: &mut Core,
    session: &mut Session,
    request: &Request<'_>,
    guard: &mut Guard<'_>,
    outcome: &Outcome,
) {
    if request.attempt.retry.is_some() {
        let behind = after_retry(core, request, outcome);
        log_and_tell(core, guard, session, request, behind);
    } else if !core.context.effects.is_empty() {
        log_and_tell(core, guard, session, request, Vec::new());
    }
}

/// Logs the command in its own words, if that is to be (those that are several things in one have seen
/// to it, each by itself), and [`tell`]s.
#[cold]
fn log_and_tell(
    core: &mut Core,
    guard: &mut Guard<'_>,
    session: &mut Session,
    request: &Request<'_>,
    names: Vec<Name>,
) {
    let before = core.context.last_unit();
    call::log_words(core, guard, session.db, request);
    tell(core, guard, names);
    let unit = core.context.last_unit();
    if unit != before {
        session.last_unit = unit;
    }
}

/// Settles the effects of the turn and serves those who wait: for keys that came to be, and for
/// those of `names`.
#[cold]
pub fn tell(core: &mut Core, guard: &mut Guard<'_>, names: Vec<Name>) {
    guard.begin_commit();
    if names.is_empty() && core.context.effects.is_only_logged() {
        // Nobody waits, watches, keeps what was read or listens: most writes of a server with a log.
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
    // Who is told may look at all keys next: what was done is no longer in the middle of it.
    guard.publish();
    end_group(guard, &mut core.context);
    let unit = core.context.last_unit();
    served.into_iter().for_each(|served| served.tell(core.srv, unit));
}

/// A client that waited has tried again, with all its keys in hand: it is done, or waits on. The
/// answer is keys for which others stand behind it: it is their turn.
#[cold]
fn after_retry(core: &Core, request: &Request<'_>, outcome: &Outcome) -> Vec<Name> {
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
            Suspend::Slow { .. } | Suspend::Busy(_) | Suspend::MailboxFull(_) | Suspend::Paused,
        ) => return Vec::new(),
    }
    let lines = &core.srv.clients.blocked;
    let behind = waiting
        .awaited
        .keys
        .iter()
        .filter(|(shard, key)| lines.has(*shard, waiting.context.db, key));
    behind.map(|(_, key)| (waiting.context.db, key[..].into())).collect()
}
