//! The contract of [`Store`], as cases that run on every implementation.
//!
//! A case returns the violation instead of panicking: with a planted fault, that is the expected result.

mod leases;
mod random;
mod transactions;
mod watches;

use std::time::Duration;
use weft_cluster_store::store::{
    Batch, Compare, Entry, LeaseId, Operation, Outcome, Revision, Snapshot, Store, Transaction,
};
use weft_cluster_store::{Error, Watch};

/// Longer than any call takes on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// The violation, if there is one.
pub type Checked = Result<(), String>;

/// An empty store, and what happens around it.
pub trait Fixture: Sync {
    /// A client of the store.
    fn store(&self) -> Box<dyn Store>;
    /// Of the clock that leases follow.
    fn now(&self) -> Duration;
    /// Lets time pass.
    fn pass(&self, time: Duration);
    fn compact(&self, revision: Revision);
}

/// A case, by its name.
pub type Case = (&'static str, fn(&dyn Fixture) -> Checked);

/// How the names of cases begin that take history away from all others on the same store.
pub const COMPACTION: &str = "compacted_";

/// All cases.
pub fn cases() -> Vec<Case> {
    [transactions::CASES, leases::CASES, watches::CASES, random::CASES].concat()
}

/// Ends a case that doesn't hold.
macro_rules! ensure {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err(format!($($words)+));
        }
    };
}
pub(crate) use ensure;

/// The calls of the cases, with a timeout and errors as text.
pub struct Client(Box<dyn Store>);

impl Client {
    pub fn of(fixture: &dyn Fixture) -> Client {
        Client(fixture.store())
    }

    pub fn store(&self) -> &dyn Store {
        &*self.0
    }

    pub fn read(&self, prefix: &str) -> Result<Snapshot, String> {
        self.0.read(prefix.as_bytes(), TIMEOUT).map_err(|e| e.to_string())
    }

    pub fn find(&self, key: &str) -> Result<Option<Entry>, String> {
        let found = self.read(key)?.entries.into_iter().find(|entry| entry.key == key.as_bytes());
        Ok(found)
    }

    pub fn try_transact(
        &self,
        compares: Vec<Compare>,
        operations: Vec<Operation>,
    ) -> Result<Outcome, Error> {
        self.0.transact(&Transaction { compares, operations }, TIMEOUT)
    }

    /// A transaction without comparisons.
    pub fn commit(&self, operations: Vec<Operation>) -> Result<Revision, String> {
        self.commit_if(vec![], operations)
    }

    /// A transaction that must succeed.
    pub fn commit_if(
        &self,
        compares: Vec<Compare>,
        operations: Vec<Operation>,
    ) -> Result<Revision, String> {
        match self.try_transact(compares, operations).map_err(|e| e.to_string())? {
            Outcome::Committed { revision } => Ok(revision),
            other => Err(format!("not committed: {other:?}")),
        }
    }

    /// A transaction whose comparison must fail.
    pub fn mismatch(
        &self,
        compares: Vec<Compare>,
        operations: Vec<Operation>,
    ) -> Result<Vec<Option<Entry>>, String> {
        match self.try_transact(compares, operations).map_err(|e| e.to_string())? {
            Outcome::Mismatch { found, .. } => Ok(found),
            other => Err(format!("no mismatch: {other:?}")),
        }
    }

    pub fn put(&self, key: &str, value: &str) -> Result<Revision, String> {
        self.commit(vec![put(key, value)])
    }

    pub fn watch(&self, prefix: &str, from: Revision) -> Result<Box<dyn Watch>, String> {
        self.0.watch(prefix.as_bytes(), from, TIMEOUT).map_err(|e| e.to_string())
    }
}

pub fn put(key: &str, value: &str) -> Operation {
    Operation::Put { key: key.into(), value: value.into(), lease: None }
}

pub fn put_leased(key: &str, lease: LeaseId) -> Operation {
    Operation::Put { key: key.into(), value: b"leased".to_vec(), lease: Some(lease) }
}

pub fn delete(key: &str) -> Operation {
    Operation::Delete { key: key.into() }
}

/// The next batch, which must come.
pub fn next(watch: &mut Box<dyn Watch>) -> Result<Batch, String> {
    let batch = watch.next(TIMEOUT).map_err(|e| e.to_string())?;
    batch.ok_or_else(|| "a change is not reported".to_string())
}
