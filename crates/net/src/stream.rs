//! The stream of a connection: a socket, plain or with TLS on it.
//!
//! A plain stream costs one predictable branch for each read and write. A TLS stream has its state under a
//! mutex, because another thread may write a snapshot to a replica while the connection's thread
//! reads from it. No thread holds the mutex while it waits for the socket. A reader that finds it taken
//! returns `AGAIN`: the other thread has a lower priority, and may be kept from running.
//!
//! Large buffers belong to the thread, not to the connection: see [`Buffers`].

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use rustix::io::{Errno, writev};
use rustix::net::{SendFlags, send};
use std::cell::RefCell;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use weft_tls::session::{Agreed, RECORD, Session};

/// The most received bytes to decrypt at a time.
pub const RECEIVE_MAX: usize = 128 << 10;

/// The least space for plain text that a read from a TLS stream needs: a record, and the rest of the
/// one before.
pub const RECEIVE_MIN: usize = 48 << 10;

/// Bytes to encrypt before they are sent.
const ENCRYPT_MAX: usize = 8 * RECORD;

/// The memory of a session without buffers (bytes): the library's state and keys.
pub const SESSION_MEMORY: usize = 3 << 10;

/// Received bytes for each step of a handshake.
const HANDSHAKE: usize = 16 << 10;

/// A connection's stream. Clones share it.
#[derive(Clone, Debug)]
pub enum Stream {
    Plain(Arc<OwnedFd>),
    Tls(Arc<TlsStream>),
}

/// See the module documentation.
#[derive(Debug)]
pub struct TlsStream {
    socket: OwnedFd,
    is_shaking_hands: AtomicBool,
    /// Encrypted bytes wait for the socket.
    has_unsent: AtomicBool,
    session: Mutex<Session>,
}

/// The buffers of a thread.
#[derive(Default)]
struct Buffers {
    /// Received bytes, decrypted in place.
    received: Vec<u8>,
    /// Small pieces of output that share a record.
    pieces: Vec<u8>,
    /// Encrypted bytes.
    encrypted: Vec<u8>,
}

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::default();
}

/// The state of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// The peer must send more, or take more.
    Goes,
    Done(Option<Agreed>),
}

impl From<OwnedFd> for Stream {
    fn from(socket: OwnedFd) -> Stream {
        Stream::Plain(Arc::new(socket))
    }
}

impl AsFd for Stream {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Plain(socket) => socket.as_fd(),
            Stream::Tls(stream) => stream.socket.as_fd(),
        }
    }
}

impl AsRawFd for Stream {
    #[inline]
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Stream {
    /// TLS on a non-blocking socket.
    pub fn encrypted(socket: OwnedFd, session: Session) -> Stream {
        Stream::Tls(Arc::new(TlsStream {
            socket,
            is_shaking_hands: AtomicBool::new(true),
            has_unsent: AtomicBool::new(!session.unsent().is_empty()),
            session: Mutex::new(session),
        }))
    }

    #[inline]
    pub fn is_tls(&self) -> bool {
        matches!(self, Stream::Tls(_))
    }

    /// Whether a handshake must come before data.
    #[inline]
    pub fn is_shaking_hands(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            Stream::Tls(stream) => stream.is_shaking_hands.load(Ordering::Relaxed),
        }
    }

