//! Effects: what commands, expiry and eviction have made of keys, until it is committed.
//!
//! ```text
//!  Db: set, alter, rework, remove ...  ─► before_write ─► the change ─► an effect, if anybody listens
//!                                                                          │  Turn::effects
//!  commit, before the shards are released:                                 ▼
//!     watches break · clients that wait are served · journals of walks are written ·
//!     clients that keep what they read are told
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
use crate::log::draft::Draft;
use crate::log::unit::{Args, Target};
use crate::notice::{Classes, Notice};
use crate::stale::{Changed, Unread, Whole};

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
    /// Whose command it is ([`Turn::client`](crate::Turn::client)).
    pub by: u64,
}

/// What has changed, as [`Effects::take`] answers it: each in order of time.
pub(crate) struct Changes {
    pub of_keys: Vec<Effect>,
    pub exchanged: Vec<(usize, usize)>,
    pub roused: Vec<(usize, Box<[u8]>)>,
}

/// The effects of a group, in order of time, and what is to be said of them.
#[derive(Debug, Default)]
pub struct Effects {
    /// There is something in one of those below.
    pending: bool,
    /// Which notices anybody wants to get.
    wanted: Classes,
    of_keys: Vec<Effect>,
    /// Databases that were exchanged: whoever waits for a key in one of them may find it now.
    exchanged: Vec<(usize, usize)>,
    /// Keys that are to be looked at again by those who wait for changes, though their value is what
    /// it was for everybody else: a consumer group has gone.
    roused: Vec<(usize, Box<[u8]>)>,
    notices: Vec<Notice>,
    /// What is to be logged.
    pub(crate) log: Draft,
    /// What of it is to be told to clients that keep what they read.
    unread: Unread,
    /// In builds with debug assertions: the key that `before_write` was told of last.
    #[cfg(debug_assertions)]
    announced: Option<(usize, u64)>,
}

impl Effects {
    /// Whether there is nothing to commit.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.pending
    }

    pub(crate) fn push(&mut self, effect: Effect) {
        self.of_keys.push(effect);
        self.pending = true;
    }

    pub(crate) fn push_exchange(&mut self, a: usize, b: usize) {
        self.exchanged.push((a, b));
        self.pending = true;
    }

    /// Databases are about to be emptied, or exchanged: the effects from here on, until
    /// [`Effects::end_whole`] is given the answer, are parts of that.
    pub(crate) fn begin_whole(&self) -> usize {
        self.of_keys.len()
    }

    /// That is done.
    pub(crate) fn end_whole(&mut self, from: usize, emptied: bool) {
        self.unread.wholes.push(Whole { from, to: self.of_keys.len(), emptied });
        self.pending = true;
    }

    /// The effects of keys, and what readers are to be told of them.
    pub(crate) fn unread(&mut self) -> (&[Effect], &mut Unread) {
        (&self.of_keys, &mut self.unread)
    }

    /// What is to be spread.
    pub(crate) fn take_spread(&mut self) -> Vec<Changed> {
        let changed = std::mem::take(&mut self.unread.changed);
        self.renew_pending();
        changed
    }

    /// Has those who wait for changes of a key look at it again.
    pub(crate) fn push_roused(&mut self, db: usize, key: &[u8]) {
        self.roused.push((db, key.into()));
        self.pending = true;
    }

    /// What has changed since the last call.
    pub(crate) fn take(&mut self) -> Changes {
        self.unread.begin();
        let changes = Changes {
            of_keys: std::mem::take(&mut self.of_keys),
            exchanged: std::mem::take(&mut self.exchanged),
            roused: std::mem::take(&mut self.roused),
        };
        self.renew_pending();
        changes
    }

    /// Whether anything has changed, whatever is said of it.
    fn is_changed(&self) -> bool {
        let Effects { of_keys, exchanged, roused, unread, .. } = self;
        let by_key = of_keys.is_empty() && roused.is_empty() && unread.changed.is_empty();
        !(by_key && exchanged.is_empty() && unread.wholes.is_empty())
    }

    /// Whether nothing wants to know of the group but the log.
    #[inline]
    pub fn is_only_logged(&self) -> bool {
        self.notices.is_empty() && !self.is_changed()
    }

    #[inline]
    fn renew_pending(&mut self) {
        self.pending = !self.notices.is_empty() || self.is_changed() || self.log.is_pending();
    }

    /// Says which notices are wanted from now on.
    pub fn want(&mut self, classes: Classes) {
        self.wanted = classes;
    }

    /// Which notices are wanted.
    #[inline]
    pub fn wanted(&self) -> Classes {
        self.wanted
    }

    /// Whether notices of `class` are wanted.
    #[inline]
    pub fn wants(&self, class: Classes) -> bool {
        self.wanted.has(class)
    }

    #[cold]
    pub(crate) fn note(&mut self, db: usize, class: Classes, event: &'static str, key: &[u8]) {
        self.notices.push(Notice { db, class, event, key: key.into() });
        self.pending = true;
    }

    /// Takes back what was said of keys that are not there: the command has only looked, and will
    /// look again.
    pub fn forget_misses(&mut self) {
        self.notices.retain(|notice| notice.class != Classes::MISS);
        self.renew_pending();
    }

    /// What was said since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        let notices = std::mem::take(&mut self.notices);
        self.renew_pending();
        notices
    }

    /// Notes that the present command has changed a key, and is to be logged.
    pub(crate) fn touch_log(&mut self) {
        self.log.touched = true;
        self.pending = true;
    }

    /// Notes that the present command is not to be logged in its own words. To be looked at when it
    /// ends, whatever else there is.
    pub(crate) fn say_log(&mut self) {
        self.log.said = true;
        self.pending = true;
    }

    /// Says what is to be logged: a command with these arguments.
    pub(crate) fn push_log(&mut self, db: usize, target: Target, args: &mut Args<'_, '_>) {
        self.log.push(db, target, args);
        self.pending = true;
    }

    /// The present command has ended: whether it is to be logged in its own words.
    #[inline]
    pub(crate) fn end_command_of_log(&mut self) -> bool {
        let touched = std::mem::take(&mut self.log.touched);
        let said = std::mem::take(&mut self.log.said);
        if touched && !said {
            // There is something to commit still: its words.
            return true;
        }
        self.renew_pending();
        false
    }

    /// The present command has ended, and is not one that is logged in its words.
    #[inline]
    pub fn end_unlogged(&mut self) {
        if self.pending {
            (self.log.touched, self.log.said) = (false, false);
            self.renew_pending();
        }
    }

    /// Says what is to be logged: a command of these words, all of which are copied.
    #[inline]
    pub(crate) fn push_words(&mut self, db: usize, target: Target, words: &[&[u8]]) {
        self.log.push_words(db, target, words);
        self.pending = true;
    }

    /// Forgets what was to be logged.
    #[inline]
    pub fn clear_log(&mut self) {
        self.log.clear();
        self.renew_pending();
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
