//! A blocking client that shows every byte.
//!
//! Client libraries change the replies that they read: they merge nulls, parse doubles, reconnect.
//! This client returns every reply both parsed and as received bytes. It keeps push messages where
//! a test can read them, and a test may write any bytes, whole or in pieces.
//!
//! A second thread writes large pipelines while this one reads. Otherwise two peers that both wait
//! for the other to read would deadlock.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::value::{self, Value, quote_short};

/// How long to wait for bytes before a server counts as hung. It measures nothing: it only makes a
/// test fail that would wait forever.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A larger payload is written by a separate thread.
const WRITE_INLINE: usize = 32 * 1024;

/// A reply, and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The parsed bytes.
    pub value: Value,
    /// The bytes themselves.
    pub raw: Vec<u8>,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => (&*s).read(into),
            Stream::Unix(s) => (&*s).read(into),
        }
    }

    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Tcp(s) => (&*s).write_all(bytes),
            Stream::Unix(s) => (&*s).write_all(bytes),
        }
    }

    fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Stream::Tcp(s) => s.set_read_timeout(Some(timeout)),
            Stream::Unix(s) => s.set_read_timeout(Some(timeout)),
        }
    }

    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Stream::Tcp(s) => s.shutdown(how),
            Stream::Unix(s) => s.shutdown(how),
        }
    }
}

/// One connection.
pub struct Client {
    stream: Stream,
    /// Bytes that were read; those from `taken` on are unparsed.
    buffer: Vec<u8>,
    taken: usize,
    pushes: Vec<Value>,
}

/// For socket options.
impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Tcp(s) => s.as_fd(),
            Stream::Unix(s) => s.as_fd(),
        }
    }
}

/// The bytes of a request as clients send it: an array of bulk strings.
pub fn encode<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_into(args, &mut out);
    out
}

/// Appends the result of [`encode`] to `out`.
pub fn encode_into<A: AsRef<[u8]>>(args: &[A], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args {
        let arg = arg.as_ref();
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

impl Client {
    /// Connects to a loopback port.
    pub fn try_tcp(port: u16) -> io::Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        Client::over(Stream::Tcp(stream))
    }

    /// Connects to a loopback port.
    ///
    /// # Panics
    /// If the port refuses the connection.
    #[track_caller]
    pub fn tcp(port: u16) -> Client {
        Client::try_tcp(port).unwrap_or_else(|e| panic!("cannot connect to port {port}: {e}"))
    }

    /// Connects to a Unix socket.
    pub fn try_unix(path: &Path) -> io::Result<Client> {
        Client::over(Stream::Unix(UnixStream::connect(path)?))
    }

    fn over(stream: Stream) -> io::Result<Client> {
        stream.set_read_timeout(PATIENCE)?;
        Ok(Client { stream, buffer: Vec::new(), taken: 0, pushes: Vec::new() })
    }

    /// Replaces the [`PATIENCE`] of reads.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.stream.set_read_timeout(timeout).expect("a timeout above zero");
    }

    /// Sends one command and waits for its reply.
    pub fn try_cmd<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Reply> {
        self.stream.write_all(&encode(args))?;
        self.read_reply()
    }

    /// Sends one command and waits for its reply.
    ///
    /// # Panics
    /// If the connection fails or is closed. An error reply is a value like any other.
    #[track_caller]
    pub fn cmd<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Value {
        match self.try_cmd(args) {
            Ok(reply) => reply.value,
            Err(e) => panic!("{}: {e}", describe(args)),
        }
    }

    /// Sends a command whose reply must be `+OK`.
    ///
    /// # Panics
    /// On any other reply.
    #[track_caller]
    pub fn ok<A: AsRef<[u8]>>(&mut self, args: &[A]) {
        let reply = self.cmd(args);
        assert!(reply.is_ok(), "{}: {reply}", describe(args));
    }

    /// Switches the protocol; returns the server's greeting.
    #[track_caller]
    pub fn hello(&mut self, version: u8) -> Value {
        self.cmd(&["HELLO", &version.to_string()])
    }

    /// Writes bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends all commands at once, then reads one reply for each.
    pub fn pipeline<A: AsRef<[u8]>>(&mut self, commands: &[Vec<A>]) -> io::Result<Vec<Reply>> {
        let mut payload = Vec::new();
        for args in commands {
            encode_into(args, &mut payload);
        }
        let mut replies = Vec::with_capacity(commands.len());
        self.exchange(&payload, commands.len(), &mut replies)?;
        Ok(replies)
    }

    /// Writes `payload` while it reads `count` replies into `replies`. After an error, `replies`
    /// has those that came before it.
    pub fn exchange(
        &mut self,
        payload: &[u8],
        count: usize,
        replies: &mut Vec<Reply>,
    ) -> io::Result<()> {
        if payload.len() <= WRITE_INLINE {
            self.stream.write_all(payload)?;
            return self.read_replies(count, replies);
        }
        let Client { stream, buffer, taken, pushes } = self;
        let stream = &*stream;
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || stream.write_all(payload));
            let mut reader = Reader { stream, buffer, taken, pushes };
            for _ in 0..count {
                match reader.reply() {
                    Ok(reply) => replies.push(reply),
                    Err(e) => {
                        // Wakes a writer whose bytes the server doesn't read any more.
                        let _ = stream.shutdown(Shutdown::Both);
                        return Err(e);
                    }
                }
            }
            writer.join().expect("writing does not panic")
        })
    }

    fn read_replies(&mut self, count: usize, replies: &mut Vec<Reply>) -> io::Result<()> {
        for _ in 0..count {
            replies.push(self.read_reply()?);
        }
        Ok(())
    }

    /// The next reply; push messages before it are kept for [`Client::take_pushes`].
    ///
    /// # Errors
    /// `UnexpectedEof` if the server closed, `WouldBlock` or `TimedOut` if it stays silent, `InvalidData` if it sends
    /// bytes that are not RESP.
    pub fn read_reply(&mut self) -> io::Result<Reply> {
        self.reader().reply()
    }

    /// The next reply or push message, whichever comes first.
    ///
    /// # Errors
    /// As [`Client::read_reply`].
    pub fn read_frame(&mut self) -> io::Result<Reply> {
        self.reader().frame()
    }

    fn reader(&mut self) -> Reader<'_> {
        let Client { stream, buffer, taken, pushes } = self;
        Reader { stream, buffer, taken, pushes }
    }

    /// The push messages that were read before replies.
    pub fn take_pushes(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.pushes)
    }

    /// Closes the writing side; the server's replies can still be read.
    pub fn finish_writing(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    /// Reads everything until the server closes.
    ///
    /// # Errors
    /// If the server keeps the connection open and stays silent. A reset counts as a close: the kernel sends one after a
    /// close with unread input.
    pub fn read_to_close(&mut self) -> io::Result<Vec<u8>> {
        let mut all = self.buffer.split_off(self.taken);
        self.buffer.clear();
        self.taken = 0;
        let mut chunk = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(all),
                Ok(n) => all.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(all),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}

/// The reading half, without the stream's writer.
struct Reader<'a> {
    stream: &'a Stream,
    buffer: &'a mut Vec<u8>,
    taken: &'a mut usize,
    pushes: &'a mut Vec<Value>,
}

