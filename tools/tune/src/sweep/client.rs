//! A client for the few commands that the subcommands themselves send to a server.

use anyhow::{Context, Result, bail, ensure};
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// The timeout.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest reply.
const LONGEST: usize = 1 << 20;

/// A reply; errors of the server are errors here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Simple and bulk strings.
    Text(String),
    /// Integers.
    Number(i64),
    /// Arrays.
    List(Vec<Reply>),
    /// Null of either kind.
    Null,
}

/// An error that the server replied, to distinguish it from a lost connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// The bytes of a connection: plain, TLS, or a Unix socket.
pub trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// A connection.
pub struct Client {
    reader: BufReader<Box<dyn Stream>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// Connects to a port of this machine.
    ///
    /// # Errors
    /// Network errors.
    pub fn connect(port: u16) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self::over(stream))
    }

    /// Uses an established connection.
    pub fn over(stream: impl Stream + 'static) -> Self {
        Self { reader: BufReader::new(Box::new(stream)) }
    }

    /// Sends one command.
    ///
    /// # Errors
    /// Network errors, errors of the server, and malformed replies.
    pub fn ask(&mut self, words: &[&str]) -> Result<Reply> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.reader.get_mut().write_all(request.as_bytes())?;
        reply(&mut self.reader, 0).with_context(|| words.join(" "))
    }
}

fn reply(reader: &mut impl BufRead, depth: usize) -> Result<Reply> {
    ensure!(depth < 8, "a reply in too many layers");
    let mut line = String::new();
    reader.by_ref().take(LONGEST as u64).read_line(&mut line)?;
    let line = line.strip_suffix("\r\n").context("the connection ended")?;
    let (kind, rest) = line.split_at_checked(1).context("an empty reply")?;
    let length = || -> Result<Option<usize>> {
        match rest.parse::<i64>()? {
            -1 => Ok(None),
            n => Ok(Some(usize::try_from(n).ok().filter(|n| *n <= LONGEST).context("too long")?)),
        }
    };
    Ok(match kind {
        "+" => Reply::Text(rest.into()),
        "-" => bail!(Refusal(rest.to_string())),
        ":" => Reply::Number(rest.parse()?),
        "$" => match length()? {
            None => Reply::Null,
            Some(length) => {
                let mut bytes = vec![0; length + 2];
                reader.read_exact(&mut bytes)?;
                bytes.truncate(length);
                Reply::Text(String::from_utf8_lossy(&bytes).into_owned())
            }
        },
        "*" => match length()? {
            None => Reply::Null,
            Some(length) => {
                Reply::List((0..length).map(|_| reply(reader, depth + 1)).collect::<Result<_>>()?)
            }
        },
        _ => bail!("'{line}' is not a reply"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Reply> {
        reply(&mut text.as_bytes(), 0)
    }

    #[test]
    fn replies_are_read() {
        assert_eq!(read("+OK\r\n").unwrap(), Reply::Text("OK".into()));
        assert_eq!(read(":-3\r\n").unwrap(), Reply::Number(-3));
        assert_eq!(read("$-1\r\n").unwrap(), Reply::Null);
        let list = Reply::List(vec![Reply::Text("a\r\nb".into()), Reply::List(vec![])]);
        assert_eq!(read("*2\r\n$4\r\na\r\nb\r\n*0\r\n").unwrap(), list);
        assert_eq!(read("-ERR no\r\n").unwrap_err().to_string(), "ERR no");
    }

    #[test]
    fn malformed_reply_is_an_error() {
        for text in ["", "\r\n", "+OK", "$5\r\nab\r\n", "*99999999999\r\n", "hello\r\n"] {
            assert!(read(text).is_err(), "{text:?}");
        }
        assert!(read(&"*1\r\n".repeat(100)).is_err());
    }
}
