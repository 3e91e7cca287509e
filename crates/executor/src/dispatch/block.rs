//! Suspends a command: it moves to the slow lane, or its client is blocked on keys.

use crate::dispatch::commit;
use crate::dispatch::core::Core;
use crate::dispatch::outcome::{Flow, Outcome, Suspend};
use crate::dispatch::request::{Request, Task};
use std::sync::Arc;
use weft_commands::{Block, Lane, Pause};
use weft_keyspace::{Db, Guard};
use weft_state::command_table::Cmd;
use weft_state::mailbox::Message;
use weft_state::session::Session;
use weft_state::slow_lane::SlowMessage;
use weft_state::waiting::Waiting;
use weft_types::Kind;

/// Ends the run of a command on keys that has asked for `pause`. `seen`: the hits and misses counted before it ran.
#[cold]
pub fn suspend(task: Task<'_>, guard: Guard<'_>, pause: Pause, seen: (u64, u64)) -> Flow {
    let Task { core, session, request, cmd, reply, mark, lane } = task;
    let timeout_reply = reply.bytes_since(mark).to_vec();
    reply.truncate(mark);
    let suspend = match pause {
        Pause::Slow => {
            // The command reads its keys again in the slow lane, and counts them there.
            (core.context.tally.hits, core.context.tally.misses) = seen;
            core.context.effects.forget_misses();
            Suspend::Slow { has_run: true }
        }
        Pause::Block(block) => {
            if let Some(waiting) = &request.attempt.retry {
                let task = Task { core, session, request, cmd, reply, mark, lane };
                return stay_blocked(task, guard, waiting);
            }
            let Block { keys, timeout_ms, replacement_args } = *block;
            let now = core.srv.process.time.clock.raw();
            let spent_ns = core.srv.process.time.clock.delta_as_nanos(core.last_tick, now);
            core.last_tick = now;
            let end = (timeout_ms, timeout_reply);
            let keys = (&keys[..], replacement_args);
            Suspend::Blocked(block_client(core, session, request, cmd, lane, keys, end, spent_ns))
        }
    };
    let task = Task { core, session, request, cmd, reply, mark, lane };
    commit::commit_read(task, guard, Outcome::Suspended(suspend))
}

/// Whether one of the keys that a retrying client is blocked on still holds data for it. A key may have been
/// replaced by a value of another type, which such a client ignores.
#[cold]
pub fn has_data(core: &mut Core, guard: &Guard<'_>, waiting: &Waiting) -> bool {
    let ks = &core.srv.ks;
    let mut db = Db::new(guard, &mut core.context, waiting.context.db);
    waiting.awaited.keys.iter().any(|(_, key)| {
        let found = db.peek(&ks.key(key)).map(|record| Kind::of(record.kind()).type_of());
        waiting.minds(found)
    })
}

/// Ends the retry of a client that has found no data: it keeps its position in the wait queues.
#[cold]
pub fn stay_blocked(task: Task<'_>, guard: Guard<'_>, waiting: &Arc<Waiting>) -> Flow {
    notify_owner(task.core, waiting, task.lane);
    let suspend = Suspend::Blocked(waiting.clone());
    commit::commit_read(task, guard, Outcome::Suspended(suspend))
}

/// Adds the client to the wait queues of its keys.
#[cold]
#[allow(clippy::too_many_arguments, reason = "the parts of one execution")]
fn block_client(
    core: &Core,
    session: &Session,
    request: &Request<'_>,
    cmd: &'static Cmd,
    lane: Lane,
    (keys, replacement_args): (&[usize], Vec<(usize, Vec<u8>)>),
    (timeout_ms, timeout_reply): (Option<u64>, Vec<u8>),
    spent_ns: u64,
) -> Arc<Waiting> {
    let srv = core.srv;
    let deadline = timeout_ms.map(|ms| srv.mono_ms().saturating_add_unsigned(ms));
    let (ks, end) = (&srv.ks, timeout_reply);
    let waiting = Waiting::new(
        ks,
        session,
        cmd,
        request.args,
        keys,
        replacement_args,
        end,
        spent_ns,
        deadline,
    );
    let waiting = Arc::new(waiting);
    notify_owner(core, &waiting, lane);
    srv.clients.blocked.enter(&srv.ks, &waiting);
    waiting
}

/// Sends the wait to the client's I/O thread, if the command has run in the slow lane. The thread must know of the
/// wait before another thread can find it in a wait queue.
fn notify_owner(core: &Core, waiting: &Arc<Waiting>, lane: Lane) {
    if lane == Lane::Slow {
        let message = Message::Slow(SlowMessage::Blocked { waiting: waiting.clone() });
        core.srv.threads[waiting.thread].mailbox.send(message);
    }
}
