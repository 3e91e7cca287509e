//! Handshakes of TLS connections.
//!
//! A handshake takes some hundred microseconds, most of them in two steps: the server's signature, and the
//! verification of a client's certificate. An iteration continues only a few
//! (`max-new-tls-connections-per-cycle`), so that other clients of the thread wait for no more than
//! those. The events of the others are ignored: the kernel reports them again. A handshake that
//! doesn't end in time is given up, so that half-open ones are bounded in number and memory.

use crate::worker::Worker;
use weft_net::stream::{Handshake, Stream};
use weft_process::{log_debug, log_verbose, log_warning};
use weft_tls::Session;
use weft_tls::certificate::Facts;

/// The longest handshake in milliseconds.
const HANDSHAKE_MS: i64 = 10_000;

impl Worker {
    /// The state of TLS for a new connection.
    pub(super) fn begin_tls(&self) -> Option<Session> {
        // The last TLS port may have been closed since.
        let contexts = self.core.srv.process.tls.contexts()?;
        Session::server(contexts.server.clone())
            .inspect_err(|e| log_warning!("Can't begin a TLS connection: {e}"))
            .ok()
    }

    /// Continues the handshake of a connection with an event.
    #[cold]
    pub(super) fn shake_hands(&mut self, index: usize) {
        if self.listening.handshakes_left == 0 {
            return;
        }
        self.listening.handshakes_left -= 1;
        let Stream::Tls(stream) = &self.conns[index].stream else { return };
        match stream.shake_hands() {
            Ok(Handshake::Goes) => self.widen_interest(index),
            Ok(Handshake::Done(agreed)) => {
                let (certificate, has_early) =
                    stream.inspect(|session| (session.peer_certificate(), session.has_early()));
                if let Some(agreed) = agreed {
                    let peer = &self.conns[index].session.shared.origin.peer;
                    log_debug!(
                        "TLS: {peer} speaks {} with {}{}",
                        agreed.protocol,
                        agreed.cipher,
                        if agreed.is_resumed { ", resumed" } else { "" },
                    );
                }
                let facts = certificate.as_ref().and_then(Facts::of);
                let session = &mut self.conns[index].session;
                weft_admin::tls::log_in_by_certificate(self.core.srv, session, facts.as_ref());
                self.widen_interest(index);
                if has_early {
                    self.on_readable(index);
                }
            }
            Err(why) => self.fail_handshake(index, &why),
        }
    }

    /// Whether the connection's handshake takes too long.
    pub(super) fn is_handshake_late(&self, index: usize, now_ms: i64) -> bool {
        let conn = &self.conns[index];
        conn.stream.is_shaking_hands()
            && now_ms - conn.session.shared.origin.created_ms > HANDSHAKE_MS
    }

    /// Closes a connection whose handshake has failed.
    pub(super) fn fail_handshake(&mut self, index: usize, why: &str) {
        let origin = &self.conns[index].session.shared.origin;
        log_verbose!(
            "Error accepting a client connection: {why} (addr={} laddr={})",
            origin.peer,
            origin.local
        );
        self.close(index);
    }
}
