//! Connections shared by many requests, as in client libraries: one thread writes, another reads,
//! with up to two thousand requests in flight.

use crate::Run;
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;
use weft_testkit::client;

/// The maximum number of requests in flight, and of requests in one write.
const IN_FLIGHT: usize = 2000;
const AT_ONCE: usize = 500;
/// The number of pieces of the maximum size in flight.
const PIECES: usize = IN_FLIGHT / AT_ONCE;

/// The expected reply.
#[derive(Clone, Copy)]
enum Expected {
    /// The next number of the client's own key.
    Next,
    /// A higher number of the shared key than the last one.
    Higher,
    /// The number of elements of a long command.
    Elements,
}

/// Requests that were written together.
struct Piece {
    at: Instant,
    expected: Vec<Expected>,
}

/// Counts in its own key and in a shared key, with long commands in between.
pub fn counts(run: &Run<'_>, nth: u64) {
    let stream = connect(run);
    let (to, from) = sync_channel::<Piece>(PIECES);
    std::thread::scope(|scope| {
        let reader = stream.try_clone().expect("a descriptor");
        scope.spawn(move || read(run, reader, &from));
        let mut rng = run.rng(nth);
        let own = client::encode(&["INCR", &format!("own:{nth}")]);
        let shared = client::encode(&["INCR", "shared"]);
        let long = client::encode(&["LRANGE", "long", "0", "-1"]);
        while run.should_continue() {
            // Every third client sends one request at a time.
            let count = if nth.is_multiple_of(3) { 1 } else { 1 + rng.below(AT_ONCE) };
            let (mut bytes, mut expected) = (Vec::new(), Vec::new());
            for _ in 0..count {
                let (request, what) = match rng.below(2000) {
                    0 => (&long, Expected::Elements),
                    n if n.is_multiple_of(4) => (&shared, Expected::Higher),
                    _ => (&own, Expected::Next),
                };
                bytes.extend_from_slice(request);
                expected.push(what);
            }
            // Announce the piece first: the reader reads only replies that it expects.
            if to.send(Piece { at: Instant::now(), expected }).is_err() {
                return;
            }
            // Split the write at a random position.
            let cut = rng.below(bytes.len());
            let written = (&stream)
                .write_all(&bytes[..cut])
                .and_then(|()| (&stream).write_all(&bytes[cut..]));
            written.unwrap_or_else(|e| run.fail("writing INCRs", &e));
        }
        drop(to);
    });
}

fn connect(run: &Run<'_>) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", run.server.port())).expect("connected");
    stream.set_nodelay(true).expect("a socket");
    stream.set_read_timeout(Some(run.deadline)).expect("a socket");
    // Writing waits for reading when the server's buffers are full, so it has the deadline, too.
    stream.set_write_timeout(Some(run.deadline)).expect("a socket");
    let mut lines = BufReader::new(stream.try_clone().expect("a descriptor"));
    (&stream).write_all(&client::encode(&["HELLO", "3"])).expect("written");
    // The reply is a map whose last value is an empty array.
    let mut line = String::new();
    while line.trim() != "*0" {
        line.clear();
        lines.read_line(&mut line).expect("a greeting");
    }
    stream
}

fn read(run: &Run<'_>, stream: TcpStream, from: &Receiver<Piece>) {
    let mut lines = BufReader::new(stream);
    let (mut own, mut shared) = (0, 0);
    while let Ok(piece) = from.recv() {
        let count = piece.expected.len();
        for (n, expected) in piece.expected.into_iter().enumerate() {
            let what = format!("reply {n} of {count}, own counter at {own}");
            let got = number(&mut lines).unwrap_or_else(|e| run.fail(&what, &e));
            match expected {
                Expected::Next => {
                    own += 1;
                    assert_eq!(got, own, "a reply out of order");
                }
                Expected::Higher => {
                    assert!(got > shared, "{got} after {shared}");
                    shared = got;
                }
                Expected::Elements => {
                    for _ in 0..2 * got {
                        line(&mut lines).unwrap_or_else(|e| run.fail(&what, &e));
                    }
                }
            }
        }
        let took = piece.at.elapsed();
        if took > run.deadline {
            run.fail(&format!("{count} replies took {took:?}"), &io::ErrorKind::TimedOut.into());
        }
        run.count(count as u64);
    }
}

fn line(lines: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    match lines.read_line(&mut line)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line),
    }
}

/// An integer, or the length of an array.
fn number(lines: &mut impl BufRead) -> io::Result<u64> {
    let line = line(lines)?;
    let number =
        line.strip_prefix(':').or(line.strip_prefix('*')).and_then(|n| n.trim().parse().ok());
    number.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, line))
}

/// Connections that live for a few requests, and are assigned while the active threads change.
pub fn comes_and_goes(run: &Run<'_>, nth: u64) {
    let mut rng = run.rng(nth);
    while run.should_continue() {
        let mut client = run.client();
        let depth = 1 + rng.below(20);
        let request = client::encode(&["PING"]).repeat(depth);
        client.send_raw(&request).unwrap_or_else(|e| run.fail("PING", &e));
        for _ in 0..depth {
            assert_eq!(run.reply(&mut client, "PING of a new connection").text(), "PONG");
        }
    }
}
