//! The trait for the simulated store, for tests of the contract and of drivers.
//!
//! Time is virtual: a call that waits advances it to the next event. So nothing sleeps, and a run on one thread repeats
//! exactly.

use super::network::{Answer, ClientId, Event, Network, Request, RequestId};
use crate::store::{
    Batch, Canceller, Error, Lease, LeaseId, Outcome, Revision, Snapshot, Store, Transaction,
    Watch, WatchEnd,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// One client of a simulated store.
#[derive(Clone, Debug)]
pub struct Memory {
    shared: Arc<Mutex<Shared>>,
    client: ClientId,
}

#[derive(Debug)]
struct Shared {
    network: Network,
    answers: BTreeMap<RequestId, Result<Answer, Error>>,
    watches: BTreeMap<RequestId, Inbox>,
}

#[derive(Debug, Default)]
struct Inbox {
    batches: VecDeque<Batch>,
    end: Option<WatchEnd>,
}

impl Shared {
    fn advance(&mut self, now: Duration) {
        for event in self.network.advance(now) {
            match event {
                Event::Answered { request, result, .. } => {
                    self.answers.insert(request, result);
                }
                Event::Changed { watch, batch, .. } => {
                    if let Some(inbox) = self.watches.get_mut(&watch) {
                        inbox.batches.push_back(batch);
                    }
                }
                Event::Ended { watch, end, .. } => {
                    if let Some(inbox) = self.watches.get_mut(&watch) {
                        inbox.end = Some(end);
                    }
                }
            }
        }
    }
}

impl Memory {
    /// The first client of a store.
    pub fn new(network: Network) -> Memory {
        let (answers, watches) = (BTreeMap::new(), BTreeMap::new());
        let shared = Arc::new(Mutex::new(Shared { network, answers, watches }));
        Memory { shared, client: ClientId(0) }
    }

    /// Another client of the same store.
    #[must_use]
    pub fn as_client(&self, client: ClientId) -> Memory {
        Memory { shared: self.shared.clone(), client }
    }

    /// Changes the network, to cut clients off and the like.
    pub fn with<T>(&self, change: impl FnOnce(&mut Network) -> T) -> T {
        change(&mut self.lock().network)
    }

    /// Lets time pass.
    pub fn pass(&self, time: Duration) {
        let mut shared = self.lock();
        let now = shared.network.now() + time;
        shared.advance(now);
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("no holder panics")
    }

    fn call(&self, request: Request, timeout: Duration) -> Result<Answer, Error> {
        let mut shared = self.lock();
        let now = shared.network.now();
        let id = shared.network.send(now, self.client, request, timeout);
        self.wait(&mut shared, id)
    }

    fn wait(&self, shared: &mut Shared, id: RequestId) -> Result<Answer, Error> {
        loop {
            let next = shared.network.next_step().expect("each request has a timeout");
            shared.advance(next);
            if let Some(result) = shared.answers.remove(&id) {
                return result;
            }
        }
    }
}

impl Store for Memory {
    fn read(&self, prefix: &[u8], timeout: Duration) -> Result<Snapshot, Error> {
        match self.call(Request::Read { prefix: prefix.to_vec() }, timeout)? {
            Answer::Read(snapshot) => Ok(snapshot),
            other => unreachable!("{other:?} to a read"),
        }
    }

    fn transact(&self, transaction: &Transaction, timeout: Duration) -> Result<Outcome, Error> {
        match self.call(Request::Transact(transaction.clone()), timeout)? {
            Answer::Transacted(outcome) => Ok(outcome),
            other => unreachable!("{other:?} to a transaction"),
        }
    }

    fn grant(&self, ttl: Duration, timeout: Duration) -> Result<Lease, Error> {
        match self.call(Request::Grant { ttl }, timeout)? {
            Answer::Granted(lease) => Ok(lease),
            other => unreachable!("{other:?} to a grant"),
        }
    }

    fn keep_alive(&self, lease: LeaseId, timeout: Duration) -> Result<Duration, Error> {
        match self.call(Request::KeepAlive(lease), timeout)? {
            Answer::Alive(ttl) => Ok(ttl),
            other => unreachable!("{other:?} to a keep-alive"),
        }
    }

    fn revoke(&self, lease: LeaseId, timeout: Duration) -> Result<(), Error> {
        self.call(Request::Revoke(lease), timeout).map(|_| ())
    }

    fn watch(
        &self,
        prefix: &[u8],
        from: Revision,
        timeout: Duration,
    ) -> Result<Box<dyn Watch>, Error> {
        let mut shared = self.lock();
        let now = shared.network.now();
        let request = Request::Watch { prefix: prefix.to_vec(), from };
        let id = shared.network.send(now, self.client, request, timeout);
        shared.watches.insert(id, Inbox::default());
        if let Err(e) = self.wait(&mut shared, id) {
            shared.watches.remove(&id);
            return Err(e);
        }
        Ok(Box::new(MemoryWatch { memory: self.clone(), id, next: from }))
    }
}

struct MemoryWatch {
    memory: Memory,
    id: RequestId,
    next: Revision,
}

impl Watch for MemoryWatch {
    fn next(&mut self, timeout: Duration) -> Result<Option<Batch>, WatchEnd> {
        let mut shared = self.memory.lock();
        let deadline = shared.network.now() + timeout;
        loop {
            let now = shared.network.now();
            shared.advance(now);
            let inbox = shared.watches.get_mut(&self.id).expect("until the watch is dropped");
            if let Some(batch) = inbox.batches.pop_front() {
                self.next = batch.revision.next();
                return Ok(Some(batch));
            }
            if let Some(end) = &inbox.end {
                return Err(end.clone());
            }
            if now >= deadline {
                return Ok(None);
            }
            let next = shared.network.next_step().unwrap_or(deadline);
            shared.advance(next.min(deadline));
        }
    }

    fn resume_from(&self) -> Revision {
        self.next
    }

    fn canceller(&self) -> Canceller {
        let (memory, id) = (self.memory.clone(), self.id);
        Canceller::new(move || {
            let mut shared = memory.lock();
            shared.network.cancel(id);
            if let Some(inbox) = shared.watches.get_mut(&id) {
                inbox.batches.clear();
            }
        })
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        let mut shared = self.memory.lock();
        shared.network.cancel(self.id);
        shared.watches.remove(&self.id);
    }
}
