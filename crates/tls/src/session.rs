//! One TLS connection, without its socket: decrypts received bytes and encrypts bytes to send.
//!
//! rustls' *unbuffered* connections are used. Received bytes stay in a buffer of the caller, where they are
//! decrypted in place, and the plain text goes straight to its destination. A buffered connection
//! would copy received bytes into a buffer of its own first, 4 KiB at a time. See `docs/design/tls.md`.
//!
//! A session keeps bytes only if it must: an incomplete record, and encrypted bytes that the socket has
//! not taken. So an idle connection has no buffers.

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{ClientConfig, Error, ServerConfig};
use std::sync::Arc;

/// The most plain text in a record.
pub const RECORD: usize = 16 << 10;

/// The most bytes that encryption adds to a record: header, nonce, tag and content type.
const OVERHEAD: usize = 5 + 8 + 16 + 1;

/// The most received bytes that may wait for the rest of their record or handshake message.
const INCOMPLETE_MAX: usize = 80 << 10;

/// A connection's state.
pub struct Session {
    side: Side,
    /// Received bytes of an incomplete record.
    incomplete: Vec<u8>,
    /// Plain text that came in one piece with the end of the handshake.
    early: Vec<u8>,
    out: Out,
    is_established: bool,
    /// The peer has sent its last byte.
    has_ended: bool,
    /// The peer has broken the protocol. Nothing more is read or written.
    has_failed: bool,
}

/// Encrypted bytes to send: `buf[start..end]`. The rest of `buf` is space, initialized once.
#[derive(Default)]
struct Out {
    buf: Vec<u8>,
    start: usize,
    end: usize,
}

impl Out {
    /// Space for `room` more bytes.
    fn space(&mut self, room: usize) -> &mut [u8] {
        let needed = self.end + room;
        if self.buf.len() < needed {
            self.buf.resize(needed, 0);
        }
        &mut self.buf[self.end..]
    }
}

enum Side {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

/// The facts of an established connection, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    pub protocol: &'static str,
    pub cipher: &'static str,
    pub is_resumed: bool,
}

