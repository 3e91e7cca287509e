//! Serves the clients that are blocked on created keys.
//!
//! Called after a command or a transaction, while its shards are still held.
//!
//! A client stays claimed until all clients are served, and gets its reply at the end. With an earlier reply, it
//! could send its next command while this thread still serves other clients. A push that follows the reply could
//! then serve one of those clients first, and no serial order of the two commands would explain that.

use crate::access;
use crate::blocking::{Served, hand_over, leave};
use crate::cluster;
use crate::dispatch::call::{Caller, call, log_words};
use crate::dispatch::core::Core;
use crate::dispatch::refusals;
use crate::dispatch::reply;
use crate::dispatch::request::Request;
use crate::tracking;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_commands::{Error, Lane, Pause};
use weft_keyspace::commit::settle;
use weft_keyspace::invalidation::invalidate;
use weft_keyspace::wait::Claim;
use weft_keyspace::{Db, Guard, SHARDS};
use weft_resp::Reply;
use weft_state::attention;
use weft_state::command_table::Run;
use weft_state::waiting::Waiting;
use weft_types::{Kind, Type};

/// Settles the pending effects. Serves the clients that are blocked on created keys, on keys of databases that
/// SWAPDB exchanged, on `names`, and on keys that the served commands create. O(effects + clients served or skipped).
#[cold]
#[must_use]
pub fn serve(
    core: &mut Core,
    guard: &mut Guard<'_>,
    names: Vec<(usize, Box<[u8]>)>,
) -> Vec<Served> {
    let mut left: VecDeque<(usize, Box<[u8]>)> = names.into();
    let mut served = Vec::new();
    loop {
        let awaited = settle(guard, &mut core.context);
        left.extend(awaited.keys);
        for (a, b) in awaited.exchanged {
            for shard in 0..SHARDS as u16 {
                for db in [a, b] {
                    let keys = core.srv.clients.blocked.keys(shard, db);
                    left.extend(keys.into_iter().map(|key| (db, key)));
                }
            }
        }
        let Some((db, key)) = left.pop_front() else { break };
        serve_key(core, guard, db, &key, &mut served);
    }
    served
}

fn serve_key(
    core: &mut Core,
    guard: &mut Guard<'_>,
    db: usize,
    name: &[u8],
    served: &mut Vec<Served>,
) {
    let srv = core.srv;
    let key = srv.ks.key(name);
    // The position of the last client checked. Clients that could not be served keep their positions.
    let mut passed = 0;
    loop {
        let found = Db::new(guard, &mut core.context, db).peek(&key).map(|record| record.kind());
        let found: Option<Type> = found.map(|kind| Kind::of(kind).type_of());
        let name = (key.shard(), db, name);
        // After this server became a replica, clients that are blocked on a write get an error instead.
        let may = |w: &Arc<Waiting>| !refusals::is_refused_write(core, w.cmd.spec.flags);
        let is_next = |w: &Arc<Waiting>| {
            if let Some(found) = found {
                w.note_type(found);
            }
            w.minds(found) && !w.state.is_over() && may(w)
        };
        let next = srv.clients.blocked.first_after(passed, name, is_next);
        let Some((number, waiting)) = next else { return };
        passed = number;
        // Before its command executes.
        let term = srv.nodes.cluster.authority.term();
        match waiting.state.claim() {
            Claim::Over | Claim::Theirs => {}
            Claim::Owners => return,
            Claim::Ours if guard.try_extend(&mut core.context, &waiting.must_hold()).is_err() => {
                hand_over(core.srv, &waiting, true);
                return;
            }
            Claim::Ours => match serve_one(core, guard, &waiting) {
                Serving::Done(reply) => served.push(Served { waiting, reply, term }),
                Serving::StaysBlocked => {}
                Serving::HandedOver => return,
            },
        }
    }
}

