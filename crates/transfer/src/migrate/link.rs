//! The connection to the other server: sends requests and reads a one-line reply to each. It blocks
//! for a bounded time, so only threads of the slow lane may use it.

use std::io::{self, BufRead, BufReader, BufWriter, Error, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// The maximum length of a reply (bytes): the other server sends only OK or an error.
const ANSWER_MOST: u64 = 16 << 10;

const BUFFER: usize = 64 << 10;

pub struct Link {
    to: BufWriter<TcpStream>,
    from: BufReader<TcpStream>,
}

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
        let from = BufReader::new(stream.try_clone()?);
        Ok(Link { to: BufWriter::with_capacity(BUFFER, stream), from })
    }

    /// Sends a request, or buffers it until the next flush.
    pub fn send(&mut self, words: &[&[u8]]) -> io::Result<()> {
        write!(self.to, "*{}\r\n", words.len())?;
        for word in words {
            write!(self.to, "${}\r\n", word.len())?;
            self.to.write_all(word)?;
            self.to.write_all(b"\r\n")?;
        }
        Ok(())
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// The next reply: a line, without its line ending.
    pub fn answer(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        (&mut self.from).take(ANSWER_MOST).read_until(b'\n', &mut line)?;
        match line.strip_suffix(b"\r\n") {
            Some(line) => Ok(line.to_vec()),
            None => Err(Error::from(ErrorKind::UnexpectedEof)),
        }
    }
}
