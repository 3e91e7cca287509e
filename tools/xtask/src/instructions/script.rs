//! The requests, and a connection that sends them.
//!
//! Each pipeline is one write, and all its replies are read before the next. So the server gets all
//! of it in one read, and an iteration of its loop is always the same work.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// Keys of every kind of request: more than a bucket holds, and few enough for a cache.
const KEYS: usize = 100;
/// Members of each sorted set.
const MEMBERS: usize = 20;

/// One kind of request.
pub struct Kind {
    pub name: &'static str,
    /// The commands of request `n`: words separated by spaces.
    commands: fn(usize) -> Vec<String>,
    /// Commands that fill an empty server first.
    before: fn(usize) -> Vec<String>,
}

fn value(n: usize) -> String {
    format!("{n:064}")
}

fn nothing(_: usize) -> Vec<String> {
    Vec::new()
}

fn strings(n: usize) -> Vec<String> {
    vec![format!("SET key:{:06} {}", n % KEYS, value(n))]
}

/// In the order of the table.
pub const KINDS: &[Kind] = &[
    Kind { name: "GET", commands: |n| vec![format!("GET key:{:06}", n % KEYS)], before: strings },
    Kind { name: "SET", commands: strings, before: strings },
    Kind {
        name: "INCR",
        commands: |n| vec![format!("INCR counter:{:06}", n % KEYS)],
        before: |n| vec![format!("SET counter:{:06} 1000000", n % KEYS)],
    },
    Kind {
        name: "LPUSH",
        commands: |n| vec![format!("LPUSH list:{:06} {:016}", n % KEYS, n)],
        before: nothing,
    },
    Kind {
        name: "ZADD",
        commands: |n| {
            let member = n / KEYS % MEMBERS;
            vec![format!("ZADD zset:{:06} {} member:{member}", n % KEYS, n % 1000)]
        },
        before: |n| vec![format!("ZADD zset:{:06} {n} member:{}", n % KEYS, n / KEYS % MEMBERS)],
    },
    Kind {
        name: "MULTI/EXEC",
        commands: |n| {
            let key = format!("key:{:06}", n % KEYS);
            vec![
                "MULTI".into(),
                format!("SET {key} {}", value(n)),
                format!("GET {key}"),
                "EXEC".into(),
            ]
        },
        before: strings,
    },
];

/// A connection to the server.
pub struct Connection(BufReader<TcpStream>);

impl Connection {
    pub fn open(port: u16) -> io::Result<Connection> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        Ok(Connection(BufReader::new(stream)))
    }

    /// Sends commands in one write and reads their replies.
    pub fn exchange(&mut self, commands: &[String]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for command in commands {
            let words: Vec<&str> = command.split(' ').collect();
            write!(bytes, "*{}\r\n", words.len())?;
            for word in words {
                write!(bytes, "${}\r\n{word}\r\n", word.len())?;
            }
        }
        self.0.get_mut().write_all(&bytes)?;
        commands.iter().try_for_each(|command| skip_reply(&mut self.0, command))
    }

    /// Empties the server and creates the data that `kind` needs.
    pub fn prepare(&mut self, kind: &Kind) -> io::Result<()> {
        self.exchange(&["FLUSHALL SYNC".to_string()])?;
        for n in 0..KEYS * MEMBERS {
            self.exchange(&(kind.before)(n))?;
        }
        Ok(())
    }

    /// Sends `count` requests of `kind`, `depth` in a write.
    pub fn send(&mut self, kind: &Kind, depth: usize, count: usize) -> io::Result<()> {
        for first in (0..count).step_by(depth) {
            let requests = first..(first + depth).min(count);
            let commands: Vec<String> = requests.flat_map(kind.commands).collect();
            self.exchange(&commands)?;
        }
        Ok(())
    }
}

/// Skips one reply of RESP2.
fn skip_reply(from: &mut impl BufRead, command: &str) -> io::Result<()> {
    let wrong = |what: String| io::Error::other(format!("{command}: {what}"));
    let mut left = 1u64;
    while left > 0 {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Err(wrong("closed by the server".to_string()));
        }
        left -= 1;
        let rest = line.get(1..).unwrap_or_default().trim_end();
        let number = || rest.parse::<i64>().map_err(|_| wrong(format!("no reply: {line:?}")));
        match line.as_bytes()[0] {
            b'+' | b':' => {}
            b'*' => left += number()?.max(0) as u64,
            b'$' => {
                let len = number()?;
                if len >= 0 {
                    io::copy(&mut from.take(len as u64 + 2), &mut io::sink())?;
                }
            }
            // An error reply is wrong too: then something else was measured.
            _ => return Err(wrong(line)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skipped(bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        skip_reply(&mut rest, "X").map(|()| bytes.len() - rest.len())
    }

    #[test]
    fn replies_are_skipped_whole() {
        for reply in [
            "+OK\r\n",
            ":12\r\n",
            "$3\r\na\r\n\r\n",
            "$-1\r\n",
            "*-1\r\n",
            "*2\r\n*1\r\n:1\r\n$0\r\n\r\n",
        ] {
            let twice = format!("{reply}+more\r\n");
            assert_eq!(skipped(twice.as_bytes()).unwrap(), reply.len(), "{reply:?}");
        }
    }

    #[test]
    fn errors_and_ends_are_refused() {
        for wrong in ["", "-ERR no\r\n", "*2\r\n:1\r\n", "$x\r\n"] {
            assert!(skipped(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn requests_are_the_same_at_every_depth() {
        for kind in KINDS {
            assert_eq!((kind.commands)(3), (kind.commands)(3));
            assert!(!(kind.commands)(0).is_empty());
        }
    }
}
