//! A plain client separate from the load: greetings, CONFIG, INFO, CLUSTER, redirected requests.
//!
//! It waits for each reply and builds it completely, so no measured request uses it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::Duration;

use crate::connect::Address;
use crate::options::Options;
use crate::skipper::Types;
use crate::stream::Waiting;
use crate::template::encode;

/// The timeout of a reply.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A reply, of any version of the protocol.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Text of all kinds, and numbers other than integers.
    Text(Types, Vec<u8>),
    Error(String),
    Integer(i64),
    Null,
    /// Arrays, sets and maps; a map's keys and values alternate.
    Items(Types, Vec<Reply>),
}

impl Reply {
    /// Its type.
    pub fn types(&self) -> Types {
        match self {
            Reply::Text(types, _) | Reply::Items(types, _) => *types,
            Reply::Error(_) => Types::ERROR,
            Reply::Integer(_) => Types::INTEGER,
            Reply::Null => Types::NULL,
        }
    }

    /// Its text, or an empty one.
    pub fn text(&self) -> &[u8] {
        if let Reply::Text(_, text) = self { text } else { &[] }
    }

    /// Its items, if any.
    pub fn items(&self) -> &[Reply] {
        if let Reply::Items(_, items) = self { items } else { &[] }
    }
}

/// A blocking connection.
#[derive(Debug)]
pub struct Control {
    stream: BufReader<Waiting>,
}

impl Control {
    /// Connects.
    ///
    /// # Errors
    /// As [`Address::connect`].
    pub fn connect(address: &Address) -> io::Result<Control> {
        let stream = address.connect(PATIENCE)?;
        Ok(Control { stream: BufReader::with_capacity(16 << 10, stream) })
    }

    /// Sends encoded requests without waiting for replies.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// One request and its reply.
    ///
    /// # Errors
    /// If the connection is closed, the reply is malformed, or it takes too long.
    pub fn ask<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Reply> {
        let mut bytes = Vec::new();
        encode(args, &mut bytes);
        self.send(&bytes)?;
        self.reply()
    }

    /// The next reply; pushes are skipped.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn reply(&mut self) -> io::Result<Reply> {
        loop {
            match self.value()? {
                Reply::Items(Types::PUSH, _) => {}
                reply => return Ok(reply),
            }
        }
    }

    /// The next value: a reply or a push.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn reply_or_push(&mut self) -> io::Result<Reply> {
        self.value()
    }

    /// Sends greetings; each must succeed.
    ///
    /// # Errors
    /// With the server's error if it refuses one.
    pub fn greet(&mut self, greetings: &[Vec<String>]) -> io::Result<()> {
        for greeting in greetings {
            if let Reply::Error(error) = self.ask(greeting)? {
                return Err(io::Error::other(error));
            }
        }
        Ok(())
    }

    /// The connection itself, which must have no unread data.
    pub fn into_stream(self) -> Waiting {
        self.stream.into_inner()
    }

    fn value(&mut self) -> io::Result<Reply> {
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_string());
        let mut line = Vec::new();
        // A quotation in an error may contain half a line end.
        while self.stream.read_until(b'\n', &mut line)? > 0 && !line.ends_with(b"\r\n") {}
        let Some(line) = line.strip_suffix(b"\r\n") else {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "Server closed the connection",
            ));
        };
        let (first, rest) = line.split_first().ok_or_else(|| wrong("an empty reply"))?;
        let text = || String::from_utf8_lossy(rest).into_owned();
        let number = || text().parse::<i64>().map_err(|_| wrong("a length is not a number"));
        let items = match first {
            b'+' => return Ok(Reply::Text(Types::SIMPLE, rest.to_vec())),
            b'-' => return Ok(Reply::Error(text())),
            b':' => return Ok(Reply::Integer(number()?)),
            b'_' => return Ok(Reply::Null),
            b',' => return Ok(Reply::Text(Types::DOUBLE, rest.to_vec())),
            b'#' => return Ok(Reply::Text(Types::BOOLEAN, rest.to_vec())),
            b'(' => return Ok(Reply::Text(Types::BIG_NUMBER, rest.to_vec())),
            b'$' | b'=' | b'!' => {
                let Ok(len) = u32::try_from(number()?) else { return Ok(Reply::Null) };
                let mut body = vec![0; len as usize + 2];
                self.stream.read_exact(&mut body)?;
                body.truncate(len as usize);
                return Ok(match first {
                    b'!' => Reply::Error(String::from_utf8_lossy(&body).into_owned()),
                    b'=' => Reply::Text(Types::VERBATIM, body.split_off(4.min(body.len()))),
                    _ => Reply::Text(Types::BULK, body),
                });
            }
            b'*' => Types::ARRAY,
            b'~' => Types::SET,
            b'>' => Types::PUSH,
            b'%' | b'|' => Types::MAP,
            _ => {
                let line = line[..line.len().min(40)].escape_ascii();
                return Err(wrong(&format!("Protocol error: \"{line}\" begins no reply")));
            }
        };
        let Ok(mut len) = u32::try_from(number()?) else { return Ok(Reply::Null) };
        if items == Types::MAP {
            len *= 2;
        }
        let values = (0..len).map(|_| self.value()).collect::<io::Result<Vec<Reply>>>()?;
        if *first == b'|' { self.value() } else { Ok(Reply::Items(items, values)) }
    }
}

