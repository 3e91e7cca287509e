//! The commands that a client has queued since MULTI, and the keys that it watches.

use crate::args::ArgBuf;
use crate::asked_slot::AskedSlot;
use crate::bio::Bio;
use crate::command_table::Cmd;
use std::sync::Arc;
use weft_command_spec::Flags;
use weft_keyspace::{Db, ExecContext, Guard, Keyspace, Watch};
use weft_memory::holdings::{Charge, ClientMemoryKind, Holdings};
use weft_memory::size_class::{heap, map_entry};
use weft_resp::Blob;

/// A transaction between MULTI and EXEC.
#[derive(Debug, Default)]
pub struct Transaction {
    pub queue: Vec<Queued>,
    /// Memory of the queued arguments and of the queue (bytes).
    memory: usize,
    /// The database of the next command: that of the session, or of the last queued SELECT.
    pub db: usize,
    /// The union of the queued commands' flags.
    pub flags: u64,
    /// In cluster mode, the slot of the queued commands.
    pub slot: AskedSlot,
    /// A command was refused, so EXEC will be.
    pub failed: bool,
}

/// One queued command.
#[derive(Debug)]
pub struct Queued {
    pub cmd: &'static Cmd,
    pub args: Vec<ArgBuf>,
}

impl Transaction {
    /// Of a client that has selected database `db`.
    pub fn new(db: usize) -> Self {
        Transaction { db, ..Transaction::default() }
    }

    /// The number of queued commands.
    pub fn commands(&self) -> usize {
        self.queue.len()
    }

    /// Memory of the queue with its arguments (bytes). O(1).
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Queues a request. `flags`: the flags of the command and the flags that its script declares.
    pub fn push(
        &mut self,
        cmd: &'static Cmd,
        flags: Flags,
        args: &[&[u8]],
        blobs: &[(usize, Blob)],
    ) {
        let mut args: Vec<ArgBuf> = args.iter().map(|a| ArgBuf::Bytes(a.to_vec())).collect();
        for (at, blob) in blobs {
            args[*at] = ArgBuf::Blob(blob.clone());
        }
        self.flags |= flags.0;
        let before = self.queue.capacity();
        self.memory += args.iter().map(ArgBuf::memory).sum::<usize>();
        self.queue.push(Queued { cmd, args });
        self.memory += (self.queue.capacity() - before) * size_of::<Queued>();
    }
}

/// The keys that a client watches. Dropping it ends the watches.
pub struct Watched {
    ks: &'static Keyspace,
    bio: &'static Bio,
    watch: Arc<Watch>,
    /// The watched keys, without duplicates.
    keys: Vec<WatchedKey>,
    /// Memory of the names, and of the keyspace's entries for them (bytes).
    bytes: usize,
    charge: Charge,
}

#[derive(Debug)]
struct WatchedKey {
    /// Shared with the keyspace, and with other clients that watch the key.
    name: Arc<[u8]>,
    db: u32,
    shard: u16,
    /// The key had expired when the watch began, but had not been removed: its removal is not a change.
    was_expired: bool,
}

/// Memory of the keyspace's entry for a watched key: name, watch and whether it had expired.
const WATCHER: usize = map_entry(size_of::<Arc<[u8]>>() + size_of::<(Arc<Watch>, bool)>());
/// The counts and the length before the bytes of a shared name.
const SHARED: usize = 2 * size_of::<usize>();

impl Watched {
    /// Watches no key yet. The memory is charged to the client's `account`.
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

    /// The mark that the keyspace sets when a key changes.
    pub fn watch(&self) -> &Arc<Watch> {
        &self.watch
    }

    /// The number of watched keys.
    pub fn watched(&self) -> usize {
        self.keys.len()
    }

    /// Watches `keys` in the database of `db`, except those that it watches already. The keys' shards are
    /// locked.
    pub fn add(&mut self, db: &mut Db<'_>, keys: &[&[u8]]) {
        for key in keys {
            // Once a key has changed, EXEC fails, whatever else is watched.
            if self.watch.is_broken() {
                break;
            }
            let key = db.key(key);
            let Some(name) = db.watch(&key, &self.watch) else { continue };
            self.bytes += heap(SHARED + name.len()) + WATCHER;
            let (db, was_expired) = (db.index() as u32, db.is_expired(&key));
            self.keys.push(WatchedKey { name, db, shard: key.shard(), was_expired });
        }
        let keys = self.keys.capacity() * size_of::<WatchedKey>();
        self.charge.set(size_of::<Self>() + keys + self.bytes);
    }

    /// Whether a watched key has changed, or has expired unnoticed. The shards of all watched keys are locked.
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

/// Watches that their client has ended, and that are still in the keyspace.
#[derive(Debug)]
pub struct EndedWatch {
    watch: Arc<Watch>,
    keys: Vec<WatchedKey>,
}

impl EndedWatch {
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Removes them from the keyspace. Needs no shard lock. O(keys).
    pub fn take_apart(self, ks: &Keyspace) {
        for WatchedKey { name, db, shard, .. } in &self.keys {
            ks.unwatch((*shard, *db as usize, name), &self.watch);
        }
    }
}
