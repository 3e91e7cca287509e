//! LATENCY: the events beside commands, by the names that the reference has for them.

use std::time::{Duration, Instant};
use weft_testkit::{Client, Server};

fn until(client: &mut Client, what: &str, mut is_so: impl FnMut(&mut Client) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so(client) {
        assert!(Instant::now() < deadline, "{what} never comes");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether there are samples of an event.
fn has(client: &mut Client, event: &str) -> bool {
    !client.cmd(&["LATENCY", "HISTORY", event]).items().is_empty()
}

#[test]
fn writes_of_the_append_only_file() {
    let server = Server::weft(&[
        "--appendonly",
        "yes",
        "--latency-monitor-threshold",
        "2",
        "--enable-debug-command",
        "yes",
        "--rdb-key-save-delay",
        "50000",
    ]);
    let mut client = server.client();
    client.ok(&["DEBUG", "AOF-FLUSH-SLEEP", "5000"]);
    until(&mut client, "aof-write-alone", |client| {
        client.ok(&["SET", "a", "1"]);
        has(client, "aof-write-alone")
    });
    assert!(has(&mut client, "aof-write"));
    assert!(!has(&mut client, "aof-write-active-child"));
    (0..50).for_each(|n| client.ok(&["SET", &format!("k{n}"), "v"]));
    assert!(client.cmd(&["BGREWRITEAOF"]).error().is_none());
    until(&mut client, "aof-write-active-child", |client| {
        client.ok(&["SET", "a", "2"]);
        has(client, "aof-write-active-child")
    });
    let latest = client.cmd(&["LATENCY", "LATEST"]);
    let slept = latest.items().iter().map(|event| event.items());
    let slept = slept.filter(|event| event[0].text().starts_with("aof-write"));
    assert!(slept.map(|event| event[3].int()).all(|longest| longest >= 5));
}

#[test]
fn cycles_of_expiry_and_eviction() {
    let server = Server::weft(&["--latency-monitor-threshold", "1", "--save", ""]);
    let mut client = server.client();
    // Keys whose time ends together, more than a thread removes in a millisecond.
    until(&mut client, "expire-cycle", |client| {
        let batch: Vec<Vec<String>> = (0..20_000)
            .map(|n| ["SET", &format!("e{n}"), "v", "PX", "50"].map(String::from).to_vec())
            .collect();
        client.pipeline(&batch).expect("it answers");
        std::thread::sleep(Duration::from_millis(200));
        has(client, "expire-cycle")
    });
    client.ok(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
    until(&mut client, "eviction-cycle", |client| {
        client.ok(&["CONFIG", "SET", "maxmemory", "0"]);
        let batch: Vec<Vec<String>> = (0..20_000)
            .map(|n| ["SET", &format!("v{n}"), "value"].map(String::from).to_vec())
            .collect();
        client.pipeline(&batch).expect("it answers");
        client.ok(&["CONFIG", "SET", "maxmemory", "1"]);
        // It is refused, or evicts what there is.
        client.cmd(&["SET", "a", "1"]);
        has(client, "eviction-cycle")
    });
}
