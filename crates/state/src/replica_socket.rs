//! Moves a replica's socket from the thread that owns its connection to the thread that sends a snapshot.
//!
//! ```text
//!  state machine: SendBulk ─► a Ticket, to the connection's thread
//!  that thread: stops writing; Ticket::hand_over with the socket ─► Job: the snapshot thread
//!  all sent, bulk_sent ─► state machine: SendStream ─► the connection's thread writes again
//! ```
//!
//! A ticket that is not used, because the connection has closed, reports that when it is dropped. So the thread
//! that sends the snapshot knows when every socket has arrived that will.

use crate::saves::Running;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use weft_net::stream::Stream;
use weft_replication::action::{ConnId, Form, SnapshotId, Target};

/// The interval between two checks for cancellation.
const LOOK: Duration = Duration::from_millis(100);

/// A requested snapshot for replicas.
#[derive(Debug)]
pub struct Job {
    pub id: SnapshotId,
    pub target: Target,
    pub form: Form,
    is_abandoned: AtomicBool,
    /// The running save, which can be cancelled.
    running: Mutex<Option<Running>>,
    sockets: Mutex<Sockets>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Sockets {
    /// Tickets that have not been handed over or dropped.
    awaited: usize,
    lent: Vec<Lent>,
}

/// A replica's socket, and the bytes that it gets before and after the snapshot.
#[derive(Debug)]
pub struct Lent {
    pub conn: ConnId,
    pub socket: Stream,
    pub first: Vec<u8>,
    pub mark: Option<[u8; 40]>,
}

/// A request for a connection's socket.
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

    /// Cancels the snapshot: no replica needs it any longer.
    pub fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::SeqCst);
        if let Some(running) = &*self.running() {
            running.cancel.store(true, Ordering::Relaxed);
        }
    }

    /// Sets the running save; `None`: it has ended.
    pub fn runs(&self, running: Option<&Running>) {
        let mut own = self.running();
        *own = running.cloned();
        if let (Some(running), true) = (&*own, self.is_abandoned.load(Ordering::SeqCst)) {
            running.cancel.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it must end without a result.
    pub fn is_over(&self) -> bool {
        self.is_abandoned.load(Ordering::SeqCst)
            || self.running().as_ref().is_some_and(Running::is_over)
    }

    /// Creates the ticket for a connection.
    pub fn ticket(self: &Arc<Job>, conn: ConnId, head: Vec<u8>, mark: Option<[u8; 40]>) -> Ticket {
        self.sockets().awaited += 1;
        Ticket { job: self.clone(), conn, head, mark }
    }

    /// The sockets of all connections that have a ticket. Blocks until each ticket is handed over or dropped,
    /// or the snapshot is cancelled.
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
    /// Passes the socket on. `unsent`: bytes to send before all others.
    pub fn hand_over(mut self, socket: Stream, mut unsent: Vec<u8>) {
        unsent.append(&mut self.head);
        let lent = Lent { conn: self.conn, socket, first: unsent, mark: self.mark };
        self.job.sockets().lent.push(lent);
        // Dropping the ticket counts it as arrived.
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.job.sockets().awaited -= 1;
        self.job.changed.notify_all();
    }
}
