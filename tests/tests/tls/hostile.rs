//! Clients that speak no TLS, break it, or stop in the middle: other clients notice nothing.

use crate::certs::Certs;
use crate::client::TlsClient;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;
use weft_testkit::Client;
use weft_testkit::client::encode;
use weft_tests::replicas::number;
use weft_tests::scene::until;

fn socket(port: u16) -> TcpStream {
    let socket = TcpStream::connect(("127.0.0.1", port)).expect("the port is open");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    socket
}

/// Waits until `observer` is the only client.
fn until_alone(observer: &mut Client) {
    until("the others are gone", || number(observer, "clients", "connected_clients") == 1);
}

/// Reads to the end; an error is an end, too.
fn read_to_end(mut socket: TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let _ = socket.read_to_end(&mut all);
    all
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

#[test]
fn half_open_handshakes_end() {
    let certs = Certs::new();
    let (server, port) = certs.weft(&[]);
    // The beginning of a ClientHello.
    let silent: Vec<TcpStream> = (0..100).map(|_| socket(port)).collect();
    let begun: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut client = socket(port);
            client.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 0xfc]).unwrap();
            client
        })
        .collect();
    assert_eq!(TlsClient::new(&certs, port).cmd(&["PING"]).text(), "PONG");
    let mut observer = server.client();
    for client in silent.into_iter().chain(begun) {
        read_to_end(client);
    }
    until_alone(&mut observer);
}

#[test]
fn records_of_one_byte_are_read() {
    let certs = Certs::new();
    let (_server, port) = certs.weft(&[]);
    let mut client = TlsClient::new(&certs, port);
    let value = "x".repeat(300);
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
    let request = encode(&["SET".as_bytes(), b"key", &vec![b'x'; 1 << 20]]);
    for notifies in [false, true] {
        for length in [10, 1000, 200_000, request.len() - 1] {
            let mut client = TlsClient::new(&certs, port);
            client.send(&request[..length]).unwrap();
            if notifies {
                client.stream.conn.send_close_notify();
                let _ = client.stream.flush();
            }
            client.stream.sock.shutdown(Shutdown::Both).unwrap();
        }
    }
    let mut observer = server.client();
    until_alone(&mut observer);
    assert_eq!(observer.cmd(&["EXISTS", "key"]).int(), 0);
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
