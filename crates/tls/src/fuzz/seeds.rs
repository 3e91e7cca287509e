//! First inputs for the fuzzer, recorded from real handshakes.

use super::Head;
use super::client::{connection, encode_chain, flight, with_chain};
use super::fixture::FIXTURE;
use super::receive::receive;
use crate::{Contexts, Session};

/// The bytes of both sides in one handshake.
#[derive(Default)]
struct Recording {
    client: Vec<u8>,
    server: Vec<u8>,
}

fn record(contexts: &Contexts) -> Recording {
    let mut client = connection(with_chain(contexts, FIXTURE.chain.clone()));
    let mut server = Session::server(contexts.server.clone()).expect("random numbers");
    let mut all = Recording::default();
    while client.is_handshaking() || !server.is_established() {
        let sent = flight(&mut client);
        all.client.extend_from_slice(&sent);
        let answers = receive(&mut server, &sent, usize::MAX, &mut |_| {}).expect("honest");
        all.server.extend_from_slice(&answers);
        let mut rest = &answers[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).expect("memory");
            client.process_new_packets().expect("honest");
        }
    }
    all
}

/// Records of an established client: what each is, and its bytes.
fn records(list: &[(u8, &[u8])]) -> Vec<u8> {
    let encode = |(what, bytes): &(u8, &[u8])| {
        assert!(bytes.len() < 256);
        [&[*what, bytes.len() as u8], *bytes].concat()
    };
    list.iter().flat_map(encode).collect()
}

/// Names of files, and their contents.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for (is_tls13, version) in [(false, "12"), (true, "13")] {
        let mut add = |name: &str, kind, portion, bytes: &[u8]| {
            let head = Head { kind, is_tls13, portion }.encode();
            all.push((format!("seed-{name}-{version}"), [&head, bytes].concat()));
        };
        let recording = record(&FIXTURE.contexts[usize::from(is_tls13)]);
        let hello = 5 + usize::from(u16::from_be_bytes([recording.client[3], recording.client[4]]));
        let hello = &recording.client[..hello];
        add("hello", 0, usize::MAX, hello);
        add("client", 0, 20, &recording.client);
        add("server", 3, usize::MAX, &recording.server);
        add("chain", 2, usize::MAX, &encode_chain(&FIXTURE.chain));
        add("authority", 2, usize::MAX, &encode_chain(&FIXTURE.chain[1..]));
        let ping = b"*1\r\n$4\r\nPING\r\n";
        add(
            "requests",
            1,
            7,
            &records(&[(0, ping), (6, b"+PONG\r\n"), (0, ping), (7, &[b'x'; 255])]),
        );
        // An update of the keys that asks for one of the server's, in two parts around a reply.
        add(
            "key-update",
            1,
            usize::MAX,
            &records(&[(1, &[24, 0]), (6, ping), (1, &[0, 1, 1]), (0, ping)]),
        );
        // Renegotiation.
        let (first, second) = hello[5..].split_at(hello[5..].len().min(200));
        add(
            "hello-again",
            1,
            usize::MAX,
            &records(&[(0, ping), (1, first), (1, second), (0, ping)]),
        );
        add("close", 1, 3, &records(&[(0, ping), (2, &[1, 0]), (0, ping)]));
        let warnings = [(2, &[1, 100][..]); 8];
        add("warnings", 1, usize::MAX, &records(&[&warnings[..], &[(0, ping)]].concat()));
        add("replay", 1, usize::MAX, &records(&[(0, ping), (5, b"")]));
        let forged = [
            23, 3, 3, 0, 24, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
        ];
        add("forged", 1, usize::MAX, &records(&[(0, ping), (4, &forged), (3, &[1])]));
    }
    for (name, bytes) in
        [("plain", &b"*1\r\n$4\r\nPING\r\n"[..]), ("http", b"GET / HTTP/1.1\r\n\r\n")]
    {
        let head = Head { kind: 0, is_tls13: true, portion: usize::MAX }.encode();
        all.push((format!("seed-{name}"), [&head, bytes].concat()));
    }
    all
}