/// The result of running the command of a blocked client.
enum Serving {
    Done(Reply),
    StaysBlocked,
    /// The command is too much work: the client's own thread runs it, and serves the clients after it.
    HandedOver,
}

/// Runs the command of a claimed client.
fn serve_one(core: &mut Core, guard: &Guard<'_>, waiting: &Arc<Waiting>) -> Serving {
    let Run::Data { run, .. } = waiting.cmd.run else {
        unreachable!("only commands on keys block");
    };
    let args: Vec<&[u8]> = waiting.args.iter().map(|a| a.bytes()).collect();
    let request = Request::new(Some(waiting.cmd), &args, &[]);
    let mut reply = Reply::new(waiting.context.proto);
    let caller =
        Caller { db: waiting.context.db, no_touch: waiting.context.no_touch, is_source: false };
    core.renew_access();
    let from = core.srv.process.time.clock.raw();
    if let Err(e) = check_access(core, waiting, &args).and_then(|()| check_slot(core, waiting)) {
        return refuse(core, waiting, from, &e, reply);
    }
    let own_changes = std::mem::replace(&mut core.context.client, waiting.context.own_changes);
    let seen = (core.context.tally.hits, core.context.tally.misses);
    let (result, pause) =
        call(core, caller, waiting.cmd, run, &request, &mut reply, guard, Lane::Served);
    core.context.client = own_changes;
    if !core.context.effects.is_empty() {
        log_words(core, guard, caller.db, &request);
    }
    match pause {
        Some(Pause::Block(_)) => {
            hand_over(core.srv, waiting, false);
            return Serving::StaysBlocked;
        }
        Some(Pause::Slow) => {
            (core.context.tally.hits, core.context.tally.misses) = seen;
            hand_over(core.srv, waiting, true);
            return Serving::HandedOver;
        }
        None => {}
    }
    leave(core.srv, waiting);
    if let Some(reader) = &waiting.context.reader {
        invalidate(guard, &mut core.context);
        tracking::record_reader(core.srv, Some(guard), reader, waiting.cmd, &args);
    }
    if let Err(e) = &result {
        reply.clear();
        reply::refuse(core, &mut reply, e);
    }
    let to = core.srv.process.time.clock.raw();
    // This time does not count as time of the command that created the key.
    core.last_tick += to.saturating_sub(from);
    let ns = waiting.spent_ns + core.srv.process.time.clock.delta_as_nanos(from, to);
    reply::count_waited(core, waiting, ns, &reply, result.is_err());
    Serving::Done(reply)
}

/// Checks the rights of a blocked client's user again, which may have changed since it was blocked.
fn check_access(core: &Core, waiting: &Waiting, args: &[&[u8]]) -> Result<(), Error> {
    if waiting.context.identity.is_free_in(core.access_generation) {
        return Ok(());
    }
    let mut identity = waiting.context.identity.clone();
    let client = (&*waiting.shared, &mut identity);
    access::check_blocked(core, client, waiting.cmd, args, waiting.context.db)
}

/// Checks in cluster mode whether this node still serves the slot of a blocked client.
fn check_slot(core: &mut Core, waiting: &Waiting) -> Result<(), Error> {
    match core.srv.attention.load(Ordering::Relaxed) & attention::CLUSTER {
        0 => Ok(()),
        _ => cluster::check_blocked(core.srv, &mut core.topology, waiting),
    }
}

/// Ends the wait of a client whose user may no longer run the command, or whose slot another node serves. Other clients get the element.
#[cold]
fn refuse(
    core: &mut Core,
    waiting: &Arc<Waiting>,
    from: u64,
    e: &Error,
    mut reply: Reply,
) -> Serving {
    leave(core.srv, waiting);
    reply::refuse(core, &mut reply, e);
    core.stats().commands[waiting.cmd.number].rejected.add(1);
    core.last_tick += core.srv.process.time.clock.raw().saturating_sub(from);
    Serving::Done(reply)
}
