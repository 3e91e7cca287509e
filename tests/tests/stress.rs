//! Load on many threads: the server stays up, and all invariants hold.
//!
//! | variable | meaning |
//! |---|---|
//! | `STRESS_SECONDS` | seconds of each test, default 2 |
//! | `STRESS_SEED` | seed, default 1 |

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server, Value};
use weft_testkit_differential::generate::{Action, Step};
use weft_testkit_differential::{Deck, Group};
use weft_tests::{assert_consistent, env_or};

/// All threads serve connections, as under load.
const THREADS: [&str; 4] = ["--io-threads", "4", "--io-threads-always-active", "yes"];
const CLIENTS: u64 = 8;

/// When the clients of a test that starts now must stop.
fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(env_or("STRESS_SECONDS", 2))
}

/// Rules that would end the test instead of stressing the server: a password locks the other
/// clients out, DEBUG SLEEP only waits, and a pause stops all clients.
const LEFT_OUT: [&str; 3] = ["requirepass", "DEBUG SLEEP", "CLIENT PAUSE"];

/// A client that sends random steps, and reconnects when it is killed.
fn random_client(server: &Server, deck: &Deck, seed: u64, until: Instant) {
    let mut rng = Rng::new(seed);
    let mut client = server.client();
    while Instant::now() < until {
        let batch: Vec<Step> = (0..1 + rng.below(40)).map(|_| deck.draw(&mut rng)).collect();
        let (mut requests, mut answered) = (Vec::new(), 0);
        for action in batch.iter().flat_map(|Step(actions)| actions) {
            if let Action::Send(command) = action {
                command.encode_into(&mut requests);
                answered += usize::from(command.answered);
            }
        }
        let mut replies = Vec::new();
        match client.exchange(&requests, answered, &mut replies) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::InvalidData => panic!("seed {seed}: {e}"),
            Err(e)
                if matches!(
                    e.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) =>
            {
                panic!("seed {seed}: {} of {answered} replies, then nothing", replies.len())
            }
            // Killed by another client, or by its own step.
            Err(_) => client = server.client(),
        }
    }
}

#[test]
fn random_commands_on_all_threads_keep_the_server_consistent() {
    let mut server = Server::weft(&[&THREADS[..], &["--enable-debug-command", "yes"]].concat());
    let list = server.client().cmd(&["COMMAND", "LIST"]);
    let known = list.items().iter().map(|name| name.text().to_ascii_uppercase()).collect();
    let mut deck = Deck::new(&[
        (Group::Strings, 40),
        (Group::Bits, 10),
        (Group::Generic, 35),
        (Group::Connection, 10),
        (Group::Server, 5),
        (Group::Types, 10),
    ]);
    deck.keep_optional(&known);
    deck.retain(|rule| !LEFT_OUT.iter().any(|word| rule.rule.syntax.contains(word)));
    let (seed, until) = (env_or("STRESS_SEED", 1), deadline());
    std::thread::scope(|scope| {
        for i in 0..CLIENTS {
            let (server, deck) = (&server, &deck);
            scope.spawn(move || random_client(server, deck, seed + i, until));
        }
    });
    assert!(server.is_alive(), "the server has exited");
    let mut client = server.client();
    assert_consistent(&mut client);
    client.ok(&["FLUSHALL"]);
    assert_consistent(&mut client);
}

