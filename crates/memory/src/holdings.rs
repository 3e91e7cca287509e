//! Memory that a client uses in addition to its connection's buffers: one account for each client.
//!
//! ```text
//!  names, queue of MULTI, watches, waits, subscriptions, prefixes, arguments
//!        │ set, or a charge that ends with its owner
//!        ▼
//!  Holdings: one counter for each kind ─► CLIENT LIST tot-mem, INFO mem_clients_normal,
//!                                         maxmemory-clients
//! ```
//!
//! CLIENT LIST, INFO and `maxmemory-clients` read [`Holdings::total`], so a new kind of state is
//! only a variant of [`ClientMemoryKind`]. State that only the client's session changes is *set*, with a
//! plain store. State that outlives its command, or that another thread drops, has a [`Charge`],
//! which ends when it is dropped. The account belongs to the client, not to a thread: it moves with
//! the connection.
//!
//! The freeing thread (`Bio::release` in the server) drops large state, so closing a client with a
//! million watched keys delays no other client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A kind of state of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientMemoryKind {
    /// CLIENT SETNAME and SETINFO.
    Names,
    /// Commands queued since MULTI.
    Queue,
    /// WATCH.
    Watches,
    /// The command of a blocked client, and its entries in wait queues.
    Wait,
    /// Channels, shard channels and patterns.
    Subscriptions,
    /// Prefixes of CLIENT TRACKING.
    Prefixes,
    /// Arguments of a command in the slow lane.
    Arguments,
    /// The state of TLS, without buffers.
    Tls,
}

impl ClientMemoryKind {
    const COUNT: usize = ClientMemoryKind::Tls as usize + 1;
}

/// See the module documentation.
#[derive(Debug, Default)]
pub struct Holdings {
    bytes: [AtomicU64; ClientMemoryKind::COUNT],
}

impl Holdings {
    /// The client's memory of one kind (bytes).
    pub fn of(&self, kind: ClientMemoryKind) -> u64 {
        self.bytes[kind as usize].load(Ordering::Relaxed)
    }

    /// The client's memory of all kinds (bytes).
    pub fn total(&self) -> u64 {
        self.bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }

    /// Sets the memory of a kind without charges. The caller must own the session, or hold the lock
    /// of that state.
    #[inline]
    pub fn set(&self, kind: ClientMemoryKind, bytes: usize) {
        self.bytes[kind as usize].store(bytes as u64, Ordering::Relaxed);
    }
}

/// Bytes in the account of a client, until this is dropped or released.
#[derive(Debug)]
pub struct Charge {
    account: Arc<Holdings>,
    kind: ClientMemoryKind,
    bytes: AtomicU64,
}

impl Charge {
    pub fn new(account: &Arc<Holdings>, kind: ClientMemoryKind, bytes: usize) -> Charge {
        let charge = Charge { account: account.clone(), kind, bytes: AtomicU64::new(0) };
        charge.set(bytes);
        charge
    }

    /// Replaces the charged bytes with `bytes`.
    pub fn set(&self, bytes: usize) {
        let bytes = bytes as u64;
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        let counter = &self.account.bytes[self.kind as usize];
        counter.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Ends the charge before its object is dropped, once the client no longer uses that.
    pub fn release(&self) {
        self.set(0);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_end_when_dropped() {
        let account = Arc::new(Holdings::default());
        account.set(ClientMemoryKind::Names, 7);
        let one = Charge::new(&account, ClientMemoryKind::Wait, 100);
        let two = Charge::new(&account, ClientMemoryKind::Wait, 10);
        assert_eq!((account.of(ClientMemoryKind::Wait), account.total()), (110, 117));
        one.set(50);
        assert_eq!(account.of(ClientMemoryKind::Wait), 60);
        one.release();
        assert_eq!(account.of(ClientMemoryKind::Wait), 10);
        drop(one);
        assert_eq!(account.of(ClientMemoryKind::Wait), 10);
        std::thread::spawn(move || drop(two)).join().expect("drop doesn't panic");
        assert_eq!((account.of(ClientMemoryKind::Wait), account.total()), (0, 7));
    }
}
