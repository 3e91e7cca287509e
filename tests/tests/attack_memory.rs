//! More memory in use than there may be, and no key that can be evicted now.

use std::time::Duration;
use weft_testkit::Server;
use weft_tests::scene::{Long, client, info, reply, reply_within};

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
