//! Client-side caching: which client gets which invalidations, in which order.
//!
//! `sessions.rs` compares random sessions with the reference, and `linear.rs` checks histories of
//! concurrent clients. The tests here cover the rest: blocked clients, limits, expiry, eviction,
//! and the slow lane.

use std::thread::sleep;
use std::time::Duration;
use weft_testkit::client::encode;
use weft_testkit::{Client, Server, Value, skip_without};

const THREADS: [&str; 6] =
    ["--io-threads", "3", "--io-threads-always-active", "yes", "--enable-debug-command", "yes"];

/// Runs `check` on this server, with several I/O threads, and on the reference.
fn on_both(test: &str, check: impl Fn(&Server)) {
    check(&Server::weft(&THREADS));
    let reference = Server::valkey(&[]);
    if !skip_without(test, &reference, "valkey-server") {
        check(&reference.expect("not skipped"));
    }
}

/// A RESP3 client with tracking on, with these options.
fn tracker(server: &Server, options: &[&str]) -> Client {
    let mut client = server.client();
    client.hello(3);
    client.ok(&[&["CLIENT", "TRACKING", "ON"], options].concat());
    client
}

/// The keys of the invalidations that arrived before the reply to a PING.
fn invalidated_keys(client: &mut Client) -> Vec<String> {
    client.cmd(&["PING"]);
    let pushes = client.take_pushes();
    pushes.iter().flat_map(keys).collect()
}

fn keys(push: &Value) -> Vec<String> {
    let [word, keys] = push.items() else { panic!("{push}") };
    assert_eq!(word.text(), "invalidate");
    match keys {
        Value::Array(keys) => keys.iter().map(Value::text).collect(),
        Value::Null => vec!["(all)".into()],
        other => panic!("{other}"),
    }
}

/// Waits until the client gets an invalidation.
fn wait_for_invalidation(client: &mut Client) -> Vec<String> {
    for _ in 0..2000 {
        let invalidated_keys = invalidated_keys(client);
        if !invalidated_keys.is_empty() {
            return invalidated_keys;
        }
        sleep(Duration::from_millis(5));
    }
    panic!("no invalidation");
}

fn number(server: &Server, field: &str) -> i64 {
    let info = server.client().cmd(&["INFO"]).text();
    let line = info.lines().find(|line| line.starts_with(field)).expect("a field of INFO");
    line.rsplit(':').next().expect("a value").trim().parse().expect("a number")
}

#[test]
fn invalidation_is_sent_once_per_read() {
    on_both("invalidation_is_sent_once_per_read", |server| {
        let (mut reader, mut writer) = (tracker(server, &[]), server.client());
        writer.ok(&["SET", "k", "1"]);
        assert_eq!(invalidated_keys(&mut reader), [""; 0]);
        reader.cmd(&["MGET", "k", "missing"]);
        writer.ok(&["SET", "k", "2"]);
        writer.ok(&["SET", "k", "3"]);
        assert_eq!(invalidated_keys(&mut reader), ["k"]);
        writer.ok(&["SET", "missing", "3"]);
        assert_eq!(invalidated_keys(&mut reader), ["missing"]);
        reader.cmd(&["GET", "k"]);
        writer.ok(&["FLUSHALL"]);
        assert_eq!(invalidated_keys(&mut reader), ["(all)"]);
    });
}

/// Pushes and replies of a connection in order, as text.
fn frames(client: &mut Client, count: usize) -> Vec<String> {
    (0..count)
        .map(|_| {
            let raw = client.read_frame().expect("a frame").raw;
            String::from_utf8_lossy(&raw).replace("\r\n", " ").trim().into()
        })
        .collect()
}

#[test]
fn own_changes_are_invalidated_after_their_replies() {
    on_both("own_changes_are_invalidated_after_their_replies", |server| {
        let mut client = tracker(server, &[]);
        let requests: [&[&str]; 7] = [
            &["GET", "k"],
            &["MULTI"],
            &["SET", "k", "1"],
            &["GET", "k"],
            &["EXEC"],
            &["SET", "k", "2"],
            &["PING"],
        ];
        let bytes: Vec<u8> = requests.iter().flat_map(|args| encode(args)).collect();
        client.send_raw(&bytes).expect("writable");
        let pushed = ">2 $10 invalidate *1 $1 k";
        let expected =
            ["_", "+OK", "+QUEUED", "+QUEUED", "*2 +OK $1 1", pushed, "+OK", pushed, "+PONG"];
        assert_eq!(frames(&mut client, expected.len()), expected);
    });
}

