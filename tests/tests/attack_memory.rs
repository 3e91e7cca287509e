//! More memory in use than there may be, and no key that can be evicted now.

use std::time::Duration;
use weft_testkit::Server;
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
