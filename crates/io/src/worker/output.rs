//! Sending replies, and handling clients that don't read them.

use crate::worker::Worker;
use crate::write::{Sent, send_pending, send_reply};
use std::sync::atomic::Ordering;
use weft_admin::commands::logged_line;
use weft_net::lifecycle::Awaited;
use weft_process::log_warning;
use weft_resp::Reply;
use weft_state::conn::Conn;

/// Unread replies (bytes) at which a client's further requests wait. Far more than a client needs
/// that sends a pipeline first and reads later.
const BACK_PRESSURE: usize = 256 << 20;

/// Unread replies (bytes) at which an unauthenticated client is closed. It gets no reply of this
/// length, so a client that accumulates that much only wants to use up memory.
const STRANGERS_OUTPUT: usize = 1024;

impl Worker {
    /// Sends `reply` after the output that is already queued. Closes the connection if that was
    /// requested.
    pub(super) fn deliver(&mut self, index: usize, reply: &mut Reply) {
        if !reply.is_empty() && !self.offload(index, reply) {
            let conn = &mut self.conns[index];
            let (sent, bytes) = if std::mem::take(&mut conn.output.pushed) {
                conn.output.backlog.push(reply, 0);
                send_pending(conn)
            } else {
                send_reply(conn, reply)
            };
            self.wrote(index, sent, bytes);
        } else if self.is_at_end(index) {
            return self.close(index);
        }
        let Some(conn) = self.conns.get(index) else { return };
        if self.over_output_limit(conn) {
            return self.close_overfull(index);
        }
        self.account_memory(index);
        let conn = &self.conns[index];
        if conn.output.pending() > BACK_PRESSURE {
            self.conns[index].state.filled();
        }
        // Needed even if nothing was sent: the interest may have been narrowed while the command
        // ran elsewhere.
        self.widen_interest(index);
    }

    /// Closes a client that leaves too many replies unread.
    #[cold]
    pub(super) fn close_overfull(&mut self, index: usize) {
        let (srv, client) = (self.core.srv, &self.conns[index].session.shared);
        log_warning!(
            "Client {} closed for overcoming of output buffer limits.",
            logged_line(srv, client)
        );
        srv.statistics.totals.output_limit_disconnections.fetch_add(1, Ordering::Relaxed);
        self.close(index);
    }

    /// Updates the memory accounting of the connection if `maxmemory-clients` is set.
    #[inline]
    pub(super) fn account_memory(&mut self, index: usize) {
        if self.core.settings.clients.memory > 0 {
            self.account_memory_now(index);
        }
    }

    #[cold]
    fn account_memory_now(&mut self, index: usize) {
        let stats = self.core.stats();
        let conn = &mut self.conns[index];
        // Replicas have separate limits.
        let memory = if conn.replica.is_some() { 0 } else { conn.memory() as u64 };
        stats.client_memory.add(memory.wrapping_sub(conn.usage.accounted));
        conn.usage.accounted = memory;
        conn.session.shared.memory.total.store(memory, Ordering::Relaxed);
    }

    /// Whether the connection is closing and has sent all its output.
    fn is_at_end(&self, index: usize) -> bool {
        let conn = &self.conns[index];
        conn.state.is_closing() && !conn.has_output() && !conn.output.writing
    }

    pub(super) fn on_writable(&mut self, index: usize) {
        if self.conns[index].replica.is_some() {
            return self.send_on(index);
        }
        let (sent, bytes) = send_pending(&mut self.conns[index]);
        self.conns[index].session.shared.touch(self.core.srv.mono_ms());
        self.wrote(index, sent, bytes);
        if self.conns.get(index).is_some_and(|c| c.output.pending() < BACK_PRESSURE / 2) {
            self.resume(index, Awaited::Output);
        }
        if self.conns.contains(index) {
            self.account_memory(index);
        }
    }

    pub(super) fn wrote(&mut self, index: usize, sent: Sent, bytes: usize) {
        self.core.stats().network.writes.add(1);
        self.count_sent(index, bytes);
        self.sent(index, sent);
    }

    pub(super) fn count_sent(&self, index: usize, bytes: usize) {
        self.core.stats().network.bytes_out.add(bytes as u64);
        crate::worker::input::add(&self.conns[index].session.shared.activity.net_out, bytes as u64);
    }

    pub(super) fn sent(&mut self, index: usize, sent: Sent) {
        let conn = &mut self.conns[index];
        let pending = conn.output.memory() as u64;
        conn.session.shared.output.bytes.store(pending, Ordering::Relaxed);
        if pending > 0 {
            let pieces = conn.output.backlog.pieces() as u64;
            conn.session.shared.output.pieces.store(pieces, Ordering::Relaxed);
        }
        match sent {
            Sent::Broken => return self.close(index),
            Sent::All => conn.output.soft_since.set(None),
            Sent::Some => {}
        }
        if self.is_at_end(index) {
            return self.close(index);
        }
        self.widen_interest(index);
    }

    /// Whether the connection's unread replies exceed the `client-output-buffer-limit` of its
    /// class, or the limit of an unauthenticated client.
    pub(super) fn over_output_limit(&self, conn: &Conn) -> bool {
        let pending = conn.output.untaken();
        if pending == 0 {
            return false;
        }
        // The replication state machine limits the output of replicas.
        if conn.replica.is_some() {
            return false;
        }
        if conn.session.identity.must_log_in && pending > STRANGERS_OUTPUT {
            return true;
        }
        let limits = &self.core.settings.clients.output_limits;
        let limit = if conn.session.pushes.subscribes { &limits.pubsub } else { &limits.normal };
        let pending = pending as u64;
        if limit.hard > 0 && pending >= limit.hard {
            return true;
        }
        if limit.soft == 0 || pending < limit.soft {
            conn.output.soft_since.set(None);
            return false;
        }
        let now_ms = self.core.srv.mono_ms();
        let since = conn.output.soft_since.get().unwrap_or(now_ms);
        conn.output.soft_since.set(Some(since));
        now_ms - since > limit.soft_seconds.saturating_mul(1000)
    }
}
