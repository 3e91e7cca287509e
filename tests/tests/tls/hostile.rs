//! Clients that speak no TLS, break it, or stop in the middle: other clients notice nothing.
//!
//! | variable | meaning |
//! |---|---|
//! | `HALF_OPEN` | handshakes that don't end, default 200 |
//! | `GARBAGE` | connections with bytes that are no TLS, or TLS on the plain port, default 100 |
//! | `ONE_BYTE` | bytes of a value that is sent in records of one byte, default 300 |
//! | `CUT` | connections cut in the middle of a value, default 8 |
//! | `PASSWORDS` | wrong passwords, default 2,000 |
//! | `STRANGERS` | TLS connections that never log in, default 60 |

use crate::certs::Certs;
use crate::client::{TlsClient, config};
use rustls::pki_types::ServerName;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use weft_testkit::client::encode;
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server, locate};
use weft_tests::env_or;
use weft_tests::replicas::number;
use weft_tests::scene::until;

fn socket(port: u16) -> TcpStream {
    let socket = TcpStream::connect(("127.0.0.1", port)).expect("the port is open");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    socket
}

/// Reads to the end; an error is an end, too.
fn read_to_end(mut socket: TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let _ = socket.read_to_end(&mut all);
    all
}

/// A TLS client that is connected before an attack, and the server's state at that time.
struct Witness<'a> {
    server: &'a Server,
    client: TlsClient,
    observer: Client,
    memory: u64,
    log_lines: usize,
}

impl<'a> Witness<'a> {
    fn new(server: &'a Server, certs: &Certs, port: u16) -> Witness<'a> {
        Witness::with_password(server, certs, port, None)
    }

    fn with_password(
        server: &'a Server,
        certs: &Certs,
        port: u16,
        password: Option<&str>,
    ) -> Witness<'a> {
        let (mut client, mut observer) = (TlsClient::new(certs, port), server.client());
        if let Some(password) = password {
            assert!(client.cmd(&["AUTH", password]).is_ok());
            observer.ok(&["AUTH", password]);
        }
        let memory = number(&mut observer, "memory", "used_memory");
        let log_lines = server.log().lines().count();
        Witness { server, client, observer, memory, log_lines }
    }

    fn ping(&mut self) {
        assert_eq!(self.client.cmd(&["PING"]).text(), "PONG");
    }

    /// Bytes that the server has allocated since.
    fn growth(&mut self) -> u64 {
        number(&mut self.observer, "memory", "used_memory").saturating_sub(self.memory)
    }

    /// Checks that the attackers are gone, and have left neither memory nor lines in the log.
    fn check(mut self) {
        self.ping();
        until("the others are gone", || {
            number(&mut self.observer, "clients", "connected_clients") == 2
        });
        let growth = self.growth();
        assert!(growth < 4 << 20, "{growth} bytes");
        let log = self.server.log();
        assert!(log.lines().count() < self.log_lines + 10, "{log}");
    }
}

#[test]
fn plain_request_on_the_tls_port_is_closed() {
    let certs = Certs::new();
    let (server, port) = certs.weft(&["--loglevel", "verbose"]);
    for bytes in [&b"PING\r\n"[..], b"*1\r\n$4\r\nPING\r\n", &[0; 4096], b"GET / HTTP/1.1\r\n\r\n"]
    {
        let mut client = socket(port);
        client.write_all(bytes).unwrap();
        let reply = read_to_end(client);
        assert!(!reply.windows(4).any(|window| window == b"PONG"), "{reply:?}");
    }
    assert!(server.log().contains("Error accepting a client connection: "));
    assert_eq!(TlsClient::new(&certs, port).cmd(&["PING"]).text(), "PONG");
}

#[test]
fn tls_on_the_plain_port_fails() {
    let certs = Certs::new();
    let (server, _) = certs.weft(&[]);
    assert!(TlsClient::try_new(&certs, server.port(), "client").is_err());
    assert_eq!(server.client().cmd(&["PING"]).text(), "PONG");
}

