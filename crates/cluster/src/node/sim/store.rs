//! A linearizable store with leases, watches and compaction, as etcd is.

use crate::node::action::{LeaseId, Ms, Outcome, Revision, Transaction, Write};
use crate::node::layout::Key;
use crate::node::state::{Change, Entry, State};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    pub revision: Revision,
    entries: BTreeMap<String, Entry>,
    /// The end of each lease, and its length.
    leases: BTreeMap<LeaseId, (Ms, Ms)>,
    last_lease: i64,
    /// The changes of each revision after `compacted`.
    history: Vec<(Revision, Vec<Change>)>,
    compacted: Revision,
    /// The state of a node that has seen everything.
    pub truth: State,
}

impl Store {
    pub fn grant(&mut self, now: Ms, ttl: Ms) -> LeaseId {
        self.last_lease += 1;
        let lease = LeaseId(self.last_lease);
        self.leases.insert(lease, (now + ttl, ttl));
        lease
    }

    pub fn keep_alive(&mut self, now: Ms, lease: LeaseId) -> bool {
        match self.leases.get_mut(&lease) {
            Some((end, ttl)) => {
                *end = now + *ttl;
                true
            }
            None => false,
        }
    }

    /// A new leader starts the remaining times again.
    pub fn restart(&mut self, now: Ms) {
        self.leases.values_mut().for_each(|(end, ttl)| *end = now + *ttl);
    }

    /// Deletes the keys of leases that have ended. Returns whether there were any.
    pub fn expire(&mut self, now: Ms) -> bool {
        let ended: Vec<LeaseId> =
            self.leases.iter().filter(|(_, (end, _))| *end <= now).map(|(id, _)| *id).collect();
        let before = self.revision;
        for lease in ended {
            self.revoke(lease);
        }
        self.revision > before
    }

    /// Ends a lease and deletes its keys. Returns whether there were any.
    pub fn revoke(&mut self, lease: LeaseId) -> bool {
        self.leases.remove(&lease);
        let has_lease = |entry: &&Entry| entry.lease == Some(lease);
        let keys: Vec<String> =
            self.entries.values().filter(has_lease).map(|entry| entry.key.clone()).collect();
        let has_keys = !keys.is_empty();
        if has_keys {
            self.commit(keys.into_iter().map(|key| Change::Deleted { key }).collect());
        }
        has_keys
    }

    pub fn transact(&mut self, transaction: &Transaction) -> Outcome {
        // etcd's limit (`max-txn-ops`). Only the first state of a cluster may be larger.
        let most = transaction.compares.len().max(transaction.writes.len());
        assert!(most <= 128 || self.revision == 0, "a transaction has {most} operations");
        let holds = transaction.compares.iter().all(|(key, revision)| {
            self.entries.get(&key.to_string()).map(|entry| entry.revision) == *revision
        });
        let leased = transaction.writes.iter().all(|write| match write {
            Write::Put { lease: Some(lease), .. } => self.leases.contains_key(lease),
            Write::Put { lease: None, .. } | Write::Delete { .. } => true,
        });
        if !holds || !leased {
            return Outcome::Refused;
        }
        let revision = self.revision + 1;
        let change = |write: &Write| match write {
            Write::Put { key, value, lease } => Change::Put(Entry {
                key: key.to_string(),
                value: value.clone(),
                revision,
                lease: *lease,
            }),
            Write::Delete { key } => Change::Deleted { key: key.to_string() },
        };
        self.commit(transaction.writes.iter().map(change).collect());
        Outcome::Done(revision)
    }

    /// Writes a value that no node of this version can read.
    pub fn put_unread(&mut self, key: Key, value: Vec<u8>) {
        let revision = self.revision + 1;
        let entry = Entry { key: key.to_string(), value, revision, lease: None };
        self.entries.insert(entry.key.clone(), entry.clone());
        let changes = vec![Change::Put(entry)];
        self.revision = revision;
        self.truth.apply(revision, changes.clone(), &mut Vec::new());
        self.history.push((revision, changes));
    }

    fn commit(&mut self, changes: Vec<Change>) {
        self.revision += 1;
        for change in &changes {
            match change {
                Change::Put(entry) => drop(self.entries.insert(entry.key.clone(), entry.clone())),
                Change::Deleted { key } => drop(self.entries.remove(key)),
            }
        }
        let mut invalid = Vec::new();
        self.truth.apply(self.revision, changes.clone(), &mut invalid);
        assert!(invalid.is_empty(), "nodes write valid values: {invalid:?}");
        self.history.push((self.revision, changes));
    }

    pub fn snapshot(&self) -> (Revision, Vec<Entry>) {
        (self.revision, self.entries.values().cloned().collect())
    }

    /// All changes after a revision; `None` if some are compacted.
    pub fn changes_after(&self, revision: Revision) -> Option<&[(Revision, Vec<Change>)]> {
        let first = revision.checked_sub(self.compacted)?;
        Some(self.history.get(first as usize..).unwrap_or_default())
    }

    pub fn compact(&mut self) {
        self.history.clear();
        self.compacted = self.revision;
    }
}
