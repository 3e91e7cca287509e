//! Connections to etcd for ureq: a socket, plain or TLS, whose calls end by a deadline and can be ended by another thread.
//!
//! ureq's own connector can't do three things that the store needs:
//!
//! * say whether a request has left this process at all, which decides between "certainly not done" and "unknown"
//!   ([`take_sent`]). The TLS handshake is finished before, so its failure is certain;
//! * end the read of a watch from another thread ([`Control`]);
//! * use the workspace's rustls, its provider of cryptography and its readers of PEM files, without a second set.

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::cell::Cell;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use ureq::Timeout;
use ureq::unversioned::transport::time::Duration as UreqDuration;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

thread_local! {
    /// Whether this thread's current call has written a byte of its request. ureq runs a call on its caller's thread.
    static SENT: Cell<bool> = const { Cell::new(false) };
}

/// Returns and clears the mark of this thread.
pub fn take_sent() -> bool {
    SENT.replace(false)
}

/// The connection of a watch, as other threads see it.
#[derive(Debug)]
pub struct Control(Mutex<Controlled>);

#[derive(Debug)]
struct Controlled {
    deadline: Instant,
    is_cancelled: bool,
    socket: Option<Arc<TcpStream>>,
}

impl Control {
    pub fn new(deadline: Instant) -> Arc<Control> {
        let controlled = Controlled { deadline, is_cancelled: false, socket: None };
        Arc::new(Control(Mutex::new(controlled)))
    }

    fn lock(&self) -> MutexGuard<'_, Controlled> {
        self.0.lock().expect("no holder panics")
    }

    /// Sets the end of the reads that follow.
    pub fn set_deadline(&self, deadline: Instant) {
        self.lock().deadline = deadline;
    }

    fn deadline(&self) -> Instant {
        self.lock().deadline
    }

    pub fn is_cancelled(&self) -> bool {
        self.lock().is_cancelled
    }

    /// Ends the connection; a read that waits returns.
    pub fn cancel(&self) {
        let mut controlled = self.lock();
        controlled.is_cancelled = true;
        if let Some(socket) = &controlled.socket {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn attach(&self, socket: &Arc<TcpStream>) -> io::Result<()> {
        let mut controlled = self.lock();
        controlled.socket = Some(socket.clone());
        match controlled.is_cancelled {
            true => Err(io::ErrorKind::ConnectionAborted.into()),
            false => Ok(()),
        }
    }
}

/// A socket whose reads and writes end by a deadline.
#[derive(Debug)]
struct Socket {
    stream: Arc<TcpStream>,
    deadline: Option<Instant>,
}

impl Socket {
    fn remaining(&self) -> io::Result<Option<Duration>> {
        match self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
            Some(Duration::ZERO) => Err(io::ErrorKind::TimedOut.into()),
            remaining => Ok(remaining),
        }
    }
}

/// The kernel reports a timeout of a socket as "would block".
fn name_timeout(e: io::Error) -> io::Error {
    match e.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => e,
    }
}

impl Read for Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.remaining()?)?;
        (&*self.stream).read(buf).map_err(name_timeout)
    }
}

impl Write for Socket {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.remaining()?)?;
        (&*self.stream).write(buf).map_err(name_timeout)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Channel {
    Plain(Socket),
    Tls(Box<StreamOwned<ClientConnection, Socket>>),
}

impl Channel {
    fn socket(&mut self) -> &mut Socket {
        match self {
            Channel::Plain(socket) => socket,
            Channel::Tls(stream) => stream.get_mut(),
        }
    }

    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(socket) => socket.read(buf),
            Channel::Tls(stream) => stream.read(buf),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Channel::Plain(socket) => socket.write_all(bytes),
            Channel::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }
}

/// A connection to the gateway.
pub struct GatewayTransport {
    channel: Channel,
    buffers: LazyBuffers,
    control: Option<Arc<Control>>,
}

impl GatewayTransport {
    fn set_deadline(&mut self, timeout: &NextTimeout) {
        let deadline = match &self.control {
            Some(control) => Some(control.deadline()),
            None => exact(timeout).map(|after| Instant::now() + after),
        };
        self.channel.socket().deadline = deadline;
    }
}

