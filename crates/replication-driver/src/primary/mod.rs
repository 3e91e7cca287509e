//! Replicas of ours: their connections, and the snapshots that they get.
//!
//! ```text
//!  REPLCONF, PSYNC ─► the machine ─► actions ─► orders to the connection's thread (io/worker/replicas.rs)
//!                                        └────► weft-sync: a snapshot, to sockets that were lent
//! ```
//!
//! * this file: which connection is whose, and the actions
//! * [`order`] - what a connection's thread is told; [`socket`]: how it lends its socket
//! * [`snapshot`] - taking a snapshot; [`fan_out`]: sending it
//! * [`waits`] - WAIT and WAITAOF
//!
//! A connection that the machine knows of stays on its thread, so that orders find it in the order in which
//! they were given.

mod fan_out;
mod snapshot;
pub mod waits;

use crate::{Hub, State, tell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_keyspace::Guard;
use weft_replication::action::{ConnId, Form, SnapshotId, Target};
use weft_replication::backlog::Piece;
use weft_replication::{Action, Ms, Node};
use weft_state::clients::ClientShared;
use weft_state::feed::Order;
use weft_state::mailbox::Message;
use weft_state::replica_socket::Job;
use weft_state::server::Server;

/// What the mutex holds for replicas.
#[derive(Default)]
pub struct Replicas {
    links: BTreeMap<ConnId, Link>,
    jobs: BTreeMap<SnapshotId, Arc<Job>>,
    /// Where the stream ended when those who send it were told last.
    spread_to: u64,
    pub waiters: waits::Waiters,
}

/// A connection that the machine knows of.
struct Link {
    client: Arc<ClientShared>,
    /// The stream is sent.
    streams: bool,
}

impl Replicas {
    /// The thread of a snapshot has come to its end.
    fn ended(&mut self, snapshot: SnapshotId) {
        self.jobs.remove(&snapshot);
    }
}

impl Hub {
    /// Tells the machine what a client has said; answers what is to be answered at once. What is sent to a
    /// replica goes to its connection's thread instead. With `guard`, which is one of the world, all that was
    /// written before is in the stream.
    pub fn hear(
        &self,
        srv: &'static Server,
        client: &Arc<ClientShared>,
        guard: Option<&Guard<'_>>,
        event: impl FnOnce(&mut Node, Ms, ConnId, &mut Vec<Action>),
    ) -> Vec<u8> {
        let conn = ConnId(client.id);
        if !client.replica.is_known.swap(true, Ordering::SeqCst) {
            let link = Link { client: client.clone(), streams: false };
            self.lock().replicas.links.insert(conn, link);
        }
        let event = |node: &mut Node, now, out: &mut Vec<Action>| {
            // What is said to one that was a replica before is no part of its stream: it must not be said.
            let was_replica = node.primary().is_replica(conn);
            event(node, now, conn, out);
            if !was_replica && node.primary().is_replica(conn) {
                client.replica.is_replica.store(true, Ordering::SeqCst);
                return Vec::new();
            }
            let mut answer = Vec::new();
            out.retain(|action| match action {
                Action::Reply { conn: to, bytes } if *to == conn => {
                    answer.extend(bytes);
                    false
                }
                _ => true,
            });
            answer
        };
        match guard {
            Some(guard) => self.cut(srv, Some(guard), event),
            None => self.step(srv, event),
        }
    }

    /// A connection that the machine may know of is gone. May be said more than once.
    pub fn left(&self, srv: &'static Server, client: &ClientShared) {
        if client.replica.is_known.swap(false, Ordering::SeqCst) {
            let conn = ConnId(client.id);
            self.lock().replicas.links.remove(&conn);
            self.step(srv, |node, now, out| node.closed(now, conn, out));
        }
    }

    /// For who sends the stream to this replica, whose socket has taken all of it up to `sent`: what comes
    /// next, about `most` bytes. `None`: it is to be closed.
    pub fn next_of_stream(
        &self,
        srv: &'static Server,
        conn: ConnId,
        sent: u64,
        most: usize,
    ) -> Option<Vec<Piece>> {
        let mut state = self.lock();
        tell(srv, &mut state, |node, now, out| node.written(now, conn, sent, out));
        let is_there = state.node.primary().is_replica(conn);
        let backlog = state.node.stream().backlog().filter(|_| is_there);
        let pieces = backlog.and_then(|backlog| backlog.read_at(sent, most));
        self.finish(srv, state);
        pieces
    }
}

/// Tells the thread of a connection what to do.
fn order(srv: &Server, state: &State, conn: ConnId, order: Order) {
    // Of one that has gone nobody need be told.
    if let Some(link) = state.replicas.links.get(&conn) {
        let message = Message::Replica { client: conn.0, order };
        srv.threads[link.client.thread()].mailbox.send(message);
    }
}

/// Sends `bytes`, in front of what a later action sends.
pub fn reply(srv: &'static Server, state: &mut State, conn: ConnId, bytes: Vec<u8>) {
    order(srv, state, conn, Order::Send(bytes));
}

pub fn take_snapshot(
    srv: &'static Server,
    state: &mut State,
    id: SnapshotId,
    target: Target,
    form: Form,
) {
    let job = Arc::new(Job::new(id, target, form));
    state.replicas.jobs.insert(id, job.clone());
    if let Err(e) = snapshot::start(srv, job) {
        state.replicas.ended(id);
        let why = e.to_string();
        tell(srv, state, |node, now, out| node.snapshot_failed(now, id, &why, out));
    }
}

pub fn abandon_snapshot(_srv: &'static Server, state: &mut State, snapshot: SnapshotId) {
    if let Some(job) = state.replicas.jobs.get(&snapshot) {
        job.abandon();
    }
}

pub fn send_bulk(
    srv: &'static Server,
    state: &mut State,
    conn: ConnId,
    snapshot: SnapshotId,
    head: Vec<u8>,
    mark: Option<[u8; 40]>,
) {
    if let Some(job) = state.replicas.jobs.get(&snapshot) {
        let ticket = job.ticket(conn, head, mark);
        order(srv, state, conn, Order::Lend(ticket));
    }
}

pub fn send_stream(srv: &'static Server, state: &mut State, conn: ConnId, from: u64) {
    if let Some(link) = state.replicas.links.get_mut(&conn) {
        link.streams = true;
    }
    order(srv, state, conn, Order::Stream { from });
}

pub fn close(srv: &'static Server, state: &mut State, conn: ConnId, flush: bool) {
    if let Some(link) = state.replicas.links.get_mut(&conn) {
        link.streams = false;
    }
    order(srv, state, conn, Order::Close { flush });
}

/// Those who wait for replicas look again.
pub fn confirmed(srv: &'static Server, state: &mut State) {
    waits::look(srv, state);
}

/// Tells the threads of replicas that the stream has grown, each once until it has looked.
pub fn spread(srv: &'static Server, state: &mut State) {
    let end = state.node.stream().offset();
    if std::mem::replace(&mut state.replicas.spread_to, end) == end {
        return;
    }
    for link in state.replicas.links.values().filter(|link| link.streams) {
        let thread = &srv.threads[link.client.thread()];
        if !thread.stream_has_grown.swap(true, Ordering::SeqCst) {
            thread.mailbox.send(Message::StreamGrown);
        }
    }
}
