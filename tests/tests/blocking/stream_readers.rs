//! Clients blocked on streams: which client gets which entries, compared with the reference.
//!
//! | variable | meaning |
//! |---|---|
//! | `READERS` | readers of the large test, default 40 |
//! | `READER_ENTRIES` | entries of each of its streams, default 3,000 |

use std::time::Duration;
use weft_testkit::{Client, Server, skip_without};
use weft_tests::env_or;

/// All threads serve connections, as under load.
const THREADS: [&str; 4] = ["--io-threads", "4", "--io-threads-always-active", "yes"];

const STREAMS: usize = 5;

/// The steps of a scene.
type Steps = fn(&mut Scene<'_>);

/// A server with a client that acts and clients that block, and the replies so far.
struct Scene<'a> {
    server: &'a Server,
    actor: Client,
    replies: Vec<String>,
}

impl Scene<'_> {
    fn new(server: &Server) -> Scene<'_> {
        Scene { server, actor: server.client(), replies: Vec::new() }
    }

    fn run_command(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let reply = self.actor.cmd(&words);
        self.replies.push(format!("{line}: {reply}"));
    }

    /// A client that sends this line and becomes the `n`-th blocked client.
    fn waiter(&mut self, protocol: u8, line: &str, n: usize) -> Client {
        let mut client = self.server.client();
        client.hello(protocol);
        send(&mut client, line);
        until_blocked(&mut self.actor, n);
        client
    }

    fn record_reply(&mut self, label: &str, client: &mut Client) {
        let reply = client.read_reply().expect("the client gets a reply");
        self.replies.push(format!("{label}: {}", String::from_utf8_lossy(&reply.raw)));
    }
}

/// Sends a command without reading its reply.
fn send(client: &mut Client, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    client.send_raw(&weft_testkit::client::encode(&words)).expect("the server reads");
}

