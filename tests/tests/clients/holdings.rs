//! What clients make the server hold: CLIENT LIST, INFO and `maxmemory-clients` see all of it, and it is freed when
//! a client gives it up.

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

/// Sends a request whose reply does not come, or is not looked at.
fn send(client: &mut Client, words: &[String]) {
    client.send_raw(&encode(words)).expect("it is read");
}

/// Has a client hold something.
type Hold = fn(&mut Client);

const N: usize = 20_000;

fn subscribe(client: &mut Client, word: &str) {
    client.hello(3);
    for some in names(N).chunks(1000) {
        send(client, &request(&[word], some, &[]));
        some.iter().for_each(|_| drop(client.read_frame().expect("it is told")));
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
        client.send_raw(&half.concat()).expect("it is read");
    }),
    ("untaken replies", |client| {
        client.send_raw(b"LRANGE list 0 -1\r\n").expect("it is read");
    }),
];

/// Waits until a number does not change any more, and answers it. Threads tell of their memory at their ticks, so it
/// must be the same for some of these.
fn settled(mut number: impl FnMut() -> u64) -> u64 {
    const READS: usize = 120;
    let (mut last, mut same) = (number(), 0);
    until("it comes to rest", || {
        let before = std::mem::replace(&mut last, number());
        same = if last == before { same + 1 } else { 0 };
        same == READS
    });
    last
}

