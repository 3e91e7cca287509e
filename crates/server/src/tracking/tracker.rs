//! One client that keeps what it reads: how it wants to be told, and where.
//!
//! Changed by the client's own commands, read by every thread that changes a key. It lives on, as
//! something that nobody hears, while tables remember a client that is gone.

use super::message::News;
use crate::clients::ClientShared;
use crate::holdings::{Charge, Holding, Holdings};
use crate::pubsub;
use crate::server::Server;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use weft_memory::size_class::{heap, map_entry};

/// What CLIENT TRACKING has asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode(u32);

impl Mode {
    pub const OFF: Mode = Mode(0);
    pub const ON: Mode = Mode(1);
    /// Is told of all keys of some prefixes, read or not.
    pub const BCAST: Mode = Mode(1 << 1);
    /// Only what is read behind CLIENT CACHING YES is remembered.
    pub const OPTIN: Mode = Mode(1 << 2);
    /// What is read behind CLIENT CACHING NO is not remembered.
    pub const OPTOUT: Mode = Mode(1 << 3);
    /// Is not told of what it changes itself.
    pub const NOLOOP: Mode = Mode(1 << 4);
    /// The client that is told in its place was found to be gone.
    pub const BROKEN: Mode = Mode(1 << 5);

    pub const fn or(self, other: Mode) -> Mode {
        Mode(self.0 | other.0)
    }

    /// Whether the two have anything in common.
    #[inline]
    pub const fn has(self, other: Mode) -> bool {
        self.0 & other.0 != 0
    }
}

/// Whom a client redirects to.
#[derive(Debug)]
struct Redirect {
    client: u64,
    to: Weak<ClientShared>,
}

/// Who is told.
#[derive(Debug, Default)]
struct Ears {
    /// The client itself, while it is there: of one that is gone nothing is kept alive.
    own: Weak<ClientShared>,
    redirect: Option<Redirect>,
}

/// See the module.
#[derive(Debug)]
pub struct Tracker {
    /// Its number.
    pub client: u64,
    /// Changed while `ears` is held, so that who tells the client finds the two in step.
    mode: AtomicU32,
    ears: Mutex<Ears>,
    /// The client's account, while it is there.
    holdings: Weak<Holdings>,
    /// Prefixes that it follows, as they are in the list of all.
    prefixes: Mutex<Prefixes>,
}

/// Prefixes that one client follows, charged to it.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    all: BTreeSet<Box<[u8]>>,
    bytes: usize,
    charge: Option<Charge>,
}

/// Bytes of a prefix beside its name here (a place in a tree that is not full) and in the list of all: name, and a
/// tree of one client.
const PREFIX: usize = 24 + map_entry(2 * size_of::<Box<[u8]>>() + size_of::<usize>()) + 192;

impl Prefixes {
    /// Adds those of `prefixes` that are not there.
    pub fn extend(&mut self, tracker: &Tracker, prefixes: &[&[u8]]) {
        for prefix in prefixes {
            if self.all.insert(Box::from(*prefix)) {
                self.bytes += 2 * heap(prefix.len()) + PREFIX;
            }
        }
        match (&self.charge, tracker.holdings.upgrade()) {
            (Some(charge), _) => charge.set(self.bytes),
            (None, Some(account)) => {
                self.charge = Some(Charge::new(&account, Holding::Prefixes, self.bytes));
            }
            (None, None) => {}
        }
    }

    /// All prefixes, of which none is left here.
    pub fn take(&mut self) -> Vec<Box<[u8]>> {
        std::mem::take(self).all.into_iter().collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|p| p.into_inner())
}

impl Tracker {
    pub fn new(client: &Arc<ClientShared>) -> Tracker {
        let ears = Ears { own: Arc::downgrade(client), redirect: None };
        let holdings = Arc::downgrade(&client.holdings);
        Tracker { ears: Mutex::new(ears), holdings, ..Tracker::of_nobody(client.id) }
    }

