//! A blocking connection.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::sockopt::{self, Timeout};
use rustls::{ClientConnection, StreamOwned};

use super::NonBlocking;
use weft_connection::tls;

/// The timeout of the server's part of a handshake.
const PATIENCE: Duration = Duration::from_secs(10);

/// A blocking connection.
#[derive(Debug)]
pub enum Waiting {
    Plain(File),
    Tls(Box<StreamOwned<ClientConnection, File>>),
}

impl Waiting {
    /// Does the handshake. The caller must set the timeout of input again.
    ///
    /// # Errors
    /// If one of the sides rejects the other, or the connection is closed.
    pub fn handshake(mut session: ClientConnection, mut socket: File) -> io::Result<Waiting> {
        sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        negotiate(&mut session, &mut socket).map_err(|e| {
            let why = tls::words(&e);
            io::Error::new(e.kind(), format!("Could not negotiate a TLS connection: {why}"))
        })?;
        Ok(Waiting::Tls(Box::new(StreamOwned::new(session, socket))))
    }

    /// Converts the connection for a non-blocking thread. It must have no unread data.
    ///
    /// # Errors
    /// If the system doesn't allow it.
    pub fn into_nonblocking(self) -> io::Result<NonBlocking> {
        let (socket, session) = match self {
            Waiting::Plain(socket) => (socket, None),
            Waiting::Tls(stream) => {
                let (session, socket) = stream.into_parts();
                (socket, Some(session))
            }
        };
        let socket = OwnedFd::from(socket);
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(NonBlocking::new(socket, session))
    }
}

/// Completes the handshake.
fn negotiate(session: &mut ClientConnection, socket: &mut File) -> io::Result<()> {
    while session.is_handshaking() {
        session.complete_io(socket)?;
    }
    while session.wants_write() {
        session.write_tls(socket)?;
    }
    Ok(())
}

impl AsFd for Waiting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Waiting::Plain(socket) => socket.as_fd(),
            Waiting::Tls(stream) => stream.sock.as_fd(),
        }
    }
}

impl Read for Waiting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Waiting::Plain(socket) => socket.read(buffer),
            Waiting::Tls(stream) => match stream.read(buffer) {
                // Servers seldom send close_notify before they close a connection.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                read => read,
            },
        }
    }
}

impl Write for Waiting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Waiting::Plain(socket) => socket.write(bytes),
            Waiting::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Waiting::Plain(socket) => socket.flush(),
            Waiting::Tls(stream) => stream.flush(),
        }
    }
}
