//! Serving those who wait for keys that have come to be.
//!
//! Called after a command or a transaction, while its shards are still held.
//!
//! A client is claimed for as long as the whole of it takes, and gets its reply at the end, as if
//! it were one more key that the command holds. Were it told at once, it could act on what the
//! command has done while the command still looks for others to serve: a push that comes after the
//! client's reply could serve one of those first, and no order of the two would explain that.

use crate::blocking::{Served, hand_over, leave};
use crate::dispatch::call::{Caller, call, log_words};
use crate::dispatch::core::Core;
use crate::dispatch::refusals;
use crate::dispatch::reply;
use crate::dispatch::request::Request;
use crate::tracking;
use std::collections::VecDeque;
use std::sync::Arc;
use weft_commands::{Lane, Pause};
use weft_keyspace::commit::settle;
use weft_keyspace::invalidation::invalidate;
use weft_keyspace::wait::Claim;
use weft_keyspace::{Db, Guard, SHARDS};
use weft_resp::Reply;
use weft_state::command_table::Run;
use weft_state::waiting::Waiting;
use weft_types::{Kind, Type};

/// Settles the effects of the turn, and serves the lines of keys that came to be, of databases that
/// were exchanged, of `names`, and of keys that come to be by that. O(effects and clients that are
/// served or looked at).
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
    // Up to whom the line has been looked at. Who could not be served keeps the place.
    let mut passed = 0;
    loop {
        let found = Db::new(guard, &mut core.context, db).peek(&key).map(|record| record.kind());
        let found: Option<Type> = found.map(|kind| Kind::of(kind).type_of());
        let name = (key.shard, db, name);
        // Who waited to write when this server became a replica is told so, and is not served before.
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
        match waiting.state.claim() {
            Claim::Over | Claim::Theirs => {}
            Claim::Owners => return,
            Claim::Ours if guard.try_extend(&mut core.context, &waiting.must_hold()).is_err() => {
                hand_over(core.srv, &waiting, true);
                return;
            }
            Claim::Ours => match serve_one(core, guard, &waiting) {
                Serving::Done(reply) => served.push(Served { waiting, reply }),
                Serving::WaitsOn => {}
                Serving::HandedOver => return,
            },
        }
    }
}

/// What came of running the command of a client that waits.
enum Serving {
    Done(Reply),
    WaitsOn,
    /// It is much to do: its own thread sees to it, and to those who stand behind it.
    HandedOver,
}

/// Runs the command of a claimed client.
fn serve_one(core: &mut Core, guard: &Guard<'_>, waiting: &Arc<Waiting>) -> Serving {
    let Run::Data { run, .. } = waiting.cmd.run else {
        unreachable!("only commands on keys wait");
    };
    let args: Vec<&[u8]> = waiting.args.iter().map(|a| a.bytes()).collect();
    let request = Request::new(Some(waiting.cmd), &args, &[]);
    let mut answer = Reply::new(waiting.context.proto);
    let who =
        Caller { db: waiting.context.db, no_touch: waiting.context.no_touch, is_source: false };
    let from = core.srv.time.clock.raw();
    let own_changes = std::mem::replace(&mut core.context.client, waiting.context.own_changes);
    let seen = (core.context.tally.hits, core.context.tally.misses);
    let (result, pause) =
        call(core, who, waiting.cmd, run, &request, &mut answer, guard, Lane::Served);
    core.context.client = own_changes;
    if !core.context.effects.is_empty() {
        log_words(core, guard, who.db, &request);
    }
    match pause {
        Some(Pause::Block(_)) => {
            hand_over(core.srv, waiting, false);
            return Serving::WaitsOn;
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
        tracking::remember(core.srv, Some(guard), reader, waiting.cmd, &args);
    }
    if let Err(e) = &result {
        answer.clear();
        reply::refuse(core, &mut answer, e);
    }
    let to = core.srv.time.clock.raw();
    // It is no work of the command that serves.
    core.last_tick += to.saturating_sub(from);
    let ns = waiting.spent_ns + core.srv.time.clock.delta_as_nanos(from, to);
    reply::count_waited(core, waiting, ns, &answer, result.is_err());
    Serving::Done(answer)
}
