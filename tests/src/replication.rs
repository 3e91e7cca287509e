//! Helpers for replication tests: peers, waits, and a primary scripted by the test.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use crate::persistence::{PATIENCE, until};
use weft_testkit::client::encode;
use weft_testkit::{Client, Server, skipped};

/// Programs of the peers, from the newest to the oldest.
const NAMES: [&str; 5] =
    ["valkey-server", "redis8-server", "valkey8-server", "redis7-server", "redis6-server"];

/// The peers that are installed in `PEERS_BIN`. Notes a skip for each missing one.
#[must_use]
pub fn peers() -> Vec<(&'static str, PathBuf)> {
    let folder = std::env::var_os("PEERS_BIN").map(PathBuf::from).unwrap_or_default();
    let found = NAMES.map(|name| (name, folder.join(name)));
    found
        .into_iter()
        .filter(|(name, program)| {
            let is_there = program.is_file();
            if !is_there {
                skipped::note_here(name);
            }
            is_there
        })
        .collect()
}

/// A field of INFO.
///
/// # Panics
/// If INFO has no such field.
#[track_caller]
pub fn info(client: &mut Client, field: &str) -> String {
    let text = client.cmd(&["INFO", "everything"]).text();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{field} in {text}")).to_string()
}

/// Waits until a replica's link to its primary is up.
///
/// # Panics
/// If it stays down.
#[track_caller]
pub fn wait_for_link(replica: &mut Client) {
    until("the link", || info(replica, "master_link_status") == "up");
}

/// Waits until a replica has applied all writes of its primary. No client may write meanwhile.
///
/// # Panics
/// If it does not catch up.
#[track_caller]
pub fn wait_until_caught_up(primary: &mut Client, replica: &mut Client) {
    until("equal offsets", || {
        info(replica, "master_link_status") == "up"
            && info(primary, "master_repl_offset") == info(replica, "slave_repl_offset")
    });
}

/// Waits until both report the same DEBUG DIGEST. Keys that expire meanwhile are removed a little
/// later on the replica.
///
/// # Panics
/// If the digests stay different.
#[track_caller]
pub fn wait_for_same_data(primary: &mut Client, replica: &mut Client) {
    let both = |primary: &mut Client, replica: &mut Client| {
        [primary, replica].map(|client| client.cmd(&["DEBUG", "DIGEST"]).to_string())
    };
    let mut last = both(primary, replica);
    let begun = std::time::Instant::now();
    while last[0] != last[1] {
        if begun.elapsed() > PATIENCE {
            let [ours, theirs] =
                [primary, replica].map(|client| client.cmd(&["INFO", "keyspace"]).text());
            panic!("the data differ: {last:?}\n{ours}\n{theirs}");
        }
        std::thread::sleep(Duration::from_millis(20));
        last = both(primary, replica);
    }
}

/// An RDB file without keys: magic, end, no checksum.
pub const NO_KEYS: &[u8] = b"REDIS0009\xff\0\0\0\0\0\0\0\0";

/// An RDB file with the key `old` of value `data` in database 0.
pub const ONE_KEY: &[u8] = b"REDIS0009\xfe\x00\x00\x03old\x04data\xff\0\0\0\0\0\0\0\0";

/// The replication id of fake primaries.
pub const ID: &str = "00112233445566778899aabbccddeeff00112233";

/// A primary that the test scripts.
pub struct FakePrimary {
    listener: TcpListener,
}

/// One connection of a replica to a [`FakePrimary`].
pub struct FakeLink {
    socket: TcpStream,
    got: Vec<u8>,
}

impl Default for FakePrimary {
    fn default() -> Self {
        FakePrimary::new()
    }
}

impl FakePrimary {
    /// # Panics
    /// If no port is free.
    #[must_use]
    pub fn new() -> FakePrimary {
        FakePrimary { listener: TcpListener::bind(("127.0.0.1", 0)).expect("a port") }
    }

    /// Never.
    #[must_use]
    pub fn port(&self) -> String {
        self.listener.local_addr().expect("an address").port().to_string()
    }

    /// Waits for the next connection.
    ///
    /// # Panics
    /// If accept fails.
    #[must_use]
    pub fn accept(&self) -> FakeLink {
        let (socket, _) = self.listener.accept().expect("a replica comes");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        FakeLink { socket, got: Vec::new() }
    }

