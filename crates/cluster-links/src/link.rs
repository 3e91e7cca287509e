//! One connection to another node.
//!
//! ```text
//!  Connecting ─► Encrypting (tls-cluster) ─► Greeting ─► Up
//! ```
//!
//! Requests are appended to the output without waiting for their replies: an error closes the link.

use crate::frame::{self, Frame};
use crate::incoming::{LINK, PING, SUBSCRIBE, UNSUBSCRIBE, word_of};
use crate::wanted::Wish;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Instant;
use weft_cluster::NodeId;
use weft_net::interest::Interest;
use weft_net::listen::set_keepalive;
use weft_net::stream::{Handshake, Stream};
use weft_pubsub::registry::Kind;
use weft_state::node_links::Outgoing;
use weft_tls::{Contexts, Session};

/// Seconds without traffic before the system probes the other side.
const KEEPALIVE: u32 = 300;
/// Names for each request.
const CHUNK: usize = 256;
/// Memory of an empty buffer that is kept.
const KEPT: usize = 256 << 10;

/// How a link connects.
pub struct Options {
    pub me: NodeId,
    /// An address of this machine to connect from, or empty.
    pub source: String,
    pub user: String,
    pub password: String,
    /// The contexts, if the connection is encrypted.
    pub tls: Option<Arc<Contexts>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Connecting,
    Encrypting,
    /// Replies that are missing.
    Greeting(usize),
    Up,
}

/// See the module documentation.
pub struct Link {
    pub node: NodeId,
    pub address: (String, u16),
    /// It listens to the shard channels, too.
    pub in_shard: bool,
    stream: Stream,
    phase: Phase,
    output: Vec<u8>,
    /// Bytes of the output that were sent.
    sent: usize,
    received: Vec<u8>,
    /// Received bytes that were consumed.
    taken: usize,
    created_ms: i64,
    /// When something arrived last, or the link was opened.
    heard: Instant,
    /// A ping was sent since.
    has_asked: bool,
    /// A message waits for a thread of this node.
    pub is_paused: bool,
    /// What epoll reports.
    pub interest: Interest,
    /// Since when nothing is wanted of it.
    pub idle_since: Option<Instant>,
}

