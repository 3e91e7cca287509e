//! Replies come in the order of their requests, all of them, and only requests are executed: after
//! waits for shards, after commands on other threads, after the client has closed its writing side,
//! and after a protocol error.
//!
//! | variable | meaning |
//! |---|---|
//! | `ORDER_ROUNDS` | rounds of the pipelines on one shard, default 80 |

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::time::Duration;
use weft_testkit::client::encode;
use weft_testkit::value::quote;
use weft_testkit::{Client, Server};
use weft_tests::env_or;
use weft_tests::scene::{
    HeldShard, LongCommand, PATIENCE, client, on_both, reply, reply_within, send, send_all, until,
    until_blocked,
};

const TWO: [&str; 4] = ["--io-threads", "2", "--io-threads-always-active", "yes"];
const FOUR: [&str; 4] = ["--io-threads", "4", "--io-threads-always-active", "yes"];

/// Many clients use one shard that is rarely free. Input read while a request waits for the shard
/// must be executed after this request.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn pipelines_on_one_busy_shard_keep_their_order() {
    const CLIENTS: usize = 4;
    on_both(&[], &TWO, |server| {
        // The reference is single-threaded, so it cannot fail.
        let rounds = if server.name() == "valkey" { 1 } else { env_or("ORDER_ROUNDS", 80) };
        let list = padded_request(&LOOK)[1].clone();
        let push = ["RPUSH", &list].into_iter().chain(std::iter::repeat_n("v", ELEMENTS));
        client(server).cmd(&push.collect::<Vec<_>>());
        let wrong = Mutex::new(None);
        std::thread::scope(|scope| {
            for n in 0..CLIENTS {
                let (server, wrong) = (&*server, &wrong);
                scope.spawn(move || {
                    for round in 0..rounds {
                        if let Err(what) = check_order(server, n, round, wrong) {
                            let what = format!("round {round}: {what}");
                            wrong
                                .lock()
                                .expect("no thread panics with the lock")
                                .get_or_insert(what);
                        }
                    }
                });
            }
        });
        let wrong = wrong.into_inner().expect("no thread panics with the lock");
        assert_eq!(wrong, None, "{} mixed up replies", server.name());
    });
}

/// A command on a value in the shared shard. It takes as long as other threads spin for the shard
/// before they wait.
const LOOK: [&str; 3] = ["LPOS", "{h}hot", "-"];
const ELEMENTS: usize = 2000;

/// Bytes of every request. A read that fills its buffer then ends at the end of a request: no
/// partial request is left that would keep later input in order.
const ALIGNED: usize = 64;

/// A request whose first argument is padded with leading zeros.
fn padded_request(args: &[&str]) -> Vec<String> {
    for width in 1..ALIGNED {
        let mut args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
        args[1] = format!("{:0>width$}", args[1]);
        if encode(&args).len() == ALIGNED {
            return args;
        }
    }
    unreachable!("{args:?} cannot have {ALIGNED} bytes");
}

/// Sends commands without a pause and compares the replies byte for byte. The error is the first
/// difference. Ends early when another client has found one.
fn check_order(
    server: &Server,
    n: usize,
    round: usize,
    wrong: &Mutex<Option<String>>,
) -> Result<(), String> {
    const GROUPS: usize = 1000;
    const PART: usize = 2048;
    let (mut requests, mut replies) = (Vec::new(), Vec::new());
    let incr = encode(&padded_request(&["INCR", &format!("{n}:{round}{{h}}count")]));
    let look = encode(&padded_request(&LOOK));
    for i in 0..GROUPS {
        let echo = padded_request(&["ECHO", &i.to_string()]);
        requests.extend([encode(&echo), look.clone(), incr.clone(), look.clone()].concat());
        replies.extend(encode(&echo[1..]).split_off(4));
        replies.extend(format!("$-1\r\n:{}\r\n$-1\r\n", i + 1).into_bytes());
    }
    let stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a listener");
    stream.set_nodelay(true).expect("an open socket");
    stream.set_read_timeout(Some(PATIENCE)).expect("an open socket");
    std::thread::scope(|scope| {
        // An error means that the reader has closed the connection.
        scope.spawn(|| requests.chunks(PART).try_for_each(|part| (&stream).write_all(part)));
        let result = compare(&stream, &replies, wrong);
        let _ = stream.shutdown(Shutdown::Both);
        result
    })
}

