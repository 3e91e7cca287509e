//! MULTI and EXEC: commands that are queued, and run as one.
//!
//! EXEC takes the union of the shards of all queued commands and of the watched keys, in order,
//! as one multi-key command would; nobody sees a state in between. A queued command that needs
//! the whole keyspace makes EXEC stop the world. A queue with much to do is run by the slow lane,
//! as a single command with much to do is. Here is what is queued and watched, and what it needs;
//! the stages of [`crate::dispatch`] run it.

use crate::commands::transfer;
use crate::dispatch::Core;
use crate::dispatch::hold::{Need, of_data};
use crate::dispatch::request::{Request, Task};
use crate::dispatch::table::{Cmd, Run};
use crate::io::Session;
use crate::io::conn::ArgBuf;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_commands::{Error, Flags};
use weft_keyspace::{Db, Guard, Keyspace, ShardSet, Watch};

const NOT_IN_MULTI: Error = Error::new("ERR EXEC without MULTI");
const ABORTED: Error = Error::new("EXECABORT Transaction discarded because of previous errors.");

/// A transaction that is being put together.
#[derive(Debug, Default)]
pub struct Transaction {
    pub queue: Vec<Queued>,
    /// Bytes of the queued arguments, and of the queue.
    memory: usize,
    /// All flags of the queued commands.
    pub flags: u32,
    /// A command was refused: EXEC will be.
    pub failed: bool,
}

/// One queued command.
#[derive(Debug)]
pub struct Queued {
    pub cmd: &'static Cmd,
    pub args: Vec<ArgBuf>,
}

impl Transaction {
    /// How many commands are queued.
    pub fn commands(&self) -> usize {
        self.queue.len()
    }

    /// Bytes of the queue with its arguments. O(1).
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Queues a request.
    pub fn push(&mut self, cmd: &'static Cmd, request: &Request<'_>) {
        let mut args: Vec<ArgBuf> =
            request.args.iter().map(|a| ArgBuf::Bytes(a.to_vec())).collect();
        for (at, blob) in request.blobs {
            args[*at] = ArgBuf::Blob(blob.clone());
        }
        self.flags |= cmd.spec.flags.0;
        let room = |arg: &ArgBuf| size_of::<ArgBuf>() + arg.bytes().len();
        self.memory += size_of::<Queued>() + args.iter().map(room).sum::<usize>();
        self.queue.push(Queued { cmd, args });
    }

    /// What EXEC needs for all commands and for what the session watches. O(commands).
    pub fn need(&self, ks: &Keyspace, session: &Session) -> Need {
        let mut shards = SmallVec::<[u16; 16]>::new();
        for queued in &self.queue {
            let args: SmallVec<[&[u8]; 16]> = queued.args.iter().map(ArgBuf::bytes).collect();
            let need = match queued.cmd.run {
                Run::Data { lock, .. } => {
                    let request = Request::new(Some(queued.cmd), &args, &[]);
                    of_data(ks, queued.cmd, lock, &request, session.db)
                }
                Run::Server(_) => queued.cmd.need(ks, &args),
                Run::Exec | Run::Watch => Need::Nothing,
            };
            match need {
                // What would be done aside knows that it is in a transaction.
                Need::Nothing | Need::Aside => {}
                Need::One(shard) => shards.push(shard),
                Need::Shards(set) => shards.extend(set.iter()),
                Need::Stop | Need::World | Need::Rest | Need::Names => return Need::World,
            }
        }
        let watched = session.watched.iter().flat_map(|w| w.keys.keys());
        shards.extend(watched.map(|watched| ks.shard(&watched.name)));
        Need::Shards(ShardSet::of(shards))
    }

    /// Whether one of its commands may wait for something outside of the process.
    pub fn waits_outside(&self) -> bool {
        self.queue.iter().any(|queued| transfer::waits_outside(queued.cmd.spec.name))
    }
}

/// What a client watches.
#[derive(Debug, Default)]
pub struct Watched {
    watch: Arc<Watch>,
    keys: HashMap<WatchedKey, Begun, foldhash::fast::RandomState>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WatchedKey {
    db: usize,
    name: Box<[u8]>,
}

/// How a key was when the watch began.
#[derive(Clone, Copy, Debug)]
struct Begun {
    /// It had expired, and was only not removed: that it is gone is no news.
    was_expired: bool,
}

impl Watched {
    /// How many keys are watched.
    pub fn watched(&self) -> usize {
        self.keys.len()
    }

    /// Watches `key` of the database `index`, whose shard `guard` holds, unless it is watched.
    pub fn add(&mut self, db: &mut Db<'_>, key: &[u8]) {
        if let Entry::Vacant(new) = self.keys.entry(WatchedKey { db: db.index(), name: key.into() })
        {
            let key = db.key(key);
            db.watch(&key, &self.watch);
            new.insert(Begun { was_expired: db.is_expired(&key) });
        }
    }

    /// Whether a watched key has changed, or has expired and nobody has noticed. The shards of
    /// all of them are held.
    pub fn is_broken(&self, core: &mut Core, guard: &Guard<'_>) -> bool {
        self.watch.is_broken()
            || self.keys.iter().filter(|(_, begun)| !begun.was_expired).any(|(watched, _)| {
                let mut db = Db::new(guard, &mut core.turn, watched.db);
                let key = db.key(&watched.name);
                db.is_expired(&key)
            })
    }
}

/// Forgets transaction and watches: DISCARD, RESET.
pub fn discard(session: &mut Session) {
    session.transaction = None;
    session.watched = None;
}

/// Takes the session's transaction, to be run.
///
/// # Errors
/// There is none, or a command of it was refused; it is given up then.
pub fn take(session: &mut Session) -> Result<Box<Transaction>, Error> {
    let transaction = session.transaction.take().ok_or(NOT_IN_MULTI)?;
    if transaction.failed {
        discard(session);
        renew_shared(session);
        return Err(ABORTED);
    }
    Ok(transaction)
}

/// EXEC can't run now: the transaction stays what it was.
pub fn put_back(task: &mut Task<'_>, transaction: Box<Transaction>) {
    task.session.transaction = Some(transaction);
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
