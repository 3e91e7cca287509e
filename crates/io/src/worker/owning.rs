//! Accepting, registering and closing connections. See [`crate::worker::moving`] for moving them.

use crate::worker::events::CALL;
use crate::worker::parts::LISTENERS;
use crate::worker::{Worker, token};
use rustix::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_executor::pubsub;
use weft_executor::tracking;
use weft_executor::transaction;
use weft_memory::holdings::ClientMemoryKind;
use weft_net::interest::Interest;
use weft_net::listen::{Accepted, Listener, MAX_ACCEPTS_PER_ITERATION};
use weft_net::stream::{SESSION_MEMORY, Stream};
use weft_process::{log_verbose, log_warning};
use weft_state::access::show_user;
use weft_state::clients::ClientShared;
use weft_state::conn::{Conn, ConnectionMessage};
use weft_state::mailbox::Message;
use weft_state::session::Session;

/// Says why a connection is closed. A TLS client, whose handshake has not begun, could not read it.
fn refuse(accepted: &Accepted, why: &[u8]) {
    if !accepted.is_tls {
        let _ = rustix::io::write(&accepted.socket, why);
    }
}

/// Minimum time between two log lines about a failure to accept.
const QUIET_MS: i64 = 1000;

impl Worker {
    /// Handles a message, and returns its cost.
    pub(super) fn handle_connection(&mut self, message: ConnectionMessage) -> usize {
        match message {
            ConnectionMessage::Accepted(accepted, arrival) => self.adopt(accepted, arrival),
            ConnectionMessage::Kill { client } => self.kill(client),
            ConnectionMessage::Listen { listeners } => self.listen(listeners),
        }
        CALL
    }

    pub(super) fn accept(&mut self, listener: usize) {
        // The event may be of a socket that was removed since.
        let is_tls = self.listening.listeners.get(listener).is_some_and(Listener::is_tls);
        let most =
            if is_tls { self.core.settings.clients.new_tls } else { MAX_ACCEPTS_PER_ITERATION };
        for _ in 0..most {
            let Some(listener) = self.listening.listeners.get(listener) else { return };
            match listener.accept(self.core.settings.clients.keepalive_s) {
                Ok(Some(accepted)) => self.place(accepted),
                Ok(None) => return,
                Err(e) => return self.stop_accepting(&e),
            }
        }
    }

    /// Stops accepting when the system has no room for another connection, usually no file
    /// descriptor. New clients wait in the kernel's queue until this thread retries at its next
    /// tick. Watching the socket meanwhile would wake the thread continuously.
    #[cold]
    fn stop_accepting(&mut self, e: &std::io::Error) {
        let now_ms = self.core.srv.mono_ms();
        if now_ms >= self.listening.quiet_until_ms {
            log_warning!("Accepting client connection: {e}");
            self.listening.quiet_until_ms = now_ms + QUIET_MS;
        }
        self.listening.accepts = false;
        self.listening.watch(&self.poll, Interest::NONE);
    }

    /// Resumes accepting, if it was stopped.
    pub(super) fn accept_again(&mut self) {
        if !self.listening.accepts {
            self.listening.accepts = true;
            self.listening.watch(&self.poll, Interest::READ);
        }
    }

    /// Replaces the TCP listening sockets; unix sockets stay.
    fn listen(&mut self, tcp: Vec<Listener>) {
        for listener in &self.listening.listeners {
            self.poll.remove(listener.fd());
        }
        let unix =
            self.listening.listeners.drain(..).filter(|listener| listener.address().is_none());
        self.listening.listeners = tcp.into_iter().chain(unix).collect();
        self.listening.accepts = true;
        for (n, listener) in self.listening.listeners.iter().enumerate() {
            if let Err(e) = self.poll.add(listener.fd(), LISTENERS + n as u64, Interest::READ) {
                log_warning!("Watching a listening socket: {e}");
            }
        }
    }

    /// Gives a new connection to the active thread with the fewest connections.
    fn place(&mut self, accepted: Accepted) {
        let srv = &self.core.srv;
        let connections = srv.threads.iter().map(|t| t.stats.network.connections.get());
        let limits = &self.core.settings.clients;
        let is_full = connections.sum::<u64>() >= limits.maxclients as u64;
        if is_full && !self.close_oldest_unauthenticated(0) {
            let srv = &self.core.srv;
            srv.statistics.totals.rejected_connections.fetch_add(1, Ordering::Relaxed);
            refuse(&accepted, b"-ERR max number of clients reached\r\n");
            return;
        }
        let srv = &self.core.srv;
        srv.statistics.totals.connections.fetch_add(1, Ordering::Relaxed);
        let arrival = srv.clients.unauthenticated.next_arrival();
        let thread = srv.threads.emptiest();
        // Counted before the connection arrives there, so that a burst is spread.
        srv.threads[thread].stats.network.connections.shared_add(1);
        if thread == self.core.id {
            self.adopt(accepted, arrival);
        } else {
            srv.threads[thread]
                .mailbox
                .send(Message::Connection(ConnectionMessage::Accepted(accepted, arrival)));
        }
    }

