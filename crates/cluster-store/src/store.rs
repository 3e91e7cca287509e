//! A linearizable store of keys and values, with transactions, leases and watches.
//!
//! Calls block, and each has a timeout. The words of an error are for the log; its kind decides what a caller may
//! conclude. A caller that takes "unknown" for "not done" acts on a wrong map, so no implementation may guess: when
//! in doubt, it returns [`Error::Unknown`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The most operations, and the most comparisons, of one transaction: etcd's default (`--max-txn-ops`).
pub const MAX_OPERATIONS: usize = 128;

/// The number of a state of the whole store. Each transaction with an effect makes the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision after this one.
    #[must_use]
    pub fn next(self) -> Revision {
        Revision(self.0.saturating_add(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name of a lease. The store chooses it, and never uses it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    /// The revision that created the key; later than an earlier deletion of it.
    pub created: Revision,
    /// The revision of the last put.
    pub modified: Revision,
    /// The lease whose end deletes the key.
    pub lease: Option<LeaseId>,
}

/// All keys of a prefix at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Of the whole store. A watch that continues the snapshot starts from the one after it.
    pub revision: Revision,
    /// Sorted by key.
    pub entries: Vec<Entry>,
}

/// A condition of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The key exists and has this value.
    Value {
        key: Vec<u8>,
        value: Vec<u8>,
    },
    /// The key exists and was last put by this revision.
    Modified {
        key: Vec<u8>,
        revision: Revision,
    },
    Exists {
        key: Vec<u8>,
    },
    Absent {
        key: Vec<u8>,
    },
}

impl Compare {
    /// The key it looks at.
    pub fn key(&self) -> &[u8] {
        match self {
            Compare::Value { key, .. }
            | Compare::Modified { key, .. }
            | Compare::Exists { key }
            | Compare::Absent { key } => key,
        }
    }
}

/// A change that a transaction makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Without a lease, the key loses the one it had.
    Put { key: Vec<u8>, value: Vec<u8>, lease: Option<LeaseId> },
    /// Without effect if the key doesn't exist.
    Delete { key: Vec<u8> },
}

impl Operation {
    /// The key it changes.
    pub fn key(&self) -> &[u8] {
        match self {
            Operation::Put { key, .. } | Operation::Delete { key } => key,
        }
    }
}

/// If all comparisons hold, all operations happen at one revision; otherwise none does.
///
/// Two operations must not name the same key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    pub compares: Vec<Compare>,
    pub operations: Vec<Operation>,
}

impl Transaction {
    /// The reason why no store can execute this.
    pub fn refusal(&self) -> Option<String> {
        if self.compares.len() > MAX_OPERATIONS || self.operations.len() > MAX_OPERATIONS {
            return Some(format!("a transaction has at most {MAX_OPERATIONS} operations"));
        }
        let mut keys: Vec<&[u8]> = self.operations.iter().map(Operation::key).collect();
        keys.sort_unstable();
        let twice = keys.windows(2).find(|pair| pair[0] == pair[1])?;
        Some(format!("two operations on one key: {}", String::from_utf8_lossy(twice[0])))
    }
}

/// The end of a transaction that the store decided on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The revision that it made; the store's current one if it changed nothing.
    Committed { revision: Revision },
    /// A comparison didn't hold, and nothing was changed. `found` has one element for each comparison.
    Mismatch { revision: Revision, found: Vec<Option<Entry>> },
}

/// A lease that the store granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    pub id: LeaseId,
    /// Granted, in whole seconds. It may be longer than requested, since etcd has a minimum.
    pub ttl: Duration,
}

/// One change of a key, as a watch reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Put(Entry),
    Deleted { key: Vec<u8> },
}

/// All changes of one revision under the watched prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub revision: Revision,
    pub changes: Vec<Change>,
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Certainly not done: the store rejects this request, and will reject it again.
    NotDone(String),
    /// Certainly not done: no store was reached, or it can't decide at the moment. A later attempt may succeed.
    Unavailable(String),
    /// Certainly not done: wrong user or password, a right that is missing, a certificate that isn't accepted.
    Refused(String),
    /// Certainly not done: the lease doesn't exist. If it did once, it has ended and its keys are deleted.
    LeaseGone,
    /// Perhaps done, perhaps done later, perhaps never. Only a read, or a comparison in the next transaction, decides.
    Unknown(String),
}

impl Error {
    /// Whether the request has had no effect and never will.
    pub fn is_certainly_not_done(&self) -> bool {
        !matches!(self, Error::Unknown(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotDone(why) => write!(f, "the cluster store rejects the request: {why}"),
            Error::Unavailable(why) => write!(f, "the cluster store is unavailable: {why}"),
            Error::Refused(why) => write!(f, "the cluster store refuses access: {why}"),
            Error::LeaseGone => f.write_str("the lease has ended"),
            Error::Unknown(why) => write!(f, "no answer of the cluster store: {why}"),
        }
    }
}

impl std::error::Error for Error {}

/// Why a watch has ended. It reports no more changes; [`Watch::resume_from`] stays valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// By its [`Canceller`].
    Cancelled,
    /// Changes from the requested revision on were compacted. `oldest` is the earliest revision that the store still has, where it
    /// says so. The caller reads everything again, and watches from the revision after that snapshot.
    Compacted { oldest: Option<Revision> },
    /// Missing right or invalid user. A new watch ends the same way until an operator changes that.
    Refused(String),
    /// The connection or its endpoint is gone, or that endpoint lost its leader. No change is lost: the caller watches again
    /// from `resume_from`.
    Closed(String),
}

