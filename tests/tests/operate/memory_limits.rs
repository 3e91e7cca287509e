//! More memory in use than there may be, and no key that can be evicted now.

use std::time::Duration;
use weft_testkit::client::encode;
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

/// What clients send behind commands that wait takes what they have sent, and not what it would be as arguments; it
/// is shown, and answered when the commands are over. What is behind is less than is read at once.
fn takes_what_it_came_in(before: &[u8], behind: &[u8], replies: usize, waits: usize) {
    const CLIENTS: usize = 300;
    let server = Server::weft(&["--io-threads", "1"]);
    let mut other = client(&server);
    let rss = server.process().rss();
    let requests = [before, behind].concat();
    let mut waiting: Vec<Client> = (0..CLIENTS).map(|_| client(&server)).collect();
    waiting.iter_mut().for_each(|client| client.send_raw(&requests).expect("it is read"));
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
            bytes.filter(|bytes: &usize| *bytes >= behind.len() / 4).count()
        };
        for _ in 0..200 {
            shown = is_shown(&other.cmd(&["CLIENT", "LIST"]).text());
            if shown == CLIENTS {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(shown, CLIENTS, "clients of which input is shown");
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
fn little_requests_behind_one_that_waits() {
    takes_what_it_came_in(b"BLPOP queue 0\r\n", &b"aa\n".repeat(21_000), 21_000, 1);
}

/// One request of many arguments, and some that are looked at when the first waits no more.
#[test]
fn large_requests_behind_one_that_waits() {
    let sadd = |n: usize| encode(&[&["SADD", "set"][..], &vec!["a"; n]].concat());
    takes_what_it_came_in(b"BLPOP queue 0\r\n", &sadd(9_000), 1, 1);
    takes_what_it_came_in(b"BLPOP queue 0\r\nBLPOP queue 0\r\n", &sadd(250).repeat(35), 35, 2);
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