fn compare(
    mut stream: &TcpStream,
    replies: &[u8],
    wrong: &Mutex<Option<String>>,
) -> Result<(), String> {
    let (mut at, mut chunk) = (0, vec![0; 64 * 1024]);
    while at < replies.len() && wrong.lock().expect("no thread panics with the lock").is_none() {
        let got = stream.read(&mut chunk).map_err(|e| format!("no reply: {e}"))?;
        let wanted = &replies[at..replies.len().min(at + got)];
        if got == 0 || chunk[..got] != *wanted {
            let first = wanted.iter().zip(&chunk).position(|(a, b)| a != b).unwrap_or(0);
            let around =
                |bytes: &[u8]| quote(&bytes[first.saturating_sub(60)..bytes.len().min(first + 60)]);
            return Err(format!("{} instead of {}", around(&chunk[..got]), around(wanted)));
        }
        at += got;
    }
    Ok(())
}

/// The replies to a client that closes its writing side right after its requests.
fn after_half_close(server: &Server, requests: &[&[&str]]) -> String {
    read_all(half_close(server, requests))
}

fn half_close(server: &Server, requests: &[&[&str]]) -> Client {
    let mut own = client(server);
    send_all(&mut own, requests);
    own.finish_writing().expect("an open connection");
    own
}

fn read_all(mut own: Client) -> String {
    let all = own.read_to_close().expect("the server closes when it has answered");
    String::from_utf8_lossy(&all).into_owned()
}

const HALF_CLOSES: usize = 20;

#[test]
fn pipeline_is_answered_after_a_half_close() {
    on_both(&[], &TWO, |server| {
        let requests: [&[&str]; 5] =
            [&["PING"], &["SET", "k", "v"], &["GET", "k"], &["ECHO", "end"], &["STRLEN", "k"]];
        for _ in 0..HALF_CLOSES {
            let got = after_half_close(server, &requests);
            assert_eq!(got, "+PONG\r\n+OK\r\n$1\r\nv\r\n$3\r\nend\r\n:1\r\n");
        }
    });
}

#[test]
fn long_command_and_later_ones_are_answered_after_a_half_close() {
    on_both(&[], &TWO, |server| {
        let mut filler = client(server);
        for part in 0..10 {
            let values: Vec<String> = (0..1000).map(|n| (part * 1000 + n).to_string()).collect();
            for command in ["RPUSH", "SADD"] {
                let key = format!("{{t}}{command}");
                let args = [command, &key].into_iter().chain(values.iter().map(|v| &v[..]));
                filler.cmd(&args.collect::<Vec<_>>());
            }
        }
        let long: [(&[&str], &str); 6] = [
            (&["SORT", "{t}RPUSH", "LIMIT", "0", "1"], "*1\r\n$1\r\n0\r\n"),
            (&["SORT", "{t}RPUSH", "STORE", "{t}sorted"], ":10000\r\n"),
            (&["SUNIONSTORE", "{t}union", "{t}SADD", "{t}SADD"], ":10000\r\n"),
            (&["SINTERCARD", "2", "{t}SADD", "{t}SADD"], ":10000\r\n"),
            (&["KEYS", "{t}R*"], "*1\r\n$8\r\n{t}RPUSH\r\n"),
            (&["LREM", "{t}RPUSH", "0", "none"], ":0\r\n"),
        ];
        for (command, answer) in long {
            for _ in 0..HALF_CLOSES {
                let requests: [&[&str]; 4] =
                    [&["PING"], command, &["SET", "k", "v"], &["ECHO", "end"]];
                let got = after_half_close(server, &requests);
                let wanted = format!("+PONG\r\n{answer}+OK\r\n$3\r\nend\r\n");
                assert_eq!(got, wanted, "{} {command:?}", server.name());
            }
        }
    });
}

