//! What operators rely on: that secrets stay secret and limits are kept, whatever clients send.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;
use weft_testkit::client::encode;
use weft_testkit::{Server, Value, locate};
use weft_tests::scene::{client, info, on_both, said, until};

/// All texts in a reply.
fn words(reply: &Value) -> Vec<String> {
    match reply {
        Value::Bulk(text) => vec![String::from_utf8_lossy(text).into_owned()],
        Value::Array(items) => items.iter().flat_map(words).collect(),
        _ => Vec::new(),
    }
}

/// A name may be the word AUTH, and a password may be sent twice.
#[test]
fn passwords_of_hello_are_in_no_log() {
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

/// The largest number of seconds that the directive takes is a long time, and a larger one is none.
#[test]
fn a_soft_limit_may_be_far_away() {
    on_both(&[], &[], |server| {
        let mut admin = client(server);
        let mut set = |seconds: i64| {
            let limit = format!("normal 0 1mb {seconds}");
            admin.cmd(&["CONFIG", "SET", "client-output-buffer-limit", &limit]).error()
        };
        for seconds in [i64::MAX, i64::MAX / 1000 + 1, 1 << 31] {
            let refused = set(seconds).expect("it is too far");
            assert!(refused.contains("Error in hard, soft or soft_seconds"), "{refused}");
        }
        assert_eq!(set(i64::from(i32::MAX)), None, "{}", server.name());
        admin.cmd(&["SETRANGE", "big", "10000000", "x"]);
        let mut lazy = TcpStream::connect(("127.0.0.1", server.port())).expect("it listens");
        lazy.write_all(&encode(&["CLIENT", "SETNAME", "lazy"])).expect("it reads");
        for _ in 0..3 {
            lazy.write_all(&encode(&["GET", "big"])).expect("it reads");
        }
        // A few ticks, in which it would be closed.
        std::thread::sleep(Duration::from_millis(500));
        let list = admin.cmd(&["CLIENT", "LIST"]).text();
        assert!(list.contains("name=lazy"), "{}: {list}", server.name());
    });
}

/// The names of subcommands are no names of commands.
#[test]
fn a_subcommand_with_its_container_is_no_command() {
    on_both(&[], &[], |server| {
        let mut client = client(server);
        for name in ["client|tracking", "CLIENT|CACHING", "config|get"] {
            let told = said(&mut client, &[name, "on"]);
            assert_eq!(
                told,
                format!("ERR unknown command '{name}', with args beginning with: 'on' ")
            );
        }
    });
}

/// PFMERGE takes its destination alone; which keys that would be, the reference does not say.
#[test]
fn keys_that_a_command_can_do_without() {
    on_both(&[], &[], |server| {
        let mut client = client(server);
        for ask in ["GETKEYS", "GETKEYSANDFLAGS"] {
            let told = said(&mut client, &["COMMAND", ask, "PFMERGE", "a"]);
            assert_eq!(told, "ERR Invalid arguments specified for command", "{}", server.name());
            assert_eq!(client.cmd(&["COMMAND", ask, "PFMERGE", "a", "b"]).items().len(), 2);
        }
    });
}

/// Who leaves just when it is chosen to make room holds nothing any more. Were it counted as leaving for
/// ever, the limit would grow by that.
#[test]
fn clients_that_leave_while_they_are_chosen_do_not_raise_the_limit() {
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
    until("all have come", || info(&mut admin, "total_connections_received") == before + 30);
    until("the rest is within the limit", || {
        (info(&mut admin, "connected_clients") as usize - 1) * HELD <= LIMIT
    });
    drop(held);
    assert!(server.is_alive());
}

/// Threads need descriptors, and those that `maxclients` speaks of are for clients: who came last would
/// wait in the kernel's queue, neither served nor refused.
#[test]
fn threads_do_not_take_the_descriptors_of_clients() {
    const DESCRIPTORS: u32 = 200;
    let threads = ["--io-threads", "2"];
    let server = Server::with_descriptors("weft", locate::weft(), &threads, DESCRIPTORS);
    let mut admin = client(&server);
    let told = said(&mut admin, &["CONFIG", "SET", "io-threads", "40"]);
    assert!(told.contains("not able to handle so many threads with maxclients"), "{told}");
    assert_eq!(said(&mut admin, &["CONFIG", "SET", "io-threads", "40", "maxclients", "40"]), "OK");
    let most = info(&mut admin, "maxclients");
    let mut others: Vec<_> = (1..most).map(|_| client(&server)).collect();
    for other in &mut others {
        assert_eq!(said(other, &["PING"]), "PONG");
    }
}
