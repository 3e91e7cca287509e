//! The state of the simulated store: keys, their history, leases. It does one member's work, without disk and network.
//!
//! Times are durations since the start of the simulation. Nothing here reads a clock.

use crate::store::{
    Batch, Change, Compare, Entry, Error, Lease, LeaseId, Operation, Outcome, Revision, Snapshot,
    Transaction,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// A fault of the store, planted to prove that tests find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    CompareIgnoresRevision,
    CompareIgnoresValue,
    AbsenceIsNotCompared,
    ExistenceIsNotCompared,
    MismatchKeepsFirstOperation,
    TransactionTakesTwoRevisions,
    DeleteIsNotReported,
    WatchStartsOneLate,
    WatchIgnoresPrefix,
    CompactionIsNotReported,
    ReadIncludesNextPrefix,
    PutKeepsOldLease,
    RevokeKeepsKeys,
    LeaseNeverEnds,
    KeepAliveDoesNotProlong,
    KeepAliveRevives,
    PutAcceptsGoneLease,
    CreationIsNotReset,
}

impl Planted {
    /// All of them.
    pub const ALL: [Planted; 18] = [
        Planted::CompareIgnoresRevision,
        Planted::CompareIgnoresValue,
        Planted::AbsenceIsNotCompared,
        Planted::ExistenceIsNotCompared,
        Planted::MismatchKeepsFirstOperation,
        Planted::TransactionTakesTwoRevisions,
        Planted::DeleteIsNotReported,
        Planted::WatchStartsOneLate,
        Planted::WatchIgnoresPrefix,
        Planted::CompactionIsNotReported,
        Planted::ReadIncludesNextPrefix,
        Planted::PutKeepsOldLease,
        Planted::RevokeKeepsKeys,
        Planted::LeaseNeverEnds,
        Planted::KeepAliveDoesNotProlong,
        Planted::KeepAliveRevives,
        Planted::PutAcceptsGoneLease,
        Planted::CreationIsNotReset,
    ];
}

/// See the module documentation.
#[derive(Debug)]
pub struct State {
    revision: Revision,
    /// The earliest revision whose changes are still known.
    oldest: Revision,
    entries: BTreeMap<Vec<u8>, Entry>,
    history: BTreeMap<Revision, Vec<Change>>,
    leases: BTreeMap<LeaseId, Held>,
    last_lease: u64,
    minimum_ttl: Duration,
    planted: Option<Planted>,
}

#[derive(Debug)]
struct Held {
    ttl: Duration,
    ends: Duration,
}

impl State {
    /// An empty store, at revision 1 as an empty etcd.
    pub fn new(minimum_ttl: Duration, planted: Option<Planted>) -> State {
        State {
            revision: Revision(1),
            oldest: Revision(0),
            entries: BTreeMap::new(),
            history: BTreeMap::new(),
            leases: BTreeMap::new(),
            last_lease: 0,
            minimum_ttl,
            planted,
        }
    }

