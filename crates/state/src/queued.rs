//! The commands that a client has queued since MULTI, and the keys that it watches.

use crate::args::ArgBuf;
use crate::bio::Bio;
use crate::command_table::Cmd;
use std::sync::Arc;
use weft_keyspace::{Db, ExecContext, Guard, Keyspace, Watch};
use weft_memory::holdings::{Charge, ClientMemoryKind, Holdings};
use weft_memory::size_class::{heap, map_entry};
use weft_resp::Blob;

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
    pub fn push(&mut self, cmd: &'static Cmd, args: &[&[u8]], blobs: &[(usize, Blob)]) {
        let mut args: Vec<ArgBuf> = args.iter().map(|a| ArgBuf::Bytes(a.to_vec())).collect();
        for (at, blob) in blobs {
            args[*at] = ArgBuf::Blob(blob.clone());
        }
        self.flags |= cmd.spec.flags.0;
        let before = self.queue.capacity();
        self.memory += args.iter().map(ArgBuf::memory).sum::<usize>();
        self.queue.push(Queued { cmd, args });
        self.memory += (self.queue.capacity() - before) * size_of::<Queued>();
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
    /// No watch yet. `account`: of the client.
    pub fn new(ks: &'static Keyspace, bio: &'static Bio, account: &Arc<Holdings>) -> Watched {
        Watched {
            ks,
            bio,
            watch: Arc::default(),
            keys: Vec::new(),
            bytes: 0,
            charge: Charge::new(account, ClientMemoryKind::Watches, size_of::<Self>()),
        }
    }

    /// The shards of the watched keys.
    pub fn shards(&self) -> impl Iterator<Item = u16> {
        self.keys.iter().map(|watched| watched.shard)
    }

    /// What the keyspace marks when a key changes.
    pub fn watch(&self) -> &Arc<Watch> {
        &self.watch
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
    pub fn is_broken(&self, context: &mut ExecContext, guard: &Guard<'_>) -> bool {
        self.watch.is_broken()
            || self.keys.iter().filter(|watched| !watched.was_expired).any(|watched| {
                let mut db = Db::new(guard, context, watched.db as usize);
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