impl fmt::Display for WatchEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WatchEnd::Cancelled => f.write_str("the watch was cancelled"),
            WatchEnd::Compacted { .. } => f.write_str("the watched changes were compacted"),
            WatchEnd::Refused(why) => write!(f, "the cluster store refuses the watch: {why}"),
            WatchEnd::Closed(why) => write!(f, "the watch was closed: {why}"),
        }
    }
}

/// The store. Keys are relative to the prefix of its address.
///
/// Calls of several threads run at the same time.
pub trait Store: Send + Sync {
    /// Reads all keys that start with `prefix`, at one revision not older than the start of the call.
    ///
    /// The call tries every endpoint until one answers.
    ///
    /// # Errors
    /// `Unavailable`, `Refused`, `NotDone`: nothing was read. Never `Unknown`, since a read changes nothing.
    fn read(&self, prefix: &[u8], timeout: Duration) -> Result<Snapshot, Error>;

    /// Executes a transaction at most once.
    ///
    /// The call tries another endpoint only while it is certain that no endpoint has received the transaction.
    ///
    /// # Errors
    /// * `NotDone`, `Refused`, `Unavailable`: nothing changed and nothing will.
    /// * `LeaseGone`: a put names a lease that has ended; nothing changed.
    /// * `Unknown`: a caller that tries again needs a comparison that fails if the first attempt succeeded, such as
    ///   [`Compare::Modified`].
    fn transact(&self, transaction: &Transaction, timeout: Duration) -> Result<Outcome, Error>;

    /// Grants a lease, for `ttl` rounded up to whole seconds.
    ///
    /// The store starts to count before it answers. So a holder counts from the moment before the call.
    ///
    /// # Errors
    /// `Unknown`: a lease may exist without a holder; it ends by itself, and has no keys.
    fn grant(&self, ttl: Duration, timeout: Duration) -> Result<Lease, Error>;

    /// Restarts the time of a lease; returns its TTL.
    ///
    /// A holder counts from the moment before the call. The call tries every endpoint.
    ///
    /// # Errors
    /// * `LeaseGone`: the lease has ended and its keys are deleted.
    /// * `Unknown`, `Unavailable`: the lease lasts as long as the last successful call says, perhaps longer.
    fn keep_alive(&self, lease: LeaseId, timeout: Duration) -> Result<Duration, Error>;

    /// Ends a lease and deletes its keys, at one revision. Succeeds if the lease has ended already.
    ///
    /// The call tries every endpoint, because a lease can only end once.
    ///
    /// # Errors
    /// `Unknown`: it may have ended, or end later; at the latest when its TTL is over.
    fn revoke(&self, lease: LeaseId, timeout: Duration) -> Result<(), Error>;

    /// Starts a watch of all keys that start with `prefix`, with the changes of revision `from` and later ones.
    ///
    /// # Errors
    /// `Unavailable`, `Refused`, `NotDone`: there is no watch. Compaction is reported by the first [`Watch::next`].
    fn watch(
        &self,
        prefix: &[u8],
        from: Revision,
        timeout: Duration,
    ) -> Result<Box<dyn Watch>, Error>;
}

/// A watch of a prefix.
///
/// Silence doesn't prove that nothing has changed: an endpoint that hangs says nothing. A caller that must not miss a
/// change reads from time to time. If the read shows a later change than the watch, the caller starts a new watch.
pub trait Watch: Send {
    /// Waits for the next revision with changes; `None` if there is none within `timeout`. The watch continues then.
    ///
    /// Revisions ascend, and no revision with a change under the prefix is left out or divided.
    ///
    /// # Errors
    /// The watch has ended. All further calls return the same error.
    fn next(&mut self, timeout: Duration) -> Result<Option<Batch>, WatchEnd>;

    /// The revision after the last batch that `next` returned: a new watch from here continues this one.
    fn resume_from(&self) -> Revision;

    /// Ends the watch from any thread.
    fn canceller(&self) -> Canceller;
}

/// Ends a watch; a `next` that waits in another thread returns [`WatchEnd::Cancelled`] soon.
#[derive(Clone)]
pub struct Canceller(Arc<dyn Fn() + Send + Sync>);

impl Canceller {
    pub fn new(cancel: impl Fn() + Send + Sync + 'static) -> Canceller {
        Canceller(Arc::new(cancel))
    }

    /// Ends the watch. Further calls have no effect.
    pub fn cancel(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Canceller")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transaction_with_a_key_twice_or_too_much_is_refused() {
        let delete = |key: &str| Operation::Delete { key: key.into() };
        let of = |operations| Transaction { operations, ..Transaction::default() };
        assert_eq!(of(vec![delete("a"), delete("b")]).refusal(), None);
        assert!(of(vec![delete("a"), delete("b"), delete("a")]).refusal().is_some());
        let many = (0..=MAX_OPERATIONS).map(|i| delete(&i.to_string())).collect();
        assert!(of(many).refusal().is_some());
    }

    #[test]
    fn only_one_error_leaves_a_doubt() {
        assert!(!Error::Unknown(String::new()).is_certainly_not_done());
        assert!(Error::Unavailable(String::new()).is_certainly_not_done());
        assert!(Error::LeaseGone.is_certainly_not_done());
    }
}
