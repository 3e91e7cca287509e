//! MULTI and EXEC: commands that are queued, and run as one.
//!
//! EXEC takes the union of the shards of all queued commands and of the watched keys, in order,
//! as one multi-key command would; nobody sees a state in between. A queued command that needs
//! the whole keyspace makes EXEC stop the world. A queue with much to do is run by the slow lane,
//! as a single command with much to do is.

use crate::blocking::serve;
use crate::dispatch::execute::{self, Flow, Request, account_since, feed_monitors, refuse};
use crate::dispatch::guarded::{Need, Who, call, need};
use crate::dispatch::table::{Cmd, Run};
use crate::dispatch::{ConnCx, Core};
use crate::io::Session;
use crate::io::conn::ArgBuf;
use crate::slow;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_commands::spec::{Group, Spec};
use weft_commands::{CmdResult, Error, FAST_WORK, Flags, Lane};
use weft_keyspace::{Busy, Db, Guard, Keyspace, ShardSet, Watch};
use weft_resp::{Blob, Reply};
use weft_types::value;

const NOT_IN_MULTI: Error = Error::new("ERR EXEC without MULTI");
const ABORTED: Error = Error::new("EXECABORT Transaction discarded because of previous errors.");

/// A transaction that is being put together.
#[derive(Debug, Default)]
pub struct Transaction {
    queue: Vec<Queued>,
    /// All flags of the queued commands.
    pub flags: u32,
    /// A command was refused: EXEC will be.
    pub failed: bool,
}

#[derive(Debug)]
struct Queued {
    cmd: &'static Cmd,
    args: Vec<ArgBuf>,
}

impl Transaction {
    /// How many commands are queued.
    pub fn commands(&self) -> usize {
        self.queue.len()
    }

    /// Whether all commands are about keys, and none about the connection, which only its own
    /// thread may change.
    fn is_of_keys(&self) -> bool {
        self.queue.iter().all(|queued| match queued.cmd.run {
            Run::Data { .. } => true,
            Run::Server(_) | Run::Exec | Run::Watch => false,
        })
    }

    /// Bytes of the queued arguments.
    pub fn memory(&self) -> usize {
        let args = |q: &Queued| q.args.iter().map(|a| a.bytes().len()).sum::<usize>();
        self.queue.iter().map(|q| size_of::<Queued>() + args(q)).sum()
    }

    /// Queues a request.
    pub fn push(&mut self, cmd: &'static Cmd, request: &Request<'_>) {
        let mut args: Vec<ArgBuf> =
            request.args.iter().map(|a| ArgBuf::Bytes(a.to_vec())).collect();
        for (at, blob) in request.blobs {
            args[*at] = ArgBuf::Blob(blob.clone());
        }
        self.flags |= cmd.spec.flags.0;
        self.queue.push(Queued { cmd, args });
    }
}

/// What a client watches.
#[derive(Debug, Default)]
pub struct Watched {
    watch: Arc<Watch>,
    keys: Vec<(usize, Vec<u8>)>,
}

impl Watched {
    /// How many keys are watched.
    pub fn watched(&self) -> usize {
        self.keys.len()
    }

    /// Watches `key` of the database `index`, whose shard `guard` holds, unless it is watched.
    pub fn add(&mut self, db: &mut Db<'_>, key: &[u8]) {
        let index = db.index();
        if self.keys.iter().any(|(of, k)| *of == index && k == key) {
            return;
        }
        self.keys.push((index, key.to_vec()));
        let key = db.key(key);
        db.watch(&key, &self.watch);
    }

    /// Whether a watched key has changed, or has expired and nobody has noticed. The shards of
    /// all of them are held.
    fn is_broken(&self, core: &mut Core, guard: &Guard<'_>) -> bool {
        self.watch.is_broken()
            || self.keys.iter().any(|(db, key)| {
                let mut db = Db::new(guard, &mut core.turn, *db);
                let key = db.key(key);
                db.is_expired(&key)
            })
    }
}

/// Forgets transaction and watches: DISCARD, RESET.
pub fn discard(session: &mut Session) {
    session.transaction = None;
    session.watched = None;
}

