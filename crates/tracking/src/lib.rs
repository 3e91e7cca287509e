//! Client-side caching (CLIENT TRACKING): the clients that have read each key, and their
//! invalidation messages.
//!
//! * [`Tracking`] - the state of the server
//! * [`table`] - the readers of the keys of one shard; [`prefixes`]: broadcasting mode
//! * [`tracker`] - one client, as other threads see it; [`own`]: as its own session sees it
//! * [`message`] - messages to a client
//!
//! No sockets, threads or commands: the caller passes the function that sends a message
//! ([`tracker::Push`]).
//! See `docs/design/tracking.md`.

pub mod message;
pub mod own;
pub mod prefixes;
pub mod table;
pub mod tracker;

use prefixes::Prefixes;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use table::{Readers, Table};
use tracker::Receiver;
use weft_keyspace::SHARDS;

/// The tracking state of the server: tables of keys by shard, prefixes, and counters.
#[derive(Debug)]
pub struct Tracking<C> {
    /// By shard. Only a thread that holds the shard locks its table, so the lock is never
    /// contended.
    tables: Box<[Mutex<Table<C>>]>,
    pub prefixes: Prefixes<C>,
    /// The number of clients that have tracking on.
    pub clients: AtomicUsize,
    /// The number of keys in all tables, and of their readers.
    pub keys: AtomicUsize,
    pub readers: AtomicUsize,
}

impl<C> Default for Tracking<C> {
    fn default() -> Self {
        Tracking {
            tables: (0..SHARDS).map(|_| Mutex::default()).collect(),
            prefixes: Prefixes::default(),
            clients: AtomicUsize::new(0),
            keys: AtomicUsize::new(0),
            readers: AtomicUsize::new(0),
        }
    }
}

impl<C: Receiver> Tracking<C> {
    /// The table of `shard`. The caller must hold the shard.
    pub fn table(&self, shard: u16) -> MutexGuard<'_, Table<C>> {
        self.tables[usize::from(shard)].lock().unwrap_or_else(|p| p.into_inner())
    }

    /// The number of clients that have tracking on.
    pub fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// The number of tracked keys.
    pub fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    /// The number of readers of all tracked keys.
    pub fn readers(&self) -> usize {
        self.readers.load(Ordering::Relaxed)
    }

    /// The number of prefixes that clients follow.
    pub fn prefixes(&self) -> usize {
        self.prefixes.count()
    }

    /// Subtracts a key with these readers from the counters.
    pub fn forgot(&self, readers: &Readers<C>) {
        self.keys.fetch_sub(1, Ordering::Relaxed);
        self.readers.fetch_sub(readers.len(), Ordering::Relaxed);
    }
}
