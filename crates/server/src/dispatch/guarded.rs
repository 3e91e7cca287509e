//! Holding what a command on keys needs, and calling its function.

use crate::blocking::{Waiting, serve};
use crate::dispatch::Core;
use crate::dispatch::execute::{Flow, Request, feed_monitors};
use crate::dispatch::table::Cmd;
use crate::io::Session;
use smallvec::SmallVec;
use std::sync::Arc;
use weft_commands::{CmdResult, Ctx, Lane, Pause, generic, spec::Lock};
use weft_keyspace::{Db, Guard, Keyspace, ShardSet};
use weft_resp::Reply;

/// A command's function.
pub type DataFn = fn(&mut Ctx<'_>) -> CmdResult;

/// What must be held while a request runs.
#[derive(Clone, Debug)]
pub enum Need {
    One(u16),
    Shards(ShardSet),
    World,
    /// The names of all keys at one moment.
    Names,
}

/// On whose behalf a command runs.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    pub db: usize,
    pub no_touch: bool,
}

impl Who {
    pub fn of(session: &Session) -> Self {
        Who { db: session.db, no_touch: session.no_touch }
    }
}

/// How an attempt to run a command on keys ended.
#[derive(Debug)]
pub enum Ran {
    Ended(CmdResult),
    /// Nothing has happened, for the time being.
    Not(Flow),
}

/// What `request` needs when it runs in database `db`.
#[inline]
pub fn need(ks: &Keyspace, cmd: &Cmd, lock: Lock, request: &Request<'_>, db: usize) -> Need {
    match (lock, request.key) {
        (Lock::Keys, Some(key)) if cmd.one_key => Need::One(key.shard),
        (Lock::Keys, _) => Need::Shards(shards_of(ks, cmd, request.args)),
        (Lock::ScanRange, _) => Need::Shards(generic::scan::shards(request.args, ks, db)),
        (Lock::World, _) => Need::World,
        (Lock::Names, _) => Need::Names,
        (Lock::Named(keys), _) => match keys(request.args) {
            Some(at) => {
                let shards = at.into_iter().map(|i| ks.key(request.args[i]).shard);
                Need::Shards(ShardSet::of(shards))
            }
            None => Need::World,
        },
    }
}

fn shards_of(ks: &Keyspace, cmd: &Cmd, args: &[&[u8]]) -> ShardSet {
    let mut shards = SmallVec::<[u16; 16]>::new();
    let _ = cmd.spec.key_positions(args, |i| shards.push(ks.key(args[i]).shard));
    ShardSet::of(shards)
}

/// Holds what the command needs and runs it on an I/O thread.
#[inline]
pub fn run_fast(
    core: &mut Core,
    session: &mut Session,
    cmd: &'static Cmd,
    (lock, run): (Lock, DataFn),
    request: &Request<'_>,
    reply: &mut Reply,
) -> Ran {
    let ks = &core.srv.ks;
    let guard = match need(ks, cmd, lock, request, session.db) {
        Need::One(shard) => ks.guard_one(shard),
        Need::Shards(set) => ks.guard(set),
        // To stop the world would be to wait for the slow lane: let the command wait there.
        Need::World | Need::Names if ks.is_slow_lane_busy() => return Ran::Not(Flow::Slow),
        Need::World | Need::Names => {
            return core.world(|core, guard| {
                attempt(core, session, cmd, run, request, reply, guard, Lane::Fast)
            });
        }
    };
    let mut guard = match guard {
        Ok(guard) => guard,
        Err(busy) => return Ran::Not(Flow::Busy(busy)),
    };
    let ran = attempt(core, session, cmd, run, request, reply, &mut guard, Lane::Fast);
    drop(guard);
    core.free_trash();
    ran
}

