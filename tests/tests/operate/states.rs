//! Guarantees for operators: secrets stay secret and limits hold, whatever clients send.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;
use weft_testkit::client::encode;
use weft_testkit::{Server, Value, locate};
use weft_tests::scene::{client, info, on_both, reply_text, until};

/// All strings in a reply.
fn words(reply: &Value) -> Vec<String> {
    match reply {
        Value::Bulk(text) => vec![String::from_utf8_lossy(text).into_owned()],
        Value::Array(items) => items.iter().flat_map(words).collect(),
        _ => Vec::new(),
    }
}

/// A client name may be the word AUTH, and a password may be sent twice.
#[test]
fn passwords_of_hello_are_never_logged() {
    on_both(&["--slowlog-log-slower-than", "0"], &[], |server| {
        let mut admin = client(server);
        admin.ok(&["CONFIG", "SET", "requirepass", "hidden-1"]);
        for words in [
            &["HELLO", "3", "SETNAME", "auth", "AUTH", "default", "hidden-1"][..],
            &["HELLO", "3", "AUTH", "default", "hidden-0", "AUTH", "default", "hidden-1"],
        ] {
            assert!(client(server).cmd(words).error().is_none(), "{}", server.name());
        }
        let logged = words(&admin.cmd(&["SLOWLOG", "GET", "-1"])).join(" ");
        assert!(logged.contains("HELLO"), "{logged}");
        assert!(!logged.contains("hidden"), "{}: {logged}", server.name());
    });
}

/// The largest accepted number of seconds must not close the client early. Larger numbers are
/// refused.
#[test]
fn soft_limit_accepts_a_long_time() {
    on_both(&[], &[], |server| {
        let mut admin = client(server);
        let mut set = |seconds: i64| {
            let limit = format!("normal 0 1mb {seconds}");
            admin.cmd(&["CONFIG", "SET", "client-output-buffer-limit", &limit]).error()
        };
        for seconds in [i64::MAX, i64::MAX / 1000 + 1, 1 << 31] {
            let refused = set(seconds).expect("the time is too large");
            assert!(refused.contains("Error in hard, soft or soft_seconds"), "{refused}");
        }
        assert_eq!(set(i64::from(i32::MAX)), None, "{}", server.name());
        admin.cmd(&["SETRANGE", "big", "10000000", "x"]);
        let mut lazy =
            TcpStream::connect(("127.0.0.1", server.port())).expect("the server listens");
        lazy.write_all(&encode(&["CLIENT", "SETNAME", "lazy"])).expect("the server reads");
        for _ in 0..3 {
            lazy.write_all(&encode(&["GET", "big"])).expect("the server reads");
        }
        // Wait for a few ticks, in which the client would be closed.
        std::thread::sleep(Duration::from_millis(500));
        let list = admin.cmd(&["CLIENT", "LIST"]).text();
        assert!(list.contains("name=lazy"), "{}: {list}", server.name());
    });
}

/// A subcommand's full name is not the name of a command.
#[test]
fn full_name_of_a_subcommand_is_not_a_command() {
    on_both(&[], &[], |server| {
        let mut client = client(server);
        for name in ["client|tracking", "CLIENT|CACHING", "config|get"] {
            let answer = reply_text(&mut client, &[name, "on"]);
            assert_eq!(
                answer,
                format!("ERR unknown command '{name}', with args beginning with: 'on' ")
            );
        }
    });
}

/// PFMERGE works with its destination alone, but COMMAND GETKEYS of the reference refuses that.
#[test]
fn getkeys_refuses_pfmerge_without_sources() {
    on_both(&[], &[], |server| {
        let mut client = client(server);
        for ask in ["GETKEYS", "GETKEYSANDFLAGS"] {
            let answer = reply_text(&mut client, &["COMMAND", ask, "PFMERGE", "a"]);
            assert_eq!(answer, "ERR Invalid arguments specified for command", "{}", server.name());
            assert_eq!(client.cmd(&["COMMAND", ask, "PFMERGE", "a", "b"]).items().len(), 2);
        }
    });
}

/// A client may disconnect just when it is chosen for eviction. If it counted as leaving forever,
/// the limit would rise by its size.
#[test]
fn clients_that_leave_during_eviction_do_not_raise_the_limit() {
    const LIMIT: usize = 2 << 20;
    const HELD: usize = 500_000;
    let limit = LIMIT.to_string();
    let threads = ["--io-threads", "4", "--io-threads-always-active", "yes"];
    let mut server = Server::weft(&[&threads[..], &["--maxmemory-clients", &limit]].concat());
    let half_sent = |held: usize| {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).ok()?;
        let mut bytes = b"*2\r\n$4\r\nECHO\r\n$1000000\r\n".to_vec();
        bytes.resize(held, b'x');
        stream.write_all(&bytes).ok()?;
        Some(stream)
    };
    std::thread::scope(|scope| {
        for n in 0..8 {
            scope.spawn(move || {
                (0..400).for_each(|i| drop(half_sent(200_000 + 7000 * (n + i % 50))))
            });
        }
    });
    let mut admin = client(&server);
    admin.ok(&["CLIENT", "NO-EVICT", "on"]);
    until("all have left", || info(&mut admin, "connected_clients") == 1);
    let before = info(&mut admin, "total_connections_received");
    let held: Vec<_> = (0..30).map(|_| half_sent(HELD)).collect();
    until("all connected", || info(&mut admin, "total_connections_received") == before + 30);
    until("the remaining clients are within the limit", || {
        (info(&mut admin, "connected_clients") as usize - 1) * HELD <= LIMIT
    });
    drop(held);
    assert!(server.is_alive());
}

/// The threads' descriptors are not part of `maxclients`. Otherwise the last client would wait in
/// the kernel's queue, neither served nor refused.
#[test]
fn threads_do_not_take_the_descriptors_of_clients() {
    const DESCRIPTORS: u32 = 200;
    let threads = ["--io-threads", "2"];
    let server = Server::with_descriptors("weft", locate::weft(), &threads, DESCRIPTORS);
    let mut admin = client(&server);
    let answer = reply_text(&mut admin, &["CONFIG", "SET", "io-threads", "40"]);
    assert!(answer.contains("not able to handle so many threads with maxclients"), "{answer}");
    assert_eq!(
        reply_text(&mut admin, &["CONFIG", "SET", "io-threads", "40", "maxclients", "40"]),
        "OK"
    );
    let most = info(&mut admin, "maxclients");
    let mut others: Vec<_> = (1..most).map(|_| client(&server)).collect();
    for other in &mut others {
        assert_eq!(reply_text(other, &["PING"]), "PONG");
    }
}
