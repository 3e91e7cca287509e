//! Requests and replies of all kinds through TLS: large, many, pushed, blocked, on several threads.

use crate::certs::Certs;
use crate::client::TlsClient;
use std::io::Write;
use std::thread;
use weft_testkit::client::encode;
use weft_tests::scene::until_blocked;

/// Bytes that differ at every place.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 31 + n / 251) as u8).collect()
}

#[test]
fn values_of_all_lengths_come_back() {
    let certs = Certs::new();
    let (_server, port) = certs.weft(&[]);
    let mut client = TlsClient::new(&certs, port);
    let records = [16383, 16384, 16385, 32767, 32768];
    let large = [65535, 65536, 100_000, 1 << 20, (1 << 20) + 7, 20 << 20];
    for length in [0, 1, 100, 4096].into_iter().chain(records).chain(large) {
        let value = pattern(length);
        assert!(client.cmd(&["SET".as_bytes(), b"key", &value]).is_ok());
        let got = client.cmd(&["GET", "key"]);
        assert!(got.bytes() == Some(&value), "{length}");
    }
    // Pieces of a reply that share records, and ones that fill several.
    let values: Vec<Vec<u8>> = (0..40).map(|n| pattern(n * 1000)).collect();
    for value in &values {
        client.cmd(&["RPUSH".as_bytes(), b"list", value]);
    }
    let all = client.cmd(&["LRANGE", "list", "0", "-1"]);
    let got: Vec<&[u8]> = all.items().iter().filter_map(|item| item.bytes()).collect();
    assert!(got == values.iter().map(Vec::as_slice).collect::<Vec<_>>());
}

#[test]
fn large_values_in_a_pipeline_keep_their_order() {
    let certs = Certs::new();
    let (_server, port) = certs.weft(&[]);
    let mut client = TlsClient::new(&certs, port);
    let mut requests = Vec::new();
    for n in 0..50 {
        let key = format!("key:{n}");
        requests.extend(encode(&["SET".as_bytes(), key.as_bytes(), &pattern(n * 5000)]));
        requests.extend(encode(&["STRLEN", &key]));
    }
    client.send(&requests).unwrap();
    for n in 0..50 {
        assert!(client.read().unwrap().is_ok());
        assert_eq!(client.read().unwrap().int(), n * 5000);
    }
}

#[test]
fn pipeline_that_is_not_read_is_answered_later() {
    const REQUESTS: usize = 40;
    let certs = Certs::new();
    let (_server, port) = certs.weft(&[]);
    let mut client = TlsClient::new(&certs, port);
    let value = pattern(1 << 20);
    assert!(client.cmd(&["SET".as_bytes(), b"key", &value]).is_ok());
    // 40 MB that no socket buffer takes.
    client.send(&encode(&["GET", "key"]).repeat(REQUESTS)).unwrap();
    thread::sleep(std::time::Duration::from_millis(300));
    for _ in 0..REQUESTS {
        assert!(client.read().unwrap().bytes() == Some(&value));
    }
}

#[test]
fn messages_and_blocked_commands_arrive() {
    let certs = Certs::new();
    let (server, port) = certs.weft(&["--io-threads", "3"]);
    let mut plain = server.client();
    let mut subscriber = TlsClient::new(&certs, port);
    subscriber.cmd(&["SUBSCRIBE", "channel"]);
    let mut publisher = TlsClient::new(&certs, port);
    let message = "m".repeat(50_000);
    for _ in 0..100 {
        assert_eq!(publisher.cmd(&["PUBLISH", "channel", &message]).int(), 1);
    }
    for _ in 0..100 {
        assert_eq!(subscriber.read().unwrap().items()[2].text(), message);
    }
    let mut blocked = TlsClient::new(&certs, port);
    blocked.send(&encode(&["BLPOP", "list", "0"])).unwrap();
    until_blocked(&mut plain, 1);
    // Requests that come meanwhile are read ahead.
    blocked.send(&encode(&["PING"])).unwrap();
    publisher.cmd(&["RPUSH", "list", "element"]);
    assert_eq!(blocked.read().unwrap().items()[1].text(), "element");
    assert_eq!(blocked.read().unwrap().text(), "PONG");
    blocked.send(&encode(&["BLPOP", "list", "0"])).unwrap();
    until_blocked(&mut plain, 1);
    drop(blocked);
    until_blocked(&mut plain, 0);
}

#[test]
fn connections_move_between_threads() {
    let certs = Certs::new();
    let more = ["--io-threads", "4", "--io-threads-always-active", "yes"];
    let (server, port) = certs.weft(&[&more[..], &["--enable-debug-command", "yes"]].concat());
    let is_over = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..6)
            .map(|id| {
                let certs = &certs;
                scope.spawn(move || {
                    let mut client = TlsClient::new(certs, port);
                    let key = format!("key:{id}");
                    for n in 0..300 {
                        let value = pattern(n * 97 % 40_000);
                        assert!(client.cmd(&["SET".as_bytes(), key.as_bytes(), &value]).is_ok());
                        assert!(client.cmd(&["GET", &key]).bytes() == Some(&value));
                    }
                })
            })
            .collect();
        let mover = scope.spawn(|| {
            let mut client = server.client();
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                client.cmd(&["DEBUG", "MOVE-CLIENTS"]);
                thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let done: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        mover.join().unwrap();
        done.into_iter().for_each(|done| done.unwrap());
    });
}

#[test]
fn first_thread_may_do_everything_but_writing() {
    let certs = Certs::new();
    let (_server, port) = certs.weft(&["--io-threads", "3", "--io-threads-do-reads", "no"]);
    thread::scope(|scope| {
        for id in 0..20 {
            let certs = &certs;
            scope.spawn(move || {
                let mut client = TlsClient::new(certs, port);
                for n in 0..100 {
                    let text = format!("{id}:{n}").repeat(n * 20);
                    assert_eq!(client.cmd(&["ECHO", &text]).text(), text);
                }
            });
        }
    });
}

/// The request comes in the same segment as the last message of the handshake.
#[test]
fn request_right_after_the_handshake_is_answered() {
    let certs = Certs::new();
    let (_server, port) = certs.weft(&[]);
    for _ in 0..20 {
        let mut client = TlsClient::new(&certs, port);
        client.send(&encode(&["ECHO", "x"]).repeat(100)).unwrap();
        client.stream.flush().unwrap();
        for _ in 0..100 {
            assert_eq!(client.read().unwrap().text(), "x");
        }
    }
}
