//! State that clients make the server hold: CLIENT LIST, INFO and `maxmemory-clients` count all of
//! it, and the server frees it when the client releases it.

use weft_testkit::client::encode;
use weft_testkit::{Client, Server};
use weft_tests::scene::{client, info, on_both, until, until_blocked, until_in_slow_lane};

const MB: u64 = 1 << 20;

/// Names of `n` keys or channels.
fn names(n: usize) -> Vec<String> {
    (0..n).map(|n| format!("some:name:{n:08}")).collect()
}

/// A request of `words`, then `names`, then `last`.
fn request(words: &[&str], names: &[String], last: &[&str]) -> Vec<String> {
    let words = words.iter().map(|word| (*word).to_owned());
    let last = last.iter().map(|word| (*word).to_owned());
    words.chain(names.iter().cloned()).chain(last).collect()
}

/// A field of the client's line in CLIENT LIST.
fn field(admin: &mut Client, id: i64, name: &str) -> u64 {
    let line = admin.cmd(&["CLIENT", "LIST", "ID", &id.to_string()]).text();
    let start = format!("{name}=");
    let found = line.split(' ').find_map(|word| word.strip_prefix(&start));
    found.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no {name} in {line:?}"))
}

fn id(client: &mut Client) -> i64 {
    client.cmd(&["CLIENT", "ID"]).int()
}

/// Sends a request without reading its reply.
fn send(client: &mut Client, words: &[String]) {
    client.send_raw(&encode(words)).expect("the server reads");
}

/// Makes a client hold some state.
type Hold = fn(&mut Client);

const N: usize = 20_000;

fn subscribe(client: &mut Client, word: &str) {
    client.hello(3);
    for some in names(N).chunks(1000) {
        send(client, &request(&[word], some, &[]));
        some.iter().for_each(|_| drop(client.read_frame().expect("a confirmation")));
    }
}