    fn has(&self, fault: Planted) -> bool {
        self.planted == Some(fault)
    }

    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// All keys that start with `prefix`.
    pub fn read(&self, prefix: &[u8]) -> Snapshot {
        let mut entries: Vec<Entry> = self
            .entries
            .range(prefix.to_vec()..)
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(_, entry)| entry.clone())
            .collect();
        if self.has(Planted::ReadIncludesNextPrefix) {
            let next = self.entries.range(prefix.to_vec()..).nth(entries.len());
            entries.extend(next.map(|(_, entry)| entry.clone()));
        }
        Snapshot { revision: self.revision, entries }
    }

    /// Executes a transaction.
    pub fn transact(&mut self, transaction: &Transaction) -> Result<Outcome, Error> {
        if let Some(why) = transaction.refusal() {
            return Err(Error::NotDone(why));
        }
        if transaction.compares.iter().any(|compare| !self.holds(compare)) {
            if self.has(Planted::MismatchKeepsFirstOperation) {
                let first = transaction.operations.first().cloned();
                self.commit(&Vec::from_iter(first));
            }
            let find = |compare: &Compare| self.entries.get(compare.key()).cloned();
            let found = transaction.compares.iter().map(find).collect();
            return Ok(Outcome::Mismatch { revision: self.revision, found });
        }
        let lost = transaction.operations.iter().any(|operation| match operation {
            Operation::Put { lease: Some(lease), .. } => !self.leases.contains_key(lease),
            _ => false,
        });
        if lost && !self.has(Planted::PutAcceptsGoneLease) {
            return Err(Error::LeaseGone);
        }
        if self.has(Planted::TransactionTakesTwoRevisions) && transaction.operations.len() > 1 {
            let (first, rest) = transaction.operations.split_at(1);
            self.commit(first);
            self.commit(rest);
        } else {
            self.commit(&transaction.operations);
        }
        Ok(Outcome::Committed { revision: self.revision })
    }

    fn holds(&self, compare: &Compare) -> bool {
        let entry = self.entries.get(compare.key());
        match compare {
            Compare::Value { value, .. } => entry.is_some_and(|entry| {
                entry.value == *value || self.has(Planted::CompareIgnoresValue)
            }),
            Compare::Modified { revision, .. } => entry.is_some_and(|entry| {
                entry.modified == *revision || self.has(Planted::CompareIgnoresRevision)
            }),
            Compare::Exists { .. } => entry.is_some() || self.has(Planted::ExistenceIsNotCompared),
            Compare::Absent { .. } => entry.is_none() || self.has(Planted::AbsenceIsNotCompared),
        }
    }

    /// Makes the next revision, unless nothing changes.
    fn commit(&mut self, operations: &[Operation]) {
        let revision = self.revision.next();
        let mut changes = Vec::new();
        for operation in operations {
            match operation {
                Operation::Put { key, value, lease } => {
                    let entry = self.entry_after_put(revision, key, value, *lease);
                    self.entries.insert(key.clone(), entry.clone());
                    changes.push(Change::Put(entry));
                }
                Operation::Delete { key } => {
                    if self.entries.remove(key).is_some() {
                        changes.push(Change::Deleted { key: key.clone() });
                    }
                }
            }
        }
        if changes.is_empty() {
            return;
        }
        if self.has(Planted::DeleteIsNotReported) {
            changes.retain(|change| matches!(change, Change::Put(_)));
        }
        self.revision = revision;
        self.history.insert(revision, changes);
    }

    fn entry_after_put(
        &self,
        revision: Revision,
        key: &[u8],
        value: &[u8],
        lease: Option<LeaseId>,
    ) -> Entry {
        let old = self.entries.get(key);
        let reset = !self.has(Planted::CreationIsNotReset);
        let first = self.history.values().flatten().find_map(|change| match change {
            Change::Put(entry) if !reset && entry.key == key => Some(entry.created),
            _ => None,
        });
        let kept = old.and_then(|old| old.lease).filter(|_| self.has(Planted::PutKeepsOldLease));
        Entry {
            key: key.to_vec(),
            value: value.to_vec(),
            created: old.map(|old| old.created).or(first).unwrap_or(revision),
            modified: revision,
            lease: lease.or(kept),
        }
    }

    /// Grants a lease.
    pub fn grant(&mut self, ttl: Duration, now: Duration) -> Lease {
        let ttl = whole_seconds(ttl.max(self.minimum_ttl));
        self.last_lease += 1;
        let id = LeaseId(self.last_lease);
        self.leases.insert(id, Held { ttl, ends: now + ttl });
        Lease { id, ttl }
    }

    /// Restarts the time of a lease.
    pub fn keep_alive(&mut self, id: LeaseId, now: Duration) -> Result<Duration, Error> {
        let prolongs = !self.has(Planted::KeepAliveDoesNotProlong);
        let revives = self.has(Planted::KeepAliveRevives) && id.0 <= self.last_lease;
        match self.leases.get_mut(&id) {
            Some(held) => {
                if prolongs {
                    held.ends = now + held.ttl;
                }
                Ok(held.ttl)
            }
            None if revives => {
                self.leases
                    .insert(id, Held { ttl: self.minimum_ttl, ends: now + self.minimum_ttl });
                Ok(self.minimum_ttl)
            }
            None => Err(Error::LeaseGone),
        }
    }

    /// Ends a lease and deletes its keys; whether it existed.
    pub fn revoke(&mut self, id: LeaseId) -> bool {
        let existed = self.leases.remove(&id).is_some();
        if !self.has(Planted::RevokeKeepsKeys) {
            let of_lease = self.entries.values().filter(|entry| entry.lease == Some(id));
            let deletes: Vec<Operation> =
                of_lease.map(|entry| Operation::Delete { key: entry.key.clone() }).collect();
            self.commit(&deletes);
        }
        existed
    }

    /// Ends the leases whose time is over, the earliest first.
    pub fn expire(&mut self, now: Duration) {
        while let Some((_, id)) = self.first_end().filter(|(ends, _)| *ends <= now) {
            self.revoke(id);
        }
    }

    /// When the next lease ends, unless it is kept alive.
    pub fn next_end(&self) -> Option<Duration> {
        self.first_end().map(|(ends, _)| ends)
    }

    fn first_end(&self) -> Option<(Duration, LeaseId)> {
        if self.has(Planted::LeaseNeverEnds) {
            return None;
        }
        self.leases.iter().map(|(id, held)| (held.ends, *id)).min()
    }

    /// Gives every lease its whole TTL again, as a new leader of etcd does.
    pub fn renew_leases(&mut self, now: Duration) {
        for held in self.leases.values_mut() {
            held.ends = now + held.ttl;
        }
    }

    /// Forgets the changes before `revision`.
    pub fn compact(&mut self, revision: Revision) {
        let revision = revision.min(self.revision);
        self.history = self.history.split_off(&revision);
        self.oldest = self.oldest.max(revision);
    }

    /// The changes under `prefix` of revision `from` and later, or the oldest revision that is left.
    ///
    /// As in etcd, a watch may start at the compacted revision itself, whose state is still known.
    pub fn changes(&self, prefix: &[u8], from: Revision) -> Result<Vec<Batch>, Revision> {
        if from < self.oldest && !self.has(Planted::CompactionIsNotReported) {
            return Err(self.oldest);
        }
        let from = if self.has(Planted::WatchStartsOneLate) { from.next() } else { from };
        let is_watched = |change: &&Change| {
            let (Change::Put(Entry { key, .. }) | Change::Deleted { key }) = change;
            key.starts_with(prefix) || self.has(Planted::WatchIgnoresPrefix)
        };
        let batches = self.history.range(from..).map(|(revision, changes)| Batch {
            revision: *revision,
            changes: changes.iter().filter(is_watched).cloned().collect(),
        });
        Ok(batches.filter(|batch| !batch.changes.is_empty()).collect())
    }
}

/// Rounds up, as requests to etcd do.
fn whole_seconds(ttl: Duration) -> Duration {
    Duration::from_secs(ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0))
}
