//! The tracking state of one client: its mode, and the receiver of its messages.
//!
//! The client's own commands change it, and every thread that changes a key reads it. It outlives
//! the client, without a receiver, as long as tables refer to it.

use crate::message::{Message, News};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use weft_memory::holdings::{Charge, ClientMemoryKind, Holdings};
use weft_memory::size_class::{heap, map_entry};

/// A client that can receive invalidation messages.
pub trait Receiver {
    /// The id of the client.
    fn id(&self) -> u64;
    /// Whether the client can receive pushes: it is neither killed nor about to close.
    fn takes_pushes(&self) -> bool;
    /// The client's memory account.
    fn holdings(&self) -> &Arc<Holdings>;
}

/// Sends a message to a client without blocking.
pub type Push<'a, C> = &'a dyn Fn(&Arc<C>, Message);

/// The options of CLIENT TRACKING.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode(u32);

impl Mode {
    pub const OFF: Mode = Mode(0);
    pub const ON: Mode = Mode(1);
    /// Receive all changed keys with certain prefixes, read or not.
    pub const BCAST: Mode = Mode(1 << 1);
    /// Track only keys that are read after CLIENT CACHING YES.
    pub const OPTIN: Mode = Mode(1 << 2);
    /// Do not track keys that are read after CLIENT CACHING NO.
    pub const OPTOUT: Mode = Mode(1 << 3);
    /// Receive no messages for the client's own changes.
    pub const NOLOOP: Mode = Mode(1 << 4);
    /// The redirect target was found to be gone.
    pub const BROKEN: Mode = Mode(1 << 5);

    pub const fn or(self, other: Mode) -> Mode {
        Mode(self.0 | other.0)
    }

    /// Whether the two have an option in common.
    #[inline]
    pub const fn has(self, other: Mode) -> bool {
        self.0 & other.0 != 0
    }
}

/// The redirect target of a client.
#[derive(Debug)]
struct Redirect<C> {
    client: u64,
    to: Weak<C>,
}

/// The receivers of a client's messages.
#[derive(Debug)]
struct Receivers<C> {
    /// The client itself. A weak reference: a client that has left must be freed.
    own: Weak<C>,
    redirect: Option<Redirect<C>>,
}

impl<C> Default for Receivers<C> {
    fn default() -> Self {
        Receivers { own: Weak::new(), redirect: None }
    }
}

/// The tracking state of one client.
#[derive(Debug)]
pub struct Tracker<C> {
    /// The client's id.
    pub client: u64,
    /// Changed while `receivers` is locked, so that senders see a consistent pair.
    mode: AtomicU32,
    receivers: Mutex<Receivers<C>>,
    /// The client's memory account, while the client exists.
    holdings: Weak<Holdings>,
    /// The prefixes that the client follows, the same as in [`prefixes`](crate::prefixes).
    prefixes: Mutex<Prefixes>,
}

/// The prefixes that one client follows, charged to its memory account.
#[derive(Debug, Default)]
pub struct Prefixes {
    all: BTreeSet<Box<[u8]>>,
    bytes: usize,
    charge: Option<Charge>,
}

/// Bytes of a prefix without its name, here (an entry of a tree that is not full) and in the map of
/// all prefixes (the name and a tree with one client).
const PREFIX: usize = 24 + map_entry(2 * size_of::<Box<[u8]>>() + size_of::<usize>()) + 192;

impl Prefixes {
    /// Adds those of `prefixes` that are new.
    pub fn extend<C>(&mut self, tracker: &Tracker<C>, prefixes: &[&[u8]]) {
        for prefix in prefixes {
            if self.all.insert(Box::from(*prefix)) {
                self.bytes += 2 * heap(prefix.len()) + PREFIX;
            }
        }
        match (&self.charge, tracker.holdings.upgrade()) {
            (Some(charge), _) => charge.set(self.bytes),
            (None, Some(account)) => {
                self.charge = Some(Charge::new(&account, ClientMemoryKind::Prefixes, self.bytes));
            }
            (None, None) => {}
        }
    }

    /// Removes and returns all prefixes.
    pub fn take(&mut self) -> Vec<Box<[u8]>> {
        std::mem::take(self).all.into_iter().collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|p| p.into_inner())
}

impl<C: Receiver> Tracker<C> {
    pub fn new(client: &Arc<C>) -> Self {
        let receivers = Receivers { own: Arc::downgrade(client), redirect: None };
        let holdings = Arc::downgrade(client.holdings());
        Tracker {
            receivers: Mutex::new(receivers),
            holdings,
            ..Tracker::without_receiver(client.id())
        }
    }

