//! A non-blocking connection, for the load threads.
//!
//! The TLS library reads no more than 4 KiB at a time from a socket. So it doesn't read from the
//! socket, but from one large read of ours, and all of that is decrypted at once: no data stays
//! here that the kernel would not report.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, writev};
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};
use rustls::ClientConnection;

/// Bytes of space for one read.
pub const INPUT: usize = 128 << 10;

/// The share of the input space for encrypted data, in eighths.
const ENCRYPTED: usize = 3;

/// A non-blocking connection.
#[derive(Debug)]
pub enum NonBlocking {
    Plain(OwnedFd),
    Tls(Box<Encrypted>),
}

/// A socket and the state of TLS on it.
#[derive(Debug)]
pub struct Encrypted {
    socket: OwnedFd,
    session: ClientConnection,
}

impl NonBlocking {
    /// Takes over a non-blocking socket.
    pub fn new(socket: OwnedFd, session: Option<ClientConnection>) -> NonBlocking {
        match session {
            None => NonBlocking::Plain(socket),
            Some(session) => NonBlocking::Tls(Box::new(Encrypted { socket, session })),
        }
    }

    /// Reads available data and returns its length, 0 at the end of the connection. The space must
    /// have [`INPUT`] bytes.
    ///
    /// # Errors
    /// `WouldBlock` without data, or the failure of the connection.
    #[inline]
    pub fn recv(&mut self, input: &mut [u8]) -> io::Result<usize> {
        match self {
            NonBlocking::Plain(socket) => receive(socket, input),
            NonBlocking::Tls(stream) => stream.recv(input),
        }
    }

    /// Writes as many bytes as the connection takes, and returns their number.
    ///
    /// # Errors
    /// `WouldBlock` if it takes nothing now, or the failure of the connection.
    #[inline]
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            NonBlocking::Plain(socket) => {
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                send(&*socket, bytes, flags).map_err(|e| explain(socket, e))
            }
            NonBlocking::Tls(stream) => stream.send(bytes),
        }
    }

    /// Whether data that [`NonBlocking::send`] took waits for the socket. An empty send continues
    /// to write it.
    #[inline]
    pub fn holds_output(&self) -> bool {
        match self {
            NonBlocking::Plain(_) => false,
            NonBlocking::Tls(stream) => stream.session.wants_write(),
        }
    }

    /// Whether a handshake must come first. Each receive and send continues it.
    pub fn is_handshaking(&self) -> bool {
        match self {
            NonBlocking::Plain(_) => false,
            NonBlocking::Tls(stream) => stream.session.is_handshaking(),
        }
    }
}

impl AsFd for NonBlocking {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            NonBlocking::Plain(socket) => socket.as_fd(),
            NonBlocking::Tls(stream) => stream.socket.as_fd(),
        }
    }
}

impl Encrypted {
    fn recv(&mut self, input: &mut [u8]) -> io::Result<usize> {
        // Decrypted data is shorter, and an earlier read leaves at most one record.
        let (plain, encrypted) = input.split_at_mut(input.len() / 8 * (8 - ENCRYPTED));
        let received = receive(&self.socket, encrypted)?;
        let mut rest = &encrypted[..received];
        let mut filled = 0;
        let mut is_over = rest.is_empty();
        while !rest.is_empty() && !is_over {
            // The end of the connection at the level of TLS.
            is_over = self.session.read_tls(&mut rest)? == 0;
            let state = match self.session.process_new_packets() {
                Ok(state) => state,
                Err(e) => {
                    // Sends the server the reason; a failure changes nothing.
                    let _ = self.flush();
                    return Err(io::Error::new(io::ErrorKind::InvalidData, e));
                }
            };
            let there = state.plaintext_bytes_to_read();
            self.session.reader().read_exact(&mut plain[filled..filled + there])?;
            filled += there;
            is_over |= state.peer_has_closed();
        }
        // Part of a handshake, or an update of keys.
        self.flush()?;
        if filled == 0 && !is_over { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(filled) }
    }

    /// Takes all bytes, even if the socket does not.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.session.writer().write_all(bytes)?;
        self.flush()?;
        Ok(bytes.len())
    }

    /// Writes as much as the socket takes.
    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut Output(&self.socket)) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// The socket as the library's output: all its records at once.
struct Output<'a>(&'a OwnedFd);

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        writev(self.0, bytes).map_err(|e| explain(self.0, e))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[inline]
fn receive(socket: &OwnedFd, input: &mut [u8]) -> io::Result<usize> {
    match recv(socket, input, RecvFlags::DONTWAIT) {
        Ok((read, _)) => Ok(read),
        Err(e) => Err(explain(socket, e)),
    }
}

/// `WouldBlock`, or the failure of the connection: the socket's stored error has more detail.
#[cold]
fn explain(socket: &OwnedFd, e: Errno) -> io::Error {
    match e {
        Errno::AGAIN | Errno::INTR => io::ErrorKind::WouldBlock.into(),
        e => sockopt::socket_error(socket).ok().and_then(Result::err).unwrap_or(e).into(),
    }
}