impl Link {
    /// Begins to connect, and greets.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(
        (node, address): (NodeId, (String, u16)),
        options: &Options,
        in_shard: bool,
        created_ms: i64,
    ) -> io::Result<Link> {
        let socket = connect(&address, &options.source)?;
        let stream = match &options.tls {
            Some(tls) => {
                let session = Session::client(tls.client.clone()).map_err(io::Error::other)?;
                Stream::encrypted(socket, session)
            }
            None => Stream::from(socket),
        };
        let mut link = Link {
            node,
            address,
            in_shard,
            stream,
            phase: Phase::Connecting,
            output: Vec::new(),
            sent: 0,
            received: Vec::new(),
            taken: 0,
            created_ms,
            heard: Instant::now(),
            has_asked: false,
            is_paused: false,
            interest: Interest::of(false, true),
            idle_since: None,
        };
        let (user, password) = (options.user.as_bytes(), options.password.as_bytes());
        match (password.is_empty(), user.is_empty()) {
            (true, _) => {}
            (false, true) => link.request(&[b"AUTH", password]),
            (false, false) => link.request(&[b"AUTH", user, password]),
        }
        let (me, to) = (options.me.as_str().as_bytes(), node.as_str().as_bytes());
        link.request(&[b"REPLCONF", LINK.as_bytes(), me, to]);
        Ok(link)
    }

    fn request(&mut self, words: &[&[u8]]) {
        let output = &mut self.output;
        output.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            output.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            output.extend_from_slice(word);
            output.extend_from_slice(b"\r\n");
        }
    }

    /// Asks for messages on these names.
    pub fn subscribe<'a>(&mut self, wishes: impl Iterator<Item = &'a Wish>) {
        self.change(SUBSCRIBE, wishes);
    }

    /// Asks for no more of them.
    pub fn unsubscribe<'a>(&mut self, wishes: impl Iterator<Item = &'a Wish>) {
        self.change(UNSUBSCRIBE, wishes);
    }

    fn change<'a>(&mut self, command: &str, wishes: impl Iterator<Item = &'a Wish>) {
        let mut by_kind: BTreeMap<usize, (Kind, Vec<&[u8]>)> = BTreeMap::new();
        for (kind, name) in wishes {
            by_kind.entry(*kind as usize).or_insert((*kind, Vec::new())).1.push(name);
        }
        for (kind, names) in by_kind.values() {
            for names in names.chunks(CHUNK) {
                let head: [&[u8]; 3] =
                    [b"REPLCONF", command.as_bytes(), word_of(*kind).as_bytes()];
                self.request(&[&head, names].concat());
            }
        }
    }

    /// Asks for a reply, if nothing has arrived for a while. Returns whether the other node still may answer.
    pub fn check(&mut self, now: Instant, timeout: std::time::Duration) -> bool {
        let silent = now.saturating_duration_since(self.heard);
        if self.is_paused {
            // What it has sent was not read.
            self.heard = now;
        } else if silent > timeout {
            return false;
        } else if silent > timeout / 2 && self.phase == Phase::Up && !self.has_asked {
            self.has_asked = true;
            self.request(&[b"REPLCONF", PING.as_bytes()]);
        }
        true
    }

    pub fn is_up(&self) -> bool {
        self.phase == Phase::Up
    }

    /// Continues after the socket has become ready.
    ///
    /// # Errors
    /// The reason why the link ends.
    pub fn advance(&mut self) -> Result<(), String> {
        let text = |e: Errno| weft_process::errors::words(&e.into());
        if self.phase == Phase::Connecting {
            sockopt::socket_error(&self.stream).and_then(|failed| failed).map_err(text)?;
            self.phase = match self.stream.is_tls() {
                true => Phase::Encrypting,
                false => self.greeting(),
            };
        }
        if self.phase == Phase::Encrypting {
            self.flush().map_err(text)?;
            if let Stream::Tls(tls) = &self.stream {
                match tls.shake_hands() {
                    Ok(Handshake::Goes) => return Ok(()),
                    Ok(Handshake::Done(_)) => {}
                    Err(why) => return Err(format!("TLS: {why}")),
                }
            }
            self.phase = self.greeting();
        }
        self.send().map_err(text)
    }

    /// The requests that were queued first are AUTH and the greeting.
    fn greeting(&self) -> Phase {
        Phase::Greeting(if self.output.starts_with(b"*4\r\n") { 1 } else { 2 })
    }

    fn flush(&self) -> Result<(), Errno> {
        match self.stream.flush() {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Sends what the socket takes.
    fn send(&mut self) -> Result<(), Errno> {
        self.flush()?;
        while self.sent < self.output.len() {
            match self.stream.send(&self.output[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        (self.output, self.sent) = (Vec::new(), 0);
        Ok(())
    }

    /// Reads once. Returns whether anything was there.
    ///
    /// # Errors
    /// The reason why the link ends.
    pub fn read(&mut self, room: &mut [u8]) -> Result<bool, String> {
        if matches!(self.phase, Phase::Connecting | Phase::Encrypting) || self.is_paused {
            return Ok(false);
        }
        match self.stream.read(room) {
            Ok(0) => Err("the node has closed the connection".to_string()),
            Ok(read) => {
                self.received.extend_from_slice(&room[..read]);
                self.heard = Instant::now();
                self.has_asked = false;
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(e) => Err(weft_process::errors::words(&e.into())),
        }
    }

    /// Passes the received messages to `deliver`, until it returns `false`: then that message comes again with the next call.
    ///
    /// # Errors
    /// The reason why the link ends.
    pub fn deliver(
        &mut self,
        longest: usize,
        mut deliver: impl FnMut(Kind, &[u8], &[u8]) -> bool,
    ) -> Result<(), String> {
        self.is_paused = false;
        loop {
            let rest = &self.received[self.taken..];
            let parsed = frame::parse(rest, longest);
            let parsed = parsed.map_err(|_| "the node sends no replies".to_string())?;
            let Some((frame, length)) = parsed else { break };
            match frame {
                Frame::Done => {
                    self.phase = match self.phase {
                        Phase::Greeting(left) if left > 1 => Phase::Greeting(left - 1),
                        _ => Phase::Up,
                    };
                }
                Frame::Refused(text) => return Err(String::from_utf8_lossy(text).into_owned()),
                Frame::Message { kind, channel, message } => {
                    if !deliver(kind, channel, message) {
                        self.is_paused = true;
                        break;
                    }
                }
                Frame::Other => {}
            }
            self.taken += length;
        }
        self.received.drain(..self.taken);
        self.taken = 0;
        if self.received.is_empty() && self.received.capacity() > KEPT {
            self.received = Vec::new();
        }
        Ok(())
    }

    /// The events that matter now.
    pub fn wants(&self) -> Interest {
        let has_output = self.sent < self.output.len() || self.stream.has_unsent();
        match self.phase {
            Phase::Connecting => Interest::of(false, true),
            Phase::Encrypting => Interest::of(true, self.stream.has_unsent()),
            Phase::Greeting(_) | Phase::Up => Interest::of(!self.is_paused, has_output),
        }
    }

    /// As CLUSTER LINKS shows it.
    pub fn shown(&self) -> Outgoing {
        Outgoing {
            node: self.node,
            created_ms: self.created_ms,
            unsent: self.output.len() - self.sent,
            memory: self.output.capacity(),
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Begins to connect.
fn connect((host, port): &(String, u16), source: &str) -> io::Result<rustix::fd::OwnedFd> {
    // Nodes announce IP addresses: a name is resolved only if an operator has set one.
    let address = (host.as_str(), *port).to_socket_addrs()?.next();
    let address = address.ok_or(io::ErrorKind::AddrNotAvailable)?;
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
    let _ = sockopt::set_tcp_nodelay(&socket, true);
    set_keepalive(&socket, KEEPALIVE);
    Ok(socket)
}
