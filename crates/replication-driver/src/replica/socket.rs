//! Connects to a primary; another thread may cancel the attempt.

use crate::replica::handle::WakeFlag;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use weft_net::listen::set_keepalive;

/// Connects to the first address of `host` that accepts, from `source` if that is an address of
/// this machine. Checks `is_current` whenever the bell rings. The stream is nonblocking.
///
/// # Errors
/// Errors of the system, or `Interrupted` if the attempt was cancelled.
pub fn connect(
    host: &str,
    port: u16,
    source: &str,
    wake_flag: &WakeFlag,
    is_current: &dyn Fn() -> bool,
) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs()? {
        match connect_to(address, source, wake_flag, is_current) {
            Ok(stream) => return Ok(stream),
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
) -> io::Result<TcpStream> {
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
    loop {
        let mut fds = [PollFd::new(&socket, PollFlags::OUT), PollFd::new(wake_flag, PollFlags::IN)];
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
            break;
        }
    }
    sockopt::socket_error(&socket)??;
    let _ = sockopt::set_tcp_nodelay(&socket, true);
    set_keepalive(&socket, KEEPALIVE);
    Ok(TcpStream::from(socket))
}

/// Seconds without traffic before the system probes the other side.
const KEEPALIVE: u32 = 300;
