//! Effects: the changes of keys by commands, expiry and eviction, until they are committed.
//!
//! ```text
//!  Db: set, alter, rework, remove ...  ─► before_write ─► the change ─► an effect, if anything listens
//!                                                                          │  ExecContext::effects
//!  commit, before the shards are released:                                 ▼
//!     watches break · blocked clients are served · journals of walks are written ·
//!     clients that cache keys are notified
//! ```
//!
//! Every change of a key passes the same two points: [`Db`](crate::Db)'s `before_write`, with the
//! old value still in place, and an [`Effect`], with the new one. The executing thread commits
//! the effects as one group while it still holds the shards: a command with the clients that it
//! served, a transaction, a step of expiry or eviction. So a single place notifies all listeners,
//! in the order of execution.
//!
//! Usually nothing listens. Each shard has a word of interest bits ([`crate::interest`]) on the
//! cache line of its lock. While it is zero, a change costs one load of that word and makes no
//! effect.

use crate::invalidation::{BulkOperation, Changed, Unsent};
use crate::keyspace::Key;
use crate::log::draft::Draft;
use crate::log::unit::{Args, Target};
use crate::notice::{Classes, Notice};

/// The kind of change of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// The key did not exist before.
    New,
    /// The value or the expiry has changed.
    Changed,
    /// The key was removed; with the expiry that it had (Unix milliseconds).
    Gone(Option<i64>),
}

impl KeyChange {
    /// Whether the change only removed an expired key: no client sees a difference.
    pub fn is_expired(self, now_ms: i64) -> bool {
        match self {
            KeyChange::Gone(expiry) => expiry.is_some_and(|at| at <= now_ms),
            KeyChange::New | KeyChange::Changed => false,
        }
    }
}

/// The cause of a change. It determines which log entry repeats the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The running command, or a command of the transaction.
    Command,
    /// Expiry: a deletion repeats it.
    Expiry,
    /// Eviction: a deletion repeats it.
    Eviction,
}

/// One change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    pub db: usize,
    pub shard: u16,
    pub key: Box<[u8]>,
    pub change: KeyChange,
    pub cause: Cause,
    /// The client whose command it is ([`ExecContext::client`](crate::ExecContext::client)).
    pub by: u64,
}

/// The changes that [`Effects::take`] returns, each list in order of execution.
pub(crate) struct Changes {
    pub of_keys: Vec<Effect>,
    pub exchanged: Vec<(usize, usize)>,
    pub roused: Vec<(usize, Box<[u8]>)>,
}

/// The effects of a group in order of execution, and their notices and log entries.
#[derive(Debug, Default)]
pub struct Effects {
    /// Whether any of the lists below has entries.
    pending: bool,
    /// The classes of notices that the listener wants.
    wanted: Classes,
    of_keys: Vec<Effect>,
    /// Databases that were exchanged: clients blocked on a key in one of them may find it now.
    exchanged: Vec<(usize, usize)>,
    /// Keys for which clients that wait for changes must retry, though the value has not changed:
    /// a consumer group was removed.
    roused: Vec<(usize, Box<[u8]>)>,
    notices: Vec<Notice>,
    /// The draft of the log entries.
    pub(crate) log: Draft,
    /// The changes for clients that cache keys.
    unsent: Unsent,
    /// In builds with debug assertions: the key of the last call of `before_write`.
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

    /// Databases are about to be emptied or exchanged. The effects from here on, until
    /// [`Effects::end_bulk`] gets the returned position, belong to that operation.
    pub(crate) fn begin_bulk(&self) -> usize {
        self.of_keys.len()
    }

    /// Ends the operation that began at `from`.
    pub(crate) fn end_bulk(&mut self, from: usize, emptied: bool) {
        self.unsent.bulk_operations.push(BulkOperation { from, to: self.of_keys.len(), emptied });
        self.pending = true;
    }

    /// The effects of keys, and the list of changes for caching clients.
    pub(crate) fn unsent(&mut self) -> (&[Effect], &mut Unsent) {
        (&self.of_keys, &mut self.unsent)
    }

    /// Takes the changes for clients that track key prefixes.
    pub(crate) fn take_spread(&mut self) -> Vec<Changed> {
        let changed = std::mem::take(&mut self.unsent.changed);
        self.renew_pending();
        changed
    }

    /// Makes clients that wait for changes of a key retry.
    pub(crate) fn push_roused(&mut self, db: usize, key: &[u8]) {
        self.roused.push((db, key.into()));
        self.pending = true;
    }

