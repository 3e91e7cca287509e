//! Serving those who wait for keys that have come to be.
//!
//! Called after a command or a transaction, while its shards are still held.
//!
//! A client is claimed for as long as the whole of it takes, and gets its reply at the end, as if
//! it were one more key that the command holds. Were it told at once, it could act on what the
//! command has done while the command still looks for others to serve: a push that comes after the
//! client's reply could serve one of those first, and no order of the two would explain that.

use super::Waiting;
use crate::dispatch::guarded::{Who, call};
use crate::dispatch::table::Run;
use crate::dispatch::{Core, execute};
use crate::io::Message;
use std::sync::Arc;
use weft_commands::{Lane, Pause};
use weft_keyspace::wait::{Claim, Unclaim};
use weft_keyspace::{Db, Guard, SHARDS};
use weft_resp::Reply;
use weft_types::{Kind, Type};

/// Serves the lines of all keys in [`Turn::appeared`](weft_keyspace::Turn::appeared), of databases
/// that were exchanged, and of keys that come to be by it. O(clients that are served or looked at).
#[cold]
pub fn serve(core: &mut Core, guard: &mut Guard<'_>) {
    for (a, b) in std::mem::take(&mut core.turn.exchanged) {
        for shard in 0..SHARDS as u16 {
            for db in [a, b] {
                let keys = core.srv.lines.keys(shard, db);
                core.turn.appeared.extend(keys.into_iter().map(|key| (db, key.into_vec())));
            }
        }
    }
    let mut n = 0;
    let mut served = Vec::new();
    while n < core.turn.appeared.len() {
        let (db, key) = std::mem::take(&mut core.turn.appeared[n]);
        serve_key(core, guard, db, &key, &mut served);
        n += 1;
    }
    core.turn.appeared.clear();
    for Served { waiting, reply } in served {
        waiting.state.finish();
        let message = Message::Served { client: waiting.client, reply };
        core.srv.threads[waiting.thread].mailbox.send(message);
    }
}

/// A client that is claimed and out of all lines, and what it is to be told.
struct Served {
    waiting: Arc<Waiting>,
    reply: Reply,
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
    // Those who have been looked at and could not be served: they keep their place.
    let mut passed: Vec<u64> = Vec::new();
    loop {
        let found = Db::new(guard, &mut core.turn, db).peek(&key).map(|record| record.kind());
        let Some(kind) = found else { return };
        let kind: Type = Kind::of(kind).type_of();
        let next = srv.lines.first(key.shard, db, name, |w| {
            w.wants() == Some(kind) && !w.state.is_over() && !passed.contains(&w.client)
        });
        let Some(waiting) = next else { return };
        match waiting.state.claim() {
            Claim::Over => {}
            Claim::Theirs => passed.push(waiting.client),
            Claim::Owners => return,
            Claim::Ours if guard.try_extend(&waiting.others).is_err() => {
                hand_over(core, &waiting, true);
                return;
            }
            Claim::Ours => match serve_one(core, guard, &waiting) {
                Some(reply) => served.push(Served { waiting, reply }),
                None => passed.push(waiting.client),
            },
        }
    }
}

/// Gives a claimed client up again.
fn hand_over(core: &Core, waiting: &Waiting, hand_over: bool) {
    match waiting.state.unclaim(hand_over) {
        Unclaim::Waits => {}
        Unclaim::Retry => {
            let message = Message::Retry { client: waiting.client };
            core.srv.threads[waiting.thread].mailbox.send(message);
        }
    }
}

/// Runs the command of a claimed client; its reply, when it was served.
fn serve_one(core: &mut Core, guard: &Guard<'_>, waiting: &Arc<Waiting>) -> Option<Reply> {
    let Run::Data { run, .. } = waiting.cmd.run else {
        unreachable!("only commands on keys wait");
    };
    let args: Vec<&[u8]> = waiting.args.iter().map(|a| a.bytes()).collect();
    let request = execute::Request { cmd: Some(waiting.cmd), args: &args, blobs: &[], key: None };
    let mut reply = Reply::new(waiting.proto);
    let who = Who { db: waiting.db, no_touch: waiting.no_touch };
    let (result, pause) =
        call(core, who, waiting.cmd, run, &request, &mut reply, guard, Lane::Served);
    match pause {
        Some(Pause::Block { .. }) => {
            hand_over(core, waiting, false);
            return None;
        }
        Some(Pause::TooLong) | None => {}
    }
    core.srv.lines.leave(&core.srv.ks, waiting);
    if let Err(e) = &result {
        reply.clear();
        execute::refuse(core, &mut reply, e);
    }
    execute::count(core, waiting.cmd, result.is_err());
    Some(reply)
}