/// Waits until exactly `n` clients are blocked.
fn until_blocked(client: &mut Client, n: usize) {
    let wanted = format!("blocked_clients:{n}\r\n");
    for _ in 0..2000 {
        if client.cmd(&["INFO", "clients"]).text().contains(&wanted) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("timed out: {n} blocked clients");
}

fn all_are_served(scene: &mut Scene<'_>) {
    scene.run_command("XADD s 5-1 f v");
    let mut last = scene.waiter(2, "XREAD BLOCK 0 STREAMS s $", 1);
    let mut third = scene.waiter(3, "XREAD COUNT 1 BLOCK 0 STREAMS none s $ 5-1", 2);
    let mut later = scene.waiter(2, "XREAD BLOCK 0 STREAMS s 6-0", 3);
    let mut both = scene.waiter(3, "XREAD BLOCK 0 STREAMS s none $ 0", 4);
    scene.run_command("XADD s 5-2 f v g w");
    scene.record_reply("last", &mut last);
    scene.record_reply("third", &mut third);
    scene.record_reply("both", &mut both);
    until_blocked(&mut scene.actor, 1);
    scene.run_command("XADD s 6-0 f v");
    until_blocked(&mut scene.actor, 1);
    scene.run_command("XADD s 6-1 f v");
    scene.record_reply("later", &mut later);
}

fn a_transaction_is_seen_as_a_whole(scene: &mut Scene<'_>) {
    scene.run_command("XADD s 1-1 f v");
    let mut reader = scene.waiter(2, "XREAD BLOCK 0 STREAMS s $", 1);
    for line in ["MULTI", "XADD s 2-1 f v", "XDEL s 2-1", "EXEC"] {
        scene.run_command(line);
    }
    until_blocked(&mut scene.actor, 1);
    for line in ["MULTI", "XADD s 3-1 f v", "XADD s 4-1 f v", "EXEC"] {
        scene.run_command(line);
    }
    scene.record_reply("reader", &mut reader);
    scene.run_command("XDEL s 4-1");
    let mut top = scene.waiter(2, "XREAD BLOCK 0 STREAMS s +", 1);
    for line in ["MULTI", "XADD s 5-1 f v", "XADD s 6-1 f v", "EXEC"] {
        scene.run_command(line);
    }
    scene.record_reply("top", &mut top);
}

fn keys_are_deleted_and_replaced(scene: &mut Scene<'_>) {
    let mut reader = scene.waiter(2, "XREAD BLOCK 0 STREAMS s $", 1);
    scene.run_command("SET s string");
    scene.run_command("DEL s");
    scene.run_command("RPUSH s element");
    until_blocked(&mut scene.actor, 1);
    scene.run_command("DEL s");
    scene.run_command("XADD s 1-1 f v");
    scene.record_reply("reader", &mut reader);
    // The reader waits beyond the end of a new stream. Then RENAME brings a stream with a later
    // entry.
    let mut reader = scene.waiter(2, "XREAD BLOCK 0 STREAMS s 5-0", 1);
    scene.run_command("DEL s");
    scene.run_command("XADD s 3-1 f v");
    scene.run_command("XADD {s}other 7-1 f v");
    until_blocked(&mut scene.actor, 1);
    scene.run_command("RENAME {s}other s");
    scene.record_reply("reader", &mut reader);
    let mut reader = scene.waiter(2, "XREAD BLOCK 0 STREAMS s 7-1", 1);
    scene.run_command("XADD {s}other 9-1 f v");
    scene.run_command("COPY {s}other s REPLACE");
    scene.record_reply("reader", &mut reader);
    let mut reader = scene.waiter(2, "XREAD BLOCK 0 STREAMS s 9-1", 1);
    scene.run_command("SELECT 1");
    scene.run_command("XADD s 10-1 f v");
    until_blocked(&mut scene.actor, 1);
    scene.run_command("SWAPDB 0 1");
    scene.record_reply("reader", &mut reader);
    scene.run_command("SELECT 0");
}

fn keys_of_the_wrong_type(scene: &mut Scene<'_>) {
    scene.run_command("SET {s}a string");
    scene.run_command("XREAD BLOCK 0 STREAMS {s}b {s}a $ $");
    scene.run_command("DEL {s}a");
    let mut reader = scene.waiter(2, "XREAD BLOCK 0 STREAMS {s}a {s}b $ $", 1);
    scene.run_command("SET {s}a string");
    until_blocked(&mut scene.actor, 1);
    scene.run_command("XADD {s}b 1-1 f v");
    scene.record_reply("reader", &mut reader);
}

/// A stream that a client waits for becomes another type. The client gets the error when another of
/// its streams grows, but not when that stream changes in another way.
fn wrong_type_is_reported_when_a_stream_grows(scene: &mut Scene<'_>) {
    for tag in ["", "{s}"] {
        for change in
            ["PEXPIRE # 100000", "PERSIST #", "XDEL # 1-1", "XTRIM # MAXLEN 1", "XSETID # 9-9"]
        {
            let (a, b) = (format!("{tag}a"), format!("{tag}b"));
            scene.run_command(&format!("DEL {a} {b}"));
            scene.run_command(&format!("XADD {b} 1-1 f v"));
            scene.run_command(&format!("XADD {b} 1-2 f v"));
            let mut reader = scene.waiter(2, &format!("XREAD BLOCK 0 STREAMS {a} {b} $ $"), 1);
            scene.run_command(&format!("ZADD {a} 1 x"));
            scene.run_command(&change.replace('#', &b));
            until_blocked(&mut scene.actor, 1);
            scene.run_command(&format!("XADD {b} 10-1 f v"));
            scene.record_reply("reader", &mut reader);
        }
    }
}

fn waits_time_out_or_are_unblocked(scene: &mut Scene<'_>) {
    scene.run_command("XADD s 1-1 f v");
    for protocol in [2, 3] {
        let mut reader = scene.server.client();
        reader.hello(protocol);
        send(&mut reader, "XREAD BLOCK 20 STREAMS s $");
        scene.record_reply("in time", &mut reader);
        let id = reader.cmd(&["CLIENT", "ID"]).int();
        for how in ["TIMEOUT", "ERROR"] {
            send(&mut reader, "XREAD BLOCK 0 STREAMS s $");
            until_blocked(&mut scene.actor, 1);
            let unblocked = scene.actor.cmd(&["CLIENT", "UNBLOCK", &id.to_string(), how]);
            assert_eq!(unblocked.int(), 1);
            scene.record_reply(how, &mut reader);
        }
    }
    scene.run_command("XADD s 2-1 f v");
}

#[test]
fn blocked_readers_get_the_same_replies_as_from_the_reference() {
    let reference = Server::valkey(&[]);
    if skip_without("stream readers", &reference, "valkey-server") {
        return;
    }
    let (reference, one) = (reference.expect("not skipped"), Server::weft(&[]));
    let several = Server::weft(&THREADS);
    let scenes: [(&str, Steps); 6] = [
        ("all are served", all_are_served),
        ("transactions", a_transaction_is_seen_as_a_whole),
        ("keys that go", keys_are_deleted_and_replaced),
        ("wrong types", keys_of_the_wrong_type),
        ("other types", wrong_type_is_reported_when_a_stream_grows),
        ("waits end", waits_time_out_or_are_unblocked),
    ];
    for (name, steps) in scenes {
        let replies = [&reference, &one, &several].map(|server| {
            server.client().ok(&["FLUSHALL"]);
            let mut scene = Scene::new(server);
            steps(&mut scene);
            scene.replies
        });
        let [expected, one, several] = replies;
        assert_eq!(one, expected, "{name}");
        assert_eq!(several, expected, "{name}, four threads");
    }
}

/// Each reader follows a stream to its end, passing the last id it read: every reader gets every
/// entry, once and in order.
#[test]
fn reader_gets_every_entry_once_and_in_order() {
    let readers = env_or("READERS", 40);
    let entries: u64 = env_or("READER_ENTRIES", 3000);
    let server = Server::weft(&THREADS);
    std::thread::scope(|scope| {
        for n in 0..readers {
            let (mut client, name) = (server.client(), format!("s{}", n % STREAMS));
            scope.spawn(move || {
                let (mut last, mut seen) = ("$".to_string(), 0);
                if n % 2 == 0 {
                    last = "0".to_string();
                }
                while seen < entries {
                    let reply = client.cmd(&["XREAD", "BLOCK", "0", "STREAMS", &name, &last]);
                    for entry in reply.items()[0].items()[1].items() {
                        seen += 1;
                        last = entry.items()[0].text();
                        assert_eq!(last, format!("{seen}-1"), "reader {n}");
                    }
                }
            });
        }
        let mut actor = server.client();
        until_blocked(&mut actor, readers);
        for stream in 0..STREAMS {
            let mut client = server.client();
            scope.spawn(move || {
                let name = format!("s{stream}");
                for n in 1..=entries {
                    let id = format!("{n}-1");
                    assert_eq!(client.cmd(&["XADD", &name, &id, "f", "v"]).text(), id);
                }
            });
        }
    });
    let mut client = server.client();
    assert!(client.cmd(&["INFO", "clients"]).text().contains("blocked_clients:0\r\n"));
    assert!(client.cmd(&["INFO", "clients"]).text().contains("total_blocking_keys:0\r\n"));
}