    /// Discards the whole group: its changes were undone.
    pub(crate) fn abandon(&mut self) {
        self.take();
        self.unsent.changed.clear();
        self.notices.clear();
        self.clear_log();
        debug_assert!(!self.pending, "nothing is left of an undone group");
    }

    /// Takes the changes since the last call.
    pub(crate) fn take(&mut self) -> Changes {
        self.unsent.begin();
        let changes = Changes {
            of_keys: std::mem::take(&mut self.of_keys),
            exchanged: std::mem::take(&mut self.exchanged),
            roused: std::mem::take(&mut self.roused),
        };
        self.renew_pending();
        changes
    }

    /// Whether anything has changed, apart from notices and log entries.
    fn is_changed(&self) -> bool {
        let Effects { of_keys, exchanged, roused, unsent, .. } = self;
        let by_key = of_keys.is_empty() && roused.is_empty() && unsent.changed.is_empty();
        !(by_key && exchanged.is_empty() && unsent.bulk_operations.is_empty())
    }

    /// Whether only the log needs the group.
    #[inline]
    pub fn is_only_logged(&self) -> bool {
        self.notices.is_empty() && !self.is_changed()
    }

    #[inline]
    fn renew_pending(&mut self) {
        self.pending = !self.notices.is_empty() || self.is_changed() || self.log.is_pending();
    }

    /// Sets the classes of notices that are recorded from now on.
    pub fn want(&mut self, classes: Classes) {
        self.wanted = classes;
    }

    /// The classes of notices that are recorded.
    #[inline]
    pub fn wanted(&self) -> Classes {
        self.wanted
    }

    /// Whether notices of `class` are recorded.
    #[inline]
    pub fn wants(&self, class: Classes) -> bool {
        self.wanted.has(class)
    }

    #[cold]
    pub(crate) fn push_notice(
        &mut self,
        db: usize,
        class: Classes,
        event: &'static str,
        key: &[u8],
    ) {
        self.notices.push(Notice { db, class, event, key: key.into() });
        self.pending = true;
    }

    /// Removes the `keymiss` notices: the command only looked up its keys and will do so again.
    pub fn forget_misses(&mut self) {
        self.notices.retain(|notice| notice.class != Classes::MISS);
        self.renew_pending();
    }

    /// Takes the notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        let notices = std::mem::take(&mut self.notices);
        self.renew_pending();
        notices
    }

    /// Notes that the current command has changed a key and must be logged.
    pub(crate) fn touch_log(&mut self) {
        self.log.touched = true;
        self.pending = true;
    }

    /// Notes that the current command is not logged in its own words. Marks the group as pending,
    /// so that the flag is evaluated when the command ends.
    pub(crate) fn override_log(&mut self) {
        self.log.overridden = true;
        self.pending = true;
    }

    /// The receivers of the entries from here on, until the next call: `redis.set_repl`.
    pub fn direct(&mut self, to_log: bool, to_replicas: bool) {
        self.log.direct(to_log, to_replicas);
    }

    /// Adds a command with these arguments to the log draft.
    pub(crate) fn push_log(&mut self, db: usize, target: Target, args: &mut Args<'_, '_>) {
        self.log.push(db, target, args);
        self.pending = true;
    }

    /// Ends the current command: whether it must be logged in its own words.
    #[inline]
    pub(crate) fn end_logged_command(&mut self) -> bool {
        let touched = std::mem::take(&mut self.log.touched);
        let overridden = std::mem::take(&mut self.log.overridden);
        if touched && !overridden {
            // Its words are still to commit.
            return true;
        }
        self.renew_pending();
        false
    }

    /// Ends the current command without logging its words.
    #[inline]
    pub fn end_unlogged(&mut self) {
        if self.pending {
            (self.log.touched, self.log.overridden) = (false, false);
            self.renew_pending();
        }
    }

    /// Adds a command of these words, all copied, to the log draft.
    #[inline]
    pub(crate) fn push_words(&mut self, db: usize, target: Target, words: &[&[u8]]) {
        self.log.push_words(db, target, words);
        self.pending = true;
    }

    /// Discards the log draft.
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
    /// snapshot would have missed the old value.
    #[inline]
    #[cfg_attr(not(debug_assertions), allow(unused_variables, reason = "checked in debug builds"))]
    pub(crate) fn check_announced(&self, db: usize, key: &Key<'_>) {
        #[cfg(debug_assertions)]
        assert_eq!(self.announced, Some((db, key.hash)), "a key changed that was not announced");
    }
}
