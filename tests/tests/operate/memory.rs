//! `activedefrag` and the watchdog: background maintenance while the server serves clients.

use weft_testkit::{Client, Server};
use weft_tests::scene::{client, info, on_both, until};

const KEYS: usize = 100_000;

/// Fragmentation of the allocator's pages, in percent of the allocated bytes.
fn fragmentation(admin: &mut Client) -> u64 {
    let (active, used) = (info(admin, "allocator_active"), info(admin, "allocator_allocated"));
    active.saturating_sub(used) * 100 / used
}

/// Removing most keys at random leaves slabs with holes. Defragmentation closes them without any
/// change that clients can see.
#[test]
fn defragmentation_closes_holes_while_the_server_serves() {
    let server = Server::weft(&[
        "--enable-debug-command",
        "yes",
        "--io-threads",
        "2",
        "--active-defrag-ignore-bytes",
        "1mb",
        "--active-defrag-threshold-lower",
        "30",
        "--active-defrag-cycle-max",
        "75",
    ]);
    let mut admin = client(&server);
    admin.ok(&["DEBUG", "POPULATE", &KEYS.to_string(), "key", "200"]);
    for n in 0..200 {
        admin.ok(&["SET", &format!("expires:{n}"), "v", "EX", "10000"]);
        admin.cmd(&["HSET", &format!("hash:{n}"), "f", "v", "g", &n.to_string()]);
    }
    let names: Vec<String> = (0..KEYS).filter(|n| n % 4 != 0).map(|n| format!("key:{n}")).collect();
    for part in names.chunks(1000) {
        let unlink: Vec<&str> =
            ["UNLINK"].into_iter().chain(part.iter().map(String::as_str)).collect();
        assert_eq!(admin.cmd(&unlink).int(), part.len() as i64);
    }
    let digest = admin.cmd(&["DEBUG", "DIGEST"]);
    let before = fragmentation(&mut admin);
    assert!(before > 60, "the keys must leave holes: {before} %");
    let mut watcher = client(&server);
    watcher.ok(&["WATCH", "key:0", "key:4"]);
    admin.ok(&["CONFIG", "SET", "activedefrag", "yes"]);
    until("holes are closed", || fragmentation(&mut admin) < 30);
    assert!(info(&mut admin, "active_defrag_hits") > (KEYS / 10) as u64);
    until("defragmentation stops", || info(&mut admin, "active_defrag_running") == 0);
    assert_eq!(admin.cmd(&["DEBUG", "DIGEST"]), digest);
    assert!(admin.cmd(&["TTL", "expires:7"]).int() > 9000);
    // Moving a key is not a change for WATCH.
    watcher.ok(&["MULTI"]);
    watcher.cmd(&["GET", "key:4"]);
    assert_eq!(watcher.cmd(&["EXEC"]).items().len(), 1);
    admin.ok(&["CONFIG", "SET", "activedefrag", "no"]);
}

/// Clients write keys all the time, and each finds its own writes.
#[test]
fn defragmentation_moves_keys_during_writes() {
    let server = Server::weft(&[
        "--enable-debug-command",
        "yes",
        "--io-threads",
        "2",
        "--active-defrag-ignore-bytes",
        "1",
        "--active-defrag-threshold-lower",
        "0",
        "--active-defrag-cycle-min",
        "75",
        "--active-defrag-cycle-max",
        "75",
        "--activedefrag",
        "yes",
    ]);
    let mut admin = client(&server);
    until("defragmentation runs", || info(&mut admin, "active_defrag_running") > 0);
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let server = &server;
            scope.spawn(move || {
                let mut client = client(server);
                for round in 0..20 {
                    for n in 0..300 {
                        let key = format!("{writer}:{n}");
                        match (round + n) % 3 {
                            0 => client.ok(&["SET", &key, &"x".repeat((n * round) % 500)]),
                            1 => assert!(client.cmd(&["APPEND", &key, "more"]).int() >= 4),
                            _ => assert!(client.cmd(&["DEL", &key]).int() <= 1),
                        }
                    }
                }
                for n in 0..300 {
                    let key = format!("{writer}:{n}");
                    client.ok(&["SET", &key, &key]);
                }
            });
        }
    });
    for writer in 0..3 {
        for n in 0..300 {
            let key = format!("{writer}:{n}");
            assert_eq!(admin.cmd(&["GET", &key]).text(), key);
        }
    }
}

#[test]
fn watchdog_logs_stacks_and_the_server_continues() {
    on_both(&["--enable-debug-command", "yes"], &[], |server| {
        let mut admin = client(server);
        let period = |admin: &mut Client, wanted: &str| {
            admin.ok(&["CONFIG", "SET", "watchdog-period", wanted]);
            admin.cmd(&["CONFIG", "GET", "watchdog-period"]).items()[1].text()
        };
        // The minimum is two ticks.
        assert_eq!(period(&mut admin, "1"), "200");
        assert_eq!(period(&mut admin, "300"), "300");
        admin.ok(&["DEBUG", "SLEEP", "1"]);
        until("the stack traces are logged", || server.log().contains("STACK TRACE DONE"));
        let log = server.log();
        assert!(log.contains("WATCHDOG TIMER EXPIRED"), "{}", server.name());
        assert!(log.contains("------ STACK TRACE ------"), "{}", server.name());
        if server.name() == "weft" {
            let stuck = log.split("weft-io-0\n").nth(1).expect("the stack of the thread is logged");
            assert!(stuck.split("\n\n").next().is_some_and(|stack| stack.contains("sleep")));
        }
        assert_eq!(admin.cmd(&["PING"]).text(), "PONG");
        assert_eq!(period(&mut admin, "0"), "0");
    });
}