fn exact(timeout: &NextTimeout) -> Option<Duration> {
    match timeout.after {
        UreqDuration::Exact(after) => Some(after),
        UreqDuration::NotHappening => None,
    }
}

fn ureq_error(e: io::Error, reason: Timeout) -> ureq::Error {
    match e.kind() {
        io::ErrorKind::TimedOut => ureq::Error::Timeout(reason),
        _ => ureq::Error::Io(e),
    }
}

impl Transport for GatewayTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        SENT.set(true);
        self.set_deadline(&timeout);
        let GatewayTransport { channel, buffers, .. } = self;
        let output = &buffers.output()[..amount];
        channel.write_all(output).map_err(|e| ureq_error(e, timeout.reason))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.set_deadline(&timeout);
        let GatewayTransport { channel, buffers, .. } = self;
        let amount =
            channel.read(buffers.input_append_buf()).map_err(|e| ureq_error(e, timeout.reason))?;
        buffers.input_appended(amount);
        Ok(amount > 0)
    }

    /// An idle connection has nothing to read; etcd has closed one that has.
    fn is_open(&mut self) -> bool {
        let stream = &self.channel.socket().stream;
        let peek = || {
            stream.set_nonblocking(true)?;
            let peeked = stream.peek(&mut [0]);
            stream.set_nonblocking(false)?;
            peeked
        };
        matches!(peek(), Err(e) if e.kind() == io::ErrorKind::WouldBlock)
    }

    fn is_tls(&self) -> bool {
        matches!(self.channel, Channel::Tls(_))
    }
}

impl fmt::Debug for GatewayTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GatewayTransport")
    }
}

/// Opens connections for an agent of ureq.
#[derive(Clone, Debug)]
pub struct GatewayConnector {
    pub tls: Option<Arc<ClientConfig>>,
    /// Set for the one connection of a watch.
    pub control: Option<Arc<Control>>,
}

impl Connector<()> for GatewayConnector {
    type Out = GatewayTransport;

    fn connect(
        &self,
        details: &ConnectionDetails,
        _: Option<()>,
    ) -> Result<Option<GatewayTransport>, ureq::Error> {
        let after = exact(&details.timeout);
        let deadline = after.map(|after| Instant::now() + after);
        let connected = connect(&details.addrs, deadline).and_then(|stream| {
            let stream = Arc::new(stream);
            if let Some(control) = &self.control {
                control.attach(&stream)?;
            }
            let socket = Socket { stream, deadline };
            match &self.tls {
                None => Ok(Channel::Plain(socket)),
                Some(config) => handshake(config, details.uri.host().unwrap_or_default(), socket),
            }
        });
        let channel = connected.map_err(|e| ureq_error(e, Timeout::Connect))?;
        let (input, output) =
            (details.config.input_buffer_size(), details.config.output_buffer_size());
        let buffers = LazyBuffers::new(input, output);
        Ok(Some(GatewayTransport { channel, buffers, control: self.control.clone() }))
    }
}

/// Connects to the first address that accepts; each gets an equal part of the time that is left.
fn connect(addresses: &[SocketAddr], deadline: Option<Instant>) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for (i, address) in addresses.iter().enumerate() {
        let connected = match deadline {
            None => TcpStream::connect(address),
            Some(deadline) => {
                let left = u32::try_from(addresses.len() - i).unwrap_or(u32::MAX);
                let part = deadline.saturating_duration_since(Instant::now()) / left;
                if part.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                TcpStream::connect_timeout(address, part)
            }
        };
        match connected {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(e) => failure = e,
        }
    }
    Err(failure)
}

fn handshake(config: &Arc<ClientConfig>, host: &str, mut socket: Socket) -> io::Result<Channel> {
    // A URI has brackets around an IPv6 address; certificates don't.
    let name = host.trim_start_matches('[').trim_end_matches(']').to_string();
    let name =
        ServerName::try_from(name).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
    let mut session = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
    while session.is_handshaking() {
        session.complete_io(&mut socket)?;
    }
    Ok(Channel::Tls(Box::new(StreamOwned::new(session, socket))))
}