    /// One that nobody hears.
    pub(super) fn of_nobody(client: u64) -> Tracker {
        Tracker {
            client,
            mode: AtomicU32::new(0),
            ears: Mutex::default(),
            holdings: Weak::new(),
            prefixes: Mutex::default(),
        }
    }

    #[inline]
    pub fn mode(&self) -> Mode {
        Mode(self.mode.load(Ordering::Acquire))
    }

    /// Sets the mode, and who is told in the client's place; the mode that was. Whoever tells the client
    /// of something does it in the old way or in the new one.
    pub(super) fn set(&self, mode: Mode, redirect: Option<&Arc<ClientShared>>) -> Mode {
        let redirect = redirect.map(|to| Redirect { client: to.id, to: Arc::downgrade(to) });
        let mut ears = lock(&self.ears);
        ears.redirect = redirect;
        Mode(self.mode.swap(mode.0, Ordering::AcqRel))
    }

    /// The client is no more: tables may remember it for long, and nothing of it but that.
    pub(super) fn mourn(&self) {
        *lock(&self.ears) = Ears::default();
    }

    /// Whether the client is no more.
    pub fn is_gone(&self) -> bool {
        lock(&self.ears).own.strong_count() == 0
    }

    /// The number of the client that is told in its place.
    pub fn redirect(&self) -> Option<u64> {
        lock(&self.ears).redirect.as_ref().map(|redirect| redirect.client)
    }

    /// The prefixes that it follows, in order.
    pub fn follows(&self) -> Vec<Box<[u8]>> {
        self.prefixes().all.iter().cloned().collect()
    }

    /// How many prefixes it follows.
    pub fn prefix_count(&self) -> usize {
        self.prefixes().all.len()
    }

    /// The first of the prefixes that it follows, in order, that begins with `prefix` or with which
    /// `prefix` begins. O(log(prefixes)).
    pub fn overlap(&self, prefix: &[u8]) -> Option<Box<[u8]>> {
        let all = &self.prefixes().all;
        // Only the empty one can be there beside others.
        let before = match all.first() {
            Some(first) if first.is_empty() => Some(first),
            _ => all.range::<[u8], _>((Bound::Unbounded, Bound::Included(prefix))).next_back(),
        };
        let found = before.filter(|before| prefix.starts_with(before)).or_else(|| {
            let behind = all.range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded)).next();
            behind.filter(|behind| behind.starts_with(prefix))
        });
        found.cloned()
    }

    /// Held while prefixes are changed here and in the list of all.
    pub(super) fn prefixes(&self) -> MutexGuard<'_, Prefixes> {
        lock(&self.prefixes)
    }

    /// Tells the client, or who is told in its place. Waits for nobody.
    pub(super) fn tell(&self, srv: &Server, news: &News) {
        let ears = lock(&self.ears);
        let Some(own) = ears.own.upgrade() else { return };
        let Some(Redirect { client, to }) = &ears.redirect else {
            drop(ears);
            return pubsub::push(srv, &own, news.to(false));
        };
        // One that was killed may still be there, but gets nothing any more.
        let is_gone = |to: &ClientShared| {
            to.closing.load(Ordering::Acquire) || to.killed.load(Ordering::Acquire)
        };
        match to.upgrade().filter(|to| !is_gone(to)) {
            Some(to) => {
                drop(ears);
                pubsub::push(srv, &to, news.to(true));
            }
            None => {
                let broken = News::Broken(*client).to(false);
                self.mode.fetch_or(Mode::BROKEN.0, Ordering::AcqRel);
                drop(ears);
                pubsub::push(srv, &own, broken);
            }
        }
    }

    /// As [`Tracker::tell`], of a key that the client has read and `by` has changed.
    pub(super) fn tell_of_key(&self, srv: &Server, news: &News, by: u64) {
        let mode = self.mode();
        let loops = mode.has(Mode::NOLOOP) && by == self.client;
        // Who has come to follow prefixes is told of this key with all others, or does not want it.
        if mode.has(Mode::ON) && !mode.has(Mode::BCAST) && !loops {
            self.tell(srv, news);
        }
    }
}