impl Session {
    /// The server's side of a new connection.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn server(config: Arc<ServerConfig>) -> Result<Session, Error> {
        Ok(Session::new(Side::Server(Box::new(UnbufferedServerConnection::new(config)?))))
    }

    /// The client's side of a new connection. No name is sent or compared: as in Valkey,
    /// the authority alone decides.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn client(config: Arc<ClientConfig>) -> Result<Session, Error> {
        let nobody = ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into());
        let connection = UnbufferedClientConnection::new(config, nobody)?;
        let mut session = Session::new(Side::Client(Box::new(connection)));
        // Queues the first message.
        session.advance(&mut [], &mut 0, &mut |_| {})?;
        Ok(session)
    }

    fn new(side: Side) -> Session {
        Session {
            side,
            incomplete: Vec::new(),
            early: Vec::new(),
            out: Out::default(),
            is_established: false,
            has_ended: false,
            has_failed: false,
        }
    }

    /// Whether the handshake is over.
    pub fn is_established(&self) -> bool {
        self.is_established
    }

    /// Whether the peer has sent its last byte.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether the peer has broken the protocol: nothing more is read or written.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// The bytes of an incomplete record, which must come before newly received ones.
    pub fn incomplete(&self) -> &[u8] {
        &self.incomplete
    }

    /// Continues the handshake with received bytes, which begin with [`Session::incomplete`]. Bytes for
    /// the peer are in [`Session::unsent`] afterwards, also after an error.
    ///
    /// # Errors
    /// The handshake has failed.
    pub fn shake_hands(&mut self, received: &mut [u8]) -> Result<(), Error> {
        let mut early = std::mem::take(&mut self.early);
        let done = self.take(received, &mut |plain| early.extend_from_slice(plain));
        self.early = early;
        done
    }

    /// Passes the plain text that came with the end of the handshake to `sink`. Returns its length.
    pub fn take_early(&mut self, sink: &mut impl FnMut(&[u8])) -> usize {
        let early = std::mem::take(&mut self.early);
        if !early.is_empty() {
            sink(&early);
        }
        early.len()
    }

    pub fn has_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// Decrypts received bytes, which begin with [`Session::incomplete`], and passes the plain text to
    /// `sink`.
    ///
    /// # Errors
    /// The peer has broken the protocol.
    pub fn take(&mut self, received: &mut [u8], sink: &mut impl FnMut(&[u8])) -> Result<(), Error> {
        let mut used = 0;
        if let Err(e) = self.advance(received, &mut used, sink) {
            self.queue_alert();
            self.incomplete = Vec::new();
            self.has_failed = true;
            return Err(e);
        }
        let rest = &received[used..];
        if rest.len() > INCOMPLETE_MAX {
            self.has_failed = true;
            return Err(Error::General("handshake message too long".into()));
        }
        if rest.is_empty() {
            // Not kept for later: most connections are idle.
            self.incomplete = Vec::new();
        } else {
            self.incomplete.clear();
            self.incomplete.extend_from_slice(rest);
        }
        Ok(())
    }

    /// Processes received bytes, and adds the number of those that are no longer needed to `used`.
    fn advance(
        &mut self,
        received: &mut [u8],
        used: &mut usize,
        sink: &mut impl FnMut(&[u8]),
    ) -> Result<(), Error> {
        loop {
            let rest = &mut received[*used..];
            let (part, step) = match &mut self.side {
                Side::Server(connection) => {
                    handle(connection.process_tls_records(rest), sink, &mut self.out)
                }
                Side::Client(connection) => {
                    handle(connection.process_tls_records(rest), sink, &mut self.out)
                }
            };
            *used += part;
            match step? {
                Step::Again => {}
                Step::Ended => self.has_ended = true,
                Step::Blocked => return Ok(()),
                Step::Established => {
                    self.is_established = true;
                    return Ok(());
                }
            }
        }
    }

    /// Queues the reason of a failure for the peer, if there is one. The library returns such a message before
    /// it looks at received bytes, which it must not see again after a failure.
    fn queue_alert(&mut self) {
        match &mut self.side {
            Side::Server(connection) => {
                while connection.wants_write() {
                    let _ =
                        handle(connection.process_tls_records(&mut []), &mut |_| {}, &mut self.out);
                }
            }
            Side::Client(connection) => {
                while connection.wants_write() {
                    let _ =
                        handle(connection.process_tls_records(&mut []), &mut |_| {}, &mut self.out);
                }
            }
        }
    }

    /// Calls `run` with the bytes of an incomplete message. The library refers to them by their place, so
    /// every call must present them, also one that only writes. `run` adds the number of bytes that
    /// are no longer needed to its second argument.
    fn with_incomplete<T>(&mut self, run: impl FnOnce(&mut Self, &mut [u8], &mut usize) -> T) -> T {
        let (mut incomplete, mut used) = (std::mem::take(&mut self.incomplete), 0);
        let result = run(self, &mut incomplete, &mut used);
        incomplete.drain(..used);
        self.incomplete = incomplete;
        result
    }

    /// Encrypts `plain` into [`Session::unsent`].
    ///
    /// # Errors
    /// The keys are exhausted, the handshake is not over, or the connection has failed.
    pub fn encrypt(&mut self, plain: &[u8]) -> Result<(), Error> {
        if !self.is_established || self.has_failed {
            return Err(Error::EncryptError);
        }
        self.with_incomplete(|session, incomplete, used| {
            session.encrypt_at(incomplete, used, plain)
        })
    }

    fn encrypt_at(
        &mut self,
        incomplete: &mut [u8],
        used: &mut usize,
        plain: &[u8],
    ) -> Result<(), Error> {
        let mut room = plain.len() + plain.len().div_ceil(RECORD).max(1) * OVERHEAD;
        // A second time if a message of the library goes before and needs more room.
        for _ in 0..2 {
            let (space, rest) = (self.out.space(room), &mut incomplete[*used..]);
            let (part, done) = match &mut self.side {
                Side::Server(connection) => {
                    encrypt(connection.process_tls_records(rest), plain, space)
                }
                Side::Client(connection) => {
                    encrypt(connection.process_tls_records(rest), plain, space)
                }
            };
            match done {
                Ok(written) => {
                    *used += part;
                    self.out.end += written;
                    return Ok(());
                }
                Err(Some(EncryptError::InsufficientSize(needed))) => {
                    *used += part;
                    room = needed.required_size;
                    // That message: dropping it would break the sequence of records.
                    self.advance(incomplete, used, &mut |_| {})?;
                }
                Err(Some(EncryptError::EncryptExhausted) | None) => break,
            }
        }
        self.has_failed = true;
        Err(Error::EncryptError)
    }

    /// Queues the message that ends the connection.
    pub fn queue_close_notify(&mut self) {
        /// More than an alert takes.
        const ALERT: usize = 128;
        if !self.is_established || self.has_failed {
            return;
        }
        self.with_incomplete(|session, incomplete, used| {
            let space = session.out.space(ALERT);
            let (part, written) = match &mut session.side {
                Side::Server(connection) => {
                    close(connection.process_tls_records(incomplete), space)
                }
                Side::Client(connection) => {
                    close(connection.process_tls_records(incomplete), space)
                }
            };
            *used += part;
            session.out.end += written;
        });
    }

    /// Encrypted bytes that the socket has not taken.
    pub fn unsent(&self) -> &[u8] {
        &self.out.buf[self.out.start..self.out.end]
    }

    /// Removes `n` bytes of [`Session::unsent`]. Once it is empty, its buffer goes back to `spare`, so that
    /// one buffer serves all connections of a thread.
    pub fn sent(&mut self, n: usize, spare: &mut Vec<u8>) {
        self.out.start += n;
        if self.out.start == self.out.end {
            (self.out.start, self.out.end) = (0, 0);
            let buf = std::mem::take(&mut self.out.buf);
            if buf.len() > spare.len() {
                *spare = buf;
            }
        }
    }

    /// Uses `spare` for the next encrypted bytes, if there are none.
    pub fn lend(&mut self, spare: &mut Vec<u8>) {
        if self.out.buf.is_empty() {
            std::mem::swap(&mut self.out.buf, spare);
        }
    }

    /// The certificate that the peer has presented.
    pub fn peer_certificate(&self) -> Option<CertificateDer<'static>> {
        let chain = match &self.side {
            Side::Server(connection) => connection.peer_certificates(),
            Side::Client(connection) => connection.peer_certificates(),
        };
        chain.and_then(|chain| chain.first()).cloned()
    }

    /// Protocol and cipher, once the handshake is over.
    pub fn agreed(&self) -> Option<Agreed> {
        use rustls::{HandshakeKind, ProtocolVersion};
        let (version, suite, kind) = match &self.side {
            Side::Server(c) => {
                (c.protocol_version(), c.negotiated_cipher_suite(), c.handshake_kind())
            }
            Side::Client(c) => {
                (c.protocol_version(), c.negotiated_cipher_suite(), c.handshake_kind())
            }
        };
        let protocol = match version? {
            ProtocolVersion::TLSv1_3 => "TLSv1.3",
            _ => "TLSv1.2",
        };
        let cipher = suite?.suite().as_str()?;
        Some(Agreed { protocol, cipher, is_resumed: kind == Some(HandshakeKind::Resumed) })
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("is_established", &self.is_established)
            .finish_non_exhaustive()
    }
}

