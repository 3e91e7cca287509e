//! A script that has written runs to its end, although its writes would be refused if it began now.

use weft_testkit::{Client, Server};
use weft_tests::scene::{client, reply, send, until};

/// Writes one key, counts for a while, and writes another one.
const LONG: &str = "redis.call('set', '{a}first', 1)
    for n = 1, 50 do for m = 1, 200000 do local x = m end end
    redis.call('set', '{b}second', 1) return 1";

/// Begins the script, and waits until it has written.
fn begin(server: &Server, other: &mut Client) -> Client {
    let mut caller = client(server);
    send(&mut caller, &["EVAL", LONG, "0"]);
    until("the script has written", || {
        let reply = other.cmd(&["SCRIPT", "KILL"]);
        if reply.is_ok() {
            // It was about to write.
            assert!(weft_tests::scene::reply(&mut caller).error().is_some());
            send(&mut caller, &["EVAL", LONG, "0"]);
        }
        reply.error().is_some_and(|error| error.starts_with("UNKILLABLE"))
    });
    caller
}

/// Changes the server's state while the script runs, and checks that its effects are whole.
fn check(server: &Server, change: &[&str], back: &[&str]) {
    let mut other = client(server);
    for _ in 0..3 {
        other.cmd(&["DEL", "{a}first", "{b}second"]);
        let mut caller = begin(server, &mut other);
        send(&mut other, change);
        let got = reply(&mut caller);
        assert!(reply(&mut other).is_ok(), "{change:?}");
        assert_eq!(got.error(), None, "{change:?}");
        assert_eq!(other.cmd(&["MGET", "{a}first", "{b}second"]).to_string(), "[\"1\", \"1\"]");
        other.ok(back);
    }
}

#[test]
fn script_that_has_written_does_not_need_replicas() {
    let server = Server::weft(&["--io-threads", "1"]);
    let set = |count| ["CONFIG", "SET", "min-replicas-to-write", count];
    check(&server, &set("1"), &set("0"));
}

#[test]
fn script_that_has_written_may_write_after_a_demotion() {
    let server = Server::weft(&["--io-threads", "1"]);
    check(&server, &["REPLICAOF", "127.0.0.1", "1"], &["REPLICAOF", "NO", "ONE"]);
}
