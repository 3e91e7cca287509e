//! A connection that waits for input and output.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::sockopt::{self, Timeout};
use rustls::{ClientConnection, StreamOwned};

use super::NonBlocking;
use crate::tls;

/// How long the server's part of a handshake may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection that waits.
#[derive(Debug)]
pub enum Waiting {
    Plain(File),
    Tls(Box<StreamOwned<ClientConnection, File>>),
}

impl Waiting {
    /// Does the handshake. Set the time limit for input again after it.
    ///
    /// # Errors
    /// When one of the sides does not accept the other, or the connection is gone.
    pub fn shake(mut session: ClientConnection, mut socket: File) -> io::Result<Waiting> {
        sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        negotiate(&mut session, &mut socket).map_err(|e| {
            let why = tls::words(&e);
            io::Error::new(e.kind(), format!("Could not negotiate a TLS connection: {why}"))
        })?;
        Ok(Waiting::Tls(Box::new(StreamOwned::new(session, socket))))
    }

    /// The same connection for a thread that never waits. Nothing unread may be left.
    ///
    /// # Errors
    /// When the system does not allow it.
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

/// The handshake to its end.
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
                // servers seldom take leave before they close a connection
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
