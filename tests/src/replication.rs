//! What tests of replication share: peers, waiting, and a primary that says what the test wants.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use crate::persistence::{PATIENCE, until};
use weft_testkit::client::encode;
use weft_testkit::{Client, Server, skipped};

/// Servers that others run, from the newest to the oldest, by the names of their programs.
const NAMES: [&str; 5] =
    ["valkey-server", "redis8-server", "valkey8-server", "redis7-server", "redis6-server"];

/// Those of them that are in `PEERS_BIN`. For the others a skip is noted.
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
/// When there is none of that name.
#[track_caller]
pub fn info(client: &mut Client, field: &str) -> String {
    let text = client.cmd(&["INFO", "everything"]).text();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{field} in {text}")).to_string()
}

/// Waits until a replica has its primary's stream.
///
/// # Panics
/// When it never has.
#[track_caller]
pub fn linked(replica: &mut Client) {
    until("the link", || info(replica, "master_link_status") == "up");
}

/// Waits until a replica has all that its primary has written, which nobody adds to.
///
/// # Panics
/// When it never has.
#[track_caller]
pub fn caught_up(primary: &mut Client, replica: &mut Client) {
    until("equal offsets", || {
        info(replica, "master_link_status") == "up"
            && info(primary, "master_repl_offset") == info(replica, "slave_repl_offset")
    });
}

/// Waits until both have the same data, as both reckon it. What expires meanwhile goes at the replica a
/// little later.
///
/// # Panics
/// When they never have.
#[track_caller]
pub fn same_data(primary: &mut Client, replica: &mut Client) {
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

/// A file without keys: magic, end, no checksum.
pub const NO_KEYS: &[u8] = b"REDIS0009\xff\0\0\0\0\0\0\0\0";

/// A file with the key `old` of the value `data` in database 0.
pub const ONE_KEY: &[u8] = b"REDIS0009\xfe\x00\x00\x03old\x04data\xff\0\0\0\0\0\0\0\0";

/// What fake primaries call their history.
pub const ID: &str = "00112233445566778899aabbccddeeff00112233";

/// A primary that does what the test says.
pub struct FakePrimary {
    listener: TcpListener,
}

/// One connection of a replica to it.
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
    /// Without a free port.
    #[must_use]
    pub fn new() -> FakePrimary {
        FakePrimary { listener: TcpListener::bind(("127.0.0.1", 0)).expect("a port") }
    }

    /// Its port.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn port(&self) -> String {
        self.listener.local_addr().expect("an address").port().to_string()
    }

    /// Waits for the next connection.
    ///
    /// # Panics
    /// When the system fails.
    #[must_use]
    pub fn accept(&self) -> FakeLink {
        let (socket, _) = self.listener.accept().expect("a replica comes");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        FakeLink { socket, got: Vec::new() }
    }

    /// Waits for the next connection, and answers all up to PSYNC: the words of that.
    ///
    /// # Panics
    /// When the replica says something else.
    #[must_use]
    pub fn shake_hands(&self) -> (FakeLink, Vec<String>) {
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

    /// The same, and gives it a copy at this offset: online.
    ///
    /// # Panics
    /// As [`FakePrimary::shake_hands`].
    #[must_use]
    pub fn copy(&self, file: &[u8], offset: u64) -> FakeLink {
        let (mut link, _) = self.shake_hands();
        link.raw(format!("+FULLRESYNC {ID} {offset}\r\n${}\r\n", file.len()).as_bytes());
        link.raw(file);
        link
    }
}

impl FakeLink {
    /// Sends bytes as they are; that nobody takes them is no failure.
    pub fn raw(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes);
    }

    /// Sends a command: its bytes count.
    pub fn write(&mut self, words: &[&str]) -> u64 {
        let bytes = encode(words);
        self.raw(&bytes);
        bytes.len() as u64
    }

    /// The next request of the replica. Bare line ends are passed over.
    ///
    /// # Panics
    /// When there comes none.
    #[track_caller]
    pub fn request(&mut self) -> Vec<String> {
        self.try_request().expect("a request of the replica")
    }

    /// The same; `None` at the end of the connection.
    ///
    /// # Panics
    /// When it stays silent.
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
                Err(e) => panic!("the replica says nothing: {e}"),
            }
        }
    }

    /// Waits until the replica confirms this offset.
    ///
    /// # Panics
    /// When it confirms more, or nothing.
    #[track_caller]
    pub fn confirmed(&mut self, offset: u64) {
        loop {
            let words = self.request();
            assert_eq!(words[..2], ["REPLCONF", "ACK"], "{words:?}");
            let told: u64 = words[2].parse().expect("an offset");
            assert!(told <= offset, "{told} are confirmed, of {offset}");
            if told == offset {
                return;
            }
        }
    }
}

/// A request at the front, if it is complete: its words and its length. One in a line is one, too.
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

/// Has a server follow another one.
///
/// # Panics
/// When it refuses.
#[track_caller]
pub fn follow(replica: &Server, port: &str) {
    replica.client().ok(&["REPLICAOF", "127.0.0.1", port]);
}
