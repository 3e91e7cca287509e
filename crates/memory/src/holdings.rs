//! What a client makes the server hold, beside its connection's buffers: one account for each client.
//!
//! ```text
//!  names, queue of MULTI, watches, waits, subscriptions, prefixes, arguments
//!        │ set, or a charge that ends with what it is for
//!        ▼
//!  Holdings: one counter for each kind ─► CLIENT LIST tot-mem, INFO mem_clients_normal,
//!                                         maxmemory-clients
//! ```
//!
//! Whoever shows or limits a client's memory reads [`Holdings::total`], so a new kind of state is a variant of
//! [`Holding`] and nothing else. State that the client's session alone changes is *set*, with a plain store.
//! State that outlives the command that made it, or that another thread drops, carries a [`Charge`], which takes
//! itself off. The account belongs to the client and not to a thread: it goes along when the connection moves.
//!
//! What takes long to take apart is taken apart by the freeing thread (`Bio::release` in the server): a client that
//! closes with a million watched keys holds nobody up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A kind of state that a client makes the server hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// CLIENT SETNAME and SETINFO.
    Names,
    /// Commands queued since MULTI.
    Queue,
    /// WATCH.
    Watches,
    /// The command of a client that waits, and the lines in which it stands.
    Wait,
    /// Channels, shard channels and patterns.
    Subscriptions,
    /// Prefixes of CLIENT TRACKING.
    Prefixes,
    /// Arguments of a command in the slow lane.
    Arguments,
}

impl Holding {
    const COUNT: usize = Holding::Arguments as usize + 1;
}

/// See the module.
#[derive(Debug, Default)]
pub struct Holdings {
    bytes: [AtomicU64; Holding::COUNT],
}

impl Holdings {
    /// What the client holds of one kind, in bytes.
    pub fn of(&self, kind: Holding) -> u64 {
        self.bytes[kind as usize].load(Ordering::Relaxed)
    }

    /// What the client holds of all kinds, in bytes.
    pub fn total(&self) -> u64 {
        self.bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }

    /// Sets what the client holds of a kind that has no charges. Called by whoever has the session, or holds
    /// the lock of that state.
    #[inline]
    pub fn set(&self, kind: Holding, bytes: usize) {
        self.bytes[kind as usize].store(bytes as u64, Ordering::Relaxed);
    }
}

/// Bytes in the account of a client, until this is dropped or released.
#[derive(Debug)]
pub struct Charge {
    account: Arc<Holdings>,
    kind: Holding,
    bytes: AtomicU64,
}

impl Charge {
    pub fn new(account: &Arc<Holdings>, kind: Holding, bytes: usize) -> Charge {
        let charge = Charge { account: account.clone(), kind, bytes: AtomicU64::new(0) };
        charge.set(bytes);
        charge
    }

    /// Charges `bytes` in the place of what was charged.
    pub fn set(&self, bytes: usize) {
        let bytes = bytes as u64;
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        let counter = &self.account.bytes[self.kind as usize];
        counter.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Takes the charge off before what it is for is gone: the client has given it up.
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
    fn charges_end_with_what_they_are_for() {
        let account = Arc::new(Holdings::default());
        account.set(Holding::Names, 7);
        let one = Charge::new(&account, Holding::Wait, 100);
        let two = Charge::new(&account, Holding::Wait, 10);
        assert_eq!((account.of(Holding::Wait), account.total()), (110, 117));
        one.set(50);
        assert_eq!(account.of(Holding::Wait), 60);
        one.release();
        assert_eq!(account.of(Holding::Wait), 10);
        drop(one);
        assert_eq!(account.of(Holding::Wait), 10);
        std::thread::spawn(move || drop(two)).join().expect("it only drops");
        assert_eq!((account.of(Holding::Wait), account.total()), (0, 7));
    }
}
