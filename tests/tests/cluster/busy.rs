//! Changes of slots while a script is busy.

use weft_testkit::Server;
use weft_tests::scene::{client, reply, send, until};

const SCRIPT: &str = "redis.log(redis.LOG_WARNING, 'it holds') while true do end";

/// A script may use any slot that this node serves, so taking one away would wait for its end.
#[test]
fn slots_are_not_taken_from_a_busy_script() {
    let server = Server::weft(&[
        "--cluster-enabled",
        "yes",
        "--cluster-require-full-coverage",
        "no",
        "--busy-reply-threshold",
        "1",
    ]);
    let (mut caller, mut other) = (client(&server), client(&server));
    other.ok(&["CLUSTER", "ADDSLOTSRANGE", "0", "16382"]);
    send(&mut caller, &["EVAL", SCRIPT, "1", "{foo}k"]);
    until("the key is busy", || {
        other.cmd(&["GET", "{foo}k"]).error().is_some_and(|error| error.starts_with("BUSY "))
    });
    let before = other.cmd(&["CLUSTER", "NODES"]).text();
    for words in [&["CLUSTER", "DELSLOTS", "1"][..], &["CLUSTER", "FLUSHSLOTS"]] {
        let error = other.cmd(words).error().unwrap_or_default();
        assert!(error.starts_with("BUSY "), "{words:?}: {error}");
    }
    assert_eq!(other.cmd(&["CLUSTER", "NODES"]).text(), before);
    other.ok(&["CLUSTER", "ADDSLOTS", "16383"]);
    other.ok(&["SCRIPT", "KILL"]);
    assert!(reply(&mut caller).error().is_some());
    other.ok(&["CLUSTER", "DELSLOTS", "1"]);
}
