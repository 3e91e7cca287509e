//! Replicas of a server under test: real servers, sockets scripted by the test, and links that the
//! test cuts.

use crate::contents::{fill_stream, value};
use crate::persistence::PATIENCE;
use crate::replication;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use weft_testkit::client::encode;
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server, locate, skipped};

/// Installed servers that can replicate from another one. Notes a skip for each missing one.
#[must_use]
pub fn replica_programs() -> Vec<(&'static str, PathBuf)> {
    let all = [("valkey", locate::valkey()), ("redis8", locate::redis8())];
    let there = all.into_iter().filter_map(|(name, program)| {
        if program.is_none() {
            skipped::note_here(name);
        }
        Some((name, program?))
    });
    there.collect()
}

/// Starts a server that replicates from this port.
#[must_use]
#[track_caller]
pub fn start_replica(name: &'static str, program: &Path, port: u16, more: &[&str]) -> Server {
    let port = port.to_string();
    let follows =
        ["--replicaof", "127.0.0.1", &port, "--save", "", "--enable-debug-command", "yes"];
    Server::start(name, program, &[&follows[..], more].concat())
}

/// The fields of a section of INFO.
#[must_use]
pub fn fields(client: &mut Client, section: &str) -> BTreeMap<String, String> {
    let text = client.cmd(&["INFO", section]).text();
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// A field of INFO as a number.
///
/// # Panics
/// If the field is missing or is not a number.
#[must_use]
#[track_caller]
pub fn number(client: &mut Client, section: &str, name: &str) -> u64 {
    let all = fields(client, section);
    let text = all.get(name).unwrap_or_else(|| panic!("no {name} in {all:?}"));
    text.parse().unwrap_or_else(|_| panic!("{name}: {text}"))
}

/// As [`replication::wait_until_caught_up`], for two servers.
#[track_caller]
pub fn wait_until_caught_up(primary: &Server, replica: &Server) {
    replication::wait_until_caught_up(&mut primary.client(), &mut replica.client());
}

/// As [`replication::wait_for_same_data`], for two servers.
#[track_caller]
pub fn wait_for_same_data(primary: &Server, replica: &Server) {
    replication::wait_for_same_data(&mut primary.client(), &mut replica.client());
}

/// Writes values of all types and encodings to several databases. Some have an expiry far in the
/// future.
///
/// # Panics
/// If the server refuses one.
#[track_caller]
pub fn fill(server: &Server, seed: u64, has_field_expiry: bool) {
    const FAR_MS: i64 = 4_102_444_800_000;
    let (mut client, mut rng) = (server.client(), Rng::new(seed));
    for db in ["0", "3", "15"] {
        client.ok(&["SELECT", db]);
        for n in 0..60 {
            let key = format!("key:{n}");
            client.cmd(&["DEL", &key]);
            for command in value(&mut rng, key.as_bytes()) {
                let reply = client.cmd(&command);
                assert!(reply.error().is_none(), "{reply}");
            }
            if rng.percent(30) {
                client.cmd(&["PEXPIREAT", &key, &(FAR_MS + n).to_string()]);
            }
            if has_field_expiry && client.cmd(&["TYPE", &key]).text() == "hash" {
                let field = client.cmd(&["HRANDFIELD", &key]);
                let (field, at) = (field.bytes().expect("a field"), (FAR_MS + n).to_string());
                client.cmd(&[b"HPEXPIREAT", key.as_bytes(), at.as_bytes(), b"FIELDS", b"1", field]);
            }
        }
        client.cmd(&["DEL", "stream"]);
        fill_stream(&mut client, &mut rng, "stream");
    }
}

/// A connection that the test drives as a replica.
pub struct RawReplica {
    socket: TcpStream,
    got: Vec<u8>,
}

impl RawReplica {
    /// # Panics
    /// If no server listens.
    #[must_use]
    pub fn new(server: &Server) -> RawReplica {
        let socket = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        RawReplica { socket, got: Vec::new() }
    }

    /// Sends a command. A failed write is ignored: the next read shows it.
    pub fn send(&mut self, words: &[&str]) {
        let _ = self.socket.write_all(&encode(words));
    }

    /// Sends raw bytes. A failed write is ignored.
    pub fn raw(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes);
    }

    /// Reads more bytes from the socket; false at the end of the connection.
    ///
    /// # Panics
    /// If no bytes come within [`PATIENCE`].
    #[track_caller]
    fn read_more(&mut self) -> bool {
        let mut bytes = [0; 64 << 10];
        match self.socket.read(&mut bytes) {
            Ok(n) => {
                self.got.extend(&bytes[..n]);
                n > 0
            }
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(e) => panic!("no bytes from the server: {e}"),
        }
    }

    /// The next line, without its line end. Skips empty lines, which primaries send as keep-alives.
    ///
    /// # Panics
    /// If the connection ends first.
    #[track_caller]
    pub fn line(&mut self) -> String {
        loop {
            while self.got.first() == Some(&b'\n') {
                self.got.remove(0);
            }
            if let Some(end) = self.got.windows(2).position(|at| at == b"\r\n") {
                let line = String::from_utf8_lossy(&self.got[..end]).into_owned();
                self.got.drain(..end + 2);
                return line;
            }
            assert!(self.read_more(), "closed in the middle of a line: {:?}", self.got);
        }
    }

    /// Sends a command and reads a line.
    #[track_caller]
    pub fn ask(&mut self, words: &[&str]) -> String {
        self.send(words);
        self.line()
    }

    /// Reads this number of bytes.
    ///
    /// # Panics
    /// If the connection ends first.
    #[track_caller]
    pub fn take(&mut self, bytes: usize) -> Vec<u8> {
        while self.got.len() < bytes {
            assert!(self.read_more(), "closed after {} of {bytes} bytes", self.got.len());
        }
        self.got.drain(..bytes).collect()
    }

    /// Reads the RDB copy: of a known length, or up to its EOF mark.
    ///
    /// # Panics
    /// If no copy comes.
    #[track_caller]
    pub fn read_copy(&mut self) -> Vec<u8> {
        let head = self.line();
        if let Some(mark) = head.strip_prefix("$EOF:") {
            let mut from = 0;
            loop {
                let found = self.got[from..].windows(40).position(|at| at == mark.as_bytes());
                if let Some(at) = found {
                    let copy = self.take(from + at);
                    self.take(mark.len());
                    return copy;
                }
                from = self.got.len().saturating_sub(40);
                assert!(self.read_more(), "closed in the middle of the copy");
            }
        }
        let length = head.strip_prefix('$').and_then(|length| length.parse().ok());
        self.take(length.unwrap_or_else(|| panic!("no copy: {head}")))
    }

    /// Sends the handshake and requests a full sync. Returns the replication id and the offset of
    /// the copy.
    ///
    /// # Panics
    /// If the server answers anything else.
    #[track_caller]
    pub fn full_sync(&mut self) -> (String, u64) {
        for words in
            [&["REPLCONF", "capa", "eof", "capa", "psync2"][..], &["REPLCONF", "version", "9.1.0"]]
        {
            assert_eq!(self.ask(words), "+OK");
        }
        let line = self.ask(&["PSYNC", "?", "-1"]);
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[0], "+FULLRESYNC", "{line}");
        (words[1].to_string(), words[2].parse().expect("an offset"))
    }

    /// Reads once and discards the bytes received so far.
    ///
    /// # Panics
    /// If the connection is closed.
    #[track_caller]
    pub fn discard(&mut self) {
        assert!(self.read_more(), "closed");
        self.got.clear();
    }

    /// Reads to the end of the connection.
    ///
    /// # Panics
    /// If the connection does not end.
    #[track_caller]
    pub fn read_to_end(&mut self) -> Vec<u8> {
        while self.read_more() {}
        std::mem::take(&mut self.got)
    }
}

