//! Threads that call the store, which blocks. A call that hangs delays those of the same thread only.
//!
//! | thread | calls |
//! |---|---|
//! | weft-lease | grants and keepalives |
//! | weft-store | snapshots and transactions |
//! | weft-watch | the watch |

use crate::{Shared, settings, spawn};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use weft_cluster::node::{
    Change, Entry, LeaseId, OpId, Operation, Outcome, Revision, Transaction, Write,
};
use weft_cluster_store::Address;
use weft_cluster_store::etcd::{Etcd, Options, User};
use weft_cluster_store::store::{self, Canceller, Compare, Error, Store as _, Watch};
use weft_config::{Config, Id};
use weft_process::{log_notice, log_warning};
use weft_tls::settings::Identity;

/// The store, and the queues of the threads that call it.
pub struct Store {
    address: Address,
    etcd: Etcd,
    queues: [Queue; 3],
    /// Ends the watch that is open.
    watch: Mutex<Option<Canceller>>,
    health: Mutex<Health>,
    /// This process ends: it calls the store no more.
    has_ended: AtomicBool,
}

/// The operations that a thread is to execute.
struct Queue {
    to: Sender<(OpId, Operation)>,
    /// Taken by the thread.
    from: Mutex<Option<Receiver<(OpId, Operation)>>>,
}

/// Index of a queue, and the name of its thread.
const THREADS: [&str; 3] = ["weft-lease", "weft-store", "weft-watch"];
const LEASE: usize = 0;
const STORE: usize = 1;
const WATCH: usize = 2;

/// Whether the last calls have succeeded, so that only changes are logged.
#[derive(Default)]
struct Health {
    fails_since: Option<Instant>,
}

impl Store {
    /// The store of the configuration.
    ///
    /// # Errors
    /// The directive that can't be used, and the reason.
    pub fn new(config: &Config) -> Result<Store, String> {
        let text = |id| config.str(id).into_owned();
        let file = |id| Some(text(id)).filter(|path| !path.is_empty()).map(PathBuf::from);
        let address = Address::parse(&settings::store(config))
            .map_err(|e| format!("Can't use cluster-store: {e}"))?;
        let mut options = Options::new(address.clone());
        let name = text(Id::CLUSTER_STORE_USER);
        if !name.is_empty() {
            options.user = Some(User { name, password: text(Id::CLUSTER_STORE_PASSWORD) });
        }
        options.ca_file = file(Id::CLUSTER_STORE_CA_CERT_FILE);
        options.identity = Identity {
            cert: file(Id::CLUSTER_STORE_CERT_FILE),
            key: file(Id::CLUSTER_STORE_KEY_FILE),
            ..Identity::default()
        };
        let etcd = Etcd::new(&options).map_err(|e| format!("Can't use cluster-store: {e}"))?;
        let queue = || {
            let (to, from) = channel();
            Queue { to, from: Mutex::new(Some(from)) }
        };
        Ok(Store {
            address,
            etcd,
            queues: [queue(), queue(), queue()],
            watch: Mutex::default(),
            health: Mutex::default(),
            has_ended: AtomicBool::new(false),
        })
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// Those of the system.
    pub fn start(&'static self, driver: Shared) -> std::io::Result<()> {
        for (queue, name) in self.queues.iter().zip(THREADS) {
            let from = queue.from.lock().unwrap_or_else(|p| p.into_inner()).take();
            let Some(from) = from else { continue };
            spawn(name, move || {
                while let Ok((op, operation)) = from.recv() {
                    self.execute(driver, op, operation);
                }
            })?;
        }
        Ok(())
    }

    /// Calls the store no more, except to give this lease up. Waits for its answer, but not long.
    pub fn end(&self, lease: Option<LeaseId>) {
        const PATIENCE: Duration = Duration::from_secs(1);
        self.has_ended.store(true, Ordering::SeqCst);
        let Some(lease) = lease else { return };
        match self.etcd.revoke(store::LeaseId(lease.0 as u64), PATIENCE) {
            Ok(()) => log_notice!("Cluster: this node has given its lease up"),
            Err(e) => log_warning!("Cluster: this node can't give its lease up: {e}"),
        }
    }

    /// Leaves an operation to its thread.
    pub fn request(&self, op: OpId, operation: Operation) {
        // Otherwise the node would ask for another lease.
        if self.has_ended.load(Ordering::SeqCst) {
            return;
        }
        let queue = match operation {
            Operation::Grant { .. } | Operation::KeepAlive { .. } | Operation::Probe => LEASE,
            Operation::Snapshot | Operation::Transact(_) => STORE,
            Operation::Watch { .. } => {
                // It replaces the watch before it.
                if let Some(earlier) = self.watch().take() {
                    earlier.cancel();
                }
                WATCH
            }
        };
        // The receivers live as long as the process.
        let _ = self.queues[queue].to.send((op, operation));
    }

    fn watch(&self) -> MutexGuard<'_, Option<Canceller>> {
        self.watch.lock().unwrap_or_else(|p| p.into_inner())
    }

