//! INFO has the fields that dashboards and exporters read, and they count correctly.

use std::collections::BTreeMap;
use weft_testkit::client::encode;
use weft_testkit::{Client, Server, skip_without};

/// The fields of these sections of INFO.
fn info(client: &mut Client, sections: &str) -> BTreeMap<String, String> {
    let text = client.cmd(&["INFO", sections]).text();
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

fn number(client: &mut Client, field: &str) -> u64 {
    info(client, "everything")[field].parse().unwrap_or_else(|_| panic!("{field} is a number"))
}

/// Fields that need modules or script engines.
const FOREIGN: [&str; 2] = ["module", "engine_0"];

#[test]
fn info_has_every_field_of_the_reference() {
    let ours = Server::weft(&[]);
    let names = info(&mut ours.client(), "everything");
    for name in ["valkey_version", "redis_build_id", "gcc_version", "eventloop_duration_sum"] {
        assert!(names.contains_key(name), "{name}");
    }
    let reference = Server::valkey(&[]);
    if skip_without("info_has_every_field_of_the_reference", &reference, "valkey-server") {
        return;
    }
    for name in info(&mut reference.expect("not skipped").client(), "everything").keys() {
        let known = names.contains_key(name) || FOREIGN.contains(&&name[..]);
        // Statistics of commands and errors that occurred only on the reference.
        let met =
            ["cmdstat_", "latency_percentiles", "errorstat_"].iter().any(|p| name.starts_with(p));
        assert!(known || met, "{name}");
    }
}

#[test]
fn prefetches_and_polls_are_counted() {
    let server = Server::weft(&["--io-threads", "1"]);
    let mut client = server.client();
    let before = number(&mut client, "io_threaded_total_prefetch_entries");
    let requests: Vec<Vec<String>> =
        (0..1000).map(|n| vec!["GET".into(), format!("k{n}")]).collect();
    client.pipeline(&requests).expect("the server answers");
    let after = number(&mut client, "io_threaded_total_prefetch_entries");
    assert_eq!(after - before, 1000);
    let batches = number(&mut client, "io_threaded_total_prefetch_batches");
    assert!((1..=1000).contains(&batches), "{batches}");
    assert!(number(&mut client, "io_threaded_poll_processed") > 0);
    client.ok(&["CONFIG", "RESETSTAT"]);
    assert_eq!(number(&mut client, "io_threaded_total_prefetch_entries"), 0);
}

/// INFO still reports the largest buffer of a client after the client has disconnected.
#[test]
fn recent_peaks_outlive_their_client() {
    let server = Server::weft(&["--io-threads", "1"]);
    let mut client = server.client();
    let mut other = server.client();
    let mut set = encode(&[&b"MSET"[..], b"a", &[b'v'; 30_000], b"b", &[b'v'; 30_000]]);
    set.truncate(set.len() - 10);
    other.send_raw(&set).expect("the bytes are sent");
    let field = "client_recent_max_input_buffer";
    // Only the bytes in transit can delay this, so no timeout is needed.
    while number(&mut client, field) < 30_000 {}
    drop(other);
    while number(&mut client, "connected_clients") > 1 {}
    assert!(number(&mut client, field) >= 30_000);
}

/// Writes a hash that takes long to free.
fn fill_hash(client: &mut Client, key: &str) {
    for part in 0..40 {
        let pairs = (0..5000).flat_map(|n| [format!("f{part}:{n}"), "v".repeat(40)]);
        let set: Vec<String> =
            ["HSET".to_owned(), key.to_owned()].into_iter().chain(pairs).collect();
        assert_eq!(client.cmd(&set).int(), 5000);
    }
}

fn wait_for(client: &mut Client, field: &str, wanted: u64) {
    while number(client, field) < wanted {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Eviction does not free a large value on the evicting thread. It must not evict more keys because
/// the memory is not free yet: no other key is evictable here, so the command would be refused.
#[test]
fn large_values_are_evicted_in_the_background() {
    let server = Server::weft(&["--io-threads", "1", "--maxmemory-policy", "volatile-lru"]);
    let mut client = server.client();
    fill_hash(&mut client, "large");
    assert_eq!(client.cmd(&["EXPIRE", "large", "1000"]).int(), 1);
    for n in 0..1000 {
        client.ok(&["SET", &format!("small{n}"), &"v".repeat(1000)]);
    }
    let used = number(&mut client, "used_memory");
    client.ok(&["CONFIG", "SET", "maxmemory", &(used - (2 << 20)).to_string()]);
    client.ok(&["SET", "another", "v"]);
    assert_eq!(number(&mut client, "evicted_keys"), 1);
    assert_eq!(client.cmd(&["EXISTS", "large", "another"]).int(), 1);
    wait_for(&mut client, "lazyfreed_objects", 1);
    assert_eq!(number(&mut client, "lazyfree_pending_objects"), 0);
}

/// Only values that take long to free are freed by another thread.
#[test]
fn only_large_values_are_freed_in_the_background() {
    let server = Server::weft(&["--io-threads", "1"]);
    let mut client = server.client();
    let value = vec![b'v'; 100_000];
    for _ in 0..200 {
        client.ok(&[&b"SET"[..], b"k", &value]);
    }
    assert_eq!(number(&mut client, "lazyfreed_objects"), 0);
    // Expired by active expiry, and replaced.
    fill_hash(&mut client, "expiring");
    assert_eq!(client.cmd(&["PEXPIRE", "expiring", "1"]).int(), 1);
    wait_for(&mut client, "lazyfreed_objects", 1);
    fill_hash(&mut client, "replaced");
    client.ok(&["SET", "replaced", "v"]);
    wait_for(&mut client, "lazyfreed_objects", 2);
}

/// By database: `keys=`, `expires=`, and `avg_ttl=` rounded up to seconds.
fn databases(client: &mut Client) -> BTreeMap<String, (u64, u64, u64)> {
    let lines = info(client, "keyspace");
    let number = |line: &str, name: &str| -> u64 {
        let part = line.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        part.expect(name).parse().expect("a number")
    };
    let of = |line: &str| {
        (number(line, "keys"), number(line, "expires"), number(line, "avg_ttl").div_ceil(1000))
    };
    lines.into_iter().map(|(name, line)| (name, of(&line))).collect()
}

/// INFO stays correct with thousands of databases when keys are written, removed, swapped and
/// flushed. An INFO over all of them runs in the slow lane.
#[test]
fn keys_of_thousands_of_databases_are_counted() {
    let options = ["--io-threads", "1", "--databases", "10000", "--enable-debug-command", "yes"];
    let server = Server::weft(&options);
    let mut client = server.client();
    assert!(databases(&mut client).is_empty());
    let requests: Vec<Vec<String>> = (0..4000)
        .flat_map(|db| {
            let words = |line: String| line.split(' ').map(str::to_owned).collect();
            let select: Vec<String> = words(format!("SELECT {db}"));
            let set = (0..9).map(|n| words(format!("SET k{n} v")));
            [select].into_iter().chain(set).collect::<Vec<_>>()
        })
        .collect();
    client.pipeline(&requests).expect("the server answers");
    let found = databases(&mut client);
    assert_eq!(found.len(), 4000);
    assert!(found.values().all(|of| *of == (9, 0, 0)));
    // Counting this many databases is too long for a thread with other clients.
    client.ok(&["DEBUG", "PAUSE-SLOW-LANE", "1"]);
    let mut other = server.client();
    other.send_raw(&encode(&["INFO", "keyspace"])).expect("the bytes are sent");
    while info(&mut client, "threads")["slow_lane_jobs"] != "1" {}
    client.ok(&["DEBUG", "PAUSE-SLOW-LANE", "0"]);
    let text = other.read_reply().expect("a reply").value.text();
    assert!(text.contains("db3999:keys=9,"), "{text}");
    for db in 2..4000 {
        client.ok(&["SELECT", &db.to_string()]);
        client.ok(&["FLUSHDB"]);
    }
    client.ok(&["SELECT", "1"]);
    assert_eq!(client.cmd(&["DEL", "k0", "k1", "k2"]).int(), 3);
    client.ok(&["SET", "k3", "v", "EX", "1000"]);
    client.ok(&["SWAPDB", "1", "9999"]);
    assert_eq!(client.cmd(&["DBSIZE"]).int(), 0);
    let wanted = [("db0", (9, 0, 0)), ("db9999", (6, 1, 1000))];
    let wanted = wanted.map(|(name, of)| (name.to_owned(), of));
    assert_eq!(databases(&mut client), BTreeMap::from(wanted.clone()));
    // Database 500 was skipped as empty, and must be counted again.
    client.ok(&["SELECT", "500"]);
    client.ok(&["SET", "k0", "v", "EX", "100"]);
    let back = [("db500".to_owned(), (1, 1, 100))];
    assert_eq!(databases(&mut client), BTreeMap::from_iter(wanted.into_iter().chain(back)));
    client.ok(&["FLUSHALL"]);
    assert!(databases(&mut client).is_empty());
}

/// Counts of calls include every answered command, wherever it ran.
#[test]
fn calls_are_counted_by_the_time_they_are_answered() {
    let server = Server::weft(&["--io-threads", "2", "--io-threads-always-active", "yes"]);
    let mut clients = [server.client(), server.client(), server.client()];
    let words = (0..5000).map(|n| format!("m{n}"));
    let add: Vec<String> = ["SADD".into(), "set".into()].into_iter().chain(words).collect();
    clients[0].cmd(&add.iter().map(String::as_str).collect::<Vec<_>>());
    let calls = "total_commands_processed";
    let mut before = number(&mut clients[0], calls);
    for round in 0..50 {
        // A command on the same thread, one on another thread, and one in the slow lane.
        clients[1].ok(&["SET", "k", "v"]);
        clients[2].cmd(&["GET", "k"]);
        assert_eq!(clients[1].cmd(&["SMEMBERS", "set"]).items().len(), 5000);
        let now = number(&mut clients[0], calls);
        assert_eq!(now - before, 4, "in round {round}");
        before = now;
    }
    clients[0].ok(&["CONFIG", "RESETSTAT"]);
    // RESETSTAT counts itself after the reset.
    assert_eq!(number(&mut clients[0], calls), 1);
    clients[2].cmd(&["GET", "k"]);
    let text = clients[0].cmd(&["INFO", "commandstats"]).text();
    assert!(text.contains("cmdstat_get:calls=1,"), "{text}");
    assert!(!text.contains("cmdstat_smembers"), "{text}");
    let latency = info(&mut clients[0], "latencystats");
    let of_get = &latency["latency_percentiles_usec_get"];
    assert!(of_get.starts_with("p50=") && of_get.contains(",p99=") && of_get.contains(",p99.9="));
}

/// An unknown subcommand counts for no command, not for its container either.
#[test]
fn unknown_subcommand_counts_for_no_command() {
    weft_tests::scene::on_both(&[], &[], |server| {
        let mut client = server.client();
        for words in [&["CLIENT", "NOPE"][..], &["CONFIG", "NOPE", "x"]] {
            assert!(client.cmd(words).error().is_some());
        }
        let stats = info(&mut client, "commandstats");
        let counted = ["cmdstat_client", "cmdstat_config"].map(|name| stats.contains_key(name));
        assert_eq!(counted, [false, false], "{}: {stats:?}", server.name());
        assert!(client.cmd(&["CLIENT"]).error().is_some());
        let stats = info(&mut client, "commandstats");
        assert!(stats["cmdstat_client"].contains("rejected_calls=1"), "{}", server.name());
    });
}
