//! MULTI and EXEC: commands that are queued, and run as one.
//!
//! EXEC takes the union of the shards of all queued commands and of the watched keys, in order,
//! as one multi-key command would; nobody sees a state in between. A queued command that needs
//! the whole keyspace makes EXEC stop the world. A queue with much to do is run by the slow lane,
//! as a single command with much to do is. Here is what is queued and watched, and what it needs;
//! the stages of [`crate::dispatch`] run it.

use crate::bio::Bio;
use crate::dispatch::Core;
use crate::dispatch::hold::{Need, of_data};
use crate::dispatch::request::{Request, Task};
use crate::dispatch::table::{Cmd, Run};
use crate::holdings::{Charge, Holding};
use crate::io::Session;
use crate::io::args::ArgBuf;
use crate::server::Server;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_commands::{Error, Flags};
use weft_keyspace::{Db, Guard, Keyspace, ShardSet, Watch};
use weft_memory::size_class::{heap, map_entry};
use weft_transfer as transfer;

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
        let before = self.queue.capacity();
        self.memory += args.iter().map(ArgBuf::memory).sum::<usize>();
        self.queue.push(Queued { cmd, args });
        self.memory += (self.queue.capacity() - before) * size_of::<Queued>();
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
        shards.extend(session.watched.iter().flat_map(|w| &w.keys).map(|watched| watched.shard));
        Need::Shards(ShardSet::of(shards))
    }

    /// Whether one of its commands may wait for something outside of the process.
    pub fn waits_outside(&self) -> bool {
        self.queue.iter().any(|queued| transfer::waits_outside(queued.cmd.spec.name))
    }
}

/// What a client watches. Its watches end when it is dropped.
pub struct Watched {
    ks: &'static Keyspace,
    bio: &'static Bio,
    watch: Arc<Watch>,
    /// Each of them once.
    keys: Vec<WatchedKey>,
    /// Bytes of the names, and of what there is for each beside the clients.
    bytes: usize,
    charge: Charge,
}

#[derive(Debug)]
struct WatchedKey {
    /// Shared with the keyspace, and with others who watch it.
    name: Arc<[u8]>,
    db: u32,
    shard: u16,
    /// It had expired when the watch began, and was only not removed: that it is gone is no news.
    was_expired: bool,
}

/// What the keyspace holds for a watched key beside its name: name, watch and whether it had expired.
const WATCHER: usize = map_entry(size_of::<Arc<[u8]>>() + size_of::<(Arc<Watch>, bool)>());
/// Counts and length in front of a shared name.
const SHARED: usize = 2 * size_of::<usize>();

impl Watched {
    pub fn new(srv: &'static Server, session: &Session) -> Watched {
        Watched {
            ks: &srv.ks,
            bio: &srv.bio,
            watch: Arc::default(),
            keys: Vec::new(),
            bytes: 0,
            charge: Charge::new(&session.shared.holdings, Holding::Watches, size_of::<Self>()),
        }
    }

    /// How many keys are watched.
    pub fn watched(&self) -> usize {
        self.keys.len()
    }

    /// Watches keys of the database of `db`, whose shards are held, unless they are watched.
    pub fn add(&mut self, db: &mut Db<'_>, keys: &[&[u8]]) {
        for key in keys {
            // What has changed stays changed, whatever else is watched.
            if self.watch.is_broken() {
                break;
            }
            let key = db.key(key);
            let Some(name) = db.watch(&key, &self.watch) else { continue };
            self.bytes += heap(SHARED + name.len()) + WATCHER;
            let (db, was_expired) = (db.index() as u32, db.is_expired(&key));
            self.keys.push(WatchedKey { name, db, shard: key.shard, was_expired });
        }
        let keys = self.keys.capacity() * size_of::<WatchedKey>();
        self.charge.set(size_of::<Self>() + keys + self.bytes);
    }

    /// Whether a watched key has changed, or has expired and nobody has noticed. The shards of
    /// all of them are held.
    pub fn is_broken(&self, core: &mut Core, guard: &Guard<'_>) -> bool {
        self.watch.is_broken()
            || self.keys.iter().filter(|watched| !watched.was_expired).any(|watched| {
                let mut db = Db::new(guard, &mut core.turn, watched.db as usize);
                let key = db.key(&watched.name);
                db.is_expired(&key)
            })
    }
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("watch", &self.watch).field("keys", &self.keys).finish()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.charge.release();
        let keys = std::mem::take(&mut self.keys);
        let ended = EndedWatch { watch: self.watch.clone(), keys };
        let ks = self.ks;
        self.bio.release(ended.keys(), move || ended.take_apart(ks));
    }
}

/// Watches that their client has given up, and that are still in the keyspace.
#[derive(Debug)]
pub struct EndedWatch {
    watch: Arc<Watch>,
    keys: Vec<WatchedKey>,
}

impl EndedWatch {
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Takes them out of the keyspace. Needs no shard. O(keys).
    pub fn take_apart(self, ks: &Keyspace) {
        for WatchedKey { name, db, shard, .. } in &self.keys {
            ks.unwatch((*shard, *db as usize, name), &self.watch);
        }
    }
}

/// Forgets transaction and watches: DISCARD, RESET.
pub fn discard(srv: &Server, session: &mut Session) {
    if let Some(transaction) = session.transaction.take() {
        release(srv, transaction);
    }
    session.watched = None;
}

/// Frees a transaction that was run or given up.
pub fn release(srv: &Server, transaction: Box<Transaction>) {
    srv.bio.release(transaction.commands(), move || drop(transaction));
}

/// Takes the session's transaction, to be run.
///
/// # Errors
/// There is none, or a command of it was refused; it is given up then.
pub fn take(srv: &Server, session: &mut Session) -> Result<Box<Transaction>, Error> {
    let transaction = session.transaction.take().ok_or(NOT_IN_MULTI)?;
    if transaction.failed {
        release(srv, transaction);
        discard(srv, session);
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
    shared.holdings.set(Holding::Queue, transaction.map_or(0, |t| t.memory()));
    let before = shared.watched.load(Ordering::Relaxed);
    let keys = watched.map_or(0, |w| w.watched() as u64);
    // Most transactions come without WATCH.
    if (before, keys) != (0, 0) {
        shared.watched.store(keys, Ordering::Relaxed);
        let watch = watched.map(|w| w.watch.clone());
        *shared.watch.lock().unwrap_or_else(|p| p.into_inner()) = watch;
    }
}