/// EXEC.
pub fn exec(
    core: &mut Core,
    session: &mut Session,
    cmd: &'static Cmd,
    request: &Request<'_>,
    reply: &mut Reply,
) -> Flow {
    let Some(transaction) = session.transaction.take() else {
        refuse(core, reply, &NOT_IN_MULTI);
        execute::count(core, cmd, true);
        return Flow::Done;
    };
    if transaction.failed {
        discard(session);
        refuse(core, reply, &ABORTED);
        execute::count(core, cmd, true);
        return Flow::Done;
    }
    let from = core.last_tick;
    if cfg!(feature = "planted-race") {
        return exec_one_by_one(core, session, &transaction, reply);
    }
    let ks = &core.srv.ks;
    let flow = match shards(ks, session, &transaction) {
        Some(set) => match ks.guard(set) {
            Ok(guard) if is_heavy(core, session, &transaction, &guard) => Flow::Slow,
            Ok(mut guard) => {
                run_all(core, session, &transaction, reply, &mut guard);
                Flow::Done
            }
            Err(busy) => Flow::Busy(busy),
        },
        // To stop the world would be to wait for the slow lane: let it wait there.
        None if ks.is_slow_lane_busy() && transaction.is_of_keys() => Flow::Slow,
        None => {
            core.world(|core, guard| run_all(core, session, &transaction, reply, guard));
            Flow::Done
        }
    };
    core.free_trash();
    match flow {
        Flow::Done => {
            discard(session);
            feed_monitors(core, session, cmd, request.args);
            execute::count_since(core, cmd, from);
        }
        Flow::Busy(_) | Flow::Slow | Flow::Paused | Flow::Blocked => {
            session.transaction = Some(transaction);
        }
    }
    flow
}

/// EXEC in the slow lane, for a session that [`exec`] has sent there with its transaction.
pub fn exec_slow(
    core: &mut Core,
    session: &mut Session,
    cmd: &'static Cmd,
    request: &Request<'_>,
    reply: &mut Reply,
) {
    let from = core.last_tick;
    let Some(transaction) = session.transaction.take() else { return };
    match shards(&core.srv.ks, session, &transaction) {
        Some(set) => slow::holding(core, &Need::Shards(set), |core, guard| {
            run_all(core, session, &transaction, reply, guard);
        }),
        None => core.world(|core, guard| run_all(core, session, &transaction, reply, guard)),
    }
    feed_monitors(core, session, cmd, request.args);
    execute::count_since(core, cmd, from);
}

/// Whether the queue is too much for an I/O thread, by its length and by the sizes of the
/// collections that its commands may walk over. All of its shards are held. O(commands).
fn is_heavy(
    core: &mut Core,
    session: &Session,
    transaction: &Transaction,
    guard: &Guard<'_>,
) -> bool {
    if !transaction.is_of_keys() {
        return false;
    }
    let mut work = transaction.queue.len();
    let mut db = Db::new(guard, &mut core.turn, session.db);
    for queued in transaction.queue.iter().filter(|queued| may_walk(queued.cmd.spec)) {
        let args: SmallVec<[&[u8]; 16]> = queued.args.iter().map(ArgBuf::bytes).collect();
        let _ = queued.cmd.spec.key_positions(&args, |at| {
            let key = db.key(args[at]);
            work += db.peek(&key).map_or(0, |record| value::elements(&record));
        });
    }
    work > FAST_WORK
}

/// Whether the work of the command can be in proportion to the value that it finds.
fn may_walk(spec: &Spec) -> bool {
    match spec.group {
        Group::List | Group::Set | Group::SortedSet | Group::Hash | Group::Generic => {
            !spec.flags.has(Flags::FAST)
        }
        Group::String | Group::Transactions | Group::Connection | Group::Server => false,
    }
}

/// EXEC with a fault: others come in between its commands. Compiled into a server that nobody
/// uses but the test that the checker of histories finds such faults.
fn exec_one_by_one(
    core: &mut Core,
    session: &mut Session,
    transaction: &Transaction,
    reply: &mut Reply,
) -> Flow {
    session.watched = None;
    reply.array(transaction.queue.len());
    for queued in &transaction.queue {
        core.world(|core, guard| {
            run_one(core, session, queued, reply, guard);
            serve::serve(core, guard);
        });
        std::thread::yield_now();
    }
    Flow::Done
}

/// The shards of all commands and watched keys; `None`: the world.
fn shards(ks: &Keyspace, session: &Session, transaction: &Transaction) -> Option<ShardSet> {
    let mut shards = SmallVec::<[u16; 16]>::new();
    for queued in &transaction.queue {
        let args: SmallVec<[&[u8]; 16]> = queued.args.iter().map(ArgBuf::bytes).collect();
        let request = Request { cmd: Some(queued.cmd), args: &args, blobs: &[], key: None };
        match queued.cmd.run {
            Run::Data { lock, .. } => match need(ks, queued.cmd, lock, &request, session.db) {
                Need::One(shard) => shards.push(shard),
                Need::Shards(set) => shards.extend(set.iter()),
                Need::World | Need::Names => return None,
            },
            Run::Server(_) if queued.cmd.stops_the_world => return None,
            Run::Server(_) | Run::Exec | Run::Watch => {}
        }
    }
    let watched = session.watched.iter().flat_map(|w| &w.keys);
    shards.extend(watched.map(|(_, key)| ks.key(key).shard));
    Some(ShardSet::of(shards))
}