    /// Accepts the next connection and answers the handshake up to PSYNC. Returns the words of
    /// PSYNC.
    ///
    /// # Panics
    /// If the replica sends another command.
    #[must_use]
    pub fn handshake(&self) -> (FakeLink, Vec<String>) {
        let mut link = self.accept();
        loop {
            let words = link.request();
            match words[0].as_str() {
                "PING" => link.raw(b"+PONG\r\n"),
                "REPLCONF" => link.raw(b"+OK\r\n"),
                "PSYNC" => return (link, words),
                other => panic!("{other} in a handshake"),
            }
        }
    }

    /// Like [`FakePrimary::handshake`], and then sends a copy at this offset: the replica is
    /// online.
    ///
    /// # Panics
    /// As [`FakePrimary::handshake`].
    #[must_use]
    pub fn copy(&self, file: &[u8], offset: u64) -> FakeLink {
        let (mut link, _) = self.handshake();
        link.raw(format!("+FULLRESYNC {ID} {offset}\r\n${}\r\n", file.len()).as_bytes());
        link.raw(file);
        link
    }
}

impl FakeLink {
    /// Sends raw bytes. A failed write is ignored.
    pub fn raw(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes);
    }

    /// Sends a command and returns its length in bytes, by which the offset grows.
    pub fn write(&mut self, words: &[&str]) -> u64 {
        let bytes = encode(words);
        self.raw(&bytes);
        bytes.len() as u64
    }

    /// The next request of the replica. Skips empty lines.
    ///
    /// # Panics
    /// If the connection ends first.
    #[track_caller]
    pub fn request(&mut self) -> Vec<String> {
        self.try_request().expect("a request of the replica")
    }

    /// The next request; `None` at the end of the connection.
    ///
    /// # Panics
    /// If the replica sends nothing within [`PATIENCE`].
    #[track_caller]
    pub fn try_request(&mut self) -> Option<Vec<String>> {
        loop {
            while self.got.first() == Some(&b'\n') {
                self.got.remove(0);
            }
            if let Some((words, used)) = parse(&self.got) {
                self.got.drain(..used);
                return Some(words);
            }
            let mut bytes = [0; 4096];
            match self.socket.read(&mut bytes) {
                Ok(0) => return None,
                Ok(n) => self.got.extend(&bytes[..n]),
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(e) => panic!("no bytes from the replica: {e}"),
            }
        }
    }

    /// Waits until the replica acknowledges this offset.
    ///
    /// # Panics
    /// If it acknowledges more, or nothing.
    #[track_caller]
    pub fn wait_for_ack(&mut self, offset: u64) {
        loop {
            let words = self.request();
            assert_eq!(words[..2], ["REPLCONF", "ACK"], "{words:?}");
            let acknowledged: u64 = words[2].parse().expect("an offset");
            assert!(acknowledged <= offset, "acknowledged {acknowledged} of {offset}");
            if acknowledged == offset {
                return;
            }
        }
    }
}

/// Parses a complete request at the front of `bytes`: its words and its length. Accepts inline
/// requests, too.
fn parse(bytes: &[u8]) -> Option<(Vec<String>, usize)> {
    let line = |from: usize| {
        let end = bytes[from..].windows(2).position(|at| at == b"\r\n")?;
        Some((String::from_utf8_lossy(&bytes[from..from + end]).into_owned(), from + end + 2))
    };
    let (head, mut at) = line(0)?;
    let Some(count) = head.strip_prefix('*') else {
        return Some((head.split(' ').map(str::to_string).collect(), at));
    };
    let mut words = Vec::new();
    for _ in 0..count.parse().expect("a count") {
        let (head, from) = line(at)?;
        let len: usize = head.strip_prefix('$').expect("a string").parse().expect("a length");
        let word = bytes.get(from..from + len)?;
        bytes.get(from + len + 1)?;
        words.push(String::from_utf8_lossy(word).into_owned());
        at = from + len + 2;
    }
    Some((words, at))
}

/// Makes a server replicate from this port.
///
/// # Panics
/// If the server refuses.
#[track_caller]
pub fn replicate_from(replica: &Server, port: &str) {
    replica.client().ok(&["REPLICAOF", "127.0.0.1", port]);
}
