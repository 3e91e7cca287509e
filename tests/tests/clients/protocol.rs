//! The wire protocol: split requests, inline commands, pipelines, large strings, and protocol
//! errors.
//!
//! The expected replies are written out here. Each table is also sent to the reference, if it is
//! installed, so that the tables stay true.

use std::io;
use std::time::Duration;

use weft_testkit::client::{Reply, encode};
use weft_testkit::value::{quote, quote_short};
use weft_testkit::{Client, Server, Value, skip_without};

/// Runs a check on this server, and on the reference to verify the check.
fn on_both(test: &str, args: &[&str], check: impl Fn(&Server)) {
    check(&Server::weft(args));
    let reference = Server::valkey(args);
    if !skip_without(&format!("{test} on the reference"), &reference, "valkey-server") {
        check(&reference.expect("not skipped"));
    }
}

/// Requests that are answered and leave the connection open.
const ANSWERED: &[(&[u8], &[u8])] = &[
    // Empty arrays are skipped.
    (b"*0\r\n*1\r\n$4\r\nPING\r\n", b"+PONG\r\n"),
    (b"*-1\r\n*1\r\n$4\r\nPING\r\n", b"+PONG\r\n"),
    (b"*-2\r\nPING\r\n", b"+PONG\r\n"),
    // Inline requests: a bare LF ends one, blanks around words are ignored, empty lines are
    // skipped.
    (b"PING\n", b"+PONG\r\n"),
    (b"\r\n\r\nPING\r\n", b"+PONG\r\n"),
    (b" \r\nPING\r\n", b"+PONG\r\n"),
    (b"PING\r\r\n", b"+PONG\r\n"),
    (b"  ECHO   a  \r\n", b"$1\r\na\r\n"),
    (b"ECHO a\tb\r\n", b"-ERR wrong number of arguments for 'echo' command\r\n"),
    // Quotes.
    (b"ECHO \"\"\r\n", b"$0\r\n\r\n"),
    (b"ECHO \"a b\"\r\n", b"$3\r\na b\r\n"),
    (b"ECHO 'a b'\r\n", b"$3\r\na b\r\n"),
    (b"ECHO \"a\\x41\\n\\r\\t\\b\\a\\q\\\"b\"\r\n", b"$10\r\naA\n\r\t\x08\x07q\"b\r\n"),
    (b"ECHO \"\\x4g\"\r\n", b"$3\r\nx4g\r\n"),
    (b"ECHO 'a\\'b\\n'\r\n", b"$5\r\na'b\\n\r\n"),
    (b"ECHO \\x41\r\n", b"$4\r\n\\x41\r\n"),
    (b"ECHO a\"b\"\r\n", b"$2\r\nab\r\n"),
    // A closing quote may be followed by more of the word.
    (b"ECHO a\"b\"c\r\n", b"$3\r\nabc\r\n"),
    (b"ECHO \"a\"b\r\n", b"$2\r\nab\r\n"),
    (b"ECHO 'a'b\r\n", b"$2\r\nab\r\n"),
    (b"ECHO \"a b\"'c d'e\r\n", b"$7\r\na bc de\r\n"),
    // Vertical tab and form feed are blanks before a word, but do not end one.
    (b"\x0bECHO a\x0bb\x0c\r\n", b"$4\r\na\x0bb\x0c\r\n"),
    // Empty strings and unknown commands.
    (b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", b"$0\r\n\r\n"),
    (b"*1\r\n$0\r\n\r\n", b"-ERR unknown command '', with args beginning with: \r\n"),
    (b"+OK\r\n", b"-ERR unknown command '+OK', with args beginning with: \r\n"),
    (b"$4\r\nPING\r\n", b"-ERR unknown command '$4', with args beginning with: \r\n+PONG\r\n"),
    (b"NOSUCH a b\r\n", b"-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' \r\n"),
    (
        b"*2\r\n$3\r\nn\r\n\r\n$2\r\n\r\n\r\n",
        b"-ERR unknown command 'n  ', with args beginning with: '  ' \r\n",
    ),
];

/// Requests after which the server closes the connection, with the replies before that.
const CLOSED: &[(&[u8], &[u8])] = &[
    (b"*abc\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
    (b"*\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
    (b"* 1\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
    (b"*1 \r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
    (b"*+1\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
    (b"*01\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
    (b"*-0\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
    (b"*2147483648\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
    (b"*99999999999999999999\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
    (b"*1\r\n:4\r\n", b"-ERR Protocol error: expected '$', got ':'\r\n"),
    (b"*1\r\n\r\n", b"-ERR Protocol error: expected '$', got ' '\r\n"),
    (b"*1\r\n\x00\r\n", b"-ERR Protocol error: expected '$', got '\x00'\r\n"),
    (b"*1\r\n$-1\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
    (b"*1\r\n$-0\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
    (b"*1\r\n$abc\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
    (b"*1\r\n$\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
    (b"*1\r\n$+4\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
    (b"*1\r\n$04\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
    (b"*1\r\n$4 \r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
    (b"*1\r\n$536870913\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
    (b"*1\r\n$4\r\nPINGxx", b"-ERR Protocol error: invalid CRLF in request\r\n"),
    (b"*1\r\n$4\r\nPING\n\r", b"-ERR Protocol error: invalid CRLF in request\r\n"),
    (b"ECHO \"abc\r\n", b"-ERR Protocol error: unbalanced quotes in request\r\n"),
    (b"ECHO 'abc\r\n", b"-ERR Protocol error: unbalanced quotes in request\r\n"),
    // Earlier requests are answered.
    (b"PING\r\n*1\r\n$abc\r\n", b"+PONG\r\n-ERR Protocol error: invalid bulk length\r\n"),
    (b"*1\r\n$4\r\nPING\r\n*x\r\n", b"+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n"),
    (b"PING\r\nQUIT\r\nPING\r\n", b"+PONG\r\n+OK\r\n"),
    // A browser tricked into sending requests to the server.
    (b"POST / HTTP/1.1\r\n", b""),
    (b"post a\r\n", b""),
    (b"Host: x\r\n", b""),
];

fn assert_answered(server: &Server, send: &[u8], expected: &[u8]) {
    let mut client = server.client();
    client.send_raw(send).unwrap();
    client.send_raw(&encode(&["PING", "the end"])).unwrap();
    let (mut got, end) = (Vec::new(), b"$7\r\nthe end\r\n");
    while !got.ends_with(end) {
        match client.read_frame() {
            Ok(reply) => got.extend(reply.raw),
            Err(e) => panic!("{}: {} after {} gave {e}", server.name(), quote(&got), quote(send)),
        }
    }
    got.truncate(got.len() - end.len());
    assert_eq!(quote(&got), quote(expected), "{}: reply to {}", server.name(), quote(send));
}

fn assert_closed(server: &Server, send: &[u8], expected: &[u8]) {
    let mut client = server.client();
    // The write fails if the server closes the connection early; only its replies count.
    let _ = client.send_raw(send);
    let got = client.read_to_close().unwrap_or_else(|e| {
        panic!("{}: not closed after {}: {e}", server.name(), quote_short(send))
    });
    assert_eq!(quote(&got), quote(expected), "{}: reply to {}", server.name(), quote_short(send));
}

#[test]
fn unusual_requests_are_answered() {
    on_both("unusual_requests_are_answered", &[], |server| {
        for (send, expected) in ANSWERED {
            assert_answered(server, send, expected);
        }
    });
}

#[test]
fn protocol_errors_close_the_connection() {
    on_both("protocol_errors_close_the_connection", &[], |server| {
        for (send, expected) in CLOSED {
            assert_closed(server, send, expected);
        }
        assert!(server.client().cmd(&["PING"]).text() == "PONG");
    });
}

#[test]
fn endless_lines_are_refused() {
    let long = |start: &str| [start.as_bytes(), &[b'1'; 70_000]].concat();
    on_both("endless_lines_are_refused", &[], |server| {
        assert_closed(server, &long("*"), b"-ERR Protocol error: too big mbulk count string\r\n");
        assert_closed(
            server,
            &long("*1\r\n$"),
            b"-ERR Protocol error: too big bulk count string\r\n",
        );
        assert_closed(server, &long(""), b"-ERR Protocol error: too big inline request\r\n");
    });
}

#[test]
fn unauthenticated_client_may_send_only_small_requests() {
    on_both(
        "unauthenticated_client_may_send_only_small_requests",
        &["--requirepass", "sesame"],
        |server| {
            assert_closed(
                server,
                b"*11\r\n",
                b"-ERR Protocol error: unauthenticated multibulk length\r\n",
            );
            assert_closed(
                server,
                b"*1\r\n$16385\r\n",
                b"-ERR Protocol error: unauthenticated bulk length\r\n",
            );
            let mut client = server.client();
            let noauth = Some("NOAUTH Authentication required.".to_string());
            for command in [
                &["PING"][..],
                &["GET", "k"],
                &["SET", "k", "v"],
                &["CLIENT", "LIST"],
                &["CONFIG", "GET", "*"],
            ] {
                assert_eq!(client.cmd(command).error(), noauth, "{command:?}");
            }
            let largest = vec![b'x'; 16_384];
            assert_eq!(client.cmd(&[b"GET", &largest[..]]).error(), noauth);
            let wrong = client.cmd(&["AUTH", "wrong"]).error();
            assert_eq!(
                wrong.as_deref(),
                Some("WRONGPASS invalid username-password pair or user is disabled.")
            );
            client.ok(&["AUTH", "sesame"]);
            // After AUTH the usual limits apply.
            let words: Vec<Vec<u8>> = [b"DEL".to_vec()]
                .into_iter()
                .chain((0..100).map(|i: i32| i.to_string().into_bytes()))
                .collect();
            assert_eq!(client.cmd(&words), Value::Integer(0));
            client.ok(&[&b"SET"[..], b"k", &vec![b'x'; 100_000][..]]);
        },
    );
}

#[test]
fn client_that_fills_the_query_buffer_is_closed() {
    let args = ["--client-query-buffer-limit", "1mb"];
    on_both("client_that_fills_the_query_buffer_is_closed", &args, |server| {
        let head = b"*2\r\n$4\r\nECHO\r\n$2000000\r\n";
        assert_closed(server, &[&head[..], &vec![b'x'; 1_900_000]].concat(), b"");
        let below = vec![b'x'; 900_000];
        assert_eq!(server.client().cmd(&[b"ECHO", &below[..]]).bytes(), Some(&below[..]));
    });
}

/// Requests of all forms, with their replies, for the tests that split them.
fn conversation() -> (Vec<u8>, Vec<u8>) {
    let long = "x".repeat(300);
    let requests = [
        encode(&["SET", "k", "v"]),
        b"\r\nGET k\r\n".to_vec(),
        encode(&["ECHO", ""]),
        b"ECHO \"a\\x00b\"\r\n".to_vec(),
        encode(&["SET", "l", &long]),
        encode(&["APPEND", "k", "\r\n"]),
        encode(&["GET", "k"]),
        b"*0\r\n".to_vec(),
        encode(&["MGET", "k", "none", "l"]),
        encode(&["GET"]),
        encode(&["STRLEN", "l"]),
    ];
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let replies = [
        "+OK\r\n".to_string(),
        bulk("v"),
        bulk(""),
        bulk("a\0b"),
        "+OK\r\n".to_string(),
        ":3\r\n".to_string(),
        bulk("v\r\n"),
        format!("*3\r\n{}$-1\r\n{}", bulk("v\r\n"), bulk(&long)),
        "-ERR wrong number of arguments for 'get' command\r\n".to_string(),
        ":300\r\n".to_string(),
    ];
    (requests.concat(), replies.concat().into_bytes())
}

/// Reads as many bytes of replies as `expected` has, and compares them.
fn assert_replies(client: &mut Client, expected: &[u8], what: &str) {
    let mut got = Vec::new();
    while got.len() < expected.len() {
        match client.read_frame() {
            Ok(Reply { raw, .. }) => got.extend(raw),
            Err(e) => panic!("{what}: {e} after {}", quote_short(&got)),
        }
    }
    assert_eq!(quote(&got), quote(expected), "{what}");
}

#[test]
fn requests_may_be_split_anywhere() {
    let server = Server::weft(&[]);
    let (requests, replies) = conversation();
    for cut in 1..requests.len() {
        let mut client = server.client();
        client.send_raw(&requests[..cut]).unwrap();
        // Usually long enough for the server to read the first part. If not, it reads both parts at
        // once and this cut tests nothing.
        std::thread::sleep(Duration::from_micros(500));
        client.send_raw(&requests[cut..]).unwrap();
        assert_replies(&mut client, &replies, &format!("cut at {cut}"));
    }
}

#[test]
fn requests_may_arrive_byte_by_byte() {
    let server = Server::weft(&[]);
    let (requests, replies) = conversation();
    let mut client = server.client();
    for byte in &requests {
        client.send_raw(std::slice::from_ref(byte)).unwrap();
    }
    assert_replies(&mut client, &replies, "byte by byte");
}

#[test]
fn ten_thousand_commands_are_answered_in_order() {
    let server = Server::weft(&["--io-threads", "4", "--io-threads-always-active", "yes"]);
    std::thread::scope(|scope| {
        for connection in 0..4 {
            let mut client = server.client();
            scope.spawn(move || {
                let name = |i: usize| format!("{connection}:{i}");
                // The keys are spread over all shards, and each reply identifies its request.
                let commands: Vec<Vec<String>> = (0..10_000)
                    .map(|i| match i % 4 {
                        0 => vec!["SET".to_string(), name(i), name(i)],
                        1 => vec!["GET".to_string(), name(i - 1)],
                        2 => vec!["MGET".to_string(), name(i - 2), "none".to_string()],
                        _ => vec!["ECHO".to_string(), name(i)],
                    })
                    .collect();
                let replies = client.pipeline(&commands).expect("all are answered");
                for (i, reply) in replies.into_iter().enumerate() {
                    let bulk = |i| Value::Bulk(name(i).into_bytes());
                    let expected = match i % 4 {
                        0 => Value::Simple(b"OK".to_vec()),
                        1 => bulk(i - 1),
                        2 => Value::Array(vec![bulk(i - 2), Value::NullBulk]),
                        _ => bulk(i),
                    };
                    assert_eq!(reply.value, expected, "reply {i} of connection {connection}");
                }
            });
        }
    });
}

#[test]
fn slow_reader_gets_all_replies() {
    let server = Server::weft(&[]);
    let mut client = server.client();
    let value: Vec<u8> = (0..100_000u32).map(|i| i as u8).collect();
    client.ok(&[&b"SET"[..], b"k", &value[..]]);
    // 30 MB of replies to 6 KB of requests: more than a socket buffer holds.
    client.send_raw(&encode(&["GET", "k"]).repeat(300)).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    // The server does not block on this client.
    assert_eq!(server.client().cmd(&["PING"]).text(), "PONG");
    for i in 0..300 {
        assert_eq!(client.read_reply().unwrap().value.bytes(), Some(&value[..]), "reply {i}");
    }
}

#[test]
fn string_of_64_mb_is_stored_and_returned() {
    let server = Server::weft(&[]);
    let mut client = server.client();
    let value: Vec<u8> = (0..64u32 << 20).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect();
    client.ok(&[&b"SET"[..], b"big", &value[..]]);
    assert_eq!(client.cmd(&["STRLEN", "big"]), Value::Integer(64 << 20));
    assert!(client.cmd(&["GET", "big"]).bytes() == Some(&value[..]), "GET returns other bytes");
    assert_eq!(
        client.cmd(&["GETRANGE", "big", "67108860", "-1"]).bytes(),
        Some(&value[value.len() - 4..])
    );
    client.ok(&["SET", "small", "after"]);
    assert_eq!(client.cmd(&["GET", "small"]).text(), "after");
    assert_eq!(client.cmd(&["DEL", "big"]), Value::Integer(1));
}

#[test]
fn connection_that_ends_within_a_request_does_no_harm() {
    let server = Server::weft(&[]);
    let (requests, _) = conversation();
    for cut in 0..requests.len() {
        let mut client = server.client();
        client.send_raw(&requests[..cut]).unwrap();
    }
    assert_eq!(server.client().cmd(&["PING"]).text(), "PONG");
}

#[test]
fn half_closed_connections_get_their_replies() {
    let server = Server::weft(&[]);
    let mut client = server.client();
    client.send_raw(&encode(&["PING"])).unwrap();
    assert_eq!(client.read_reply().unwrap().raw, b"+PONG\r\n");
    client.finish_writing().unwrap();
    assert_eq!(client.read_to_close().unwrap(), b"");
}

#[test]
fn hello_changes_nulls_and_maps() {
    on_both("hello_changes_nulls_and_maps", &[], |server| {
        let mut client = server.client();
        assert_eq!(client.cmd(&["GET", "none"]), Value::NullBulk);
        assert!(
            matches!(client.cmd(&["CONFIG", "GET", "maxmemory"]), Value::Array(items) if items.len() == 2)
        );
        let greeting = client.hello(3);
        assert_eq!(greeting.field("proto"), Some(&Value::Integer(3)));
        assert!(matches!(greeting, Value::Map(_)));
        assert_eq!(client.cmd(&["GET", "none"]), Value::Null);
        assert!(
            matches!(client.cmd(&["CONFIG", "GET", "maxmemory"]), Value::Map(pairs) if pairs.len() == 1)
        );
        assert!(matches!(client.hello(2), Value::Array(_)));
        assert_eq!(client.cmd(&["GET", "none"]), Value::NullBulk);
        let refused = client.hello(4).error();
        assert_eq!(refused.as_deref(), Some("NOPROTO unsupported protocol version"));
    });
}

#[test]
fn unix_socket_speaks_the_same_protocol() -> io::Result<()> {
    let server = Server::weft(&["--unixsocket", "weft.sock"]);
    let mut client = Client::try_unix(&server.dir().join("weft.sock"))?;
    client.ok(&["SET", "k", "v"]);
    assert_eq!(server.client().cmd(&["GET", "k"]).text(), "v");
    Ok(())
}
