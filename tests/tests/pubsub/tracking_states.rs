//! Client-side caching in unusual states: the redirect target is killed, the client changes its
//! protocol, there are more prefixes, readers or invalidations than a thread can process at once,
//! or the readers have disconnected.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;
use weft_testkit::client::encode;
use weft_testkit::{Client, Server, Value};
use weft_tests::scene::{client, id, info, on_both, reply, send, send_all, slow_lane_cpu, until};

const THREADS: [&str; 4] = ["--io-threads", "3", "--io-threads-always-active", "yes"];

/// All pushes that arrived before the reply to a PING.
fn pushes(client: &mut Client) -> Vec<Value> {
    client.cmd(&["PING"]);
    client.take_pushes()
}

/// The first word of each push.
fn push_names(client: &mut Client) -> Vec<String> {
    pushes(client).iter().map(|push| push.items()[0].text()).collect()
}

/// The redirect target is killed: the tracking client is notified at once.
#[test]
fn client_is_notified_when_its_redirect_target_is_killed() {
    on_both(&[], &THREADS, |server| {
        let (mut reader, mut killer) = (client(server), client(server));
        reader.hello(3);
        for round in 0..200 {
            let mut target = client(server);
            let target = id(&mut target);
            reader.ok(&["CLIENT", "TRACKING", "ON", "REDIRECT", &target]);
            reader.cmd(&["GET", "k"]);
            send_all(&mut killer, &[&["CLIENT", "KILL", "ID", &target], &["SET", "k", "v"]]);
            assert_eq!(reply(&mut killer).int(), 1);
            assert!(reply(&mut killer).is_ok());
            assert_eq!(push_names(&mut reader), ["tracking-redir-broken"], "round {round}");
        }
    });
}

/// A client that changes its redirection gets each invalidation one way or the other.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn no_invalidation_is_lost_when_the_redirection_changes() {
    let server = Server::weft(&THREADS);
    let (mut reader, mut target) = (client(&server), client(&server));
    reader.hello(3);
    target.hello(3);
    let to = id(&mut target);
    let (written, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = client(&server);
            let some = vec![vec!["SET", "k", "v"]; 100];
            while !done.load(Ordering::Relaxed) {
                writer.pipeline(&some).expect("the server answers");
                written.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut lost = 0;
        for _ in 0..5000 {
            let there: &[&str] = &["CLIENT", "TRACKING", "ON", "REDIRECT", &to];
            send_all(&mut reader, &[there, &["GET", "k"], &["CLIENT", "TRACKING", "ON"]]);
            (0..3).for_each(|_| drop(reply(&mut reader)));
            // Wait for a write that began after the change to complete.
            let before = written.load(Ordering::Relaxed);
            until("more is written", || written.load(Ordering::Relaxed) > before + 1);
            let here = pushes(&mut reader).len();
            lost += usize::from(here + pushes(&mut target).len() == 0);
        }
        done.store(true, Ordering::Relaxed);
        assert_eq!(lost, 0, "reads without an invalidation");
    });
}

/// Pushes between the end of a transaction in the slow lane and its reply use the protocol that the
/// transaction selected.
#[test]
fn pushes_after_a_transaction_use_its_protocol() {
    on_both(&["--enable-debug-command", "yes"], &THREADS, |server| {
        for round in 0..10 {
            let (mut reader, mut writer) = (client(server), client(server));
            writer.ok(&["DEBUG", "POPULATE", "200000"]);
            // So many words that the slow lane runs the command.
            let many = [vec!["EXISTS"], vec!["k"; 3000]].concat();
            let transaction: [&[&str]; 8] = [
                &["MULTI"],
                &many,
                &["HELLO", "3"],
                &["CLIENT", "TRACKING", "ON"],
                &["FLUSHALL", "SYNC"],
                &["GET", "k"],
                &["SUBSCRIBE", "c"],
                &["EXEC"],
            ];
            send_all(&mut reader, &transaction);
            send_all(&mut writer, &[&["SET", "k", "v"], &["PUBLISH", "c", "m"]]);
            reply(&mut writer);
            let receivers = reply(&mut writer).int();
            for _ in 0..7 {
                reply(&mut reader);
            }
            let replies = reply(&mut reader);
            // Otherwise the write came first.
            if replies.items()[4].is_null() {
                assert!(
                    push_names(&mut reader).contains(&"invalidate".to_string()),
                    "round {round}"
                );
            } else if receivers == 1 {
                assert!(push_names(&mut reader).contains(&"message".to_string()), "round {round}");
            }
        }
    });
}

/// A client that has just become a redirect target gets the invalidation before its next reply.
#[test]
fn new_redirect_target_gets_invalidations_before_its_next_reply() {
    on_both(&["--enable-debug-command", "yes"], &["--io-threads", "1"], |server| {
        for _ in 0..5 {
            let (mut sleeper, mut reader) = (client(server), client(server));
            let mut target = client(server);
            target.hello(3);
            let to = id(&mut target);
            reader.cmd(&["PING"]);
            // So that the server finds the requests of the other two clients in one iteration.
            send(&mut sleeper, &["DEBUG", "SLEEP", "0.1"]);
            sleep(Duration::from_millis(20));
            let redirect: &[&str] = &["CLIENT", "TRACKING", "ON", "REDIRECT", &to];
            send_all(&mut reader, &[redirect, &["GET", "k"], &["SET", "k", "new"]]);
            sleep(Duration::from_millis(20));
            send(&mut target, &["GET", "k"]);
            let first = target.read_frame().expect("a frame").value;
            assert!(matches!(first, Value::Push(_)), "{first} came before its invalidation");
            assert_eq!(reply(&mut target).text(), "new");
        }
    });
}