/// A link that can be cut: a proxy that forwards connections on its port to another port.
pub struct Link {
    port: u16,
    inner: Arc<Inner>,
}

struct Inner {
    to: u16,
    ends: Mutex<Vec<TcpStream>>,
    is_over: AtomicBool,
}

impl Link {
    /// A link to the server on this port.
    ///
    /// # Panics
    /// If no port is free.
    #[must_use]
    pub fn to(port: u16) -> Link {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let own = listener.local_addr().expect("an address").port();
        let (ends, is_over) = (Mutex::default(), AtomicBool::new(false));
        let inner = Arc::new(Inner { to: port, ends, is_over });
        let accepts = inner.clone();
        std::thread::spawn(move || {
            for from in listener.incoming().map_while(Result::ok) {
                if accepts.is_over.load(Ordering::SeqCst) {
                    return;
                }
                accepts.join(from);
            }
        });
        Link { port: own, inner }
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts all connections of the link. New connections work again.
    ///
    /// # Panics
    /// Never.
    pub fn cut(&self) {
        for end in self.inner.ends.lock().expect("no thread panics with the lock").drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.inner.is_over.store(true, Ordering::SeqCst);
        self.cut();
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Inner {
    fn join(&self, from: TcpStream) {
        let Ok(to) = TcpStream::connect(("127.0.0.1", self.to)) else { return };
        let pairs = [(&from, &to), (&to, &from)];
        for (read, write) in pairs {
            let (Ok(mut read), Ok(mut write)) = (read.try_clone(), write.try_clone()) else {
                return;
            };
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut read, &mut write);
                let _ = read.shutdown(Shutdown::Both);
                let _ = write.shutdown(Shutdown::Both);
            });
        }
        self.ends.lock().expect("no thread panics with the lock").extend([from, to]);
    }
}