/// Every INCR counts once: all replies differ, the replies of each client increase, and in the end
/// the counters hold the number of INCRs.
#[test]
fn increments_are_never_lost() {
    const COUNTERS: usize = 20;
    let server = Server::weft(&THREADS);
    let until = deadline();
    let counts: Vec<HashMap<usize, Vec<i64>>> = std::thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|i| {
            let mut client = server.client();
            scope.spawn(move || {
                let mut rng = Rng::new(i);
                let mut numbers: HashMap<usize, Vec<i64>> = HashMap::new();
                while Instant::now() < until {
                    let counters: Vec<usize> = (0..20).map(|_| rng.below(COUNTERS)).collect();
                    let commands: Vec<Vec<String>> = counters
                        .iter()
                        .map(|c| vec!["INCR".to_string(), format!("n{c}")])
                        .collect();
                    let replies = client.pipeline(&commands).expect("answered");
                    for (counter, reply) in counters.into_iter().zip(replies) {
                        numbers.entry(counter).or_default().push(reply.value.int());
                    }
                }
                numbers
            })
        });
        let clients: Vec<_> = clients.collect();
        clients.into_iter().map(|client| client.join().expect("no client failed")).collect()
    });
    let mut client = server.client();
    for counter in 0..COUNTERS {
        let each: Vec<&Vec<i64>> =
            counts.iter().filter_map(|numbers| numbers.get(&counter)).collect();
        for numbers in &each {
            assert!(numbers.is_sorted_by(|a, b| a < b), "one client saw counter {counter} go back");
        }
        let mut all: Vec<i64> = each.into_iter().flatten().copied().collect();
        all.sort_unstable();
        assert_eq!(all, (1..=all.len() as i64).collect::<Vec<_>>(), "replies of counter {counter}");
        assert_eq!(client.cmd(&["GET", &format!("n{counter}")]).text(), all.len().to_string());
    }
}

