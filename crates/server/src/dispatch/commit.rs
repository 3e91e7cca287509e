//! Fourth stage: everybody who wants to know is told, then the shards are released.
//!
//! What a command has changed is committed here as one group, with the commands of the clients that
//! it served: watches break, journals of walks are written, clients that wait for keys are served, the
//! group gets its place in the log of effects, keyspace notifications go out. What will listen to
//! changes (invalidations) hooks in at [`weft_keyspace::commit::settle`]. Next: [`super::reply`].

use crate::blocking::serve;
use crate::dispatch::request::{Flow, Outcome, Request, Task};
use crate::dispatch::{Core, reply, run};
use weft_keyspace::Guard;
use weft_keyspace::commit::{hand_over, seal};

/// A key of a database.
pub type Name = (usize, Box<[u8]>);

/// Commits what the task has changed and releases what it holds.
#[inline(always)]
pub fn commit(task: Task<'_>, mut guard: Guard<'_>, outcome: Outcome) -> Flow {
    if task.request.retry.is_some() {
        let behind = after_retry(task.core, task.request, &outcome);
        log_and_tell(task.core, &mut guard, task.session.db, task.request, behind);
    } else if !task.core.turn.effects.is_empty() {
        log_and_tell(task.core, &mut guard, task.session.db, task.request, Vec::new());
    }
    guard.release();
    reply::finish(task, outcome)
}

/// Logs the command in its own words, if that is to be (those that are several things in one have seen
/// to it, each by itself), and [`tell`]s.
#[cold]
fn log_and_tell(
    core: &mut Core,
    guard: &mut Guard<'_>,
    db: usize,
    request: &Request<'_>,
    names: Vec<Name>,
) {
    run::log_words(core, guard, db, request);
    tell(core, guard, names);
}

/// Settles the effects of the turn and serves those who wait: for keys that came to be, and for
/// those of `names`.
#[cold]
pub fn tell(core: &mut Core, guard: &mut Guard<'_>, names: Vec<Name>) {
    guard.begin_commit();
    let served = serve::serve(core, guard, names);
    seal(guard, &mut core.turn);
    // Who is told may look at all keys next: what was done is no longer in the middle of it.
    guard.publish();
    hand_over(guard, &mut core.turn);
    let unit = core.turn.last_unit();
    served.into_iter().for_each(|served| served.tell(core.srv, unit));
}

/// A client that waited has tried again, with all its keys in hand: it is done, or waits on. The
/// answer is keys for which others stand behind it: it is their turn.
#[cold]
fn after_retry(core: &Core, request: &Request<'_>, outcome: &Outcome) -> Vec<Name> {
    let Some(waiting) = request.retry else { return Vec::new() };
    match outcome {
        Outcome::Ended(_) | Outcome::EndedInParts { .. } | Outcome::Not(Flow::Slow { .. }) => {
            waiting.state.finish();
            core.srv.lines.leave(&core.srv.ks, waiting);
        }
        Outcome::Not(_) => waiting.state.settle(),
    }
    let lines = &core.srv.lines;
    let behind = waiting.keys.iter().filter(|(shard, key)| lines.has(*shard, waiting.db, key));
    behind.map(|(_, key)| (waiting.db, key.clone())).collect()
}