/// The first message of a client.
fn hello(certs: &Certs) -> Vec<u8> {
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config(certs, "")), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

#[test]
fn garbage_leaves_nothing() {
    let certs = Certs::new();
    let (server, port) = certs.weft(&[]);
    let mut witness = Witness::new(&server, &certs, port);
    let (hello, mut rng) = (hello(&certs), Rng::new(29));
    for n in 0..env_or("GARBAGE", 100) {
        let random = rng.bytes(4096);
        // A header of TLS before random bytes is looked at longer.
        let framed = [&[22, 3, 1, 2, 0][..], &random].concat();
        let mut corrupt = hello.clone();
        corrupt[rng.below(hello.len())] ^= 1 << rng.below(8);
        let (to, bytes) = match n % 5 {
            0 => (port, &random[..]),
            1 => (port, &framed[..]),
            2 => (port, &corrupt[..]),
            3 => (port, &b"*1\r\n$4\r\nPING\r\n"[..]),
            _ => (server.port(), &hello[..]),
        };
        let mut client = socket(to);
        let _ = client.write_all(bytes);
        let _ = client.shutdown(Shutdown::Write);
        read_to_end(client);
        witness.ping();
    }
    witness.check();
}

#[test]
fn half_open_handshakes_end() {
    let certs = Certs::new();
    let (server, port) = certs.weft(&[]);
    let mut witness = Witness::new(&server, &certs, port);
    let count: usize = env_or("HALF_OPEN", 200);
    let begun: Vec<TcpStream> = (0..count)
        .map(|n| {
            let mut client = socket(port);
            if n % 2 == 0 {
                // The beginning of a ClientHello.
                client.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 0xfc]).unwrap();
            }
            client
        })
        .collect();
    witness.ping();
    assert_eq!(TlsClient::new(&certs, port).cmd(&["PING"]).text(), "PONG");
    let growth = witness.growth();
    assert!(growth < 20_000 * count as u64 + (4 << 20), "{growth} bytes");
    begun.into_iter().for_each(|client| drop(read_to_end(client)));
    // The server keeps the places of closed connections for new ones.
    witness.memory += 2_000 * count as u64;
    witness.check();
}

#[test]
fn records_of_one_byte_are_read() {
    let certs = Certs::new();
    let (_server, port) = certs.weft(&[]);
    let mut client = TlsClient::new(&certs, port);
    let value = "x".repeat(env_or("ONE_BYTE", 300));
    for byte in encode(&["SET", "key", &value]) {
        client.send(&[byte]).unwrap();
    }
    assert!(client.read().unwrap().is_ok());
    assert_eq!(client.cmd(&["GET", "key"]).text(), value);
}

#[test]
fn close_in_the_middle_of_a_value_changes_nothing() {
    let certs = Certs::new();
    let (server, port) = certs.weft(&[]);
    let mut witness = Witness::new(&server, &certs, port);
    let request = encode(&["SET".as_bytes(), b"key", &vec![b'x'; 1 << 20]]);
    let lengths = [10, 1000, 200_000, request.len() - 1];
    for n in 0..env_or::<usize>("CUT", 8) {
        let mut client = TlsClient::new(&certs, port);
        client.send(&request[..lengths[n / 2 % 4]]).unwrap();
        if n % 2 == 0 {
            client.stream.conn.send_close_notify();
            let _ = client.stream.flush();
        }
        client.stream.sock.shutdown(Shutdown::Both).unwrap();
        witness.ping();
    }
    assert_eq!(witness.client.cmd(&["EXISTS", "key"]).int(), 0);
    witness.check();
}