/// Kinds of state, each with a client that holds much of it and little else.
const KINDS: &[(&str, Hold)] = &[
    ("name", |client| client.ok(&["CLIENT", "SETNAME", &"n".repeat(4 << 20)])),
    ("library", |client| client.ok(&["CLIENT", "SETINFO", "lib-name", &"n".repeat(4 << 20)])),
    ("watches", |client| {
        names(N).chunks(1000).for_each(|some| client.ok(&request(&["WATCH"], some, &[])));
    }),
    ("watches in databases", |client| {
        for (db, some) in names(N).chunks(N / 8).enumerate() {
            client.ok(&["SELECT", &db.to_string()]);
            some.chunks(1000).for_each(|some| client.ok(&request(&["WATCH"], some, &[])));
        }
    }),
    ("BLPOP", |client| send(client, &request(&["BLPOP"], &names(N), &["0"]))),
    ("BZMPOP", |client| {
        send(client, &request(&["BZMPOP", "0", &N.to_string()], &names(N), &["MAX"]));
    }),
    ("XREAD", |client| {
        let ids = vec!["$"; N];
        send(client, &request(&["XREAD", "BLOCK", "0", "STREAMS"], &names(N), &ids));
    }),
    ("MULTI", |client| {
        client.ok(&["MULTI"]);
        names(N).iter().for_each(|name| drop(client.cmd(&["SET", name, "value"])));
    }),
    ("SUBSCRIBE", |client| subscribe(client, "SUBSCRIBE")),
    ("PSUBSCRIBE", |client| subscribe(client, "PSUBSCRIBE")),
    ("SSUBSCRIBE", |client| subscribe(client, "SSUBSCRIBE")),
    ("prefixes", |client| {
        client.hello(3);
        for some in names(N).chunks(500) {
            let prefixes: Vec<String> =
                some.iter().flat_map(|name| ["PREFIX".to_owned(), name.clone()]).collect();
            client.ok(&request(&["CLIENT", "TRACKING", "ON", "BCAST"], &prefixes, &[]));
        }
    }),
    ("half a value", |client| {
        let half = [&b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$8000000\r\n"[..], &vec![b'x'; 4 << 20]];
        client.send_raw(&half.concat()).expect("the server reads");
    }),
    ("untaken replies", |client| {
        client.send_raw(b"LRANGE list 0 -1\r\n").expect("the server reads");
    }),
];

/// Waits until a number is stable, and returns it. Threads report their memory at their ticks, so
/// it must be equal in many consecutive reads.
fn wait_until_stable(mut number: impl FnMut() -> u64) -> u64 {
    const READS: usize = 120;
    let (mut last, mut same) = (number(), 0);
    until("the number is stable", || {
        let before = std::mem::replace(&mut last, number());
        same = if last == before { same + 1 } else { 0 };
        same == READS
    });
    last
}

/// For each kind, `tot-mem` and the sum in INFO match the memory that the allocator has handed out,
/// within a fifth. After the client disconnects, the memory is free.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn tot_mem_matches_allocated_memory() {
    let server = Server::weft(&["--io-threads", "2"]);
    let mut admin = client(&server);
    // More than the socket buffers hold.
    for _ in 0..16 {
        admin.cmd(&request(&["RPUSH", "list"], &vec!["v".repeat(1000); 1000], &[]));
    }
    let mut wrong = Vec::new();
    for (kind, hold) in KINDS {
        let mut holder = client(&server);
        let id = id(&mut holder);
        let used = wait_until_stable(|| info(&mut admin, "used_memory"));
        let shown = info(&mut admin, "mem_clients_normal");
        let own = field(&mut admin, id, "tot-mem");
        hold(&mut holder);
        until(kind, || field(&mut admin, id, "tot-mem") > own + MB / 2);
        // The arguments also count until the client is queued for its keys.
        if ["BLPOP", "BZMPOP", "XREAD"].contains(kind) {
            until_blocked(&mut admin, 1);
        }
        until_in_slow_lane(&mut admin, 0);
        let total = wait_until_stable(|| field(&mut admin, id, "tot-mem")) - own;
        let grown = wait_until_stable(|| info(&mut admin, "used_memory")).saturating_sub(used);
        let added = info(&mut admin, "mem_clients_normal").saturating_sub(shown);
        println!(
            "{kind:22} {grown:9} bytes, tot-mem {total:9} ({:.2})",
            total as f64 / grown as f64
        );
        let fits = |bytes: u64| bytes.abs_diff(grown) * 5 <= grown;
        if !fits(total) || !fits(added) {
            wrong.push(format!("{kind}: {grown} bytes, tot-mem {total}, in all {added}"));
        }
        drop(holder);
        // A thread of the slow lane may have started meanwhile, and allocated memory of its own.
        until("its memory is freed", || info(&mut admin, "used_memory") < used + MB);
        until("no longer counted", || info(&mut admin, "mem_clients_normal") < shown + MB / 4);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Watches that ended take no memory, and ending them must not break another client's watches.
#[test]
fn ended_watches_leave_no_memory_and_break_no_others() {
    let server = Server::weft(&["--io-threads", "2"]);
    let mut admin = client(&server);
    let mut other = client(&server);
    other.ok(&["WATCH", "some:name:00000007", "some:name:00000008"]);
    let used = info(&mut admin, "used_memory");
    type End = fn(Client);
    let ends: [(&str, End); 5] = [
        ("UNWATCH", |mut client| client.ok(&["UNWATCH"])),
        ("EXEC", |mut client| {
            client.ok(&["MULTI"]);
            assert!(client.cmd(&["EXEC"]).items().is_empty());
        }),
        ("DISCARD", |mut client| {
            client.ok(&["MULTI"]);
            client.ok(&["DISCARD"]);
        }),
        ("RESET", |mut client| drop(client.cmd(&["RESET"]))),
        ("close", drop),
    ];
    for (n, (end, give_up)) in ends.into_iter().enumerate() {
        let mut watcher = client(&server);
        names(N).chunks(1000).for_each(|some| watcher.ok(&request(&["WATCH"], some, &[])));
        assert!(info(&mut admin, "used_memory") > used + MB, "{end}");
        // A broken watch takes as much memory, and is freed in the same way.
        if end != "EXEC" {
            admin.ok(&["SET", &names(N)[100 + n], "v"]);
            admin.cmd(&["DEL", &names(N)[100 + n]]);
        }
        give_up(watcher);
        until(end, || info(&mut admin, "used_memory") < used + MB / 4);
    }
    other.ok(&["MULTI"]);
    assert!(other.cmd(&["EXEC"]).items().is_empty(), "its keys have not changed");
    other.ok(&["WATCH", "some:name:00000007"]);
    admin.ok(&["SET", "some:name:00000007", "v"]);
    other.ok(&["MULTI"]);
    assert!(other.cmd(&["EXEC"]).is_null(), "the write breaks the watch");
}

/// Clients whose state shows only in CLIENT LIST are evicted for it, as on the reference.
#[test]
fn clients_with_much_state_are_evicted() {
    let scenes: &[(&str, Hold)] = &[
        ("watches", |client| {
            names(300_000).chunks(1000).for_each(|some| client.ok(&request(&["WATCH"], some, &[])));
        }),
        ("waits", |client| {
            let long: Vec<String> =
                (0..20).map(|n| format!("{n}{}", "k".repeat(1 << 20))).collect();
            send(client, &request(&["BLPOP"], &long, &["0"]));
        }),
        ("MULTI", |client| {
            client.ok(&["MULTI"]);
            names(200_000).chunks(100).for_each(|some| {
                client.cmd(&request(&["DEL"], some, &[]));
            });
        }),
        ("subscriptions", |client| {
            client.hello(3);
            for some in names(300_000).chunks(1000) {
                send(client, &request(&["SUBSCRIBE"], some, &[]));
                some.iter().for_each(|_| drop(client.read_frame().expect("a confirmation")));
            }
        }),
    ];
    on_both(&[], &[], |server| {
        let mut admin = client(server);
        admin.ok(&["CLIENT", "NO-EVICT", "ON"]);
        for (n, (kind, hold)) in (1..).zip(scenes) {
            admin.ok(&["CONFIG", "SET", "maxmemory-clients", "0"]);
            let mut bystander = client(server);
            bystander.ok(&["WATCH", "k"]);
            let mut holder = client(server);
            let id = id(&mut holder);
            hold(&mut holder);
            until(kind, || field(&mut admin, id, "tot-mem") > 5 * MB / 2);
            admin.ok(&["CONFIG", "SET", "maxmemory-clients", "2mb"]);
            until(kind, || info(&mut admin, "evicted_clients") == n);
            assert!(admin.cmd(&["CLIENT", "LIST", "ID", &id.to_string()]).text().is_empty());
            assert_eq!(bystander.cmd(&["PING"]).text(), "PONG", "{kind} {}", server.name());
        }
    });
}

/// A client that waits for very many keys is not served by the pushing thread, which would delay
/// that thread's clients. It retries in the slow lane.
#[test]
fn client_waiting_for_very_many_keys_is_served_in_the_slow_lane() {
    let server = Server::weft(&["--io-threads", "2", "--enable-debug-command", "yes"]);
    let mut admin = client(&server);
    for (word, last, push) in [
        ("BLPOP", "0", &["RPUSH", "some:name:00030000", "one"][..]),
        ("BZPOPMIN", "0", &["ZADD", "some:name:00030000", "1", "one"]),
    ] {
        let mut waits = client(&server);
        send(&mut waits, &request(&[word], &names(50_000), &[last]));
        until("the client is blocked", || info(&mut admin, "blocked_clients") == 1);
        admin.ok(&["DEBUG", "PAUSE-SLOW-LANE", "1"]);
        assert_eq!(admin.cmd(push).int(), 1);
        assert_eq!(
            admin.cmd(&["EXISTS", "some:name:00030000"]).int(),
            1,
            "the slow lane serves the client"
        );
        let mut other_client = client(&server);
        assert_eq!(other_client.cmd(&["PING"]).text(), "PONG");
        admin.ok(&["DEBUG", "PAUSE-SLOW-LANE", "0"]);
        let reply = waits.read_reply().expect("the client is served");
        assert_eq!(reply.value.items()[0].text(), "some:name:00030000");
        assert_eq!(admin.cmd(&["EXISTS", "some:name:00030000"]).int(), 0);
        until("no wait queue is left", || info(&mut admin, "total_blocking_keys") == 0);
    }
}

/// A transaction of thousands of commands runs in the slow lane. DISCARD and RESET drop it without
/// blocking other clients.
#[test]
fn long_transaction_runs_in_the_slow_lane_and_is_dropped_at_once() {
    let server = Server::weft(&["--io-threads", "1", "--enable-debug-command", "yes"]);
    let mut admin = client(&server);
    let mut queues = client(&server);
    let fill = |queues: &mut Client| {
        queues.ok(&["MULTI"]);
        names(5000).iter().for_each(|name| drop(queues.cmd(&["SET", name, "v"])));
    };
    fill(&mut queues);
    admin.ok(&["DEBUG", "PAUSE-SLOW-LANE", "1"]);
    send(&mut queues, &request(&["EXEC"], &[], &[]));
    assert_eq!(admin.cmd(&["PING"]).text(), "PONG");
    assert_eq!(admin.cmd(&["DBSIZE"]).int(), 0, "the slow lane must run it");
    admin.ok(&["DEBUG", "PAUSE-SLOW-LANE", "0"]);
    assert_eq!(queues.read_reply().expect("EXEC is answered").value.items().len(), 5000);
    assert_eq!(admin.cmd(&["DBSIZE"]).int(), 5000);
    let id = id(&mut queues);
    let own = field(&mut admin, id, "tot-mem");
    for end in [&["DISCARD"], &["RESET"]] {
        fill(&mut queues);
        assert!(field(&mut admin, id, "multi-mem") > 500_000);
        queues.cmd(end);
        assert_eq!(
            (field(&mut admin, id, "multi-mem"), field(&mut admin, id, "tot-mem")),
            (0, own)
        );
    }
}

/// Thousands of subscriptions are gone when RESET is answered, so a new subscription is not removed
/// afterwards.
#[test]
fn subscription_after_reset_stays() {
    let server = Server::weft(&["--io-threads", "1"]);
    let mut admin = client(&server);
    let mut client = client(&server);
    for _ in 0..3 {
        subscribe(&mut client, "SUBSCRIBE");
        client.cmd(&["RESET"]);
        assert_eq!(admin.cmd(&["PUBSUB", "NUMSUB", "some:name:00019999"]).items()[1].int(), 0);
        client.hello(3);
        send(&mut client, &request(&["SUBSCRIBE"], &names(N)[N - 1..], &[]));
        client.read_frame().expect("a confirmation");
        assert_eq!(admin.cmd(&["PUBLISH", "some:name:00019999", "m"]).int(), 1);
        client.read_frame().expect("the message");
        client.cmd(&["RESET"]);
    }
}

/// The command log truncates a long client name like a long argument.
#[test]
fn command_log_truncates_a_long_client_name() {
    let server = Server::weft(&["--slowlog-log-slower-than", "0"]);
    let mut admin = client(&server);
    let mut named = client(&server);
    named.ok(&["CLIENT", "SETNAME", &"n".repeat(1 << 20)]);
    let used = info(&mut admin, "used_memory");
    for _ in 0..50 {
        named.cmd(&["GET", "k"]);
    }
    assert!(info(&mut admin, "used_memory") < used + MB, "the log keeps fifty whole names");
    named.cmd(&["GET", "k"]);
    let entries = named.cmd(&["SLOWLOG", "GET", "1"]);
    let name = entries.items()[0].items()[5].text();
    assert_eq!(name, format!("{}... (1048448 more bytes)", "n".repeat(128)));
}