#[test]
fn long_transaction_is_answered_after_a_half_close() {
    on_both(&[], &TWO, |server| {
        let long = LongCommand::with_tag(server, "t");
        let requests: [&[&str]; 5] = [
            &["MULTI"],
            &["SINTERCARD", "2", long.key(), long.key()],
            &["INCR", "{t}n"],
            &["EXEC"],
            &["ECHO", "end"],
        ];
        for n in 1..=HALF_CLOSES {
            let got = after_half_close(server, &requests);
            let wanted =
                format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:20000\r\n:{n}\r\n$3\r\nend\r\n");
            assert_eq!(got, wanted, "{}", server.name());
        }
    });
}

/// Another client keeps the shard locked: requests wait for it while the server reads the end of the
/// input.
#[test]
fn requests_that_wait_for_a_shard_are_answered_after_a_half_close() {
    let server = Server::weft(&FOUR);
    for _ in 0..3 {
        let held = HeldShard::with_tag(&server, "t");
        let requests: [&[&str]; 3] = [&["SET", "{t}k", "v"], &["GET", "{t}k"], &["PING"]];
        let mut own = half_close(&server, &requests);
        assert!(reply_within(&mut own, Duration::from_millis(50)).is_none());
        held.release();
        assert_eq!(read_all(own), "+OK\r\n$1\r\nv\r\n+PONG\r\n");
    }
}

/// The reference closes a blocked client after a half close, because it can't distinguish it from a
/// full close. Earlier requests are answered, and the element stays.
#[test]
fn blocked_client_is_closed_after_a_half_close() {
    on_both(&[], &TWO, |server| {
        let mut maker = client(server);
        for _ in 0..HALF_CLOSES {
            let requests: [&[&str]; 3] = [&["PING"], &["BLPOP", "l", "0"], &["PING"]];
            assert_eq!(after_half_close(server, &requests), "+PONG\r\n");
            assert_eq!(maker.cmd(&["RPUSH", "l", "x"]).int(), 1);
            assert_eq!(maker.cmd(&["DEL", "l"]).int(), 1, "no client took the element");
            let timed: [&[&str]; 3] = [&["PING"], &["BLPOP", "l", "0.05"], &["PING"]];
            assert_eq!(after_half_close(server, &timed), "+PONG\r\n");
        }
    });
}

/// The same for a paused client.
#[test]
fn paused_client_is_closed_after_a_half_close() {
    on_both(&[], &TWO, |server| {
        let mut maker = client(server);
        maker.ok(&["CLIENT", "PAUSE", "1000", "WRITE"]);
        let paused: [&[&str]; 3] = [&["PING"], &["SET", "k", "v"], &["PING"]];
        let got = after_half_close(server, &paused);
        assert_eq!(got, "+PONG\r\n", "{}", server.name());
        maker.ok(&["CLIENT", "UNPAUSE"]);
        assert_eq!(maker.cmd(&["EXISTS", "k"]).int(), 0);
    });
}

/// Malformed requests that contain bytes which look like a request, and the errors of the
/// reference.
const MALFORMED: [(&str, &str); 6] = [
    ("*1\r\nX4\r\n*2\r\n$4\r\nINCR\r\n$3\r\nhit\r\n", "expected '$', got 'X'"),
    ("*1\r\n$x\r\n*2\r\n$4\r\nINCR\r\n$3\r\nhit\r\n", "invalid bulk length"),
    ("*1\r\n$-1\r\n*2\r\n$4\r\nINCR\r\n$3\r\nhit\r\n", "invalid bulk length"),
    ("*x\r\n*2\r\n$4\r\nINCR\r\n$3\r\nhit\r\n", "invalid multibulk length"),
    ("*2\r\n$3\r\nGET\r\nINCR hit\r\nINCR hit\r\n", "expected '$', got 'I'"),
    ("GET \"k\r\nINCR hit\r\n", "unbalanced quotes in request"),
];

