//! I/O threads that follow the load, connections that move between them, and changes of
//! `io-threads` while clients are connected.
//!
//! | variable | meaning |
//! |---|---|
//! | `THREADS_SECONDS` | how long the number of threads goes up and down under load, default 4 |

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft_testkit::{Client, Server};
use weft_tests::env_or;

/// Far more than necessary; the tests assert no durations.
const PATIENCE: Duration = Duration::from_secs(90);

/// A field of INFO threads.
fn field(client: &mut Client, name: &str) -> String {
    let info = client.cmd(&["INFO", "threads"]).text();
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {info}")).trim().to_string()
}

fn active(client: &mut Client) -> usize {
    field(client, "io_threads_active").parse().expect("a number")
}

/// Waits until `done` returns true. Returns the elapsed time.
fn wait_for(what: &str, mut done: impl FnMut() -> bool) -> Duration {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < PATIENCE, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    since.elapsed()
}

/// Sets the flag on drop, also during a panic, so that the threads of a scope end.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Much work for the server and little for the client: compares large sets and returns a number.
/// There are always requests in flight, so the server is never idle. Each client has its own sets,
/// because threads that wait for shards are not busy.
fn heavy_load(server: &Server, done: &AtomicBool, nth: usize) {
    const DEPTH: usize = 100;
    let mut client = server.client();
    let keys = [("a", 0), ("b", 100_000)].map(|(name, offset)| {
        let key = format!("{{{nth}}}{name}");
        let members: Vec<String> = (0..400).map(|n| format!("member:{}", n + offset)).collect();
        let mut command = vec!["SADD".to_string(), key.clone()];
        command.extend(members);
        client.cmd(&command);
        key
    });
    let words = ["SINTERCARD", "2", &keys[0], &keys[1]];
    let request = weft_testkit::client::encode(&words).repeat(DEPTH);
    client.send_raw(&request).expect("sent");
    while !done.load(Ordering::Relaxed) {
        client.send_raw(&request).expect("sent");
        for _ in 0..DEPTH {
            assert_eq!(client.read_reply().expect("answered").value.int(), 0);
        }
    }
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn number_of_active_threads_follows_the_load() {
    let server = Server::weft(&["--io-threads", "4"]);
    let mut client = server.client();
    assert_eq!(active(&mut client), 1, "one thread is enough");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = SetOnDrop(&done);
        for nth in 0..40 {
            let (server, done) = (&server, &done);
            scope.spawn(move || heavy_load(server, done, nth));
        }
        let took = wait_for("activity of all threads", || active(&mut client) == 4);
        println!("all active after {took:?}");
        // Each thread gets connections and executes, at least on trial: on two CPUs, two threads
        // may serve as much.
        for n in 0..4 {
            wait_for("requests on every thread", || number(&mut client, n, "requests") > 0);
        }
    });
    let took = wait_for("one active thread", || active(&mut client) == 1);
    println!("quiet after {took:?}");
    let turns =
        |client: &mut Client| -> Vec<u64> { (1..4).map(|n| number(client, n, "turns")).collect() };
    wait_for("idle threads", || {
        let before = turns(&mut client);
        std::thread::sleep(Duration::from_millis(500));
        turns(&mut client) == before
    });
}

/// A number from a thread's line in INFO threads.
fn number(client: &mut Client, thread: usize, name: &str) -> u64 {
    let line = field(client, &format!("io_thread_{thread}"));
    let found = line.split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("no {name} in {line}")).parse().expect("a number")
}

/// Twenty-five connections count, each in its own key, with `depth` requests in flight. Each reply
/// must be the next number.
fn count(server: &Server, done: &AtomicBool, name: usize, depth: i64) -> i64 {
    let mut clients: Vec<Client> = (0..25).map(|_| server.client()).collect();
    let requests: Vec<Vec<u8>> = (0..clients.len())
        .map(|n| {
            weft_testkit::client::encode(&["INCR", &format!("{name}:{n}")]).repeat(depth as usize)
        })
        .collect();
    let mut expected = 0;
    while !done.load(Ordering::Relaxed) {
        for (client, request) in clients.iter_mut().zip(&requests) {
            client.send_raw(request).expect("sent");
        }
        for client in &mut clients {
            for n in 1..=depth {
                let reply = client.read_reply().expect("answered").value.int();
                assert_eq!(reply, expected + n, "a reply out of order");
            }
        }
        expected += depth;
    }
    expected * clients.len() as i64
}

