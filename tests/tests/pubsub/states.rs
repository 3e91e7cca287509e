//! Publish and subscribe with large quantities: names, unread messages, and notifications for more
//! subscribers than a thread can serve at once.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_testkit::client::encode;
use weft_testkit::{Client, Server};
use weft_tests::scene::{client, info, on_both, reply, send, slow_lane_cpu, until};

/// So many names that a command takes several ticks of the kernel's clock.
const MANY: usize = 200_000;

fn names(prefix: &str) -> Vec<String> {
    (0..MANY).map(|n| format!("{prefix}{n}")).collect()
}

/// Sends a command of many words.
fn long(client: &mut Client, head: &[&str], tail: &[String]) {
    let all: Vec<&str> = head.iter().copied().chain(tail.iter().map(String::as_str)).collect();
    send(client, &all);
}

/// Commands on very many names run in the slow lane.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn commands_on_many_names_run_in_the_slow_lane() {
    let server = Server::weft(&["--io-threads", "1"]);
    let (mut client, names) = (client(&server), names("name:"));
    let mut in_slow_lane = |what: &str, ask: &mut dyn FnMut(&mut Client)| {
        let before = slow_lane_cpu(&server);
        ask(&mut client);
        until(&format!("the slow lane has run {what}"), || slow_lane_cpu(&server) > before);
    };
    in_slow_lane("SUBSCRIBE", &mut |client| {
        long(client, &["SUBSCRIBE"], &names);
        for n in 1..=MANY {
            assert_eq!(reply(client).items()[2].int() as usize, n);
        }
    });
    let mut other = weft_tests::scene::client(&server);
    let before = slow_lane_cpu(&server);
    let found = other.cmd(&["PUBSUB", "CHANNELS", "*n*a*m*e*99*"]);
    assert!(found.items().len() > 100);
    until("the slow lane has run PUBSUB CHANNELS", || slow_lane_cpu(&server) > before);
    assert_eq!(other.cmd(&["PUBLISH", "name:7", "m"]).int(), 1);
    in_slow_lane("UNSUBSCRIBE", &mut |client| {
        assert_eq!(reply(client).items()[2].text(), "m");
        send(client, &["UNSUBSCRIBE"]);
        for n in (0..MANY).rev() {
            assert_eq!(reply(client).items()[2].int() as usize, n);
        }
    });
    in_slow_lane("CONFIG GET", &mut |client| {
        let patterns: Vec<String> = names.iter().take(20_000).map(|n| format!("*{n}*")).collect();
        long(client, &["CONFIG", "GET", "maxmemory"], &patterns);
        assert_eq!(reply(client).items().len(), 2);
    });
    in_slow_lane("COMMAND INFO", &mut |client| {
        long(client, &["COMMAND", "INFO"], &vec!["get".to_string(); MANY]);
        assert_eq!(reply(client).items().len(), MANY);
    });
}

/// WATCH must find duplicates among the keys that are watched already.
#[test]
fn watching_many_keys_works() {
    let server = Server::weft(&["--io-threads", "1"]);
    let (mut watcher, mut other) = (client(&server), client(&server));
    for _ in 0..2 {
        long(&mut watcher, &["WATCH"], &names("k"));
        assert!(reply(&mut watcher).is_ok());
    }
    for (key, broken) in [("k199999", true), ("other", false)] {
        other.ok(&["SET", key, "v"]);
        watcher.ok(&["MULTI"]);
        assert_eq!(watcher.cmd(&["EXEC"]).is_null(), broken);
        long(&mut watcher, &["WATCH"], &names("k"));
        assert!(reply(&mut watcher).is_ok());
    }
}

