//! Listening sockets: TCP on several addresses, and a unix socket with permissions.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weft_process::log_warning;

/// The maximum number of connections accepted from one listener per iteration, so that a connection
/// storm does not starve existing clients.
pub const MAX_ACCEPTS_PER_ITERATION: usize = 256;

/// A listening socket. Clones share the socket.
#[derive(Clone, Debug)]
pub struct Listener(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    socket: OwnedFd,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Tcp { at: SocketAddr, is_tls: bool },
    Unix(PathBuf),
}

/// An accepted connection that no thread owns yet.
#[derive(Debug)]
pub struct Accepted {
    pub socket: OwnedFd,
    /// `ip:port`, or `path:0` for a unix socket.
    pub peer: String,
    pub local: String,
    pub unix: bool,
    /// Accepted on the TLS port.
    pub is_tls: bool,
    /// From the loopback interface or a unix socket: exempt from protected mode.
    pub is_local: bool,
}

impl Listener {
    /// Listens on `address`:`port`. `*` and `::*` mean all IPv4 and all IPv6 addresses.
    pub fn tcp(address: &str, port: u16, is_tls: bool, backlog: i32) -> io::Result<Self> {
        let at = resolve(address, port)?;
        let family = if at.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if at.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        net::bind(&socket, &at)?;
        net::listen(&socket, backlog)?;
        let bound = net::getsockname(&socket)?.try_into().unwrap_or(at);
        Ok(Listener::new(socket, Kind::Tcp { at: bound, is_tls }))
    }

    /// Listens on a unix socket and replaces a socket file left by a dead server. `mode`:
    /// permission bits, or 0 for the default of the umask.
    pub fn unix(path: &Path, mode: u32, backlog: i32) -> io::Result<Self> {
        let _ = std::fs::remove_file(path);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        net::bind(&socket, &net::SocketAddrUnix::new(path)?)?;
        if mode != 0 {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        }
        net::listen(&socket, backlog)?;
        Ok(Listener::new(socket, Kind::Unix(path.to_path_buf())))
    }

    fn new(socket: OwnedFd, kind: Kind) -> Self {
        Listener(Arc::new(Inner { socket, kind }))
    }

    /// Stops accepting connections and releases the address for another socket. Connections in the
    /// queue are refused.
    pub fn pause(&self) {
        let _ = net::shutdown(&self.0.socket, net::Shutdown::Both);
    }

    /// Listens again after [`Listener::pause`].
    pub fn go_on(&self, backlog: i32) {
        if let Err(e) = net::listen(&self.0.socket, backlog) {
            log_warning!("Can't listen again on a paused socket: {e}");
        }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.socket.as_fd()
    }

    /// The socket for another event loop than [`Listener::accept`]'s.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn try_clone_std(&self) -> io::Result<std::net::TcpListener> {
        Ok(self.0.socket.try_clone()?.into())
    }

    /// The bound address with its actual port; `None` for a unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.0.kind {
            Kind::Tcp { at, .. } => Some(*at),
            Kind::Unix(_) => None,
        }
    }

    /// Whether connections are encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(self.0.kind, Kind::Tcp { is_tls: true, .. })
    }

    /// The next pending connection; `Ok(None)` if there is none.
    pub fn accept(&self, keepalive_s: u32) -> io::Result<Option<Accepted>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, peer) = match net::acceptfrom_with(&self.0.socket, flags) {
            Ok(got) => got,
            Err(e) if is_transient(e) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        match &self.0.kind {
            Kind::Unix(path) => {
                let name = format!("{}:0", path.display());
                let (peer, local) = (name.clone(), name);
                let (unix, is_tls, is_local) = (true, false, true);
                Ok(Some(Accepted { socket, peer, local, unix, is_tls, is_local }))
            }
            Kind::Tcp { is_tls, .. } => {
                let peer: Option<SocketAddr> = peer.and_then(|p| p.try_into().ok());
                let local: Option<SocketAddr> =
                    net::getsockname(&socket).ok().and_then(|a| a.try_into().ok());
                let _ = sockopt::set_tcp_nodelay(&socket, true);
                set_keepalive(&socket, keepalive_s);
                Ok(Some(Accepted {
                    is_local: peer.is_some_and(|p| is_loopback(p.ip())),
                    peer: peer.map(name_of).unwrap_or_else(|| "?:0".into()),
                    local: local.map(name_of).unwrap_or_else(|| "?:0".into()),
                    socket,
                    unix: false,
                    is_tls: *is_tls,
                }))
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Kind::Unix(path) = &self.kind {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// No connection is pending, the peer has already closed it, or the socket is paused.
fn is_transient(e: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    matches!(e, Errno::AGAIN | Errno::INTR | Errno::CONNABORTED | Errno::PROTO | Errno::INVAL)
}

fn is_loopback(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_loopback(),
        IpAddr::V6(v6) => {
            v6.is_loopback() || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback())
        }
    }
}

/// The address as shown in CLIENT LIST, with IPv6 addresses in brackets.
fn name_of(at: SocketAddr) -> String {
    at.to_string()
}

fn resolve(address: &str, port: u16) -> io::Result<SocketAddr> {
    let host = match address {
        "*" => "0.0.0.0",
        "::*" => "::",
        other => other,
    };
    let mut found = (host, port).to_socket_addrs()?;
    found.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no address"))
}

/// Sends the first keepalive probe after `seconds` without traffic, and three probes within the
/// same time again; 0: never.
pub fn set_keepalive(socket: impl AsFd, seconds: u32) {
    use std::time::Duration;
    if seconds == 0 {
        return;
    }
    let socket = socket.as_fd();
    let _ = sockopt::set_socket_keepalive(socket, true);
    let _ = sockopt::set_tcp_keepidle(socket, Duration::from_secs(u64::from(seconds)));
    let _ = sockopt::set_tcp_keepintvl(socket, Duration::from_secs(u64::from(seconds / 3).max(1)));
    let _ = sockopt::set_tcp_keepcnt(socket, 3);
}