/// Number of clients that get all invalidations, and read them all.
const FOLLOWERS: usize = 200;

/// Far more than an inbox may hold, and far less than all invalidations.
const BOUND: u64 = 32 << 20;

/// Writers wait for the threads that deliver the invalidations.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn invalidations_do_not_pile_up() {
    let server = Server::weft(&["--io-threads", "2", "--io-threads-always-active", "yes"]);
    let mut admin = client(&server);
    let follow = [encode(&["HELLO", "3"]), encode(&["CLIENT", "TRACKING", "ON", "BCAST"])].concat();
    let mut all: Vec<TcpStream> = (0..FOLLOWERS)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a port");
            stream.write_all(&follow).expect("the server reads");
            stream.set_nonblocking(true).expect("a socket");
            stream
        })
        .collect();
    until("all clients track", || info(&mut admin, "tracking_clients") == FOLLOWERS as u64);
    let (before, done) = (info(&mut admin, "used_memory"), AtomicBool::new(false));
    let most = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut bytes = vec![0; 1 << 20];
            while !done.load(Ordering::Relaxed) {
                all.iter_mut().for_each(|stream| drop(stream.read(&mut bytes)));
            }
        });
        let writing = scope.spawn(|| {
            let mut writer = client(&server);
            let some = vec![vec!["SET", "key", "value"]; 1000];
            for _ in 0..100 {
                writer.pipeline(&some).expect("the server answers");
            }
        });
        let mut most = before;
        while !writing.is_finished() {
            most = most.max(info(&mut admin, "used_memory"));
            sleep(Duration::from_millis(2));
        }
        done.store(true, Ordering::Relaxed);
        most
    });
    assert!(most - before < BOUND, "{} bytes more", most - before);
}

/// A command with very many prefixes runs in the slow lane, and a write does not check each prefix.
#[test]
fn tracking_very_many_prefixes_works() {
    const PREFIXES: usize = 100_000;
    let server = Server::weft(&["--io-threads", "1"]);
    let (mut follower, mut writer) = (client(&server), client(&server));
    follower.set_timeout(Duration::from_secs(60));
    follower.hello(3);
    let names: Vec<String> = (0..PREFIXES).map(|n| format!("prefix:{n:06}:")).collect();
    let mut on = vec!["CLIENT", "TRACKING", "ON", "BCAST"];
    names.iter().for_each(|name| on.extend(["PREFIX", name]));
    let before = slow_lane_cpu(&server);
    send(&mut follower, &on);
    assert!(reply(&mut follower).is_ok());
    until("the slow lane has run it", || slow_lane_cpu(&server) > before);
    assert_eq!(info(&mut writer, "tracking_total_prefixes"), PREFIXES as u64);
    let sets = vec![vec!["SET", "prefix:000007:k", "v"]; 20_000];
    writer.pipeline(&sets).expect("no write checks all prefixes");
    assert_eq!(pushes(&mut follower).len(), sets.len());
    send(&mut follower, &[&on[..], &["PREFIX", "prefix:0"]].concat());
    let text = reply(&mut follower).error().expect("all prefixes are registered");
    assert!(text.contains("overlaps with an existing prefix 'prefix:000000:'"), "{text}");
    drop(follower);
    until("no prefix is tracked", || info(&mut writer, "tracking_total_prefixes") == 0);
}

/// The table keeps little memory for a client that read a key and disconnected.
#[test]
fn closed_clients_leave_little_memory_in_the_table() {
    const CLIENTS: u64 = 3000;
    /// Bytes: a key with its entry, and the record of its reader.
    const MOST: u64 = 500;
    let server = Server::weft(&["--io-threads", "1"]);
    let mut admin = client(&server);
    let before = info(&mut admin, "used_memory");
    for n in 0..CLIENTS {
        let mut reader = client(&server);
        reader.ok(&["CLIENT", "TRACKING", "ON"]);
        reader.cmd(&["GET", &format!("key:{n}")]);
    }
    until("all readers are gone", || info(&mut admin, "connected_clients") == 1);
    assert_eq!(info(&mut admin, "tracking_total_items"), CLIENTS);
    let each = info(&mut admin, "used_memory").saturating_sub(before) / CLIENTS;
    assert!(each < MOST, "{each} bytes are left per reader");
}

/// An error that names a prefix ends it at a NUL, like a C string.
#[test]
fn prefixes_may_contain_a_nul() {
    on_both(&[], &[], |server| {
        let mut client = client(server);
        let words: [&[u8]; 8] =
            [b"CLIENT", b"TRACKING", b"ON", b"BCAST", b"PREFIX", b"a\0b", b"PREFIX", b"a\0bc"];
        let text = client.cmd(&words).error().expect("they overlap");
        assert!(text.contains("Prefix 'a' overlaps with another provided prefix 'a'."), "{text}");
    });
}
