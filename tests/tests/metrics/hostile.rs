//! Clients that want to harm.

use std::io::{Read, Write};
use weft_tests::watched::{Response, Watched};

/// Connections at one time: a new one takes the place of the oldest.
const MOST: usize = 32;

#[test]
fn nonsense_is_refused() {
    let watched = Watched::start(&[]);
    for request in [
        &b"\r\n\r\n\r\nX\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nA b: c\r\n\r\n",
    ] {
        let response = watched.raw(request);
        let is_error = response.is_empty() || Response::parse(&response).status >= 400;
        assert!(is_error, "{}", response.escape_ascii());
    }
    assert_eq!(watched.get("/healthz").status, 200);
}

#[test]
fn huge_requests_are_refused() {
    let watched = Watched::start(&[]);
    let long = "x".repeat(1 << 20);
    let line = watched.raw(format!("GET /{long} HTTP/1.1\r\n\r\n").as_bytes());
    assert!(line.is_empty() || Response::parse(&line).status >= 400);
    let header = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: {long}\r\n\r\n");
    let header = watched.raw(header.as_bytes());
    assert!(header.is_empty() || Response::parse(&header).status == 431);
    let many: String = (0..100).map(|n| format!("A{n}: b\r\n")).collect();
    assert_eq!(watched.send("GET", "/metrics", &many).status, 431);
    // The body of a request is not read.
    let body = "Content-Length: 1000000000\r\n";
    assert_eq!(watched.send("GET", "/healthz", body).status, 200);
    assert_eq!(watched.get("/healthz").status, 200);
}

/// Connections that send nothing, or a byte now and then, don't keep others out.
#[test]
fn slow_clients_lose_their_place() {
    let watched = Watched::start(&[]);
    let mut slow: Vec<_> = (0..4 * MOST).map(|_| watched.connect()).collect();
    for stream in &mut slow {
        // Connections that have lost their place may refuse it.
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nX");
    }
    for _ in 0..2 * MOST {
        assert_eq!(watched.get("/healthz").status, 200);
    }
    // The oldest ones are closed without a response.
    let mut rest = Vec::new();
    let _ = slow[0].read_to_end(&mut rest);
    assert!(rest.is_empty());
    let descriptors = || {
        std::fs::read_dir(format!("/proc/{}/fd", watched.server.pid())).expect("it lives").count()
    };
    assert!(descriptors() < 4 * MOST, "{}", descriptors());
}

/// Responses that no client reads are given up, and don't delay others.
#[test]
fn clients_that_do_not_read_harm_no_one() {
    let watched = Watched::start(&[]);
    let mut greedy: Vec<_> = (0..2 * MOST).map(|_| watched.connect()).collect();
    for stream in &mut greedy {
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    assert_eq!(watched.get("/metrics").status, 200);
    assert_eq!(watched.server.client().cmd(&["PING"]).text(), "PONG");
}

/// One connection carries one request.
#[test]
fn further_requests_are_ignored() {
    let watched = Watched::start(&[]);
    let twice =
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
    let response = watched.raw(twice);
    let count = response.windows(8).filter(|part| part == b"HTTP/1.1").count();
    assert_eq!(count, 1, "{}", response.escape_ascii());
}
