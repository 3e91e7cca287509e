//! The shards that a request needs while it runs, computed from its arguments.

use crate::dispatch::request::Request;
use crate::transaction;
use smallvec::SmallVec;
use weft_command_spec::Flags;
use weft_commands::{Lock, generic};
use weft_keyspace::{Keyspace, ShardSet};
use weft_state::args::ArgBuf;
use weft_state::command_table::{Cmd, Need, Run};
use weft_state::session::Session;

/// Whether a command in the slow lane must stop the world.
pub fn needs_world(ks: &Keyspace, cmd: &'static Cmd, args: &[&[u8]], session: &Session) -> bool {
    let need = match (cmd.run, &session.transaction) {
        (Run::Data { lock, .. }, _) => {
            data_need(ks, cmd, lock, &Request::new(Some(cmd), args, &[]), session.db)
        }
        (Run::Server(_), _) => cmd.need(ks, args),
        (Run::Exec, Some(_)) => transaction_need(ks, session),
        (Run::Exec, None) | (Run::Watch | Run::Script(_), _) => return false,
    };
    matches!(need, Need::World | Need::Stop | Need::Rest)
}

/// The shards that a request on keys needs in database `db`.
#[inline(always)]
pub fn data_need(ks: &Keyspace, cmd: &Cmd, lock: Lock, request: &Request<'_>, db: usize) -> Need {
    match (lock, request.key) {
        (Lock::Keys, Some(key)) if cmd.has_one_key(request.args.len()) => Need::One(key.shard),
        (Lock::Keys, _) => Need::Shards(shards_of(ks, cmd, request.args)),
        (Lock::ScanRange, _) => Need::Shards(generic::scan::shards(request.args, ks, db)),
        (Lock::World, _) => Need::World,
        (Lock::Rest, _) => Need::Rest,
        (Lock::Names, _) => Need::Names,
        (Lock::Named(keys), _) => match keys(request.args) {
            Some(at) => {
                let shards = at.into_iter().map(|i| ks.shard(request.args[i]));
                Need::Shards(ShardSet::of(shards))
            }
            None => Need::World,
        },
    }
}

/// The shards of the keys of WATCH. WATCH is little work, and runs in the slow lane only if they are rarely free at
/// the same time.
pub fn watch_need(ks: &Keyspace, request: &Request<'_>) -> Need {
    Need::Shards(ShardSet::of(request.args[1..].iter().map(|key| ks.shard(key))))
}

fn shards_of(ks: &Keyspace, cmd: &Cmd, args: &[&[u8]]) -> ShardSet {
    let mut shards = SmallVec::<[u16; 16]>::new();
    let _ = cmd.spec.key_positions(args, |i| shards.push(ks.shard(args[i])));
    ShardSet::of(shards)
}

/// The shards that EXEC needs for the session's queued commands and watched keys. O(commands + keys).
pub fn transaction_need(ks: &Keyspace, session: &Session) -> Need {
    let mut shards = SmallVec::<[u16; 16]>::new();
    for queued in transaction::queue(session) {
        let args: SmallVec<[&[u8]; 16]> = queued.args.iter().map(ArgBuf::bytes).collect();
        let need = match queued.cmd.run {
            Run::Data { lock, .. } => {
                let request = Request::new(Some(queued.cmd), &args, &[]);
                data_need(ks, queued.cmd, lock, &request, session.db)
            }
            Run::Server(_) => queued.cmd.need(ks, &args),
            Run::Exec | Run::Watch => Need::Nothing,
            // It may access undeclared keys.
            Run::Script(_) => Need::World,
        };
        match need {
            // BGSAVE and similar commands behave differently in a transaction: they need no shards.
            Need::Nothing | Need::Aside => {}
            Need::One(shard) => shards.push(shard),
            Need::Shards(set) => shards.extend(set.iter()),
            Need::Stop | Need::World | Need::AllShards | Need::Rest | Need::Names => {
                return Need::World;
            }
        }
    }
    shards.extend(session.watched.iter().flat_map(|watched| watched.shards()));
    Need::Shards(ShardSet::of(shards))
}

/// Whether a queued command may wait for another server.
pub fn waits_outside(session: &Session) -> bool {
    transaction::queue(session)
        .iter()
        .any(|queued| queued.cmd.spec.flags.has(Flags::WAITS_FOR_SERVER))
}
