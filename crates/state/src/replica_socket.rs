//! How a socket comes from the thread that owns its connection to the one that sends a snapshot.
//!
//! ```text
//!  the machine: SendBulk ─► a Ticket, to the connection's thread
//!  that thread: no longer writes; Ticket::hand_over with the socket ─► Job: the thread of the snapshot
//!  all sent, bulk_sent ─► the machine: SendStream ─► the connection's thread writes again
//! ```
//!
//! A ticket that comes to nothing, as the connection has gone, says so when it is dropped. So whoever sends
//! the snapshot knows when all have come that will.

use crate::saves::Running;
use rustix::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use weft_replication::action::{ConnId, Form, SnapshotId, Target};

/// Between two looks at whether it was abandoned.
const LOOK: Duration = Duration::from_millis(100);

/// A snapshot for replicas that was asked for.
#[derive(Debug)]
pub struct Job {
    pub id: SnapshotId,
    pub target: Target,
    pub form: Form,
    is_abandoned: AtomicBool,
    /// What ends it, once it runs.
    running: Mutex<Option<Running>>,
    sockets: Mutex<Sockets>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Sockets {
    /// Tickets that are on their way.
    awaited: usize,
    lent: Vec<Lent>,
}

/// A replica's socket, and what it gets in front of the snapshot and behind it.
#[derive(Debug)]
pub struct Lent {
    pub conn: ConnId,
    pub socket: Arc<OwnedFd>,
    pub first: Vec<u8>,
    pub mark: Option<[u8; 40]>,
}

/// That a connection's socket is wanted.
#[derive(Debug)]
pub struct Ticket {
    job: Arc<Job>,
    conn: ConnId,
    head: Vec<u8>,
    mark: Option<[u8; 40]>,
}

impl Job {
    pub fn new(id: SnapshotId, target: Target, form: Form) -> Job {
        Job {
            id,
            target,
            form,
            is_abandoned: AtomicBool::new(false),
            running: Mutex::default(),
            sockets: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(|p| p.into_inner())
    }

    fn sockets(&self) -> MutexGuard<'_, Sockets> {
        self.sockets.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Nobody wants it any longer.
    pub fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::SeqCst);
        if let Some(running) = &*self.running() {
            running.cancel.store(true, Ordering::Relaxed);
        }
    }

    /// It runs as this; `None`: it has come to its end.
    pub fn runs(&self, running: Option<&Running>) {
        let mut own = self.running();
        *own = running.cloned();
        if let (Some(running), true) = (&*own, self.is_abandoned.load(Ordering::SeqCst)) {
            running.cancel.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it is to end without a result.
    pub fn is_over(&self) -> bool {
        self.is_abandoned.load(Ordering::SeqCst)
            || self.running().as_ref().is_some_and(Running::is_over)
    }

    /// A ticket for a connection.
    pub fn ticket(self: &Arc<Job>, conn: ConnId, head: Vec<u8>, mark: Option<[u8; 40]>) -> Ticket {
        self.sockets().awaited += 1;
        Ticket { job: self.clone(), conn, head, mark }
    }

    /// The sockets of all for whom there is a ticket, or was. Waits for the threads of their
    /// connections.
    pub fn gather(&self) -> Vec<Lent> {
        let mut sockets = self.sockets();
        while sockets.awaited > 0 && !self.is_over() {
            let waited = self.changed.wait_timeout(sockets, LOOK);
            sockets = waited.unwrap_or_else(|p| p.into_inner()).0;
        }
        std::mem::take(&mut sockets.lent)
    }
}

impl Ticket {
    /// Passes the socket on. `unsent`: bytes that come before all others.
    pub fn hand_over(mut self, socket: Arc<OwnedFd>, mut unsent: Vec<u8>) {
        unsent.append(&mut self.head);
        let lent = Lent { conn: self.conn, socket, first: unsent, mark: self.mark };
        self.job.sockets().lent.push(lent);
        // Dropping this says that it has come.
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.job.sockets().awaited -= 1;
        self.job.changed.notify_all();
    }
}