impl Reader<'_> {
    fn reply(&mut self) -> io::Result<Reply> {
        loop {
            let frame = self.frame()?;
            match frame.value {
                Value::Push(_) => self.pushes.push(frame.value),
                _ => return Ok(frame),
            }
        }
    }

    fn frame(&mut self) -> io::Result<Reply> {
        loop {
            let pending = &self.buffer[*self.taken..];
            let parsed = value::parse(pending).map_err(|e| {
                let around = &pending[e.at.saturating_sub(40)..pending.len().min(e.at + 200)];
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!(
                        "not RESP: expected {} at byte {}, near {}",
                        e.what,
                        e.at,
                        quote_short(around)
                    ),
                )
            })?;
            if let Some((value, len)) = parsed {
                let raw = pending[..len].to_vec();
                *self.taken += len;
                if *self.taken == self.buffer.len() {
                    self.buffer.clear();
                    *self.taken = 0;
                }
                return Ok(Reply { value, raw });
            }
            self.fill()?;
        }
    }

    /// Reads once more. The buffer grows with the pending bytes, so large replies take few reads.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.drain(..*self.taken);
        *self.taken = 0;
        let old = self.buffer.len();
        self.buffer.resize(old + old.clamp(64 * 1024, 16 * 1024 * 1024), 0);
        let got = loop {
            match self.stream.read(&mut self.buffer[old..]) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.truncate(old + *got.as_ref().unwrap_or(&0));
        match got {
            Ok(0) => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("closed by the server, {} bytes of a reply read", old),
            )),
            Ok(_) => Ok(()),
            Err(e) => Err(e),
        }
    }
}

/// The command as a user would type it, for messages.
pub fn describe<A: AsRef<[u8]>>(args: &[A]) -> String {
    let plain = |b: &u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'\\');
    let words = args.iter().map(|arg| {
        let arg = arg.as_ref();
        match !arg.is_empty() && arg.len() < 300 && arg.iter().all(plain) {
            true => String::from_utf8_lossy(arg).into_owned(),
            false => quote_short(arg),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A server that sends `script` in pieces of `step` bytes and then closes.
    fn scripted(script: Vec<u8>, step: usize) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            socket.set_nodelay(true).unwrap();
            for piece in script.chunks(step) {
                if socket.write_all(piece).is_err() {
                    return;
                }
            }
        });
        Client::tcp(port)
    }

    #[test]
    fn replies_include_their_bytes_and_pushes_are_stored() {
        for step in [1, 3, 1000] {
            let mut client = scripted(b"+a\r\n>1\r\n:1\r\n$2\r\nbc\r\n:7".to_vec(), step);
            assert_eq!(client.read_reply().unwrap().raw, b"+a\r\n");
            assert_eq!(client.read_reply().unwrap().raw, b"$2\r\nbc\r\n");
            assert_eq!(client.take_pushes(), [Value::Push(vec![Value::Integer(1)])]);
            assert_eq!(client.read_reply().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn frame_may_be_a_push() {
        let mut client = scripted(b">1\r\n:1\r\n".to_vec(), 100);
        assert_eq!(client.read_frame().unwrap().raw, b">1\r\n:1\r\n");
    }

    #[test]
    fn invalid_resp_is_an_error() {
        let mut client = scripted(b"HTTP/1.1 200 OK\r\n".to_vec(), 100);
        assert_eq!(client.read_reply().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn descriptions_quote_special_characters() {
        assert_eq!(describe(&["SET", "", "a b", "\r"]), r#"SET "" "a b" "\r""#);
    }
}