/// Runs the queue with everything held.
fn run_all(
    core: &mut Core,
    session: &mut Session,
    transaction: &Transaction,
    reply: &mut Reply,
    guard: &mut Guard<'_>,
) {
    let broken = session.watched.as_ref().is_some_and(|w| w.is_broken(core, guard));
    // Before the commands: their own changes break nothing that matters.
    session.watched = None;
    if broken {
        reply.null_array();
        return;
    }
    reply.array(transaction.queue.len());
    for queued in &transaction.queue {
        run_one(core, session, queued, reply, guard);
    }
    serve::serve(core, guard);
}

fn run_one(
    core: &mut Core,
    session: &mut Session,
    queued: &Queued,
    reply: &mut Reply,
    guard: &Guard<'_>,
) {
    let cmd = queued.cmd;
    let args: SmallVec<[&[u8]; 16]> = queued.args.iter().map(ArgBuf::bytes).collect();
    let mut blobs: SmallVec<[(usize, Blob); 1]> = SmallVec::new();
    for (at, arg) in queued.args.iter().enumerate() {
        if let ArgBuf::Blob(blob) = arg {
            blobs.push((at, blob.clone()));
        }
    }
    let request = Request { cmd: Some(cmd), args: &args, blobs: &blobs, key: None };
    let mark = reply.mark();
    let result: CmdResult = match cmd.run {
        Run::Data { run, .. } => {
            feed_monitors(core, session, cmd, &args);
            let who = Who::of(session);
            call(core, who, cmd, run, &request, reply, guard, Lane::Transaction).0
        }
        Run::Server(run) => {
            let (name, guard) = (cmd.full_name, Some(guard));
            let result = run(&mut ConnCx { core, session, args: &args, reply, name, guard });
            feed_monitors(core, session, cmd, &args);
            core.renew_settings();
            result
        }
        Run::Exec | Run::Watch => unreachable!("never queued"),
    };
    // HELLO may have changed it.
    reply.proto = session.proto;
    let failed = result.is_err();
    if let Err(e) = &result {
        reply.truncate(mark);
        refuse(core, reply, e);
    }
    account_since(core, session, cmd, &request, reply, mark, failed);
}

/// WATCH: remembers the keys while their shards are held.
pub fn watch(core: &mut Core, session: &mut Session, request: &Request<'_>) -> Result<(), Busy> {
    let srv = core.srv;
    let shards = request.args[1..].iter().map(|key| srv.ks.key(key).shard);
    let guard = srv.ks.guard(ShardSet::of(shards))?;
    let watched = session.watched.get_or_insert_default();
    let mut db = Db::new(&guard, &mut core.turn, session.db);
    for key in &request.args[1..] {
        watched.add(&mut db, key);
    }
    drop(guard);
    core.free_trash();
    Ok(())
}

/// Whether EXEC must be refused as its queue would be: out of memory, paused for writes.
pub fn flags_of(session: &Session, cmd: &Cmd) -> Flags {
    match (&session.transaction, cmd.run) {
        (Some(transaction), Run::Exec) => cmd.spec.flags.or(Flags(transaction.flags)),
        _ => cmd.spec.flags,
    }
}

/// Copies what CLIENT LIST shows of the transaction.
pub fn renew_shared(session: &Session) {
    let shared = &session.shared;
    let (transaction, watched) = (session.transaction.as_ref(), session.watched.as_ref());
    shared.in_transaction.store(transaction.is_some(), Ordering::Relaxed);
    let used = shared.queued.load(Ordering::Relaxed) >= 0;
    if used || transaction.is_some() || watched.is_some() {
        let queued = transaction.map_or(0, |t| t.commands() as i64);
        shared.queued.store(queued, Ordering::Relaxed);
    }
    let memory = transaction.map_or(0, |t| t.memory() as u64);
    shared.queue_memory.store(memory, Ordering::Relaxed);
    let before = shared.watched.load(Ordering::Relaxed);
    let keys = watched.map_or(0, |w| w.watched() as u64);
    // Most transactions come without WATCH.
    if (before, keys) != (0, 0) {
        shared.watched.store(keys, Ordering::Relaxed);
        let watch = watched.map(|w| w.watch.clone());
        *shared.watch.lock().unwrap_or_else(|p| p.into_inner()) = watch;
    }
}
