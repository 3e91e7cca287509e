//! Resolves names to addresses, and connects to them, blocking or non-blocking.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, ipproto, socket_with, sockopt,
};

use crate::options::{Options, Target};
use crate::stream::{NonBlocking, Waiting};
use weft_connection::tls::Tls;

/// The transport of connections to servers.
#[derive(Clone, Debug, Default)]
pub struct Transport {
    /// Multipath TCP is used.
    pub mptcp: bool,
    pub tls: Option<Tls>,
}

impl Transport {
    /// The transport that the options ask for.
    ///
    /// # Errors
    /// When certificates or keys can't be used.
    pub fn new(options: &Options) -> Result<Transport, String> {
        let tls = options.tls.as_ref().map(Tls::new).transpose()?;
        Ok(Transport { mptcp: options.mptcp, tls })
    }
}

/// A resolved [`Target`].
#[derive(Clone, Debug)]
pub enum Place {
    Tcp(SocketAddr),
    Unix(SocketAddrUnix),
}

/// The address of a server and its transport.
#[derive(Clone, Debug)]
pub struct Address {
    pub place: Place,
    transport: Transport,
}

impl Address {
    /// The first address of a target that accepts a connection, or the first if none does.
    ///
    /// # Errors
    /// If the name is unknown.
    pub fn resolve(target: &Target, transport: &Transport) -> io::Result<Address> {
        let at = |place| Address { place, transport: transport.clone() };
        match target {
            Target::Unix(path) => Ok(at(Place::Unix(SocketAddrUnix::new(path.as_str())?))),
            Target::Tcp(host, port) => {
                let all: Vec<SocketAddr> = (host.as_str(), *port).to_socket_addrs()?.collect();
                let accepts = |address: &&SocketAddr| {
                    all.len() == 1 || at(Place::Tcp(**address)).connect_waiting().is_ok()
                };
                let first = all.iter().find(accepts).or(all.first());
                let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                Ok(at(Place::Tcp(*first.ok_or_else(none)?)))
            }
        }
    }

    /// Whether it is certainly on this machine.
    pub fn is_local(&self) -> bool {
        match &self.place {
            Place::Tcp(address) => address.ip().is_loopback(),
            Place::Unix(_) => true,
        }
    }

    fn socket(&self, flags: SocketFlags) -> rustix::io::Result<OwnedFd> {
        let flags = flags | SocketFlags::CLOEXEC;
        match &self.place {
            Place::Unix(_) => socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None),
            Place::Tcp(address) => {
                let family =
                    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
                let protocol = if self.transport.mptcp { ipproto::MPTCP } else { ipproto::TCP };
                let socket = socket_with(family, SocketType::STREAM, flags, Some(protocol))?;
                sockopt::set_tcp_nodelay(&socket, true)?;
                Ok(socket)
            }
        }
    }

    fn connect_socket(&self, socket: &OwnedFd) -> rustix::io::Result<()> {
        match &self.place {
            Place::Unix(path) => connect(socket, path),
            Place::Tcp(address) => connect(socket, address),
        }
    }

    fn connect_waiting(&self) -> rustix::io::Result<OwnedFd> {
        let socket = self.socket(SocketFlags::empty())?;
        self.connect_socket(&socket)?;
        Ok(socket)
    }

    /// A blocking connection, with `patience` as the timeout of input and output.
    ///
    /// # Errors
    /// If no server accepts it, or one side rejects the other by TLS.
    pub fn connect(&self, patience: Duration) -> io::Result<Waiting> {
        let socket = File::from(self.connect_waiting()?);
        let stream = match &self.transport.tls {
            None => Waiting::Plain(socket),
            Some(tls) => Waiting::handshake(tls.session()?, socket)?,
        };
        for way in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
            sockopt::set_socket_timeout(&stream, way, Some(patience))?;
        }
        Ok(stream)
    }

    /// A non-blocking connection that may not be established yet. It becomes writable, or fails,
    /// later. Over TLS the handshake still follows.
    ///
    /// # Errors
    /// If it is refused at once.
    pub fn start_connect(&self) -> io::Result<NonBlocking> {
        let socket = self.start_socket()?;
        let session = self.transport.tls.as_ref().map(Tls::session).transpose()?;
        Ok(NonBlocking::new(socket, session))
    }

    fn start_socket(&self) -> rustix::io::Result<OwnedFd> {
        let socket = self.socket(SocketFlags::NONBLOCK)?;
        match self.connect_socket(&socket) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            // A Unix socket whose queue is full may never become writable: wait.
            Err(Errno::AGAIN) => {
                let socket = self.connect_waiting()?;
                rustix::io::ioctl_fionbio(&socket, true)?;
                Ok(socket)
            }
            Err(e) => Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn resolve(target: Target) -> io::Result<Address> {
        Address::resolve(&target, &Transport::default())
    }

    /// The address of a listener.
    fn address(listener: &TcpListener) -> Address {
        let place = Place::Tcp(listener.local_addr().unwrap());
        Address { place, transport: Transport::default() }
    }

    #[test]
    fn names_become_addresses() {
        assert!(resolve(Target::Tcp("127.0.0.1".into(), 1)).unwrap().is_local());
        assert!(resolve(Target::Tcp("no.such.host.invalid".into(), 1)).is_err());
        assert!(resolve(Target::Unix("/tmp/sock".into())).unwrap().is_local());
    }

    #[test]
    fn bytes_go_there_and_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = address(&listener);
        let mut client = address.connect(PATIENCE).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"ping").unwrap();
        let mut got = [0; 4];
        server.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"ping");
        let _later = address.start_connect().unwrap();
        listener.accept().unwrap();
    }

    #[test]
    fn closed_port_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = address(&listener);
        drop(listener);
        assert!(address.connect(PATIENCE).is_err());
    }
}
