//! The connection to another server: requests out, one line of answer for each back. It blocks, for
//! a bounded time; nothing but a thread of the slow lane may use it.

use std::io::{self, BufRead, BufReader, BufWriter, Error, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// The longest answer that is read (bytes): the other server only says OK, or what is wrong.
const ANSWER_MOST: u64 = 16 << 10;

const BUFFER: usize = 64 << 10;

pub struct Link {
    to: BufWriter<TcpStream>,
    from: BufReader<TcpStream>,
}

impl Link {
    /// Connects to the first address of `host` that takes it. Each step of what follows takes no
    /// longer than `timeout`.
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

    /// Sends a request, or keeps it to be sent with the next ones.
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

    /// The next answer, which is a line, without its end.
    pub fn answer(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        (&mut self.from).take(ANSWER_MOST).read_until(b'\n', &mut line)?;
        match line.strip_suffix(b"\r\n") {
            Some(line) => Ok(line.to_vec()),
            None => Err(Error::from(ErrorKind::UnexpectedEof)),
        }
    }
}