#[test]
fn broken_record_closes_only_its_connection() {
    let certs = Certs::new();
    let (_server, port) = certs.weft(&[]);
    let mut other = TlsClient::new(&certs, port);
    let mut client = TlsClient::new(&certs, port);
    // A record of application data that no key has encrypted.
    let mut forged = vec![23, 3, 3, 0, 64];
    forged.extend([7; 64]);
    client.stream.sock.write_all(&forged).unwrap();
    assert!(client.try_cmd(&["PING"]).is_err());
    assert_eq!(other.cmd(&["PING"]).text(), "PONG");
}

/// `R` makes `openssl s_client` ask for another handshake.
#[test]
fn renegotiation_is_refused() {
    let Some(openssl) = locate::program("openssl") else {
        return weft_testkit::skipped::note_here("there is no openssl");
    };
    let certs = Certs::new();
    let (server, port) = certs.weft(&["--tls-auth-clients", "no"]);
    let witness = Witness::new(&server, &certs, port);
    let mut client = Command::new(openssl)
        .args(["s_client", "-tls1_2", "-connect", &format!("127.0.0.1:{port}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = client.stdin.take().unwrap();
    input.write_all(b"R\n").unwrap();
    // It ends at the refusal, though its input stays open.
    let output = client.wait_with_output().unwrap();
    let [out, err] =
        [output.stdout, output.stderr].map(|o| String::from_utf8_lossy(&o).into_owned());
    assert!(out.contains("RENEGOTIATING") || err.contains("RENEGOTIATING"), "{out}{err}");
    assert!(err.contains("no renegotiation"), "{out}{err}");
    drop(input);
    witness.check();
}

#[test]
fn wrong_passwords_leave_nothing() {
    const CLIENTS: usize = 4;
    /// More would exceed the replies that a client may owe before it logs in.
    const DEPTH: usize = 10;
    let certs = Certs::new();
    let (server, port) = certs.weft(&["--requirepass", "secret"]);
    let mut witness = Witness::with_password(&server, &certs, port, Some("secret"));
    let mut clients: Vec<TlsClient> = (0..CLIENTS).map(|_| TlsClient::new(&certs, port)).collect();
    let rounds = env_or("PASSWORDS", 2000) / (CLIENTS * DEPTH);
    for round in 0..rounds {
        for client in &mut clients {
            let requests = (0..DEPTH).flat_map(|n| encode(&["AUTH", &format!("wrong{round}.{n}")]));
            client.send(&requests.collect::<Vec<u8>>()).unwrap();
            for _ in 0..DEPTH {
                let reply = client.read().unwrap();
                assert!(reply.error().unwrap().starts_with("WRONGPASS"), "{reply}");
            }
        }
        witness.ping();
    }
    let refused = number(&mut witness.observer, "stats", "acl_access_denied_auth");
    assert_eq!(refused, (rounds * CLIENTS * DEPTH) as u64);
    assert!(witness.client.cmd(&["ACL", "LOG"]).items().len() <= 128);
    let mut last = clients.pop().unwrap();
    assert!(last.cmd(&["AUTH", "secret"]).is_ok());
    drop((clients, last));
    witness.check();
}

#[test]
fn strangers_with_tls_have_a_share_of_maxclients() {
    let certs = Certs::new();
    let limits = ["--requirepass", "secret", "--unauthenticated-clients-percent", "10"];
    let (server, port) = certs.weft(&[&limits[..], &["--maxclients", "100"]].concat());
    let mut witness = Witness::with_password(&server, &certs, port, Some("secret"));
    let mut strangers = Vec::new();
    for n in 0..env_or("STRANGERS", 60) {
        match n % 2 {
            // Without a handshake, and with one.
            0 => strangers.push(socket(port)),
            _ => strangers.push(TlsClient::new(&certs, port).stream.sock),
        }
        witness.ping();
    }
    let mut user = TlsClient::new(&certs, port);
    assert!(user.cmd(&["AUTH", "secret"]).is_ok());
    let connected = number(&mut witness.observer, "clients", "connected_clients");
    assert!(connected <= 10 + 3, "{connected} clients");
    drop((user, strangers));
    witness.check();
}
