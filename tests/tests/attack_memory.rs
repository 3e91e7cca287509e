//! More memory in use than there may be, and no key that can be evicted now.

use std::time::Duration;
use weft_testkit::{Client, Server};
use weft_tests::scene::{Long, client, info, reply, reply_within};

/// A few kilobytes of requests that ask for gigabytes: the limit for replies that nobody takes holds within what was
/// read at once, and without one requests wait when there is much.
#[test]
fn what_one_read_asks_for_is_not_answered_at_once() {
    const MB: u64 = 1 << 20;
    for (limit, most) in [("normal 50mb 0 0", 300 * MB), ("normal 0 0 0", 600 * MB)] {
        let server = Server::weft(&["--io-threads", "1", "--client-output-buffer-limit", limit]);
        let mut other = client(&server);
        let elements: Vec<String> = (0..1000).map(|_| "x".repeat(1000)).collect();
        let push = ["RPUSH", "list"].map(String::from).into_iter().chain(elements);
        other.cmd(&push.collect::<Vec<_>>());
        let mut greedy = client(&server);
        greedy.send_raw(&b"LRANGE list 0 -1\r\n".repeat(2000)).expect("it is read");
        // Two gigabytes would be there before these are answered.
        for _ in 0..20 {
            assert_eq!(other.cmd(&["PING"]).text(), "PONG");
            std::thread::sleep(Duration::from_millis(20));
        }
        let used = server.process().most_rss();
        assert!(used < most, "{limit}: {} MB", used / MB);
        if limit == "normal 0 0 0" {
            // Nothing is lost: they are answered as they are taken.
            for n in 0..2000 {
                assert_eq!(reply(&mut greedy).items().len(), 1000, "{n}");
            }
        }
    }
}

/// What a client sends behind a command that waits takes what it has sent, and not what it would be as arguments; it is
/// shown, and answered when the command is over.
#[test]
fn requests_behind_one_that_waits_take_what_they_came_in() {
    const CLIENTS: usize = 50;
    const REQUESTS: usize = 30_000;
    let server = Server::weft(&["--io-threads", "1"]);
    let mut other = client(&server);
    let before = server.process().rss();
    let requests = [&b"BLPOP queue 0\r\n"[..], &b"a\n".repeat(REQUESTS)].concat();
    let mut waiting: Vec<Client> = (0..CLIENTS).map(|_| client(&server)).collect();
    waiting.iter_mut().for_each(|client| client.send_raw(&requests).expect("it is read"));
    let shown = |list: &str| -> Vec<usize> {
        let fields = list.split([' ', '\n']).filter_map(|field| field.strip_prefix("qbuf="));
        fields.filter_map(|field| field.parse().ok()).filter(|bytes| *bytes >= REQUESTS).collect()
    };
    let mut list = String::new();
    for _ in 0..200 {
        list = other.cmd(&["CLIENT", "LIST"]).text();
        if shown(&list).len() == CLIENTS {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(shown(&list).len(), CLIENTS, "{list}");
    let each = (server.process().rss() - before) / CLIENTS as u64;
    assert!(each < 1 << 20, "{each} bytes for each client");
    let push =
        ["RPUSH", "queue"].map(String::from).into_iter().chain((0..CLIENTS).map(|n| n.to_string()));
    other.cmd(&push.collect::<Vec<_>>());
    for client in &mut waiting {
        assert_eq!(reply(client).items().len(), 2);
        for _ in 0..REQUESTS {
            assert!(
                reply(client).error().is_some_and(|e| e.starts_with("ERR unknown command 'a'"))
            );
        }
        assert_eq!(client.cmd(&["PING"]).text(), "PONG");
    }
}

/// Each command of a pipeline leaves its thread. Those behind it are not all planned again each time.
#[test]
fn a_pipeline_of_long_commands_is_not_planned_over_and_over() {
    const REQUESTS: u64 = 1000;
    let server = Server::weft(&["--io-threads", "1"]);
    let mut client = client(&server);
    let elements = (0..20_000).map(|n| format!("element:{n}"));
    let push = ["RPUSH", "list"].map(String::from).into_iter().chain(elements);
    client.cmd(&push.collect::<Vec<_>>());
    let planned = |client: &mut Client| info(client, "io_threaded_total_prefetch_entries");
    let before = planned(&mut client);
    let request: Vec<String> = ["LPOS", "list", "none"].map(String::from).to_vec();
    let replies = client.pipeline(&vec![request; REQUESTS as usize]).expect("it is alive");
    assert!(replies.iter().all(|reply| reply.value.is_null()));
    let planned = planned(&mut client) - before;
    assert!(planned > 2 * REQUESTS, "{planned}: they did not leave their thread");
    assert!(planned < 40 * REQUESTS, "{planned}");
}

/// All keys are in a shard that a long command holds: other clients go on meanwhile, who writes is
/// refused, and afterwards there is room again.
#[test]
fn nobody_waits_for_a_key_to_evict_that_a_long_command_holds() {
    const PINGS: usize = 300;
    for policy in ["allkeys-lru", "allkeys-random"] {
        let server = Server::weft(&["--io-threads", "1", "--maxmemory-policy", policy]);
        let long = Long::with_tag(&server, "a");
        let mut client = client(&server);
        let limit = info(&mut client, "used_memory") + (4 << 20);
        let fields = (0..100_000).flat_map(|n| [format!("field:{n}"), "v".repeat(50)]);
        let fill = ["HSET", "{a}hash"].map(String::from).into_iter().chain(fields);
        client.cmd(&fill.collect::<Vec<_>>());
        let mut runner = long.begin(&server, 4.0);
        client.ok(&["CONFIG", "SET", "maxmemory", &limit.to_string()]);
        for _ in 0..PINGS {
            assert_eq!(client.cmd(&["PING"]).text(), "PONG");
        }
        let refused = client.cmd(&["SET", "other", "v"]);
        let oom = "OOM command not allowed when used memory > 'maxmemory'.";
        assert_eq!(refused.error().as_deref(), Some(oom));
        let early = reply_within(&mut runner, Duration::from_millis(1));
        assert!(early.is_none(), "{policy}: {PINGS} PINGs took as long as the long command");
        reply(&mut runner);
        client.ok(&["SET", "other", "v"]);
    }
}