/// The first commands on every connection.
pub fn greetings(options: &Options) -> Vec<Vec<String>> {
    let words = |text: &str| text.split(' ').map(str::to_string).collect::<Vec<String>>();
    let mut all = Vec::new();
    if let Some((user, password)) = &options.login {
        let mut auth = words("AUTH");
        auth.extend(user.clone());
        auth.push(password.clone());
        all.push(auth);
    }
    if options.resp3 {
        all.push(words("HELLO 3"));
    }
    if options.tracking {
        all.push(words("CLIENT TRACKING on"));
    }
    if options.db != 0 {
        all.push(words(&format!("SELECT {}", options.db)));
    }
    if options.cluster.is_some_and(|mode| mode != crate::options::ReadFrom::No) {
        all.push(words("READONLY"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::Transport;
    use crate::options::Target;
    use std::net::TcpListener;

    /// The replies that a client reads if the server sends this and closes.
    fn read(text: &'static str) -> Vec<io::Result<Reply>> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::Tcp("127.0.0.1".into(), listener.local_addr().unwrap().port());
        let address = Address::resolve(&target, &Transport::default()).unwrap();
        let server = std::thread::spawn(move || {
            listener.accept().unwrap().0.write_all(text.as_bytes()).unwrap();
        });
        let mut control = Control::connect(&address).unwrap();
        server.join().unwrap();
        let mut replies = Vec::new();
        loop {
            let reply = control.reply();
            let ended = reply.is_err();
            replies.push(reply);
            if ended {
                return replies;
            }
        }
    }

    #[test]
    fn replies_of_all_kinds_are_read() {
        let all = read(
            "+OK\r\n$3\r\na\r\n\r\n:-7\r\n$-1\r\n_\r\n*2\r\n+a\r\n*0\r\n%1\r\n+k\r\n:1\r\n\
             >1\r\n+push\r\n-ERR no\n\r.\r\n=7\r\ntxt:abc\r\n|1\r\n+a\r\n+b\r\n:3\r\n",
        );
        let all: Vec<Reply> = all.into_iter().map_while(Result::ok).collect();
        let simple = |text: &str| Reply::Text(Types::SIMPLE, text.into());
        assert_eq!(
            all,
            [
                simple("OK"),
                Reply::Text(Types::BULK, b"a\r\n".to_vec()),
                Reply::Integer(-7),
                Reply::Null,
                Reply::Null,
                Reply::Items(Types::ARRAY, vec![simple("a"), Reply::Items(Types::ARRAY, vec![])]),
                Reply::Items(Types::MAP, vec![simple("k"), Reply::Integer(1)]),
                Reply::Error("ERR no\n\r.".into()),
                Reply::Text(Types::VERBATIM, b"abc".to_vec()),
                Reply::Integer(3),
            ]
        );
    }

    #[test]
    fn an_end_in_the_middle_is_an_error() {
        for text in ["", "+O", "$5\r\nab", "*2\r\n+a\r\n", "?\r\n"] {
            assert!(read(text)[0].is_err(), "{text:?}");
        }
    }
}
