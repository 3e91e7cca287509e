//! Replicas of this server: their connections and snapshots.
//!
//! ```text
//!  REPLCONF, PSYNC ─► the machine ─► actions ─► commands to the connection's thread (io/worker/replicas.rs)
//!                                        └────► weft-sync: a snapshot, to borrowed sockets
//! ```
//!
//! * this file: maps connections to ids, and executes the actions
//! * [`send_command`] - sends a command to a connection's thread, which lends its socket through
//!   [`weft_state::replica_socket`]
//! * [`snapshot`] - takes a snapshot; [`fan_out`]: sends it
//! * [`waits`] - WAIT and WAITAOF; [`quorum`]: replies that wait until the cluster has confirmed their writes
//!
//! A connection that the machine knows stays on its thread, so that the thread receives commands in
//! order.

mod fan_out;
pub mod quorum;
mod snapshot;
pub mod waits;

use crate::{Hub, State, pass_event};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_keyspace::Guard;
use weft_replication::action::{ConnId, Form, SnapshotId, Target};
use weft_replication::backlog::Piece;
use weft_replication::{Action, Ms, Node};
use weft_state::clients::ClientShared;
use weft_state::feed::{Order, ReplicaMessage};
use weft_state::mailbox::Message;
use weft_state::replica_socket::Job;
use weft_state::server::Server;

/// The state of the replicas, under the mutex.
#[derive(Default)]
pub struct Replicas {
    links: BTreeMap<ConnId, Link>,
    jobs: BTreeMap<SnapshotId, Arc<Job>>,
    /// End of the stream at the last notification of the sending threads.
    notified_to: u64,
    pub waiters: waits::Waiters,
    pub quorum: quorum::Quorum,
}

/// A connection that the machine knows.
struct Link {
    client: Arc<ClientShared>,
    /// The stream is being sent.
    streams: bool,
}

impl Replicas {
    /// Whether replies wait for replicas.
    pub fn has_waits(&self) -> bool {
        !self.waiters.is_empty() || self.quorum.waits(&self.waiters.marks)
    }

    /// The thread of a snapshot has ended.
    fn ended(&mut self, snapshot: SnapshotId) {
        self.jobs.remove(&snapshot);
    }
}

impl Hub {
    /// Passes a client's command to the machine and returns the immediate reply. Bytes for a
    /// replica go to its connection's thread instead. With `guard`, which holds the world, the
    /// stream has everything written before.
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
            // A reply to an existing replica isn't part of its stream, so it must not be sent.
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

    /// A connection that the machine may know was closed. May be called repeatedly.
    pub fn left(&self, srv: &'static Server, client: &ClientShared) {
        if client.replica.is_known.swap(false, Ordering::SeqCst) {
            let conn = ConnId(client.id);
            self.lock().replicas.links.remove(&conn);
            self.step(srv, |node, now, out| node.closed(now, conn, out));
        }
    }

    /// The next bytes of the stream for a replica whose socket has taken everything up to `sent`,
    /// about `most` bytes. `None`: the connection must be closed.
    pub fn next_of_stream(
        &self,
        srv: &'static Server,
        conn: ConnId,
        sent: u64,
        most: usize,
    ) -> Option<Vec<Piece>> {
        let mut state = self.lock();
        pass_event(srv, &mut state, |node, now, out| node.written(now, conn, sent, out));
        let is_there = state.node.primary().is_replica(conn);
        let backlog = state.node.stream().backlog().filter(|_| is_there);
        let pieces = backlog.and_then(|backlog| backlog.read_at(sent, most));
        self.finish(srv, state);
        pieces
    }
}

/// Sends a command to the thread of a connection.
fn send_command(srv: &Server, state: &State, conn: ConnId, order: Order) {
    // A closed connection needs no command.
    if let Some(link) = state.replicas.links.get(&conn) {
        let message = Message::Replica(ReplicaMessage::Order { client: conn.0, order });
        srv.threads[link.client.thread()].mailbox.send(message);
    }
}

/// Sends `bytes` before anything that a later action sends.
pub fn reply(srv: &'static Server, state: &mut State, conn: ConnId, bytes: Vec<u8>) {
    send_command(srv, state, conn, Order::Send(bytes));
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
        pass_event(srv, state, |node, now, out| node.snapshot_failed(now, id, &why, out));
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
        send_command(srv, state, conn, Order::Lend(ticket));
    }
}

pub fn send_stream(srv: &'static Server, state: &mut State, conn: ConnId, from: u64) {
    if let Some(link) = state.replicas.links.get_mut(&conn) {
        link.streams = true;
    }
    send_command(srv, state, conn, Order::Stream { from });
}

pub fn close(srv: &'static Server, state: &mut State, conn: ConnId, flush: bool) {
    if let Some(link) = state.replicas.links.get_mut(&conn) {
        link.streams = false;
    }
    send_command(srv, state, conn, Order::Close { flush });
}

/// Checks the clients that wait for replicas.
pub fn confirmed(srv: &'static Server, state: &mut State) {
    waits::check_waiters(srv, state);
}

/// Notifies the threads of replicas that the stream has grown, each once until it has checked.
pub fn notify_growth(srv: &'static Server, state: &mut State) {
    let end = state.node.stream().offset();
    if std::mem::replace(&mut state.replicas.notified_to, end) == end {
        return;
    }
    for link in state.replicas.links.values().filter(|link| link.streams) {
        let thread = &srv.threads[link.client.thread()];
        if !thread.stream_has_grown.swap(true, Ordering::SeqCst) {
            thread.mailbox.send(Message::Replica(ReplicaMessage::StreamGrown));
        }
    }
}
