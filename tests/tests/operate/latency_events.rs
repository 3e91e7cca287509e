//! LATENCY: events other than commands, with the names that the reference uses.

use std::time::{Duration, Instant};
use weft_testkit::{Client, Server};

fn until(client: &mut Client, what: &str, mut is_so: impl FnMut(&mut Client) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so(client) {
        assert!(Instant::now() < deadline, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the event has samples.
fn has(client: &mut Client, event: &str) -> bool {
    !client.cmd(&["LATENCY", "HISTORY", event]).items().is_empty()
}

#[test]
fn aof_writes_are_latency_events() {
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
fn expire_and_eviction_cycles_are_latency_events() {
    let server = Server::weft(&["--latency-monitor-threshold", "1", "--save", ""]);
    let mut client = server.client();
    // Keys that expire at the same time, more than a thread removes in a millisecond.
    until(&mut client, "expire-cycle", |client| {
        let batch: Vec<Vec<String>> = (0..20_000)
            .map(|n| ["SET", &format!("e{n}"), "v", "PX", "50"].map(String::from).to_vec())
            .collect();
        client.pipeline(&batch).expect("the server answers");
        std::thread::sleep(Duration::from_millis(200));
        has(client, "expire-cycle")
    });
    client.ok(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
    until(&mut client, "eviction-cycle", |client| {
        client.ok(&["CONFIG", "SET", "maxmemory", "0"]);
        let batch: Vec<Vec<String>> = (0..20_000)
            .map(|n| ["SET", &format!("v{n}"), "value"].map(String::from).to_vec())
            .collect();
        client.pipeline(&batch).expect("the server answers");
        client.ok(&["CONFIG", "SET", "maxmemory", "1"]);
        // The server refuses the command, or evicts keys.
        client.cmd(&["SET", "a", "1"]);
        has(client, "eviction-cycle")
    });
}