    /// Whether bytes that the stream has accepted wait for the socket.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            Stream::Tls(stream) => stream.has_unsent.load(Ordering::Relaxed),
        }
    }

    /// Reads as read(2) does. For TLS, `room` has at least [`RECEIVE_MIN`] bytes.
    #[inline]
    pub fn read(&self, room: &mut [u8]) -> rustix::io::Result<usize> {
        match self {
            Stream::Plain(socket) => rustix::io::read(socket, room),
            Stream::Tls(stream) => {
                let mut filled = 0;
                stream.receive(room.len(), |plain| {
                    room[filled..][..plain.len()].copy_from_slice(plain);
                    filled += plain.len();
                })
            }
        }
    }

    /// Sends as send(2) does. A TLS stream accepts some bytes more than the socket takes: see
    /// [`Stream::has_unsent`].
    #[inline]
    pub fn send(&self, bytes: &[u8]) -> rustix::io::Result<usize> {
        match self {
            Stream::Plain(socket) => send(socket, bytes, SendFlags::NOSIGNAL),
            Stream::Tls(stream) => stream.send([bytes]),
        }
    }

    /// Sends several pieces as writev(2) does.
    pub fn send_pieces(&self, pieces: &[&[u8]]) -> rustix::io::Result<usize> {
        match self {
            Stream::Plain(socket) => {
                let slices: Vec<IoSlice<'_>> = pieces.iter().map(|p| IoSlice::new(p)).collect();
                writev(socket, &slices)
            }
            Stream::Tls(stream) => stream.send(pieces.iter().copied()),
        }
    }

    /// Sends the bytes that wait for the socket.
    ///
    /// # Errors
    /// `AGAIN` if the socket doesn't take all of them.
    #[inline]
    pub fn flush(&self) -> rustix::io::Result<()> {
        match self {
            Stream::Plain(_) => Ok(()),
            Stream::Tls(stream) if !stream.has_unsent.load(Ordering::Relaxed) => Ok(()),
            Stream::Tls(stream) => {
                with_buffers(|buffers| stream.flush(&mut stream.session(), &mut buffers.encrypted))
            }
        }
    }

    /// Sends the message that no more bytes follow, if the socket takes it now.
    pub fn end(&self) {
        let Stream::Tls(stream) = self else { return };
        with_buffers(|buffers| {
            let Some(mut session) = stream.try_session() else { return };
            session.queue_close_notify();
            let _ = stream.flush(&mut session, &mut buffers.encrypted);
        });
    }
}

fn with_buffers<T>(run: impl FnOnce(&mut Buffers) -> T) -> T {
    BUFFERS.with_borrow_mut(run)
}

