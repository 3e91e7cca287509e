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

/// Whether a command in the slow lane must stop the world. A script takes all shards only when it has to.
pub fn needs_world(ks: &Keyspace, cmd: &'static Cmd, args: &[&[u8]], session: &Session) -> bool {
    let request = Request::new(Some(cmd), args, &[]);
    !matches!(cmd.run, Run::Script(_))
        && matches!(request_need(ks, cmd, &request, session), Need::World | Need::Stop | Need::Rest)
}

/// Whether a command under a guard of all shards needs the I/O threads to be between two commands, too.
pub fn needs_stop(ks: &Keyspace, cmd: &Cmd, request: &Request<'_>, db: usize) -> bool {
    match command_need(ks, cmd, request, db) {
        Need::Stop | Need::World | Need::Rest | Need::Names => true,
        Need::Nothing | Need::One(_) | Need::Shards(_) | Need::AllShards | Need::Aside => false,
    }
}

/// The locks that a request needs, with the commands and the watched keys of EXEC.
pub fn request_need(ks: &Keyspace, cmd: &Cmd, request: &Request<'_>, session: &Session) -> Need {
    match cmd.run {
        Run::Exec => transaction_need(ks, session),
        Run::Data { .. } | Run::Server(_) | Run::Watch | Run::Script(_) => {
            command_need(ks, cmd, request, session.db)
        }
    }
}

/// The locks that a command needs in database `db`, by itself or as one of several commands that run as one.
#[inline]
pub fn command_need(ks: &Keyspace, cmd: &Cmd, request: &Request<'_>, db: usize) -> Need {
    match cmd.run {
        Run::Data { lock, .. } => data_need(ks, cmd, lock, request, db),
        Run::Server(_) => cmd.need(ks, request.args),
        Run::Exec => Need::Nothing,
        Run::Watch => watch_need(ks, request),
        // It may access undeclared keys. While it runs, SCRIPT KILL must be answered.
        Run::Script(_) => Need::AllShards,
    }
}

/// The locks that commands need together that run as one, and hold `shards` too. With a script among them, it is all
/// shards: the commands that need the world stop the I/O threads themselves.
pub fn union_need(
    needs: impl IntoIterator<Item = Need>,
    shards: impl IntoIterator<Item = u16>,
) -> Need {
    let mut union: SmallVec<[u16; 16]> = shards.into_iter().collect();
    let mut all = None;
    for need in needs {
        match need {
            // BGSAVE and similar commands behave differently in a transaction: they need no shards.
            Need::Nothing | Need::Aside => {}
            Need::One(shard) => union.push(shard),
            Need::Shards(set) => union.extend(set.iter()),
            Need::AllShards => all = Some(Need::AllShards),
            Need::Stop | Need::World | Need::Rest | Need::Names => {
                all = all.or(Some(Need::World));
            }
        }
    }
    all.unwrap_or_else(|| Need::Shards(ShardSet::of(union)))
}

/// The shards that a request on keys needs in database `db`.
#[inline(always)]
pub fn data_need(ks: &Keyspace, cmd: &Cmd, lock: Lock, request: &Request<'_>, db: usize) -> Need {
    match (lock, request.key) {
        (Lock::Keys, Some(key)) if cmd.has_one_key(request.args.len()) => Need::One(key.shard()),
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
    let needs = transaction::queue(session).iter().map(|queued| {
        let args: SmallVec<[&[u8]; 16]> = queued.args.iter().map(ArgBuf::bytes).collect();
        let request = Request::new(Some(queued.cmd), &args, &[]);
        command_need(ks, queued.cmd, &request, session.db)
    });
    union_need(needs, session.watched.iter().flat_map(|watched| watched.shards()))
}

/// Whether a queued command may wait for another server.
pub fn waits_outside(session: &Session) -> bool {
    transaction::queue(session)
        .iter()
        .any(|queued| queued.cmd.spec.flags.has(Flags::WAITS_FOR_SERVER))
}