    fn execute(&self, driver: Shared, op: OpId, operation: Operation) {
        let timeout = Duration::from_millis(driver.machine().node().timeout());
        match operation {
            Operation::Grant { ttl } => {
                let result = self.etcd.grant(Duration::from_millis(ttl), timeout / 2);
                let result = self.note(result);
                driver.pass(|event| match result {
                    Ok(lease) => {
                        let id = LeaseId(lease.id.0 as i64);
                        event.node.granted(event.now, op, id, event.out);
                    }
                    Err(_) => event.node.failed(event.now, op, event.out),
                });
            }
            Operation::KeepAlive { lease } => {
                let result = self.etcd.keep_alive(store::LeaseId(lease.0 as u64), timeout / 4);
                let result = self.note(result);
                driver.pass(|event| match result {
                    Ok(_) => event.node.kept_alive(event.now, op, event.out),
                    Err(Error::LeaseGone) => event.node.lease_unknown(event.now, op, event.out),
                    Err(_) => event.node.failed(event.now, op, event.out),
                });
            }
            Operation::Probe => {
                let result = self.note(self.etcd.read(b"format", timeout / 4));
                driver.pass(|event| match result {
                    Ok(_) => event.node.answered(event.now, op, event.out),
                    Err(_) => event.node.failed(event.now, op, event.out),
                });
            }
            Operation::Snapshot => {
                let result = self.note(self.etcd.read(b"", timeout));
                driver.pass(|event| match result {
                    Ok(snapshot) => {
                        let entries = snapshot.entries.into_iter().map(entry).collect();
                        let revision = snapshot.revision.0;
                        event.node.snapshot(event.now, op, revision, entries, event.out);
                    }
                    Err(_) => event.node.failed(event.now, op, event.out),
                });
            }
            Operation::Transact(transaction) => {
                let outcome = self.transact(&transaction, timeout);
                driver.pass(|event| event.node.transacted(event.now, op, outcome, event.out));
            }
            Operation::Watch { after } => {
                self.run_watch(driver, op, after, timeout);
                driver.pass(|event| event.node.failed(event.now, op, event.out));
            }
        }
    }

    fn transact(&self, of: &Transaction, timeout: Duration) -> Outcome {
        let result = self.note(self.etcd.transact(&transaction(of), timeout));
        match result {
            Ok(store::Outcome::Committed { revision }) => Outcome::Done(revision.0),
            Ok(store::Outcome::Mismatch { .. }) => Outcome::Refused,
            Err(e) if e.is_certainly_not_done() => Outcome::Refused,
            Err(_) => Outcome::Unknown,
        }
    }