impl TlsStream {
    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// The session, unless another thread works with it.
    fn try_session(&self) -> Option<MutexGuard<'_, Session>> {
        match self.session.try_lock() {
            Ok(session) => Some(session),
            Err(TryLockError::Poisoned(p)) => Some(p.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Runs `read` with the session, for facts about it.
    pub fn inspect<T>(&self, read: impl FnOnce(&Session) -> T) -> T {
        read(&self.session())
    }

    /// Reads once from the socket, and continues the handshake with that.
    ///
    /// # Errors
    /// The reason why the handshake has failed.
    pub fn shake_hands(&self) -> Result<Handshake, String> {
        with_buffers(|buffers| {
            let mut session = self.session();
            let room = session.incomplete().len() + HANDSHAKE;
            let received = space(&mut buffers.received, room);
            let read = match self.fill(&session, received, room) {
                Ok(0) => return Err("the peer has closed the connection".into()),
                Ok(read) => Some(read),
                Err(Errno::AGAIN | Errno::INTR) => None,
                Err(e) => return Err(e.to_string()),
            };
            let held = session.incomplete().len();
            let shaken = match read {
                Some(read) => session.shake_hands(&mut received[..held + read]),
                None => Ok(()),
            };
            let flushed = self.flush(&mut session, &mut buffers.encrypted);
            shaken.map_err(|e| e.to_string())?;
            match flushed {
                Ok(()) | Err(Errno::AGAIN) => {}
                Err(e) => return Err(e.to_string()),
            }
            if !session.is_established() {
                return Ok(Handshake::Goes);
            }
            self.is_shaking_hands.store(false, Ordering::Relaxed);
            Ok(Handshake::Done(session.agreed()))
        })
    }

    /// Reads from the socket after the session's incomplete record. Returns the number of bytes read.
    fn fill(
        &self,
        session: &Session,
        received: &mut [u8],
        most: usize,
    ) -> rustix::io::Result<usize> {
        let held = session.incomplete();
        received[..held.len()].copy_from_slice(held);
        rustix::io::read(&self.socket, &mut received[held.len()..most])
    }

    /// Reads once from the socket, and passes the plain text, at most `most` bytes, to `sink`. Returns
    /// its length, 0 at the end of the connection.
    ///
    /// # Errors
    /// As read(2). `PROTO` if the peer has broken the protocol.
    pub fn receive(&self, most: usize, mut sink: impl FnMut(&[u8])) -> rustix::io::Result<usize> {
        let mut length = 0;
        let mut sink = |plain: &[u8]| {
            length += plain.len();
            sink(plain);
        };
        let done = with_buffers(|buffers| self.take(buffers, most, &mut sink));
        match (done, length) {
            (Err(Errno::AGAIN), 0) => Err(Errno::AGAIN),
            (Err(e), 0) => Err(e),
            (Ok(true), 0) => Ok(0),
            // A record without plain text, such as a ticket.
            (Ok(false), 0) => Err(Errno::AGAIN),
            // An error occurs again with the next read.
            (_, length) => Ok(length),
        }
    }

    /// Returns whether the connection has ended.
    fn take(
        &self,
        buffers: &mut Buffers,
        most: usize,
        sink: &mut impl FnMut(&[u8]),
    ) -> rustix::io::Result<bool> {
        let Some(mut session) = self.try_session() else { return Err(Errno::AGAIN) };
        if session.has_early() {
            session.take_early(sink);
            return Ok(false);
        }
        if session.has_ended() {
            return Ok(true);
        }
        if session.has_failed() {
            return Err(Errno::PROTO);
        }
        let held = session.incomplete().len();
        // Decrypted bytes are fewer than encrypted ones.
        let most = most.min(RECEIVE_MAX);
        if held >= most {
            // Longer than a record: a message about the session that no honest peer sends.
            return Err(Errno::PROTO);
        }
        let received = space(&mut buffers.received, most);
        let read = self.fill(&session, received, most)?;
        if read == 0 {
            return Ok(true);
        }
        let taken = session.take(&mut received[..held + read], sink);
        // A key update, or the reason of an error.
        if !session.unsent().is_empty() {
            let _ = self.flush(&mut session, &mut buffers.encrypted);
        }
        match taken {
            Ok(()) => Ok(session.has_ended()),
            Err(_) => Err(Errno::PROTO),
        }
    }

    /// Encrypts and sends pieces, small ones together, until the socket is full. Returns the number of
    /// plain bytes that are encrypted.
    fn send<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> rustix::io::Result<usize> {
        with_buffers(|buffers| {
            let mut session = self.session();
            if !session.unsent().is_empty() {
                self.flush(&mut session, &mut buffers.encrypted)?;
            }
            session.lend(&mut buffers.encrypted);
            let mut taken = 0;
            buffers.pieces.clear();
            for piece in pieces {
                let mut rest = &piece[..piece.len().min(ENCRYPT_MAX - taken)];
                taken += rest.len();
                while !rest.is_empty() {
                    let whole = rest.len() / RECORD * RECORD;
                    if buffers.pieces.is_empty() && whole > 0 {
                        encrypt(&mut session, &rest[..whole])?;
                        rest = &rest[whole..];
                        continue;
                    }
                    let part = rest.len().min(RECORD - buffers.pieces.len());
                    buffers.pieces.extend_from_slice(&rest[..part]);
                    rest = &rest[part..];
                    if buffers.pieces.len() == RECORD {
                        encrypt(&mut session, &buffers.pieces)?;
                        buffers.pieces.clear();
                    }
                }
                if taken == ENCRYPT_MAX {
                    break;
                }
            }
            if !buffers.pieces.is_empty() {
                encrypt(&mut session, &buffers.pieces)?;
            }
            match self.flush(&mut session, &mut buffers.encrypted) {
                Ok(()) | Err(Errno::AGAIN) => Ok(taken),
                Err(e) => Err(e),
            }
        })
    }

    fn flush(&self, session: &mut Session, spare: &mut Vec<u8>) -> rustix::io::Result<()> {
        let done = loop {
            if session.unsent().is_empty() {
                session.sent(0, spare);
                break Ok(());
            }
            match send(&self.socket, session.unsent(), SendFlags::NOSIGNAL) {
                Ok(n) => session.sent(n, spare),
                Err(Errno::INTR) => {}
                Err(e) => break Err(e),
            }
        };
        self.has_unsent.store(!session.unsent().is_empty(), Ordering::Relaxed);
        done
    }
}

fn encrypt(session: &mut Session, plain: &[u8]) -> rustix::io::Result<()> {
    session.encrypt(plain).map_err(|_| Errno::PROTO)
}

/// The first `length` bytes of a buffer, which grows.
fn space(buffer: &mut Vec<u8>, length: usize) -> &mut [u8] {
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    &mut buffer[..length]
}