    /// Closes the oldest of more than `most` unauthenticated clients. Returns whether there was one.
    fn close_oldest_unauthenticated(&mut self, most: usize) -> bool {
        // Without a password no client has to authenticate, though some may have connected when there was one.
        if !self.core.srv.access.stranger().must_log_in {
            return false;
        }
        let oldest = self.core.srv.clients.unauthenticated.take_oldest_beyond(most);
        oldest.map(|client| self.kill(client)).is_some()
    }

    /// Closes clients that have not authenticated in time.
    pub(super) fn close_unauthenticated(&mut self, now_ms: i64) {
        let unauthenticated = &self.core.srv.clients.unauthenticated;
        let limit = self.core.settings.clients.authentication_ms;
        if limit > 0 && self.core.srv.access.stranger().must_log_in {
            while let Some(client) = unauthenticated.take_older_than(now_ms - limit) {
                self.kill(client);
            }
        }
        unauthenticated.report(now_ms);
    }

    fn adopt(&mut self, accepted: Accepted, arrival: u64) {
        let srv = self.core.srv;
        let identity = srv.access.stranger();
        let protected = self.core.settings.auth.protected_mode && identity.user.nopass;
        if protected && !accepted.is_local {
            refuse(&accepted, weft_state::texts::PROTECTED.as_bytes());
            srv.threads[self.core.id].stats.network.connections.shared_sub(1);
            srv.statistics.totals.rejected_connections.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let tls = match accepted.is_tls {
            false => None,
            true => match self.begin_tls() {
                Some(session) => Some(session),
                None => {
                    srv.threads[self.core.id].stats.network.connections.shared_sub(1);
                    return;
                }
            },
        };
        let settings = &self.core.settings;
        let id = srv.clients.registry.next_id();
        let fd = accepted.socket.as_raw_fd();
        let shared = Arc::new(ClientShared::new(id, self.core.id, fd, &accepted, srv.mono_ms()));
        show_user(&shared, &identity);
        let generation = self.conns.next_generation();
        let must_log_in = identity.must_log_in;
        let session = Session::new(shared.clone(), identity);
        let stream = match tls {
            None => Stream::from(accepted.socket),
            Some(tls) => {
                shared.memory.holdings.set(ClientMemoryKind::Tls, SESSION_MEMORY);
                Stream::encrypted(accepted.socket, tls)
            }
        };
        let conn = Conn::new(stream, generation, session);
        let index = self.conns.insert(conn);
        let conn = &self.conns[index];
        if let Err(e) = self.poll.add(&conn.stream, token(index, conn.generation), Interest::READ) {
            log_warning!("Registering a client connection: {e}");
            self.conns.remove(index);
            srv.threads[self.core.id].stats.network.connections.shared_sub(1);
            return;
        }
        log_verbose!("Accepted {}", shared.origin.peer);
        srv.clients.registry.insert(shared.clone());
        if must_log_in {
            srv.clients.unauthenticated.add(&shared, arrival, srv.mono_ms());
            let most = settings.clients.max_unauthenticated;
            while self.close_oldest_unauthenticated(most) {}
        }
    }

    /// Closes a connection at once. Its jobs in the current batch, if any, are skipped.
    pub(super) fn close(&mut self, index: usize) {
        let Some(mut conn) = self.conns.remove(index) else { return };
        self.poll.remove(&conn.stream);
        conn.stream.end();
        let id = conn.session.shared.id;
        self.forget(id, &conn.state, conn.input.kept.front());
        let srv = &self.core.srv;
        srv.clients.registry.remove(id);
        srv.clients.unauthenticated.remove(id);
        if conn.session.pushes.monitor {
            weft_executor::monitor::leave(srv, id);
        }
        if conn.session.shared.replica.is_known.load(Ordering::SeqCst) {
            self.known_left(&conn);
        }
        let srv = &self.core.srv;
        pubsub::leave_for_good(srv, &conn.session.shared);
        tracking::leave_for_good(srv, &conn.session.shared);
        srv.threads[self.core.id].stats.network.connections.shared_sub(1);
        transaction::discard(srv, &mut conn.session);
        self.core.stats().client_memory.add(0u64.wrapping_sub(conn.usage.accounted));
        conn.session.shared.closing.store(true, Ordering::Release);
        srv.clients.eviction.client_left(&conn.session.shared);
    }

    fn kill(&mut self, client: Arc<ClientShared>) {
        if let Some(index) = self.conns.index_of(client.id) {
            return self.close(index);
        }
        if client.closing.load(Ordering::Acquire) {
            // The client closed by itself, perhaps before its memory was recorded as leaving.
            return self.core.srv.clients.eviction.client_left(&client);
        }
        // The connection has moved, or is about to arrive here.
        let thread = client.thread();
        if thread != self.core.id {
            self.core.srv.threads[thread]
                .mailbox
                .send(Message::Connection(ConnectionMessage::Kill { client }));
        }
    }
}
