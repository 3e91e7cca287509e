//! Values of unusual size: how they arrive, their limits, and the cost of parsing them.

use std::time::Duration;
use weft_testkit::client::encode;
use weft_testkit::{Client, Server};

/// Bytes from which on a value is read into memory of its own, and more.
const LARGE: usize = 70_000;

fn one_thread(args: &[&str]) -> Server {
    Server::weft(&[&["--io-threads", "1"], args].concat())
}

/// Waits until the server has read what other clients sent before.
fn settle(other: &mut Client) {
    for _ in 0..3 {
        assert_eq!(other.cmd(&["PING"]).text(), "PONG");
    }
}

#[test]
fn large_values_may_arrive_in_any_pieces() {
    let server = one_thread(&[]);
    let (mut client, mut other) = (server.client(), server.client());
    let value: Vec<u8> = (0..LARGE).map(|n| n as u8).collect();
    let set = encode(&[&b"SET"[..], b"k", &value]);
    let ping = encode(&["PING"]);
    // Twice: after a large value, a connection is read differently.
    for round in 0..2 {
        let cuts =
            [1, 20, 40, 2000, 2048, 2049, 40_000, set.len() - 3, set.len() - 2, set.len() - 1];
        for cut in cuts {
            client.send_raw(&set[..cut]).expect("the server reads");
            settle(&mut other);
            client.send_raw(&[&set[cut..], &ping[..]].concat()).expect("the server reads");
            assert!(client.read_reply().expect("a reply").value.is_ok(), "{round} {cut}");
            assert_eq!(client.read_reply().expect("a reply").value.text(), "PONG", "{round} {cut}");
            assert_eq!(other.cmd(&["GET", "k"]).bytes(), Some(&value[..]), "{round} {cut}");
        }
    }
    // Several large values in one request with small ones in between, and several requests in one
    // write.
    let small: &[u8] = b"small";
    let many = encode(&[b"MSET", &b"a"[..], &value, b"b", small, b"c", &value]);
    let row = [&many[..], &ping, &set, &many, &ping].concat();
    client.send_raw(&row).expect("the server reads");
    for want in ["OK", "PONG", "OK", "OK", "PONG"] {
        assert_eq!(client.read_reply().expect("a reply").value.text(), want);
    }
    assert_eq!(client.cmd(&["GET", "b"]).text(), "small");
    assert_eq!(client.cmd(&["GET", "c"]).bytes(), Some(&value[..]));
}

#[test]
fn large_value_must_end_with_crlf() {
    let server = one_thread(&[]);
    let mut other = server.client();
    for tail in [&b"xx"[..], b"\rx", b"x\n"] {
        for cut in [0, 1] {
            let mut client = server.client();
            let mut set = encode(&[&b"SET"[..], b"k", &vec![b'v'; LARGE]]);
            set.truncate(set.len() - 2);
            client.send_raw(&[&set[..], &tail[..cut]].concat()).expect("the server reads");
            settle(&mut other);
            client.send_raw(&tail[cut..]).expect("the server reads");
            let end = client.read_to_close().expect("the server hangs up");
            assert_eq!(end, b"-ERR Protocol error: invalid CRLF in request\r\n");
        }
    }
    assert_eq!(other.cmd(&["EXISTS", "k"]).int(), 0);
}

/// Requests after a long command are executed while a value of the same pipeline is still
/// incomplete.
#[test]
fn large_value_may_be_incomplete_after_a_long_command() {
    let mut server = one_thread(&[]);
    let (mut client, mut other) = (server.client(), server.client());
    let members: Vec<String> = (0..20_000).map(|n| format!("m{n}")).collect();
    let add: Vec<&str> =
        ["SADD", "set"].into_iter().chain(members.iter().map(|m| &m[..])).collect();
    assert_eq!(client.cmd(&add).int(), 20_000);
    let set = encode(&[&b"SET"[..], b"k", &vec![b'v'; LARGE]]);
    let first = [&encode(&["SMEMBERS", "set"])[..], &encode(&["PING"]), &set[..1000]].concat();
    client.send_raw(&first).expect("the server reads");
    assert_eq!(client.read_reply().expect("a reply").value.items().len(), 20_000);
    settle(&mut other);
    client.send_raw(&set[1000..]).expect("the server reads");
    assert_eq!(client.read_reply().expect("a reply").value.text(), "PONG");
    assert!(client.read_reply().expect("a reply").value.is_ok());
    assert_eq!(client.cmd(&["STRLEN", "k"]).int(), LARGE as i64);
    assert!(server.is_alive());
}

/// A request of `args` followed by the header of a bulk string of `len` bytes, which is one of
/// `more` further arguments.
fn with_bulk_header(args: &[&str], more: usize, len: u64) -> Vec<u8> {
    let mut request = encode(args);
    let end = request.iter().position(|b| *b == b'\n').expect("a line") + 1;
    request.splice(..end, format!("*{}\r\n", args.len() + more).into_bytes());
    request.extend(format!("${len}\r\n").into_bytes());
    request
}