    /// A tracker without a receiver.
    pub fn without_receiver(client: u64) -> Self {
        Tracker {
            client,
            mode: AtomicU32::new(0),
            receivers: Mutex::default(),
            holdings: Weak::new(),
            prefixes: Mutex::default(),
        }
    }

    #[inline]
    pub fn mode(&self) -> Mode {
        Mode(self.mode.load(Ordering::Acquire))
    }

    /// Sets the mode and the redirect target and returns the old mode. A concurrent message uses
    /// either the old pair or the new one.
    pub fn set(&self, mode: Mode, redirect: Option<&Arc<C>>) -> Mode {
        let redirect = redirect.map(|to| Redirect { client: to.id(), to: Arc::downgrade(to) });
        let mut receivers = lock(&self.receivers);
        receivers.redirect = redirect;
        Mode(self.mode.swap(mode.0, Ordering::AcqRel))
    }

    /// Removes the receivers of a client that has left. Tables may refer to its tracker for long.
    pub fn mourn(&self) {
        *lock(&self.receivers) = Receivers::default();
    }

    /// Whether the client has left.
    pub fn is_gone(&self) -> bool {
        lock(&self.receivers).own.strong_count() == 0
    }

    /// The id of the redirect target.
    pub fn redirect(&self) -> Option<u64> {
        lock(&self.receivers).redirect.as_ref().map(|redirect| redirect.client)
    }

    /// The prefixes that the client follows, in order.
    pub fn follows(&self) -> Vec<Box<[u8]>> {
        self.prefixes().all.iter().cloned().collect()
    }

    /// The number of prefixes that the client follows.
    pub fn prefix_count(&self) -> usize {
        self.prefixes().all.len()
    }

    /// The first of the followed prefixes, in order, that begins with `prefix` or is a beginning of
    /// it. O(log(prefixes)).
    pub fn overlap(&self, prefix: &[u8]) -> Option<Box<[u8]>> {
        let all = &self.prefixes().all;
        // Only the empty prefix can overlap with others in the set.
        let previous = match all.first() {
            Some(first) if first.is_empty() => Some(first),
            _ => all.range::<[u8], _>((Bound::Unbounded, Bound::Included(prefix))).next_back(),
        };
        let found = previous.filter(|previous| prefix.starts_with(previous)).or_else(|| {
            let next = all.range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded)).next();
            next.filter(|next| next.starts_with(prefix))
        });
        found.cloned()
    }

    /// Locks the prefixes. The caller holds the lock while they change here and in the map of all
    /// prefixes.
    pub fn prefixes(&self) -> MutexGuard<'_, Prefixes> {
        lock(&self.prefixes)
    }

    /// Sends a message to the client or its redirect target. Does not block.
    pub fn tell(&self, push: Push<'_, C>, news: &News) {
        let receivers = lock(&self.receivers);
        let Some(own) = receivers.own.upgrade() else { return };
        let Some(Redirect { client, to }) = &receivers.redirect else {
            drop(receivers);
            return push(&own, news.to(false));
        };
        // A killed client may still exist, but receives nothing.
        match to.upgrade().filter(|to| to.takes_pushes()) {
            Some(to) => {
                drop(receivers);
                push(&to, news.to(true));
            }
            None => {
                let broken = News::Broken(*client).to(false);
                self.mode.fetch_or(Mode::BROKEN.0, Ordering::AcqRel);
                drop(receivers);
                push(&own, broken);
            }
        }
    }

    /// Sends the message for a key that the client has read and the client `by` has changed. Does
    /// not block.
    pub fn notify_of_key(&self, push: Push<'_, C>, news: &News, by: u64) {
        let mode = self.mode();
        let loops = mode.has(Mode::NOLOOP) && by == self.client;
        // In broadcasting mode, the client gets this key with all others, or does not follow it.
        if mode.has(Mode::ON) && !mode.has(Mode::BCAST) && !loops {
            self.tell(push, news);
        }
    }
}

/// A client for tests.
#[cfg(test)]
#[derive(Debug, Default)]
pub struct Client(Arc<Holdings>);

#[cfg(test)]
impl Receiver for Client {
    fn id(&self) -> u64 {
        1
    }

    fn takes_pushes(&self) -> bool {
        true
    }

    fn holdings(&self) -> &Arc<Holdings> {
        &self.0
    }
}