/// Of each kind, `tot-mem` is what the allocator has handed out for it, within a fifth; so is what INFO adds up. When
/// the client has gone, so has that.
#[test]
fn what_clients_hold_is_what_is_shown() {
    let server = Server::weft(&["--io-threads", "2"]);
    let mut admin = client(&server);
    // More than sockets hold.
    for _ in 0..16 {
        admin.cmd(&request(&["RPUSH", "list"], &vec!["v".repeat(1000); 1000], &[]));
    }
    let mut wrong = Vec::new();
    for (kind, hold) in KINDS {
        let mut holder = client(&server);
        let id = id(&mut holder);
        let used = settled(|| info(&mut admin, "used_memory"));
        let shown = info(&mut admin, "mem_clients_normal");
        let own = field(&mut admin, id, "tot-mem");
        hold(&mut holder);
        until(kind, || field(&mut admin, id, "tot-mem") > own + MB / 2);
        // Its arguments count until they are in lines.
        if ["BLPOP", "BZMPOP", "XREAD"].contains(kind) {
            until_blocked(&mut admin, 1);
        }
        until_in_slow_lane(&mut admin, 0);
        let total = settled(|| field(&mut admin, id, "tot-mem")) - own;
        let grown = settled(|| info(&mut admin, "used_memory")).saturating_sub(used);
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
        // A thread of the slow lane may have begun meanwhile, with memory of its own.
        until("what it held is freed", || info(&mut admin, "used_memory") < used + MB);
        until("it is not counted", || info(&mut admin, "mem_clients_normal") < shown + MB / 4);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Watches that were given up take no memory, and their end breaks nobody else's.
#[test]
fn nothing_is_left_of_watches_that_are_over() {
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
        // What is broken takes no less than what is not, and ends in the same way.
        if end != "EXEC" {
            admin.ok(&["SET", &names(N)[100 + n], "v"]);
            admin.cmd(&["DEL", &names(N)[100 + n]]);
        }
        give_up(watcher);
        until(end, || info(&mut admin, "used_memory") < used + MB / 4);
    }
    other.ok(&["MULTI"]);
    assert!(other.cmd(&["EXEC"]).items().is_empty(), "nobody has changed its keys");
    other.ok(&["WATCH", "some:name:00000007"]);
    admin.ok(&["SET", "some:name:00000007", "v"]);
    other.ok(&["MULTI"]);
    assert!(other.cmd(&["EXEC"]).is_null(), "a watch beside those that are over breaks");
}

/// Clients that hold much of what only CLIENT LIST shows are closed for it, here as by the reference.
#[test]
fn who_holds_much_is_evicted() {
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
                some.iter().for_each(|_| drop(client.read_frame().expect("it is told")));
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

/// A client that waits for very many keys is not served by whoever makes one of them, which would hold that thread's
/// clients up: it tries by itself, in the slow lane.
#[test]
fn a_client_that_waits_for_very_many_keys_is_served_in_the_slow_lane() {
    let server = Server::weft(&["--io-threads", "2", "--enable-debug-command", "yes"]);
    let mut admin = client(&server);
    for (word, last, push) in [
        ("BLPOP", "0", &["RPUSH", "some:name:00030000", "one"][..]),
        ("BZPOPMIN", "0", &["ZADD", "some:name:00030000", "1", "one"]),
    ] {
        let mut waits = client(&server);
        send(&mut waits, &request(&[word], &names(50_000), &[last]));
        until("it waits", || info(&mut admin, "blocked_clients") == 1);
        admin.ok(&["DEBUG", "PAUSE-SLOW-LANE", "1"]);
        assert_eq!(admin.cmd(push).int(), 1);
        assert_eq!(admin.cmd(&["EXISTS", "some:name:00030000"]).int(), 1, "it has its own thread");
        let mut behind = client(&server);
        assert_eq!(behind.cmd(&["PING"]).text(), "PONG");
        admin.ok(&["DEBUG", "PAUSE-SLOW-LANE", "0"]);
        let reply = waits.read_reply().expect("it is served");
        assert_eq!(reply.value.items()[0].text(), "some:name:00030000");
        assert_eq!(admin.cmd(&["EXISTS", "some:name:00030000"]).int(), 0);
        until("no line is left", || info(&mut admin, "total_blocking_keys") == 0);
    }
}

/// What is queued in thousands is looked at in the slow lane, and given up without anybody's waiting for that.
#[test]
fn a_long_queue_is_run_and_dropped_elsewhere() {
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
    assert_eq!(admin.cmd(&["DBSIZE"]).int(), 0, "it is to be run elsewhere");
    admin.ok(&["DEBUG", "PAUSE-SLOW-LANE", "0"]);
    assert_eq!(queues.read_reply().expect("it is run").value.items().len(), 5000);
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

/// What a client has subscribed to and followed by the thousand is gone when RESET is answered: what it begins anew is
/// not taken away again.
#[test]
fn what_is_begun_after_reset_stays() {
    let server = Server::weft(&["--io-threads", "1"]);
    let mut admin = client(&server);
    let mut client = client(&server);
    for _ in 0..3 {
        subscribe(&mut client, "SUBSCRIBE");
        client.cmd(&["RESET"]);
        assert_eq!(admin.cmd(&["PUBSUB", "NUMSUB", "some:name:00019999"]).items()[1].int(), 0);
        client.hello(3);
        send(&mut client, &request(&["SUBSCRIBE"], &names(N)[N - 1..], &[]));
        client.read_frame().expect("it is told");
        assert_eq!(admin.cmd(&["PUBLISH", "some:name:00019999", "m"]).int(), 1);
        client.read_frame().expect("the message");
        client.cmd(&["RESET"]);
    }
}

/// An entry of the command log keeps a long name as it keeps a long argument.
#[test]
fn a_logged_command_keeps_little_of_a_long_name() {
    let server = Server::weft(&["--slowlog-log-slower-than", "0"]);
    let mut admin = client(&server);
    let mut named = client(&server);
    named.ok(&["CLIENT", "SETNAME", &"n".repeat(1 << 20)]);
    let used = info(&mut admin, "used_memory");
    for _ in 0..50 {
        named.cmd(&["GET", "k"]);
    }
    assert!(info(&mut admin, "used_memory") < used + MB, "fifty names are kept");
    named.cmd(&["GET", "k"]);
    let entries = named.cmd(&["SLOWLOG", "GET", "1"]);
    let name = entries.items()[0].items()[5].text();
    assert_eq!(name, format!("{}... (1048448 more bytes)", "n".repeat(128)));
}