#[test]
fn io_threads_may_change_under_load() {
    let server = Server::weft(&["--io-threads", "2", "--enable-debug-command", "yes"]);
    let mut client = server.client();
    let done = AtomicBool::new(false);
    let seconds: u64 = env_or("THREADS_SECONDS", 4);
    let counted: i64 = std::thread::scope(|scope| {
        let stop = SetOnDrop(&done);
        let counters: Vec<_> = (0..8)
            .map(|name| {
                let (server, done) = (&server, &done);
                let depth = if name % 2 == 0 { 1 } else { 32 };
                scope.spawn(move || count(server, done, name, depth))
            })
            .collect();
        let until = Instant::now() + Duration::from_secs(seconds);
        for value in ["1", "8", "1", "auto", "3", "16", "2"].into_iter().cycle() {
            if Instant::now() > until {
                break;
            }
            client.ok(&["CONFIG", "SET", "io-threads", value]);
            let shown = field(&mut client, "io_threads");
            assert!(value == "auto" || shown == value, "{shown}");
            for _ in 0..5 {
                std::thread::sleep(Duration::from_millis(20));
                client.ok(&["DEBUG", "MOVE-CLIENTS"]);
            }
            // Threads beyond the configured number have passed on their connections.
            if let Ok(configured) = value.parse::<usize>() {
                wait_for("no connections on removed threads", || {
                    (configured..16).all(|n| {
                        let info = client.cmd(&["INFO", "threads"]).text();
                        !info.contains(&format!("io_thread_{n}:"))
                            || number(&mut client, n, "connections") == 0
                    })
                });
            }
        }
        drop(stop);
        counters.into_iter().map(|counter| counter.join().expect("no counter failed")).sum()
    });
    assert!(counted > 0);
    let info = client.cmd(&["INFO", "stats"]).text();
    assert!(info.contains("total_error_replies:0\r\n"), "{info}");
    let moves: u64 = (0..16).map(|n| number(&mut client, n, "moves")).sum();
    println!("{counted} INCRs in order, {moves} moves of connections");
    assert!(moves > 100, "{moves} moves: nothing was tested");
}

#[test]
fn invalid_number_of_threads_is_refused() {
    let server = Server::weft(&["--io-threads", "2"]);
    let mut client = server.client();
    for wrong in ["0", "-1", "1025", "many", ""] {
        let reply = client.try_cmd(&["CONFIG", "SET", "io-threads", wrong]).expect("answered");
        assert!(reply.raw.starts_with(b"-ERR CONFIG SET failed"), "{wrong}: {reply:?}");
    }
    assert_eq!(field(&mut client, "io_threads"), "2");
}

/// The state of a connection moves with it.
#[test]
fn sessions_move_with_their_whole_state() {
    let server = Server::weft(&["--io-threads", "8", "--enable-debug-command", "yes"]);
    let mut mover = server.client();
    let mut move_all = |times: usize| {
        for _ in 0..times {
            mover.ok(&["DEBUG", "MOVE-CLIENTS"]);
            std::thread::sleep(Duration::from_millis(3));
        }
    };
    let (mut a, mut watcher, mut pusher) = (server.client(), server.client(), server.client());
    let (mut waiting, mut monitor) = (server.client(), server.client());
    a.hello(3);
    a.ok(&["SELECT", "3"]);
    a.ok(&["CLIENT", "SETNAME", "traveller"]);
    monitor.ok(&["MONITOR"]);
    waiting.send_raw(&weft_testkit::client::encode(&["BLPOP", "line", "0"])).expect("sent");
    watcher.ok(&["WATCH", "w"]);
    watcher.ok(&["MULTI"]);
    // Half a request: the rest is read by another thread.
    pusher.send_raw(b"*3\r\n$5\r\nRPUSH\r\n$4\r\nli").expect("sent");
    move_all(20);
    assert_eq!(a.cmd(&["CLIENT", "GETNAME"]).text(), "traveller");
    assert!(a.cmd(&["CLIENT", "INFO"]).text().contains(" db=3 "));
    assert_eq!(watcher.cmd(&["SET", "w", "1"]).text(), "QUEUED");
    a.ok(&["SELECT", "0"]);
    a.ok(&["SET", "w", "another"]);
    move_all(5);
    assert!(watcher.cmd(&["EXEC"]).is_null(), "the watched key was changed");
    pusher.send_raw(b"ne\r\n$1\r\nx\r\n").expect("sent");
    assert_eq!(pusher.read_reply().expect("answered").value.int(), 1);
    assert_eq!(waiting.read_reply().expect("served").value.items()[1].text(), "x");
    move_all(5);
    // A client that was blocked and served can move and block again.
    waiting.send_raw(&weft_testkit::client::encode(&["BLPOP", "line", "0"])).expect("sent");
    move_all(5);
    pusher.cmd(&["RPUSH", "line", "y"]);
    assert_eq!(waiting.read_reply().expect("served").value.items()[1].text(), "y");
    let seen: Vec<String> =
        (0..4).map(|_| monitor.read_reply().expect("a line").value.text()).collect();
    assert!(seen[0].contains("\"BLPOP\""), "{seen:?}");
}