/// Runs `write` on some threads and `read` on others, until all writers are done.
fn writers_and_readers(
    server: &Server,
    write: impl Fn(&mut Client, &mut Rng) + Sync,
    read: impl Fn(&mut Client) + Sync,
) {
    let (done, until) = (AtomicBool::new(false), deadline());
    std::thread::scope(|scope| {
        let readers = (0..3).map(|_| {
            scope.spawn(|| {
                let mut client = server.client();
                let mut reads = 0;
                while !done.load(Ordering::Relaxed) {
                    read(&mut client);
                    reads += 1;
                }
                reads
            })
        });
        let readers: Vec<_> = readers.collect();
        let writers = (0..4).map(|i| {
            let write = &write;
            scope.spawn(move || {
                let (mut client, mut rng) = (server.client(), Rng::new(i));
                while Instant::now() < until {
                    write(&mut client, &mut rng);
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        let failed = writers.into_iter().filter_map(|writer| writer.join().err()).count();
        done.store(true, Ordering::Relaxed);
        let reads: Vec<i32> =
            readers.into_iter().map(|reader| reader.join().expect("no reader failed")).collect();
        assert_eq!(failed, 0, "writers failed");
        assert!(reads.iter().all(|&n| n > 0), "a reader never read: {reads:?}");
    });
}

/// The keys of an MSET are spread over shards. A reader sees all of its writes, or none.
#[test]
fn mset_is_atomic() {
    let server = Server::weft(&THREADS);
    let keys: Vec<String> = (0..12).map(|i| format!("m{i}")).collect();
    let mset = |value: &str| -> Vec<String> {
        let pairs = keys.iter().flat_map(|key| [key.clone(), value.to_string()]);
        ["MSET".to_string()].into_iter().chain(pairs).collect()
    };
    server.client().ok(&mset("start"));
    let mget: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    let write = |client: &mut Client, rng: &mut Rng| client.ok(&mset(&rng.next_u64().to_string()));
    writers_and_readers(&server, write, |client| {
        let values = client.cmd(&mget);
        let values = values.items();
        assert!(values.iter().all(|value| *value == values[0] && !value.is_null()), "{values:?}");
    });
}

/// MSETNX creates all keys or none, DEL removes all. No client sees only some of them.
#[test]
fn msetnx_is_atomic() {
    let server = Server::weft(&THREADS);
    let write = |client: &mut Client, rng: &mut Rng| match rng.percent(50) {
        true => assert!(matches!(
            client.cmd(&["MSETNX", "x", "1", "y", "2", "z", "3"]),
            Value::Integer(0 | 1)
        )),
        false => assert!(matches!(client.cmd(&["DEL", "z", "x", "y"]), Value::Integer(0 | 3))),
    };
    writers_and_readers(&server, write, |client| {
        let there = client.cmd(&["EXISTS", "x", "y", "z"]);
        assert!(matches!(there, Value::Integer(0 | 3)), "{there} of 3 keys exist");
    });
}

/// A token is renamed from key to key. At any moment exactly one key holds it.
#[test]
fn rename_moves_and_never_copies() {
    let server = Server::weft(&THREADS);
    let keys: Vec<String> = (0..8).map(|i| format!("r{i}")).collect();
    server.client().ok(&["SET", "r0", "the token"]);
    let write = |client: &mut Client, rng: &mut Rng| {
        let (from, to) = (rng.pick(&keys), rng.pick(&keys));
        let reply = client.cmd(&[*rng.pick(&["RENAME", "RENAMENX"]), from, to]);
        let expected = reply.is_ok()
            || matches!(reply, Value::Integer(0 | 1))
            || reply.error().as_deref() == Some("ERR no such key");
        assert!(expected, "{reply}");
    };
    let mget: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    writers_and_readers(&server, write, |client| {
        let values = client.cmd(&mget);
        let held: Vec<&Value> = values.items().iter().filter(|value| !value.is_null()).collect();
        assert!(held.len() == 1 && held[0].text() == "the token", "{values}");
    });
}

/// Once a write is answered, every client on every thread sees it.
#[test]
fn answered_write_is_visible_to_all_clients() {
    let server = Server::weft(&THREADS);
    let answered: Vec<AtomicI64> = (0..4).map(|_| AtomicI64::new(0)).collect();
    let next: Vec<AtomicI64> = (0..4).map(|_| AtomicI64::new(0)).collect();
    for i in 0..4 {
        server.client().ok(&["SET", &format!("seen{i}"), "0"]);
    }
    let write = |client: &mut Client, rng: &mut Rng| {
        let key = rng.below(4);
        // INCR keeps the numbers of several writers in order; IFEQ would do only for one writer.
        let n = client.cmd(&["INCR", &format!("seen{key}")]).int();
        answered[key].fetch_max(n, Ordering::SeqCst);
        next[key].fetch_add(1, Ordering::SeqCst);
    };
    writers_and_readers(&server, write, |client| {
        for (key, answered) in answered.iter().enumerate() {
            let floor = answered.load(Ordering::SeqCst);
            let seen: i64 =
                client.cmd(&["GET", &format!("seen{key}")]).text().parse().expect("a number");
            assert!(seen >= floor, "key {key}: {floor} was answered before, but GET gives {seen}");
        }
    });
    let mut client = server.client();
    for (key, count) in next.iter().enumerate() {
        assert_eq!(
            client.cmd(&["GET", &format!("seen{key}")]).text(),
            count.load(Ordering::SeqCst).to_string()
        );
    }
}

/// Keys expire while other threads read, write and scan them.
#[test]
fn expiry_under_load_removes_nothing_else() {
    let server = Server::weft(&THREADS);
    server.client().ok(&["SET", "stays", "here"]);
    let write = |client: &mut Client, rng: &mut Rng| {
        let key = format!("e{}", rng.below(200));
        client.ok(&["SET", &key, "v", "PX", *rng.pick(&["1", "2", "5"])]);
    };
    writers_and_readers(&server, write, |client| {
        assert_eq!(client.cmd(&["GET", "stays"]).text(), "here");
        for key in client.cmd(&["KEYS", "*"]).items() {
            let key = key.text();
            assert!(key == "stays" || key.starts_with('e'), "{key}");
        }
    });
    let mut client = server.client();
    // No client accesses the keys any more; active expiry must remove them.
    let mut left = client.cmd(&["DBSIZE"]).int();
    for _ in 0..3000 {
        if left == 1 {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
        left = client.cmd(&["DBSIZE"]).int();
    }
    panic!("{left} keys instead of one");
}