/// Bytes after a protocol error are never executed, also after a blocking command. The error is
/// sent in order, and the connection is closed.
#[test]
fn nothing_after_a_protocol_error_is_executed_when_unblocked() {
    on_both(&[], &TWO, |server| {
        let mut maker = client(server);
        for (bytes, error) in MALFORMED {
            for together in [true, false] {
                let mut own = client(server);
                let mut first = encode(&["BLPOP", "L", "0"]);
                if together {
                    first.extend(bytes.as_bytes());
                    own.send_raw(&first).expect("an open connection");
                    until_blocked(&mut maker, 1);
                } else {
                    own.send_raw(&first).expect("an open connection");
                    until_blocked(&mut maker, 1);
                    own.send_raw(bytes.as_bytes()).expect("an open connection");
                }
                maker.cmd(&["RPUSH", "L", "x"]);
                let got = own.read_to_close().expect("the server closes after the error");
                let wanted =
                    format!("*2\r\n$1\r\nL\r\n$1\r\nx\r\n-ERR Protocol error: {error}\r\n");
                let got = String::from_utf8_lossy(&got);
                assert_eq!(got, wanted, "{} {bytes:?} together: {together}", server.name());
                assert_eq!(maker.cmd(&["EXISTS", "hit"]).int(), 0, "{bytes:?} was executed");
            }
        }
    });
}

/// The same after a command in the slow lane, and after one that waits for its shard.
#[test]
fn nothing_after_a_protocol_error_is_executed_after_a_long_command() {
    on_both(&[], &FOUR, |server| {
        let long = LongCommand::with_tag(server, "t");
        let mut other = client(server);
        for (bytes, error) in MALFORMED {
            for request in [&long.request(0.05)[..], &["INCR".into(), "{t}n".into()]] {
                let mut before = client(server);
                send(&mut before, &long.request(0.05));
                let mut own = client(server);
                let all = [&encode(request)[..], bytes.as_bytes()].concat();
                own.send_raw(&all).expect("an open connection");
                let got = own.read_to_close().expect("the server closes after the error");
                let got = String::from_utf8_lossy(&got);
                let (first, rest) = got.split_once("\r\n").expect("a reply");
                assert!(first.starts_with(':'), "{first}");
                assert_eq!(rest, format!("-ERR Protocol error: {error}\r\n"), "{bytes:?}");
                assert_eq!(reply(&mut before).int(), 20_000);
                assert_eq!(other.cmd(&["EXISTS", "hit"]).int(), 0, "{bytes:?} was executed");
            }
        }
    });
}

/// A value without CRLF where its length ends: the reference ignores that and continues two bytes
/// later. A server that returns an error instead must not continue.
#[test]
fn middle_of_a_value_is_not_executed() {
    let server = Server::weft(&TWO);
    let mut maker = client(&server);
    for rest in
        ["*1\r\n$4\r\n$4\r\nPING\r\n", "*1\r\n$4\r\n$4\r\nXX*2\r\n$4\r\nINCR\r\n$3\r\nhit\r\n"]
    {
        let mut own = client(&server);
        let all = [&encode(&["BLPOP", "L", "0"])[..], rest.as_bytes()].concat();
        own.send_raw(&all).expect("an open connection");
        until_blocked(&mut maker, 1);
        maker.cmd(&["RPUSH", "L", "x"]);
        let got = own.read_to_close().expect("the server closes after the error");
        let got = String::from_utf8_lossy(&got);
        assert!(!got.contains("PONG"), "{got:?}");
        assert_eq!(got.matches("Protocol error").count(), 1, "{got:?}");
        assert_eq!(maker.cmd(&["EXISTS", "hit"]).int(), 0);
    }
    until("no client left", || maker.cmd(&["CLIENT", "LIST"]).text().lines().count() == 1);
}