/// Runs a command whose needs are held, and what has to happen before they are released.
#[allow(clippy::too_many_arguments, reason = "the parts of one execution")]
#[inline]
pub fn attempt(
    core: &mut Core,
    session: &mut Session,
    cmd: &'static Cmd,
    run: DataFn,
    request: &Request<'_>,
    reply: &mut Reply,
    guard: &mut Guard<'_>,
    lane: Lane,
) -> Ran {
    // While the shards are held, so that two commands on one key are shown in their order. A
    // command that was shown before it had to wait is not shown again.
    if session.waiting.is_none() && lane == Lane::Fast {
        feed_monitors(core, session, cmd, request.args);
    }
    let mark = reply.mark();
    let (result, pause) = call(core, Who::of(session), cmd, run, request, reply, guard, lane);
    let ran = match pause {
        None => Ran::Ended(result),
        Some(Pause::TooLong) => {
            reply.truncate(mark);
            // A client that came back to try again waits no more: it is being served.
            if let Some(waiting) = session.waiting.take() {
                waiting.state.finish();
                core.srv.lines.leave(&core.srv.ks, &waiting);
            }
            return Ran::Not(Flow::Slow);
        }
        Some(Pause::Block { keys, timeout_ms }) => {
            let timeout_reply = reply.bytes_since(mark).to_vec();
            reply.truncate(mark);
            wait(core, session, cmd, request, &keys, timeout_ms, timeout_reply);
            Ran::Not(Flow::Blocked)
        }
    };
    if session.waiting.is_some() {
        after_wait(core, session, &ran);
    }
    if !core.turn.appeared.is_empty() || !core.turn.exchanged.is_empty() {
        serve::serve(core, guard);
    }
    ran
}

/// Has the client stand in line, or stay there, if it has come back to try again.
#[cold]
fn wait(
    core: &mut Core,
    session: &mut Session,
    cmd: &'static Cmd,
    request: &Request<'_>,
    keys: &[usize],
    timeout_ms: Option<u64>,
    timeout_reply: Vec<u8>,
) {
    if session.waiting.is_some() {
        return;
    }
    let srv = core.srv;
    let deadline = timeout_ms.map(|ms| core.turn.now_ms.saturating_add(ms as i64));
    let waiting = Waiting::new(&srv.ks, session, cmd, request, keys, timeout_reply, deadline);
    let waiting = Arc::new(waiting);
    srv.lines.enter(&srv.ks, &waiting);
    session.waiting = Some(waiting);
}

/// A client that waited has tried again, with all its keys in hand: it is done, or waits on; and
/// those who stand behind it get their turn.
#[cold]
fn after_wait(core: &mut Core, session: &mut Session, ran: &Ran) {
    let Some(waiting) = &session.waiting else { return };
    if !waiting.state.is_retry() {
        return;
    }
    let srv = core.srv;
    match ran {
        Ran::Ended(_) => {
            waiting.state.finish();
            srv.lines.leave(&srv.ks, waiting);
        }
        Ran::Not(_) => waiting.state.settle(),
    }
    for (shard, key) in &waiting.keys {
        if srv.lines.has(*shard, waiting.db, key) {
            core.turn.appeared.push((waiting.db, key.to_vec()));
        }
    }
    if waiting.state.is_over() {
        session.waiting = None;
    }
}

/// Calls the command's function.
#[allow(clippy::too_many_arguments, reason = "the parts of one execution")]
#[inline]
pub fn call(
    core: &mut Core,
    who: Who,
    cmd: &'static Cmd,
    run: DataFn,
    request: &Request<'_>,
    reply: &mut Reply,
    guard: &Guard<'_>,
    lane: Lane,
) -> (CmdResult, Option<Pause>) {
    let Core { turn, settings, .. } = core;
    turn.no_touch = who.no_touch;
    let mut ctx = Ctx {
        args: request.args,
        db: Db::new(guard, turn, who.db),
        reply,
        settings: &settings.commands,
        blobs: request.blobs,
        first_key: request.key.filter(|_| cmd.first_key == 1),
        lane,
        pause: None,
    };
    let result = run(&mut ctx);
    (result, ctx.pause)
}
