//! One client that keeps what it reads: how it wants to be told, and where.
//!
//! Changed by the client's own commands, read by every thread that changes a key. It lives on, as
//! something that nobody hears, while tables remember a client that is gone.

use super::message::News;
use crate::clients::ClientShared;
use crate::pubsub;
use crate::server::Server;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

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
    /// Another client is told in its place.
    pub const REDIRECT: Mode = Mode(1 << 5);
    /// That one was found to be gone.
    pub const BROKEN: Mode = Mode(1 << 6);

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
#[derive(Clone, Debug)]
struct Redirect {
    client: u64,
    to: Weak<ClientShared>,
}

/// See the module.
#[derive(Debug)]
pub struct Tracker {
    /// Its number.
    pub client: u64,
    shared: Weak<ClientShared>,
    mode: AtomicU32,
    redirect: Mutex<Option<Redirect>>,
    /// Prefixes that it follows, as they are in the list of all.
    prefixes: Mutex<BTreeSet<Box<[u8]>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|p| p.into_inner())
}

impl Tracker {
    pub fn new(client: &Arc<ClientShared>) -> Tracker {
        Tracker { shared: Arc::downgrade(client), ..Tracker::of_nobody(client.id) }
    }

    /// One that nobody hears.
    pub(super) fn of_nobody(client: u64) -> Tracker {
        Tracker {
            client,
            shared: Weak::new(),
            mode: AtomicU32::new(0),
            redirect: Mutex::default(),
            prefixes: Mutex::default(),
        }
    }

    #[inline]
    pub fn mode(&self) -> Mode {
        Mode(self.mode.load(Ordering::Acquire))
    }

    /// Sets the mode; what it was.
    pub(super) fn set_mode(&self, mode: Mode) -> Mode {
        Mode(self.mode.swap(mode.0, Ordering::AcqRel))
    }

    /// Whether the client is no more.
    pub fn is_gone(&self) -> bool {
        self.shared.strong_count() == 0
    }

    /// The number of the client that is told in its place.
    pub fn redirect(&self) -> Option<u64> {
        lock(&self.redirect).as_ref().map(|redirect| redirect.client)
    }

    /// Has `to` be told in its place, or nobody.
    pub(super) fn set_redirect(&self, to: Option<&Arc<ClientShared>>) {
        let redirect = to.map(|to| Redirect { client: to.id, to: Arc::downgrade(to) });
        *lock(&self.redirect) = redirect;
    }

    /// The prefixes that it follows, in order.
    pub fn follows(&self) -> Vec<Box<[u8]>> {
        self.prefixes().iter().cloned().collect()
    }

    /// Held while prefixes are changed here and in the list of all.
    pub(super) fn prefixes(&self) -> MutexGuard<'_, BTreeSet<Box<[u8]>>> {
        lock(&self.prefixes)
    }

    /// Tells the client, or who is told in its place. Waits for nobody.
    pub(super) fn tell(&self, srv: &Server, news: &News) {
        let Some(own) = self.shared.upgrade() else { return };
        if !self.mode().has(Mode::REDIRECT) {
            return pubsub::push(srv, &own, news.to(false));
        }
        let Some(Redirect { client, to }) = lock(&self.redirect).clone() else { return };
        let to = to.upgrade().filter(|to| !to.closing.load(Ordering::Acquire));
        match to {
            Some(to) => pubsub::push(srv, &to, news.to(true)),
            None => {
                self.mode.fetch_or(Mode::BROKEN.0, Ordering::AcqRel);
                pubsub::push(srv, &own, News::Broken(client).to(false));
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
