//! Subscribers that do not read, are killed or are idle for long, and publishers that are faster
//! than their subscribers.

use std::time::Duration;
use weft_testkit::client::encode;
use weft_testkit::{Client, Server, Value};
use weft_tests::scene::{client, info, on_both, reply, reply_text, send, until};

fn subscriber(server: &Server, channel: &str) -> Client {
    let mut subscriber = client(server);
    send(&mut subscriber, &["SUBSCRIBE", channel]);
    assert_eq!(reply(&mut subscriber).items()[0].text(), "subscribe");
    subscriber
}

fn publish(client: &mut Client, message: &str) -> i64 {
    client.cmd(&["PUBLISH", "c", message]).int()
}

fn subscribers(client: &mut Client, channel: &str) -> i64 {
    client.cmd(&["PUBSUB", "NUMSUB", channel]).items()[1].int()
}

const THREADS: [&str; 4] = ["--io-threads", "4", "--io-threads-always-active", "yes"];

#[test]
fn subscriber_that_does_not_read_is_closed_at_the_hard_limit() {
    on_both(&[], &THREADS, |server| {
        let mut admin = client(server);
        admin.ok(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 2mb 0 0"]);
        let (lazy, mut reader) = (subscriber(server, "c"), subscriber(server, "c"));
        let message = "m".repeat(8 << 10);
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| {
                let mut taken = 0;
                while reply(&mut reader).items()[2].text() != "end" {
                    taken += 1;
                }
                taken
            });
            let mut sent = 0;
            while subscribers(&mut admin, "c") == 2 {
                admin.cmd(&["PUBLISH", "c", &message]);
                sent += 1;
                assert!(sent < 10_000, "the limit does not hold");
            }
            admin.cmd(&["PUBLISH", "c", "end"]);
            assert_eq!(taken.join().expect("no panic"), sent);
        });
        assert_eq!(info(&mut admin, "client_output_buffer_limit_disconnections"), 1);
        drop(lazy);
    });
}

#[test]
fn subscriber_that_does_not_read_is_closed_at_the_soft_limit() {
    on_both(&[], &THREADS, |server| {
        let mut admin = client(server);
        admin.ok(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 1mb 1"]);
        let _lazy = subscriber(server, "c");
        let message = "m".repeat(1 << 20);
        (0..12).for_each(|_| assert_eq!(publish(&mut admin, &message), 1));
        assert_eq!(subscribers(&mut admin, "c"), 1, "not at once");
        until("the client is closed", || subscribers(&mut admin, "c") == 0);
    });
}

/// The limits of subscribers and of other clients are separate.
#[test]
fn output_limits_of_client_classes_are_separate() {
    on_both(&[], &THREADS, |server| {
        let mut admin = client(server);
        admin.ok(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 0 0 normal 1mb 0 0"]);
        let mut lazy = subscriber(server, "c");
        let message = "m".repeat(1 << 20);
        (0..20).for_each(|_| assert_eq!(publish(&mut admin, &message), 1));
        for _ in 0..20 {
            assert_eq!(reply(&mut lazy).items()[2].text().len(), message.len());
        }
    });
}

#[test]
fn subscribers_may_be_killed_during_publishes() {
    on_both(&[], &THREADS, |server| {
        let mut publisher = client(server);
        let mut admin = client(server);
        for round in 0..20 {
            let all: Vec<Client> = (0..30).map(|_| subscriber(server, "c")).collect();
            let mut pattern = client(server);
            send(&mut pattern, &["PSUBSCRIBE", "*"]);
            reply(&mut pattern);
            let request = encode(&["PUBLISH", "c", "message"]);
            publisher.send_raw(&request.repeat(100)).expect("the server reads");
            let killed = admin.cmd(&["CLIENT", "KILL", "TYPE", "pubsub"]);
            assert_eq!(killed, Value::Integer(31), "round {round}");
            (0..100).for_each(|_| drop(reply(&mut publisher)));
            for mut client in all.into_iter().chain([pattern]) {
                client.read_to_close().expect("the client is closed");
            }
            until("no receivers", || publish(&mut publisher, "m") == 0);
            assert_eq!(admin.cmd(&["PUBSUB", "NUMPAT"]), Value::Integer(0));
            assert_eq!(info(&mut admin, "pubsub_clients"), 0);
        }
    });
}

/// Many publishers and threads with many subscribers: every subscriber gets every message.
#[test]
fn publishers_wait_for_slow_threads() {
    const SUBSCRIBERS: usize = 200;
    const MESSAGES: usize = 4000;
    const PUBLISHERS: usize = 4;
    let server = Server::weft(&THREADS);
    let mut admin = client(&server);
    admin.ok(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 0 0"]);
    let all: Vec<Client> = (0..SUBSCRIBERS).map(|_| subscriber(&server, "c")).collect();
    std::thread::scope(|scope| {
        for _ in 0..PUBLISHERS {
            let mut publisher = client(&server);
            scope.spawn(move || {
                let requests = vec![vec!["PUBLISH", "c", "message"]; MESSAGES];
                let replies = publisher.pipeline(&requests).expect("the server answers");
                assert!(replies.iter().all(|r| r.value == Value::Integer(SUBSCRIBERS as i64)));
            });
        }
        let mut rest = all;
        while !rest.is_empty() {
            let some = rest.split_off(rest.len() - rest.len().min(50));
            scope.spawn(move || {
                for mut client in some {
                    for n in 0..MESSAGES * PUBLISHERS {
                        let got = client.read_frame().unwrap_or_else(|e| panic!("{n}: {e}"));
                        assert_eq!(got.value.items()[2].text(), "message");
                    }
                }
            });
        }
        // Other clients are served meanwhile.
        for _ in 0..200 {
            assert_eq!(reply_text(&mut admin, &["PING"]), "PONG");
        }
    });
}

#[test]
fn subscriber_is_not_closed_by_the_idle_timeout() {
    on_both(&["--timeout", "1"], &THREADS, |server| {
        let mut listener = subscriber(server, "c");
        let mut idle = client(server);
        assert_eq!(reply_text(&mut idle, &["PING"]), "PONG");
        assert_eq!(idle.read_to_close().expect("closed"), b"");
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(publish(&mut client(server), "m"), 1);
        assert_eq!(reply(&mut listener).items()[2].text(), "m");
    });
}

#[test]
fn monitor_may_also_subscribe() {
    on_both(&[], &THREADS, |server| {
        let mut both = client(server);
        both.ok(&["MONITOR"]);
        send(&mut both, &["SUBSCRIBE", "c"]);
        assert_eq!(reply(&mut both).items()[0].text(), "subscribe");
        assert!(reply(&mut both).text().ends_with("\"SUBSCRIBE\" \"c\""));
        assert_eq!(publish(&mut client(server), "m"), 1);
        let two = [reply(&mut both), reply(&mut both)];
        let is_line =
            |v: &Value| matches!(v, Value::Simple(s) if s.ends_with(b"\"PUBLISH\" \"c\" \"m\""));
        assert!(two.iter().any(is_line), "{two:?}");
        assert!(two.iter().any(|v| matches!(v, Value::Array(m) if m[2].text() == "m")), "{two:?}");
    });
}