/// CLIENT KILL reaches a connection on any thread, also during a move.
#[test]
fn clients_can_be_killed_while_they_move() {
    let server = Server::weft(&["--io-threads", "8", "--enable-debug-command", "yes"]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = SetOnDrop(&done);
        for _ in 0..2 {
            scope.spawn(|| {
                let mut client = server.client();
                while !done.load(Ordering::Relaxed) {
                    client.ok(&["DEBUG", "MOVE-CLIENTS"]);
                }
            });
        }
        let mut killer = server.client();
        for _ in 0..300 {
            let mut victims: Vec<Client> = (0..5).map(|_| server.client()).collect();
            for victim in &mut victims {
                let id = victim.cmd(&["CLIENT", "ID"]).int().to_string();
                assert_eq!(killer.cmd(&["CLIENT", "KILL", "ID", &id]).int(), 1);
            }
            for mut victim in victims {
                assert_eq!(victim.read_to_close().expect("a closed connection"), b"");
            }
        }
    });
    let mut client = server.client();
    wait_for("all other clients are gone", || {
        client.cmd(&["CLIENT", "LIST"]).text().trim().lines().count() == 1
    });
}

/// `io-threads-do-reads no`: other threads write the replies of the first thread in order, whatever
/// their size and however slowly the client reads.
#[test]
fn replies_written_by_other_threads_stay_in_order() {
    let server = Server::weft(&["--io-threads", "4", "--io-threads-do-reads", "no"]);
    let done = AtomicBool::new(false);
    let large = vec![b'x'; 3 << 20];
    server.client().ok(&[b"SET".as_slice(), b"large", &large]);
    std::thread::scope(|scope| {
        let stop = SetOnDrop(&done);
        let counters: Vec<_> = (0..4)
            .map(|name| {
                let (server, done) = (&server, &done);
                let depth = if name % 2 == 0 { 1 } else { 32 };
                scope.spawn(move || count(server, done, name, depth))
            })
            .collect();
        let request = [
            weft_testkit::client::encode(&["GET", "large"]),
            weft_testkit::client::encode(&["ECHO", "small"]),
        ]
        .concat();
        for _ in 0..20 {
            let mut slow: Vec<Client> = (0..3).map(|_| server.client()).collect();
            for client in &mut slow {
                client.send_raw(&request.repeat(2)).expect("sent");
            }
            std::thread::sleep(Duration::from_millis(20));
            for client in &mut slow {
                for _ in 0..2 {
                    let reply = client.read_reply().expect("answered").value;
                    assert!(reply.bytes() == Some(&large[..]), "the large value has changed");
                    assert_eq!(client.read_reply().expect("answered").value.text(), "small");
                }
            }
        }
        drop(stop);
        let counted: i64 =
            counters.into_iter().map(|counter| counter.join().expect("no counter failed")).sum();
        assert!(counted > 0);
    });
    let mut client = server.client();
    for n in 1..4 {
        assert_eq!(number(&mut client, n, "requests"), 0, "only the first thread executes");
        assert!(number(&mut client, n, "writes") > 0, "thread {n} wrote nothing");
    }
}
