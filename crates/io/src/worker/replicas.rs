//! Connections of replicas: sending the replication stream.
//!
//! ```text
//!  command ─► handshake lines ─► socket lent to a snapshot ─► the stream, from the backlog
//! ```
//!
//! All replicas read from one shared backlog. A replica's thread takes pieces of it, holding the
//! replication mutex only briefly. It sends them without a lock, and copies only small ones. A
//! replica whose socket is full waits until it is writable, like any other connection, and takes no
//! more meanwhile: its unsent data stays in the backlog only.
//!
//! To the rest of the server, a replica's connection looks like one whose replies another thread
//! writes ([`Output::writing`](weft_state::conn::Output)): no reply reaches its socket. As in
//! Valkey, a replica's command that replies ends the connection, because the reply would corrupt
//! the stream.

use crate::worker::Worker;
use crate::worker::events::CALL;
use crate::write::{Sent, send_waiting};
use rustix::net::{Shutdown, shutdown};
use std::sync::atomic::Ordering;
use weft_config::Id;
use weft_replication::action::ConnId;
use weft_replication_driver::hub;
use weft_state::conn::Conn;
use weft_state::feed::{Feed, Order, ReplicaMessage};

/// Bytes to take from the backlog at a time.
const AT_ONCE: usize = 256 << 10;
/// Bytes to send to one replica before other connections are served.
const TURN: usize = 1 << 20;

impl Worker {
    /// Handles a message, and returns its cost.
    pub(super) fn handle_replica(&mut self, message: ReplicaMessage) -> usize {
        match message {
            ReplicaMessage::Order { client, order } => {
                self.for_replica(client, order);
                CALL
            }
            ReplicaMessage::StreamGrown => {
                let cost = CALL * self.pushes.streams.len();
                self.feed_all();
                cost
            }
        }
    }

    /// Executes a command of the replication state machine for a replica's connection.
    fn for_replica(&mut self, client: u64, order: Order) {
        let Some(index) = self.conns.index_of(client) else { return };
        self.become_replica(index);
        let conn = &mut self.conns[index];
        match order {
            Order::Send(bytes) => conn.output.backlog.write(|reply| reply.raw(&bytes)),
            Order::Lend(ticket) => {
                conn.replica = Some(Feed::Lent);
                ticket.hand_over(conn.stream.clone(), take_output(conn));
            }
            Order::Stream { from } => {
                conn.replica = Some(Feed::Stream { taken: from });
                self.pushes.streams.push(client);
            }
            Order::Close { flush: false } => return self.close(index),
            Order::Close { flush: true } => {
                conn.replica = Some(Feed::Last);
                let left = conn.state.close();
                self.forget(client, &left, None);
            }
        }
        self.send_on(index);
    }

    /// Turns the connection into a replica's.
    fn become_replica(&mut self, index: usize) {
        let conn = &mut self.conns[index];
        if conn.replica.is_some() {
            return;
        }
        conn.replica = Some(Feed::Lines);
        conn.output.writing = true;
        if self.core.srv.config().bool(Id::REPL_DISABLE_TCP_NODELAY)
            && !conn.session.shared.origin.unix
        {
            let _ = rustix::net::sockopt::set_tcp_nodelay(&conn.stream, false);
        }
    }

    /// Sends the new part of the stream to all replicas of this thread.
    fn feed_all(&mut self) {
        // Cleared first: later growth causes another notification.
        let thread = &self.core.srv.threads[self.core.id];
        thread.stream_has_grown.store(false, Ordering::SeqCst);
        self.pushes.streams.retain(|client| self.conns.index_of(*client).is_some());
        for client in self.pushes.streams.clone() {
            // A replica whose socket is full continues when it is writable.
            if let Some(index) = self.conns.index_of(client)
                && !self.conns[index].has_output()
            {
                self.send_on(index);
            }
        }
    }

    /// Continues with replicas that had more data than one iteration's share.
    pub(super) fn continue_streams(&mut self) {
        if std::mem::take(&mut self.pushes.streams_wait) {
            self.feed_all();
        }
    }

    /// Sends output and stream data to a replica until its socket is full or its share of the
    /// iteration is used.
    pub(super) fn send_on(&mut self, index: usize) {
        let srv = self.core.srv;
        let mut total = 0;
        loop {
            let conn = &mut self.conns[index];
            let Some(feed) = conn.replica.filter(|feed| feed.sends()) else { return };
            let (sent, bytes) = send_waiting(conn);
            total += bytes;
            self.count_sent_to_replica(index, bytes);
            match sent {
                Sent::Broken => return self.close(index),
                Sent::Some => break,
                Sent::All => {}
            }
            let taken = match feed {
                Feed::Stream { taken } => taken,
                Feed::Last => return self.close(index),
                Feed::Lines | Feed::Lent => break,
            };
            if total >= TURN {
                self.pushes.streams_wait = true;
                break;
            }
            let conn = ConnId(self.conns[index].session.shared.id);
            // `None` for a replica that is about to be closed: the command to do so follows.
            let Some(pieces) = hub(srv).next_of_stream(srv, conn, taken, AT_ONCE) else {
                break;
            };
            if pieces.is_empty() {
                break;
            }
            let conn = &mut self.conns[index];
            let mut more = 0;
            for piece in &pieces {
                more += piece.as_ref().len() as u64;
                conn.output.backlog.write(|reply| match piece.whole() {
                    Some(block) => reply.raw_shared(block, COPIED),
                    None => reply.raw(piece.as_ref()),
                });
            }
            conn.replica = Some(Feed::Stream { taken: taken + more });
        }
        let conn = &self.conns[index];
        let shared = &conn.session.shared;
        shared.output.bytes.store(conn.output.backlog.memory() as u64, Ordering::Relaxed);
        shared.output.pieces.store(conn.output.backlog.pieces() as u64, Ordering::Relaxed);
        self.widen_interest(index);
    }

    fn count_sent_to_replica(&self, index: usize, bytes: usize) {
        self.core.stats().network.writes.add(1);
        self.count_sent(index, bytes);
        self.core.srv.nodes.replication.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Removes a closed connection from the replication state machine.
    #[cold]
    pub(super) fn known_left(&self, conn: &Conn) {
        if conn.replica == Some(Feed::Lent) {
            // The snapshot that still has the socket notices the end by this, and so does the
            // replica.
            let _ = shutdown(&conn.stream, Shutdown::Both);
        }
        hub(self.core.srv).left(self.core.srv, &conn.session.shared);
    }
}

/// Minimum size of stream blocks that are shared instead of copied (bytes).
const COPIED: usize = 1 << 10;

/// Takes the unsent output.
fn take_output(conn: &mut Conn) -> Vec<u8> {
    const SLICES: usize = 64;
    let mut all = Vec::new();
    while !conn.output.backlog.is_empty() {
        let part = conn.output.backlog.front(SLICES, usize::MAX).concat();
        conn.output.backlog.sent(part.len());
        all.extend(part);
    }
    all
}
