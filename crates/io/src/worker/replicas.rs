//! Connections of replicas: what they are sent, and when.
//!
//! ```text
//!  order ─► lines of the handshake ─► socket lent to a snapshot ─► the stream, from the backlog
//! ```
//!
//! A replica is a reader of the backlog that all replicas share. Its thread takes some of it, under the
//! machine's mutex for a moment, and sends it with nothing held and nothing copied but what is small.
//! One whose socket is full waits for the kernel, as any other connection, and takes no more meanwhile:
//! what it has still to get lies in the backlog and nowhere else.
//!
//! For all others the connection of a replica is one whose replies are written by somebody else
//! ([`Output::writing`](weft_state::conn::Output)): nothing they answer reaches its socket. A command of a replica that
//! answers anything ends the connection, as in the reference: its answer would be taken for the stream.

use crate::worker::Worker;
use crate::write::{Sent, send_waiting};
use rustix::net::{Shutdown, shutdown};
use std::sync::atomic::Ordering;
use weft_config::Id;
use weft_replication::action::ConnId;
use weft_replication_driver::hub;
use weft_state::conn::Conn;
use weft_state::feed::{Feed, Order};

/// Bytes that are taken from the backlog at once.
const AT_ONCE: usize = 256 << 10;
/// Bytes that one replica is sent before other connections have a turn.
const TURN: usize = 1 << 20;

impl Worker {
    /// Does what the machine wants of a replica's connection.
    pub(super) fn for_replica(&mut self, client: u64, order: Order) {
        let Some(index) = self.conns.index_of(client) else { return };
        self.become_replica(index);
        let conn = &mut self.conns[index];
        match order {
            Order::Send(bytes) => conn.output.backlog.write(|reply| reply.raw(&bytes)),
            Order::Lend(ticket) => {
                conn.replica = Some(Feed::Lent);
                ticket.hand_over(conn.fd.clone(), take_output(conn));
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

    /// From here on the connection is that of a replica.
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
            let _ = rustix::net::sockopt::set_tcp_nodelay(&conn.fd, false);
        }
    }

    /// The stream has grown.
    pub(super) fn feed_all(&mut self) {
        // What grows from here on is told again.
        let thread = &self.core.srv.threads[self.core.id];
        thread.stream_has_grown.store(false, Ordering::SeqCst);
        self.pushes.streams.retain(|client| self.conns.index_of(*client).is_some());
        for client in self.pushes.streams.clone() {
            // One whose socket is full goes on when it is not.
            if let Some(index) = self.conns.index_of(client)
                && self.conns[index].output.pending() == 0
            {
                self.send_on(index);
            }
        }
    }

    /// Sends on to replicas for which there was more than one turn's share.
    pub(super) fn feed_again(&mut self) {
        if std::mem::take(&mut self.pushes.streams_wait) {
            self.feed_all();
        }
    }

    /// Sends what there is for a replica, as far as its socket takes it and others need not wait.
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
            // Of one that is to be closed the order comes soon.
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
        self.core.srv.replication.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A connection that the machine knows of is gone.
    #[cold]
    pub(super) fn known_left(&self, conn: &Conn) {
        if conn.replica == Some(Feed::Lent) {
            // Who has the socket still notices it so, and so does the replica.
            let _ = shutdown(&conn.fd, Shutdown::Both);
        }
        hub(self.core.srv).left(self.core.srv, &conn.session.shared);
    }
}

/// Blocks of the stream from this size on are shared and not copied (bytes).
const COPIED: usize = 1 << 10;

/// Takes what was not sent yet.
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