/// Messages that arrive while a client is in the slow lane count towards its output limit.
#[test]
fn delayed_messages_count_towards_the_output_limit() {
    let server = Server::weft(&["--io-threads", "2", "--io-threads-always-active", "yes"]);
    let mut admin = client(&server);
    admin.ok(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 2mb 0 0"]);
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("a port").port().to_string();
    let mut listener = client(&server);
    listener.hello(3);
    send(&mut listener, &["SUBSCRIBE", "c"]);
    listener.read_frame().expect("the confirmation");
    listener.ok(&["SET", "k", "v"]);
    send(&mut listener, &["MIGRATE", "127.0.0.1", &port, "k", "0", "600000"]);
    let (held, _) = silent.accept().expect("the server moves the key");
    let message = "m".repeat(1 << 20);
    for _ in 0..10 {
        admin.cmd(&["PUBLISH", "c", &message]);
    }
    until("it is closed", || info(&mut admin, "client_output_buffer_limit_disconnections") == 1);
    drop(held);
    assert_eq!(admin.cmd(&["GET", "k"]).text(), "v");
}

/// Number of subscribers, which read all their messages.
const SUBSCRIBERS: usize = 200;

/// The largest increase of the server's memory during `act`, while all clients subscribed by
/// `subscribe` read.
fn memory_during(server: &Server, subscribe: &[&str], act: impl FnOnce() + Send) -> u64 {
    let mut admin = client(server);
    admin.set_timeout(Duration::from_secs(60));
    let subscribe = encode(subscribe);
    let mut all: Vec<TcpStream> = (0..SUBSCRIBERS)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a port");
            stream.write_all(&subscribe).expect("the server reads");
            stream.set_nonblocking(true).expect("a socket");
            stream
        })
        .collect();
    until("all have subscribed", || info(&mut admin, "pubsub_clients") == SUBSCRIBERS as u64);
    let before = info(&mut admin, "used_memory");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut bytes = vec![0; 1 << 20];
            while !done.load(Ordering::Relaxed) {
                all.iter_mut().for_each(|stream| drop(stream.read(&mut bytes)));
            }
        });
        let acting = scope.spawn(act);
        let mut most = before;
        while !acting.is_finished() {
            most = most.max(info(&mut admin, "used_memory"));
            std::thread::sleep(Duration::from_millis(2));
        }
        done.store(true, Ordering::Relaxed);
        most - before
    })
}

/// Sends `request` `times` times at once and reads the replies, of `lines` lines each.
fn flood(server: &Server, request: &[u8], times: usize, lines: usize) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a port");
    let mut reader = stream.try_clone().expect("a socket");
    let reading = std::thread::spawn(move || {
        let (mut bytes, mut left) = (vec![0; 1 << 20], times * lines);
        while left > 0 {
            let got = reader.read(&mut bytes).expect("the server answers");
            assert!(got > 0, "the server hangs up");
            left -= bytes[..got].iter().filter(|byte| **byte == b'\n').count();
        }
    });
    let some = request.repeat(100);
    (0..times / 100).for_each(|_| stream.write_all(&some).expect("the server reads"));
    reading.join().expect("no panic");
}

/// Far more than an inbox may hold, and far less than all messages.
const BOUND: u64 = 32 << 20;

/// Keys with many subscribers change: the writers wait for the threads that deliver the
/// notifications.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn notifications_do_not_pile_up() {
    for threads in ["1", "2"] {
        let args = ["--io-threads", threads, "--io-threads-always-active", "yes"];
        let server = Server::weft(&args);
        client(&server).ok(&["CONFIG", "SET", "notify-keyspace-events", "K$"]);
        let set = encode(&["SET", "key", "value"]);
        let more =
            memory_during(&server, &["PSUBSCRIBE", "__key*"], || flood(&server, &set, 150_000, 1));
        assert!(more < BOUND, "{more} bytes more, with {threads} threads");
    }
}

/// The same with messages published in a transaction.
#[test]
fn messages_of_transactions_do_not_pile_up() {
    const MESSAGES: usize = 100;
    let server = Server::weft(&["--io-threads", "2", "--io-threads-always-active", "yes"]);
    let publish = encode(&["PUBLISH", "c", "message"]).repeat(MESSAGES);
    let transaction = [encode(&["MULTI"]), publish, encode(&["EXEC"])].concat();
    let lines = 1 + MESSAGES + 1 + MESSAGES;
    let more = memory_during(&server, &["SUBSCRIBE", "c"], || {
        flood(&server, &transaction, 2000, lines);
    });
    assert!(more < BOUND, "{more} bytes more");
}

/// CLIENT REPLY drops replies, but not the pushes of a command that ran in the slow lane.
#[test]
fn pushes_of_the_slow_lane_are_sent_with_replies_off() {
    on_both(&[], &[], |server| {
        let mut listener = client(server);
        for n in 0..10 {
            let elements: Vec<String> = (0..1000).map(|m| (n * 1000 + m).to_string()).collect();
            long(&mut listener, &["RPUSH", "list"], &elements);
            reply(&mut listener);
        }
        send(&mut listener, &["CLIENT", "REPLY", "OFF"]);
        send(&mut listener, &["MULTI"]);
        send(&mut listener, &["SORT", "list"]);
        send(&mut listener, &["SUBSCRIBE", "c"]);
        send(&mut listener, &["EXEC"]);
        assert_eq!(reply(&mut listener).items()[0].text(), "subscribe");
        long(&mut listener, &["SUBSCRIBE"], &names("n")[..5000]);
        for n in 2..=5001 {
            assert_eq!(reply(&mut listener).items()[2].int(), n);
        }
    });
}
