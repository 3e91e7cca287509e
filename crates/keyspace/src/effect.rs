//! Effects: what commands, expiry and eviction have made of keys, until it is committed.
//!
//! ```text
//!  Db: set, alter, rework, remove ...  ─► before_write ─► the change ─► an effect, if anybody listens
//!                                                                          │  Turn::effects
//!  commit, before the shards are released:                                 ▼
//!     watches break · clients that wait are served · journals of walks are written
//! ```
//!
//! Every change of a key goes through the same two points: [`Db`](crate::Db)'s `before_write`, when
//! the old value is still there, and an [`Effect`], when the new one is. Whoever changes keys
//! commits the effects as one group while it still holds the shards: a command with those that it
//! served, a transaction, a step of expiry or eviction. So there is one place where everybody who
//! wants to know of changes is told, in the order of execution.
//!
//! Nobody wants to know anything, as a rule. Each shard has a word that says who listens
//! ([`crate::interest`]), on the line of its lock; with none, a change costs a look at that word and
//! no effect is made.

use crate::keyspace::Key;

/// What became of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Became {
    /// There was none before.
    New,
    /// Its value or its expiry has changed.
    Changed,
    /// It is no more; with the expiry that it had (Unix milliseconds).
    Gone(Option<i64>),
}

impl Became {
    /// Whether nothing has happened but that a key was removed whose time was over: nobody sees
    /// a difference.
    pub fn is_expired(self, now_ms: i64) -> bool {
        match self {
            Became::Gone(expiry) => expiry.is_some_and(|at| at <= now_ms),
            Became::New | Became::Changed => false,
        }
    }
}

/// Who did it, which is to say what would do it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The command that is being run, or one of the transaction.
    Command,
    /// Time: a deletion does it again.
    Expiry,
    /// Want of memory: a deletion does it again.
    Eviction,
}

/// One change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    pub db: usize,
    pub shard: u16,
    pub key: Box<[u8]>,
    pub became: Became,
    pub cause: Cause,
}

/// The effects of a group, in order of time.
#[derive(Debug, Default)]
pub struct Effects {
    pub(crate) of_keys: Vec<Effect>,
    /// Databases that were exchanged: whoever waits for a key in one of them may find it now.
    pub(crate) exchanged: Vec<(usize, usize)>,
    /// Keys that are to be looked at again by those who wait for changes, though their value is what
    /// it was for everybody else: a consumer group has gone.
    pub(crate) roused: Vec<(usize, Box<[u8]>)>,
    /// In builds with debug assertions: the key that `before_write` was told of last.
    #[cfg(debug_assertions)]
    announced: Option<(usize, u64)>,
}

impl Effects {
    /// Whether there is nothing to commit.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.of_keys.is_empty() && self.exchanged.is_empty() && self.roused.is_empty()
    }

    pub(crate) fn push(&mut self, effect: Effect) {
        self.of_keys.push(effect);
    }

    /// Notes that `key` of database `db` is about to change.
    #[inline]
    #[cfg_attr(not(debug_assertions), allow(unused_variables, reason = "checked in debug builds"))]
    pub(crate) fn announce(&mut self, db: usize, key: &Key<'_>) {
        #[cfg(debug_assertions)]
        {
            self.announced = Some((db, key.hash));
        }
    }

    /// Panics, in builds with debug assertions, unless the change of `key` was announced: a
    /// snapshot would have missed its old value.
    #[inline]
    #[cfg_attr(not(debug_assertions), allow(unused_variables, reason = "checked in debug builds"))]
    pub(crate) fn check_announced(&self, db: usize, key: &Key<'_>) {
        #[cfg(debug_assertions)]
        assert_eq!(self.announced, Some((db, key.hash)), "a key changes that was not announced");
    }
}