#[test]
fn blocked_stream_reader_is_tracked() {
    on_both("blocked_stream_reader_is_tracked", |server| {
        let (mut reader, mut writer) = (tracker(server, &[]), server.client());
        reader.send_raw(&encode(&["XREAD", "BLOCK", "0", "STREAMS", "s", "$"])).expect("writable");
        while number(server, "blocked_clients") == 0 {
            sleep(Duration::from_millis(1));
        }
        writer.cmd(&["XADD", "s", "1-1", "f", "v"]);
        writer.cmd(&["XADD", "s", "1-2", "f", "v"]);
        let pushed = ">2 $10 invalidate *1 $1 s";
        let served = "%1 $1 s *1 *2 $3 1-1 *2 $1 f $1 v";
        // The invalidation of the first change, the reply with it, and the invalidation of the
        // second change.
        assert_eq!(frames(&mut reader, 3), [pushed, served, pushed]);
    });
}

#[test]
fn expired_and_evicted_keys_are_invalidated() {
    on_both("expired_and_evicted_keys_are_invalidated", |server| {
        let mut writer = server.client();
        let (mut reader, mut follower) = (tracker(server, &[]), tracker(server, &["BCAST"]));
        writer.ok(&["SET", "k", "v", "PX", "50"]);
        reader.cmd(&["GET", "k"]);
        assert_eq!(wait_for_invalidation(&mut reader), ["k"]);
        let mut received = wait_for_invalidation(&mut follower);
        if received.len() < 2 {
            received.extend(wait_for_invalidation(&mut follower));
        }
        assert_eq!(received, ["k", "k"], "set and expired");
        writer.ok(&["SET", "evicted", &"x".repeat(1000)]);
        reader.cmd(&["GET", "evicted"]);
        assert_eq!(wait_for_invalidation(&mut follower), ["evicted"]);
        writer.ok(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random", "maxmemory", "1"]);
        writer.cmd(&["SET", "other", "v"]);
        assert_eq!(wait_for_invalidation(&mut reader), ["evicted"]);
        assert_eq!(wait_for_invalidation(&mut follower), ["evicted"]);
        writer.ok(&["CONFIG", "SET", "maxmemory", "0"]);
    });
}

#[test]
fn resp2_subscriber_gets_redirected_invalidations() {
    on_both("resp2_subscriber_gets_redirected_invalidations", |server| {
        let (mut subscriber, mut reader, mut writer) =
            (server.client(), server.client(), server.client());
        let id = subscriber.cmd(&["CLIENT", "ID"]).int();
        subscriber.cmd(&["SUBSCRIBE", "__redis__:invalidate"]);
        reader.ok(&["CLIENT", "TRACKING", "ON", "REDIRECT", &id.to_string()]);
        assert_eq!(reader.cmd(&["CLIENT", "GETREDIR"]).int(), id);
        reader.cmd(&["GET", "k"]);
        writer.ok(&["SET", "k", "1"]);
        let message = "*3 $7 message $20 __redis__:invalidate";
        assert_eq!(frames(&mut subscriber, 1), [format!("{message} *1 $1 k")]);
        writer.ok(&["FLUSHDB"]);
        assert_eq!(frames(&mut subscriber, 1), [format!("{message} $-1")]);
        reader.hello(3);
        drop(subscriber);
        // Wait until the server has noticed the closed connection.
        while number(server, "connected_clients") > 3 {
            sleep(Duration::from_millis(1));
        }
        reader.cmd(&["GET", "k"]);
        writer.ok(&["SET", "k", "1"]);
        assert_eq!(frames(&mut reader, 1), [format!(">2 $21 tracking-redir-broken :{id}")]);
        let line = reader.cmd(&["CLIENT", "INFO"]).text();
        assert!(line.contains(" flags=tR ") && line.contains(&format!(" redir={id} ")), "{line}");
    });
}

#[test]
fn info_counts_tracked_keys_and_clients() {
    on_both("info_counts_tracked_keys_and_clients", |server| {
        let mut readers = [tracker(server, &[]), tracker(server, &[])];
        let follower = tracker(server, &["BCAST", "PREFIX", "a", "PREFIX", "b"]);
        readers[0].cmd(&["MGET", "a", "b"]);
        readers[1].cmd(&["MGET", "b", "c"]);
        let counts = || {
            ["clients", "total_keys", "total_items", "total_prefixes"]
                .map(|name| number(server, &format!("tracking_{name}")))
        };
        assert_eq!(counts(), [3, 3, 4, 2]);
        server.client().cmd(&["DEL", "b"]);
        server.client().ok(&["SET", "b", "1"]);
        assert_eq!(counts(), [3, 2, 2, 2]);
        readers[0].ok(&["CLIENT", "TRACKING", "OFF"]);
        drop(follower);
        while counts()[0] > 1 {
            sleep(Duration::from_millis(1));
        }
        assert_eq!(counts(), [1, 2, 2, 0]);
    });
}

/// Keys beyond `tracking-table-max-keys` are dropped from the table, and their readers get an
/// invalidation.
#[test]
fn tracking_table_is_limited() {
    on_both("tracking_table_is_limited", |server| {
        const MOST: i64 = 100;
        server.client().ok(&["CONFIG", "SET", "tracking-table-max-keys", &MOST.to_string()]);
        let mut reader = tracker(server, &[]);
        for n in 0..1000 {
            reader.cmd(&["GET", &format!("key:{n}")]);
        }
        let gone = invalidated_keys(&mut reader);
        let kept = number(server, "tracking_total_keys");
        assert!((MOST / 2..=MOST + 1).contains(&kept), "{kept}");
        assert_eq!(gone.len() as i64 + kept, 1000);
        // A lower limit takes effect without further reads.
        server.client().ok(&["CONFIG", "SET", "tracking-table-max-keys", "10"]);
        while number(server, "tracking_total_keys") > 10 {
            sleep(Duration::from_millis(5));
        }
        assert!(invalidated_keys(&mut reader).len() >= (kept - 10) as usize);
    });
}

/// A read in the slow lane is answered before its invalidation is sent.
#[test]
fn long_read_is_answered_before_its_invalidation() {
    let server = Server::weft(&THREADS);
    let mut reader = tracker(&server, &[]);
    let mut writer = server.client();
    let mut push = vec!["RPUSH".to_string(), "list".into()];
    push.extend((0..50_000).map(|n| n.to_string()));
    writer.cmd(&push);
    for round in 0..20 {
        // A new list, so that an invalidation belongs to this read.
        let list = format!("list:{round}");
        writer.cmd(&["COPY", "list", &list]);
        reader.send_raw(&encode(&["LRANGE", &list, "0", "-1"])).expect("writable");
        writer.cmd(&["LSET", &list, "0", "x"]);
        writer.cmd(&["LSET", &list, "0", "y"]);
        let first = reader.read_frame().expect("a frame").value;
        assert!(matches!(first, Value::Array(_)), "a push came first");
        // Both changes may have come before the read.
        invalidated_keys(&mut reader);
    }
}

/// Connections that move between threads miss no invalidation.
#[test]
fn clients_that_move_get_invalidations() {
    let server = Server::weft(&THREADS);
    let mut readers: Vec<Client> = (0..8).map(|_| tracker(&server, &[])).collect();
    let mut writer = server.client();
    for round in 0..200 {
        for reader in &mut readers {
            reader.cmd(&["GET", "k"]);
        }
        writer.ok(&["DEBUG", "MOVE-CLIENTS"]);
        writer.ok(&["SET", "k", &round.to_string()]);
        for reader in &mut readers {
            assert_eq!(wait_for_invalidation(reader), ["k"], "round {round}");
        }
    }
}

/// A key that new clients keep reading, and that is never written, does not use more and more
/// memory.
#[test]
fn closed_clients_are_removed_from_the_table() {
    let server = Server::weft(&THREADS);
    for _ in 0..300 {
        tracker(&server, &[]).cmd(&["GET", "k"]);
    }
    let left = number(&server, "tracking_total_items");
    assert!(left < 100, "{left}");
}