    /// Reports changes until the watch ends.
    fn run_watch(&self, driver: Shared, op: OpId, after: Revision, timeout: Duration) {
        let from = store::Revision(after).next();
        let watch = self.note(self.etcd.watch(b"", from, timeout));
        let Ok(mut watch) = watch else { return };
        *self.watch() = Some(watch.canceller());
        let (mut looked, mut checked) = (Instant::now(), Instant::now());
        let mut last = after;
        loop {
            match watch.next(timeout / 2) {
                Ok(Some(batch)) => {
                    last = batch.revision.0;
                    let changes = batch.changes.into_iter().map(change).collect();
                    driver.pass(|event| {
                        event.node.changes(event.now, op, last, changes, event.out);
                    });
                }
                Ok(None) => {}
                Err(end) => return log_notice!("Cluster store: {end}"),
            }
            if checked.elapsed() > timeout / 2 {
                checked = Instant::now();
                if let Ok(snapshot) = self.etcd.read(b"format", timeout / 2)
                    && snapshot.revision.0 < last
                {
                    log_warning!(
                        "Cluster store: revision {} after {last}: was it restored?",
                        snapshot.revision
                    );
                    return driver.pass(|event| event.node.store_went_back(event.now, event.out));
                }
            }
            // A member of the store that hangs is silent.
            if looked.elapsed() > 4 * timeout {
                looked = Instant::now();
                if self.has_later_change(watch.as_mut(), driver, op, &mut last, timeout) {
                    return log_warning!("Cluster store: the watch misses changes");
                }
            }
        }
    }

    /// Whether the store has a change that the watch doesn't report.
    fn has_later_change(
        &self,
        watch: &mut dyn Watch,
        driver: Shared,
        op: OpId,
        last: &mut Revision,
        timeout: Duration,
    ) -> bool {
        let Ok(snapshot) = self.etcd.read(b"", timeout) else { return false };
        let latest = snapshot.entries.iter().map(|entry| entry.modified.0).max().unwrap_or(0);
        while *last < latest {
            let Ok(Some(batch)) = watch.next(timeout) else { return true };
            *last = batch.revision.0;
            let changes = batch.changes.into_iter().map(change).collect();
            driver.pass(|event| event.node.changes(event.now, op, *last, changes, event.out));
        }
        false
    }

    /// Logs when calls begin to fail, and when they succeed again.
    fn note<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        let mut health = self.health.lock().unwrap_or_else(|p| p.into_inner());
        match &result {
            Ok(_) | Err(Error::LeaseGone) => {
                if let Some(since) = health.fails_since.take() {
                    let seconds = since.elapsed().as_secs();
                    log_notice!("Cluster store: calls succeed again, after {seconds} seconds");
                }
            }
            Err(e) if health.fails_since.is_none() => {
                health.fails_since = Some(Instant::now());
                log_warning!("Cluster store: {e}");
            }
            Err(_) => {}
        }
        result
    }
}

fn entry(of: store::Entry) -> Entry {
    Entry {
        // Keys that are no text are unknown keys.
        key: String::from_utf8_lossy(&of.key).into_owned(),
        value: of.value,
        revision: of.modified.0,
        lease: of.lease.map(|lease| LeaseId(lease.0 as i64)),
    }
}

fn change(of: store::Change) -> Change {
    match of {
        store::Change::Put(put) => Change::Put(entry(put)),
        store::Change::Deleted { key } => {
            Change::Deleted { key: String::from_utf8_lossy(&key).into_owned() }
        }
    }
}

fn transaction(of: &Transaction) -> store::Transaction {
    let compares = of.compares.iter().map(|(key, revision)| {
        let key = key.to_string().into_bytes();
        match revision {
            Some(revision) => Compare::Modified { key, revision: store::Revision(*revision) },
            None => Compare::Absent { key },
        }
    });
    let operations = of.writes.iter().map(|write| match write {
        Write::Put { key, value, lease } => store::Operation::Put {
            key: key.to_string().into_bytes(),
            value: value.clone(),
            lease: lease.map(|lease| store::LeaseId(lease.0 as u64)),
        },
        Write::Delete { key } => store::Operation::Delete { key: key.to_string().into_bytes() },
    });
    store::Transaction { compares: compares.collect(), operations: operations.collect() }
}

/// The store's health for CLUSTER INFO: whether its last calls have failed.
impl Store {
    pub fn is_failing(&self) -> bool {
        self.health.lock().unwrap_or_else(|p| p.into_inner()).fails_since.is_some()
    }
}
