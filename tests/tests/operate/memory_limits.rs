//! Memory limits: large replies, waiting requests, and eviction when no key can be evicted now.

use std::time::Duration;
use weft_testkit::client::encode;
use weft_testkit::{Client, Server};
use weft_tests::scene::{HeldShard, client, info, reply};

/// A few kilobytes of requests ask for gigabytes of replies. The output limit applies within one
/// read; without a limit, requests wait while many replies are pending.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn requests_of_one_read_are_not_all_answered_at_once() {
    const MB: u64 = 1 << 20;
    for (limit, most) in [("normal 50mb 0 0", 300 * MB), ("normal 0 0 0", 600 * MB)] {
        let server = Server::weft(&["--io-threads", "1", "--client-output-buffer-limit", limit]);
        let mut other = client(&server);
        let elements: Vec<String> = (0..1000).map(|_| "x".repeat(1000)).collect();
        let push = ["RPUSH", "list"].map(String::from).into_iter().chain(elements);
        other.cmd(&push.collect::<Vec<_>>());
        let mut greedy = client(&server);
        greedy.send_raw(&b"LRANGE list 0 -1\r\n".repeat(2000)).expect("the server reads");
        // Without the bound, two gigabytes of replies would exist before these PINGs are answered.
        for _ in 0..20 {
            assert_eq!(other.cmd(&["PING"]).text(), "PONG");
            std::thread::sleep(Duration::from_millis(20));
        }
        let used = server.process().most_rss();
        assert!(used < most, "{limit}: {} MB", used / MB);
        if limit == "normal 0 0 0" {
            // No reply is lost: the server sends them as the client reads.
            for n in 0..2000 {
                assert_eq!(reply(&mut greedy).items().len(), 1000, "{n}");
            }
        }
    }
}

/// Requests after a blocked command take only the bytes that were sent, not the size of their
/// parsed arguments. CLIENT LIST shows them, and they are answered after the command. `pipelined` is
/// smaller than one read.
fn check_memory_of_waiting_requests(before: &[u8], pipelined: &[u8], replies: usize, waits: usize) {
    const CLIENTS: usize = 300;
    let server = Server::weft(&["--io-threads", "1"]);
    let mut other = client(&server);
    let rss = server.process().rss();
    let requests = [before, pipelined].concat();
    let mut waiting: Vec<Client> = (0..CLIENTS).map(|_| client(&server)).collect();
    waiting.iter_mut().for_each(|client| client.send_raw(&requests).expect("the server reads"));
    let serve = |other: &mut Client| {
        let elements = (0..CLIENTS).map(|n| n.to_string());
        other.cmd(
            &["RPUSH", "queue"].map(String::from).into_iter().chain(elements).collect::<Vec<_>>(),
        );
    };
    let mut shown = 0;
    for left in (0..waits).rev() {
        let is_shown = |list: &str| -> usize {
            let fields = list.split([' ', '\n']).filter_map(|field| field.strip_prefix("qbuf="));
            let bytes = fields.filter_map(|field| field.parse().ok());
            bytes.filter(|bytes: &usize| *bytes >= pipelined.len() / 4).count()
        };
        for _ in 0..200 {
            shown = is_shown(&other.cmd(&["CLIENT", "LIST"]).text());
            if shown == CLIENTS {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(shown, CLIENTS, "clients whose input is shown");
        let each = (server.process().rss() - rss) / CLIENTS as u64;
        assert!(each < 3 * requests.len() as u64, "{each} bytes for each client");
        serve(&mut other);
        if left > 0 {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    for client in &mut waiting {
        for _ in 0..waits {
            assert_eq!(reply(client).items().len(), 2);
        }
        for _ in 0..replies {
            reply(client);
        }
        assert_eq!(client.cmd(&["PING"]).text(), "PONG");
    }
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn small_requests_after_a_blocked_command_take_their_sent_size() {
    check_memory_of_waiting_requests(b"BLPOP queue 0\r\n", &b"aa\n".repeat(21_000), 21_000, 1);
}

/// One request of many arguments, and requests that are parsed when the first command is unblocked.
#[test]
fn large_requests_after_a_blocked_command_take_their_sent_size() {
    let sadd = |n: usize| encode(&[&["SADD", "set"][..], &vec!["a"; n]].concat());
    check_memory_of_waiting_requests(b"BLPOP queue 0\r\n", &sadd(9_000), 1, 1);
    check_memory_of_waiting_requests(
        b"BLPOP queue 0\r\nBLPOP queue 0\r\n",
        &sadd(250).repeat(35),
        35,
        2,
    );
}

/// Each command of a pipeline moves to the slow lane. The commands after it must not all be planned
/// again each time.
#[test]
fn pipeline_of_long_commands_is_not_planned_repeatedly() {
    const REQUESTS: u64 = 1000;
    let server = Server::weft(&["--io-threads", "1"]);
    let mut client = client(&server);
    let elements = (0..20_000).map(|n| format!("element:{n}"));
    let push = ["RPUSH", "list"].map(String::from).into_iter().chain(elements);
    client.cmd(&push.collect::<Vec<_>>());
    let planned = |client: &mut Client| info(client, "io_threaded_total_prefetch_entries");
    let before = planned(&mut client);
    let request: Vec<String> = ["LPOS", "list", "none"].map(String::from).to_vec();
    let replies = client.pipeline(&vec![request; REQUESTS as usize]).expect("the server answers");
    assert!(replies.iter().all(|reply| reply.value.is_null()));
    let planned = planned(&mut client) - before;
    assert!(planned > 2 * REQUESTS, "{planned}: the commands did not move to the slow lane");
    assert!(planned < 40 * REQUESTS, "{planned}");
}

/// A long command holds the shard of all keys. Other clients continue, writes are refused, and
/// afterwards eviction makes room again.
#[test]
fn eviction_does_not_wait_for_a_shard_held_by_a_long_command() {
    const PINGS: usize = 300;
    for policy in ["allkeys-lru", "allkeys-random"] {
        let server = Server::weft(&["--io-threads", "1", "--maxmemory-policy", policy]);
        let mut client = client(&server);
        let limit = info(&mut client, "used_memory") + (4 << 20);
        let fields = (0..100_000).flat_map(|n| [format!("field:{n}"), "v".repeat(50)]);
        let fill = ["HSET", "{a}hash"].map(String::from).into_iter().chain(fields);
        client.cmd(&fill.collect::<Vec<_>>());
        let held = HeldShard::with_tag(&server, "a");
        client.ok(&["CONFIG", "SET", "maxmemory", &limit.to_string()]);
        for _ in 0..PINGS {
            assert_eq!(client.cmd(&["PING"]).text(), "PONG");
        }
        let refused = client.cmd(&["SET", "other", "v"]);
        let oom = "OOM command not allowed when used memory > 'maxmemory'.";
        assert_eq!(refused.error().as_deref(), Some(oom));
        held.release();
        client.ok(&["SET", "other", "v"]);
    }
}
