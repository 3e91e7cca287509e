//! Clients that cache what they read (CLIENT TRACKING): who has read which keys, and what they are sent.
//!
//! * [`Tracking`] - all of it
//! * [`table`] - the readers of the keys of one shard; [`prefixes`]: clients that follow prefixes
//! * [`tracker`] - one client, as other threads see it; [`own`]: as its own session does
//! * [`message`] - what a client is sent
//!
//! No sockets, threads or commands: what sends a message is a function of the caller ([`tracker::Push`]).
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

/// Clients that cache what they read: their tables of keys, the prefixes that they follow, and counts.
#[derive(Debug)]
pub struct Tracking<C> {
    /// By shard; each is locked only by who holds the shard, so nobody ever waits.
    tables: Box<[Mutex<Table<C>>]>,
    pub prefixes: Prefixes<C>,
    /// Clients that have tracking on.
    pub clients: AtomicUsize,
    /// Keys in all tables, and their readers.
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
    /// The table of `shard`, which the caller holds.
    pub fn table(&self, shard: u16) -> MutexGuard<'_, Table<C>> {
        self.tables[usize::from(shard)].lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Clients that have tracking on.
    pub fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// Keys that are remembered.
    pub fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    /// Of all keys together, the clients that have read them.
    pub fn readers(&self) -> usize {
        self.readers.load(Ordering::Relaxed)
    }

    /// Prefixes that are followed.
    pub fn prefixes(&self) -> usize {
        self.prefixes.count()
    }

    /// A key with these readers was forgotten.
    pub fn forgot(&self, readers: &Readers<C>) {
        self.keys.fetch_sub(1, Ordering::Relaxed);
        self.readers.fetch_sub(readers.len(), Ordering::Relaxed);
    }
}
