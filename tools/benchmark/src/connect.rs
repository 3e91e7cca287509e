//! Sockets: names to addresses, connections with and without waiting.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, ipproto, socket_with, sockopt,
};

use crate::options::Target;

/// A resolved [`Target`].
#[derive(Clone, Debug)]
pub enum Address {
    /// The address, and whether multipath TCP is used.
    Tcp(SocketAddr, bool),
    Unix(SocketAddrUnix),
}

impl Address {
    /// The first address of a target that accepts a connection, or the first if none does.
    ///
    /// # Errors
    /// When the name is not known.
    pub fn resolve(target: &Target, mptcp: bool) -> io::Result<Address> {
        match target {
            Target::Unix(path) => Ok(Address::Unix(SocketAddrUnix::new(path.as_str())?)),
            Target::Tcp(host, port) => {
                let all: Vec<SocketAddr> = (host.as_str(), *port).to_socket_addrs()?.collect();
                let accepts = |address: &&SocketAddr| {
                    all.len() == 1 || Address::Tcp(**address, mptcp).connect().is_ok()
                };
                let first = all.iter().find(accepts).or(all.first());
                let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                Ok(Address::Tcp(*first.ok_or_else(none)?, mptcp))
            }
        }
    }

    /// Whether it is on this machine for sure.
    pub fn is_local(&self) -> bool {
        match self {
            Address::Tcp(address, _) => address.ip().is_loopback(),
            Address::Unix(_) => true,
        }
    }

    fn socket(&self, flags: SocketFlags) -> rustix::io::Result<OwnedFd> {
        let flags = flags | SocketFlags::CLOEXEC;
        match self {
            Address::Unix(_) => socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None),
            Address::Tcp(address, mptcp) => {
                let family =
                    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
                let protocol = if *mptcp { ipproto::MPTCP } else { ipproto::TCP };
                let socket = socket_with(family, SocketType::STREAM, flags, Some(protocol))?;
                sockopt::set_tcp_nodelay(&socket, true)?;
                Ok(socket)
            }
        }
    }

    fn connect_socket(&self, socket: &OwnedFd) -> rustix::io::Result<()> {
        match self {
            Address::Unix(path) => connect(socket, path),
            Address::Tcp(address, _) => connect(socket, address),
        }
    }

    /// A connection that waits for input and output.
    ///
    /// # Errors
    /// When nobody accepts it.
    pub fn connect(&self) -> io::Result<File> {
        let socket = self.socket(SocketFlags::empty())?;
        self.connect_socket(&socket)?;
        Ok(File::from(socket))
    }

    /// A connection that never waits, and is perhaps not established yet: then it becomes
    /// writable, or broken, later.
    ///
    /// # Errors
    /// When it is refused at once.
    pub fn start_connect(&self) -> io::Result<OwnedFd> {
        let socket = self.socket(SocketFlags::NONBLOCK)?;
        match self.connect_socket(&socket) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            // a Unix socket whose queue is full does not promise to become writable: wait
            Err(Errno::AGAIN) => {
                let socket = OwnedFd::from(self.connect()?);
                rustix::io::ioctl_fionbio(&socket, true)?;
                Ok(socket)
            }
            Err(e) => Err(e.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn names_become_addresses() {
        let local = Address::resolve(&Target::Tcp("127.0.0.1".into(), 1), false).unwrap();
        assert!(local.is_local());
        assert!(Address::resolve(&Target::Tcp("no.such.host.invalid".into(), 1), false).is_err());
        assert!(Address::resolve(&Target::Unix("/tmp/sock".into()), false).unwrap().is_local());
    }

    #[test]
    fn bytes_go_there_and_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap(), false);
        let mut client = address.connect().unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"ping").unwrap();
        let mut got = [0; 4];
        server.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"ping");
        let _later = address.start_connect().unwrap();
        listener.accept().unwrap();
    }

    #[test]
    fn nobody_there_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap(), false);
        drop(listener);
        assert!(address.connect().is_err());
    }
}
