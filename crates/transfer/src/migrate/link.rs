//! The connection to the other server: sends requests and reads a one-line reply to each. It blocks
//! for a bounded time, so only threads of the slow lane may use it.

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{self, BufRead, BufReader, BufWriter, Error, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use weft_resp::append_request;

/// The context of links, if they are encrypted (`tls-cluster`).
static TLS: RwLock<Option<Arc<ClientConfig>>> = RwLock::new(None);

/// Encrypts links that are opened from now on; `None`: no longer.
pub fn encrypt_links(context: Option<Arc<ClientConfig>>) {
    *TLS.write().unwrap_or_else(PoisonError::into_inner) = context;
}

/// The maximum length of a reply (bytes): the other server sends only OK or an error.
const ANSWER_MOST: u64 = 16 << 10;

const BUFFER: usize = 64 << 10;

pub enum Link {
    Plain { to: BufWriter<TcpStream>, from: BufReader<TcpStream> },
    Tls(Box<BufReader<Buffered>>),
}

/// Requests are buffered on their way, replies by the reader around this.
type Buffered = WriteFirst<StreamOwned<ClientConnection, TcpStream>>;

impl Link {
    /// Connects to the first address of `host` that accepts. Each later step takes at most
    /// `timeout`.
    pub fn open(host: &[u8], port: u16, timeout: Duration) -> io::Result<Link> {
        let host = std::str::from_utf8(host).map_err(|_| Error::from(ErrorKind::InvalidInput))?;
        let mut failure = Error::from(ErrorKind::NotFound);
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => return Link::of(stream, timeout),
                Err(e) => failure = e,
            }
        }
        Err(failure)
    }

    fn of(stream: TcpStream, timeout: Duration) -> io::Result<Link> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        if let Some(context) = TLS.read().unwrap_or_else(PoisonError::into_inner).clone() {
            // No name is sent or compared: as in Valkey, the authority alone decides.
            let nobody = ServerName::IpAddress(Ipv4Addr::UNSPECIFIED.into());
            let session = ClientConnection::new(context, nobody).map_err(Error::other)?;
            let mut stream = StreamOwned::new(session, stream);
            // Else a failure would appear as one of the first request.
            while stream.conn.is_handshaking() {
                stream.conn.complete_io(&mut stream.sock)?;
            }
            let buffered = WriteFirst(BufWriter::with_capacity(BUFFER, stream));
            return Ok(Link::Tls(Box::new(BufReader::new(buffered))));
        }
        let from = BufReader::new(stream.try_clone()?);
        Ok(Link::Plain { to: BufWriter::with_capacity(BUFFER, stream), from })
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Link::Plain { to, .. } => to,
            Link::Tls(link) => &mut link.get_mut().0,
        }
    }

    fn reader(&mut self) -> &mut dyn BufRead {
        match self {
            Link::Plain { from, .. } => from,
            Link::Tls(link) => link,
        }
    }

    /// Sends a request, or buffers it until the next flush.
    pub fn send(&mut self, words: &[&[u8]]) -> io::Result<()> {
        /// The head and the end of a word.
        const HEAD: usize = 16;
        let bytes: usize = words.iter().map(|word| word.len() + HEAD).sum();
        let to = self.writer();
        if bytes <= BUFFER {
            // Formatting each head into the stream costs more than this copy.
            let mut request = Vec::with_capacity(bytes + HEAD);
            append_request(words, &mut request);
            return to.write_all(&request);
        }
        write!(to, "*{}\r\n", words.len())?;
        for word in words {
            write!(to, "${}\r\n", word.len())?;
            to.write_all(word)?;
            to.write_all(b"\r\n")?;
        }
        Ok(())
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.writer().flush()
    }

    /// The next reply: a line, without its line ending.
    pub fn answer(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.reader().take(ANSWER_MOST).read_until(b'\n', &mut line)?;
        match line.strip_suffix(b"\r\n") {
            Some(line) => Ok(line.to_vec()),
            None => Err(Error::from(ErrorKind::UnexpectedEof)),
        }
    }
}

/// A stream with a buffer for writes, that can be read.
pub struct WriteFirst<S: Write>(BufWriter<S>);

impl<S: Read + Write> Read for WriteFirst<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.get_mut().read(into)
    }
}