#[test]
fn keys_and_elements_of_4_gib_are_refused() {
    let mut server = one_thread(&["--proto-max-bulk-len", "16gb"]);
    let long = 1 << 32;
    let refused = b"-ERR Protocol error: invalid bulk length\r\n";
    let cases: [(&[&str], usize); 10] = [
        (&["GET"], 1),
        (&["SET"], 2),
        (&["MSET", "k", "v"], 2),
        (&["SADD", "s"], 1),
        (&["HSET", "h"], 2),
        (&["HSET", "h", "f"], 1),
        (&["ZADD", "z", "1"], 1),
        (&["RPUSH", "l"], 1),
        (&["RENAME", "l"], 1),
        (&["NOSUCH"], 1),
    ];
    for (args, more) in cases {
        let mut client = server.client();
        client.send_raw(&with_bulk_header(args, more, long)).expect("the server reads");
        assert_eq!(client.read_to_close().expect("the server hangs up"), refused, "{args:?}");
    }
    // No machine has this much memory: the server must return an error, and not crash.
    let mut client = server.client();
    client.ok(&["CONFIG", "SET", "proto-max-bulk-len", "4000000000000000000"]);
    client
        .send_raw(&with_bulk_header(&["SET", "k"], 1, 3_000_000_000_000_000_000))
        .expect("the server reads");
    assert_eq!(client.read_to_close().expect("the server hangs up"), refused);
    assert!(server.is_alive());
    // A string value may be this long: the server waits for it.
    for args in [&["SET", "k"][..], &["APPEND", "k"], &["MSET", "k"], &["SETRANGE", "k", "0"]] {
        let mut client = server.client();
        client.set_timeout(Duration::from_millis(100));
        client.send_raw(&with_bulk_header(args, 1, long)).expect("the server reads");
        assert!(client.read_reply().is_err(), "{args:?}: no reply is due yet");
    }
    assert!(server.is_alive());
}

/// A string beyond 4 GiB, as a value and as an element to be stored by SORT. Needs 13 GB of memory
/// and half a minute, so it runs only with `WEFT_TEST_4_GIB=1`.
#[test]
fn strings_beyond_4_gib_work() {
    if std::env::var_os("WEFT_TEST_4_GIB").is_none() {
        weft_testkit::skipped::note("strings_beyond_4_gib_work", "WEFT_TEST_4_GIB is not set");
        return;
    }
    let mut server =
        one_thread(&["--proto-max-bulk-len", "16gb", "--client-query-buffer-limit", "16gb"]);
    let mut client = server.client();
    let len = 4_400_000_000_u64;
    client.send_raw(&with_bulk_header(&["SET", "k"], 1, len)).expect("the server reads");
    let piece = vec![b'v'; 10_000_000];
    for _ in 0..len / 10_000_000 {
        client.send_raw(&piece).expect("the server reads");
    }
    client.send_raw(b"\r\n").expect("the server reads");
    assert!(client.read_reply().expect("a reply").value.is_ok());
    assert_eq!(client.cmd(&["STRLEN", "k"]).int(), len as i64);
    assert_eq!(client.cmd(&["APPEND", "k", "end"]).int(), len as i64 + 3);
    assert_eq!(client.cmd(&["GETRANGE", "k", "-4", "-1"]).text(), "vend");
    assert_eq!(client.cmd(&["SETRANGE", "k", "4399999999", "V"]).int(), len as i64 + 3);
    assert_eq!(client.cmd(&["GETRANGE", "k", "4399999998", "-1"]).text(), "vVend");
    client.cmd(&["RPUSH", "l", "1"]);
    let stored = client.cmd(&["SORT", "l", "GET", "*k", "STORE", "d"]);
    assert_eq!(stored.int(), 1, "{stored:?}");
    client.ok(&["RENAME", "k", "1k"]);
    let stored = client.cmd(&["SORT", "l", "GET", "*k", "STORE", "d"]);
    assert_eq!(stored.error().as_deref(), Some("ERR an element can't be as long as this string"));
    assert!(server.is_alive());
}

/// Each argument of a request that arrives one argument at a time costs the same, however many came
/// before.
#[test]
fn cost_of_a_trickling_request_is_linear() {
    const PACKETS: usize = 400;
    let server = one_thread(&["--client-query-buffer-limit", "1gb"]);
    let mut other = server.client();
    let cpu = |ready: usize, other: &mut Client| {
        let mut client = server.client();
        let mut start = format!("*{}\r\n$3\r\nDEL\r\n", ready + PACKETS + 2).into_bytes();
        (0..ready).for_each(|_| start.extend_from_slice(b"$1\r\na\r\n"));
        client.send_raw(&start).expect("the server reads");
        settle(other);
        let before = server.process().cpu().total();
        for _ in 0..PACKETS {
            client.send_raw(b"$1\r\na\r\n").expect("the server reads");
            assert_eq!(other.cmd(&["PING"]).text(), "PONG");
        }
        server.process().cpu().total() - before
    };
    let few = cpu(10, &mut other);
    let many = cpu(1_000_000, &mut other);
    // The kernel counts in ticks of 10 ms; the quadratic algorithm took over 300 ms more.
    assert!(many < 3.0 * few + 0.1, "{few} s with few arguments before, {many} s with many");
}