enum Step {
    Again,
    /// The handshake needs more bytes.
    Blocked,
    /// The handshake is over, and all bytes are processed.
    Established,
    /// The peer has sent its last byte.
    Ended,
}

/// Returns the number of bytes to discard, and how to continue.
fn handle<D>(
    status: UnbufferedStatus<'_, '_, D>,
    sink: &mut impl FnMut(&[u8]),
    out: &mut Out,
) -> (usize, Result<Step, Error>) {
    let UnbufferedStatus { mut discard, state } = status;
    let state = match state {
        Ok(state) => state,
        Err(e) => return (discard, Err(e)),
    };
    let step = match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                match record {
                    Ok(record) => {
                        discard += record.discard;
                        sink(record.payload);
                    }
                    Err(e) => return (discard, Err(e)),
                }
            }
            Step::Again
        }
        ConnectionState::EncodeTlsData(mut message) => {
            if let Err(EncodeError::InsufficientSize(needed)) = message.encode(&mut []) {
                out.end += message.encode(out.space(needed.required_size)).unwrap_or(0);
            }
            Step::Again
        }
        // The message stays in `out`, before everything that is encrypted later.
        ConnectionState::TransmitTlsData(message) => {
            message.done();
            Step::Again
        }
        ConnectionState::WriteTraffic(_) => Step::Established,
        ConnectionState::BlockedHandshake => Step::Blocked,
        ConnectionState::PeerClosed => Step::Ended,
        ConnectionState::Closed => Step::Blocked,
        // Early data is not enabled.
        _ => return (discard, Err(Error::General("unexpected state".into()))),
    };
    (discard, Ok(step))
}

/// Returns the number of bytes to discard, and that of bytes written. An error without a reason: the
/// connection can't write. Between two calls of [`Session::advance`] nothing else is pending.
fn encrypt<D>(
    status: UnbufferedStatus<'_, '_, D>,
    plain: &[u8],
    out: &mut [u8],
) -> (usize, Result<usize, Option<EncryptError>>) {
    let done = match status.state {
        Ok(ConnectionState::WriteTraffic(mut traffic)) => traffic.encrypt(plain, out).map_err(Some),
        _ => Err(None),
    };
    (status.discard, done)
}

fn close<D>(status: UnbufferedStatus<'_, '_, D>, out: &mut [u8]) -> (usize, usize) {
    let written = match status.state {
        Ok(ConnectionState::WriteTraffic(mut traffic)) => {
            traffic.queue_close_notify(out).unwrap_or(0)
        }
        _ => 0,
    };
    (status.discard, written)
}
