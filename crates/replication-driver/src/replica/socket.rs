//! Connects to a primary; another thread may cancel the attempt.

use crate::replica::handle::WakeFlag;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use weft_net::listen::set_keepalive;
use weft_net::stream::{Handshake, Stream};
use weft_tls::{Contexts, Session};

/// The options of a connection.
pub struct Options {
    /// An address of this machine to connect from, or empty.
    pub source: String,
    /// The contexts, if the connection is encrypted.
    pub tls: Option<Arc<Contexts>>,
}

/// Connects to the first address of `host` that accepts. Checks `is_current` whenever the bell rings. The stream is nonblocking.
///
/// # Errors
/// Errors of the system, or `Interrupted` if the attempt was cancelled.
pub fn connect(
    host: &str,
    port: u16,
    options: &Options,
    wake_flag: &WakeFlag,
    is_current: &dyn Fn() -> bool,
) -> io::Result<Stream> {
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs()? {
        match connect_to(address, &options.source, wake_flag, is_current) {
            Ok(socket) => return encrypt(socket, options, wake_flag, is_current),
            Err(e) => failure = e,
        }
        if !is_current() {
            break;
        }
    }
    Err(failure)
}

fn connect_to(
    address: SocketAddr,
    source: &str,
    wake_flag: &WakeFlag,
    is_current: &dyn Fn() -> bool,
) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    if !source.is_empty() {
        let of_family = |at: &SocketAddr| at.is_ipv4() == address.is_ipv4();
        let own = (source, 0).to_socket_addrs()?.find(of_family);
        net::bind(&socket, &own.ok_or(io::ErrorKind::AddrNotAvailable)?)?;
    }
    match net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(e) => return Err(e.into()),
    }
    wait(&socket, PollFlags::OUT, wake_flag, is_current)?;
    sockopt::socket_error(&socket)??;
    let _ = sockopt::set_tcp_nodelay(&socket, true);
    set_keepalive(&socket, KEEPALIVE);
    Ok(socket)
}

/// Sleeps until one of `events` occurs on the socket.
fn wait(
    socket: impl AsFd,
    events: PollFlags,
    wake_flag: &WakeFlag,
    is_current: &dyn Fn() -> bool,
) -> io::Result<()> {
    loop {
        let mut fds = [PollFd::new(&socket, events), PollFd::new(wake_flag, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let is_there = !fds[0].revents().is_empty();
        if !fds[1].revents().is_empty() {
            wake_flag.clear();
        }
        if !is_current() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if is_there {
            return Ok(());
        }
    }
}

/// Shakes hands if the connection must be encrypted.
fn encrypt(
    socket: OwnedFd,
    options: &Options,
    wake_flag: &WakeFlag,
    is_current: &dyn Fn() -> bool,
) -> io::Result<Stream> {
    let Some(tls) = &options.tls else { return Ok(socket.into()) };
    let session = Session::client(tls.client.clone()).map_err(io::Error::other)?;
    let stream = Stream::encrypted(socket, session);
    let Stream::Tls(tls) = &stream else { return Ok(stream) };
    let blocks = |e| matches!(e, Errno::AGAIN | Errno::INTR);
    loop {
        let events = match stream.flush() {
            Ok(()) => PollFlags::IN,
            Err(e) if blocks(e) => PollFlags::IN | PollFlags::OUT,
            Err(e) => return Err(e.into()),
        };
        wait(&stream, events, wake_flag, is_current)?;
        match tls.shake_hands() {
            Ok(Handshake::Goes) => {}
            Ok(Handshake::Done(_)) => break,
            Err(why) => return Err(io::Error::other(format!("TLS: {why}"))),
        }
    }
    // The last message of the handshake.
    while let Err(e) = stream.flush() {
        match blocks(e) {
            true => wait(&stream, PollFlags::OUT, wake_flag, is_current)?,
            false => return Err(e.into()),
        }
    }
    Ok(stream)
}

/// Seconds without traffic before the system probes the other side.
const KEEPALIVE: u32 = 300;
