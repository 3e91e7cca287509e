//! Hash fields that expire are removed without an access.
//!
//! The test also runs against the reference, to prove that its expectations are right.

use std::time::{Duration, Instant};
use weft_testkit::{Client, Server, skip_without};

const HASHES: usize = 200;

/// The value of a field of INFO.
fn info(client: &mut Client, section: &str, field: &str) -> String {
    let text = client.cmd(&["INFO", section]).text();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_default().to_string()
}

/// Creates hashes of 30 fields, 20 of which expire soon, and one hash whose only field expires.
fn fill(client: &mut Client) {
    for n in 0..HASHES {
        let key = format!("h{n}");
        let fields: Vec<String> = (0..30).map(|n| format!("f{n}")).collect();
        let set = ["HSET", &key].into_iter();
        let set: Vec<&str> = set.chain(fields.iter().flat_map(|f| [&f[..], "value"])).collect();
        client.cmd(&set);
        let expire = ["HPEXPIRE", &key, "300", "FIELDS", "20"].into_iter();
        let expire: Vec<&str> = expire.chain(fields[..20].iter().map(|f| &f[..])).collect();
        client.cmd(&expire);
    }
    client.cmd(&["HSET", "all", "f", "value"]);
    client.cmd(&["HPEXPIRE", "all", "300", "FIELDS", "1", "f"]);
}

fn check(server: &Server) {
    let (mut client, mut watcher) = (server.client(), server.client());
    client.ok(&["CONFIG", "RESETSTAT"]);
    fill(&mut client);
    watcher.ok(&["WATCH", "h7"]);
    let line = info(&mut client, "keyspace", "db0");
    assert!(line.ends_with(&format!("keys_with_volatile_items={}", HASHES + 1)), "{line}");
    let deadline = Instant::now() + Duration::from_secs(60);
    let expected = (HASHES * 20 + 1).to_string();
    while info(&mut client, "stats", "expired_fields") != expected {
        assert!(Instant::now() < deadline, "expired fields still exist");
        std::thread::sleep(Duration::from_millis(50));
    }
    for n in 0..HASHES {
        assert_eq!(client.cmd(&["HLEN", &format!("h{n}")]).int(), 10);
    }
    assert_eq!(client.cmd(&["EXISTS", "all"]).int(), 0);
    let line = info(&mut client, "keyspace", "db0");
    assert!(line.ends_with("keys_with_volatile_items=0"), "{line}");
    assert_eq!(info(&mut client, "stats", "expired_keys"), "0");
    watcher.ok(&["MULTI"]);
    watcher.cmd(&["PING"]);
    assert!(watcher.cmd(&["EXEC"]).is_null(), "the expiry of a field breaks the watch");
}

#[test]
fn expired_fields_are_removed_without_an_access() {
    check(&Server::weft(&["--io-threads", "3", "--io-threads-always-active", "yes"]));
    let reference = Server::valkey(&[]);
    if !skip_without("expired_fields_are_removed_without_an_access", &reference, "valkey-server") {
        check(&reference.expect("not skipped"));
    }
}
