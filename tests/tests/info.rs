//! INFO: fields that dashboards and exporters look for are there, and count something.

use std::collections::BTreeMap;
use weft_testkit::client::encode;
use weft_testkit::{Client, Server, skip_without};

/// The fields of these sections.
fn info(client: &mut Client, sections: &str) -> BTreeMap<String, String> {
    let text = client.cmd(&["INFO", sections]).text();
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

fn number(client: &mut Client, field: &str) -> u64 {
    info(client, "everything")[field].parse().unwrap_or_else(|_| panic!("{field} is a number"))
}

/// What a server without modules and script engines can't say.
const FOREIGN: [&str; 2] = ["module", "engine_0"];

#[test]
fn every_field_of_the_reference_is_there() {
    let ours = Server::weft(&[]);
    let names = info(&mut ours.client(), "everything");
    for name in ["valkey_version", "redis_build_id", "gcc_version", "eventloop_duration_sum"] {
        assert!(names.contains_key(name), "{name}");
    }
    let reference = Server::valkey(&[]);
    if skip_without("every_field_of_the_reference_is_there", &reference, "valkey-server") {
        return;
    }
    for name in info(&mut reference.expect("not skipped").client(), "everything").keys() {
        let known = names.contains_key(name) || FOREIGN.contains(&&name[..]);
        // Of a command or an error that only the reference has met.
        let met =
            ["cmdstat_", "latency_percentiles", "errorstat_"].iter().any(|p| name.starts_with(p));
        assert!(known || met, "{name}");
    }
}

#[test]
fn prefetches_and_turns_are_counted() {
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

/// The largest buffer of a client is remembered after the client is gone.
#[test]
fn recent_peaks_are_remembered() {
    let server = Server::weft(&["--io-threads", "1"]);
    let mut client = server.client();
    let mut other = server.client();
    let mut set = encode(&[&b"MSET"[..], b"a", &[b'v'; 30_000], b"b", &[b'v'; 30_000]]);
    set.truncate(set.len() - 10);
    other.send_raw(&set).expect("it is sent");
    let field = "client_recent_max_input_buffer";
    // The bytes are on their way; nothing else is waited for.
    while number(&mut client, field) < 30_000 {}
    drop(other);
    while number(&mut client, "connected_clients") > 1 {}
    assert!(number(&mut client, field) >= 30_000);
}

/// A hash that takes long to free.
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

/// Who evicts does not free what takes long, and does not look for more because it is not free yet:
/// there is nothing else to evict here, and the command would be refused.
#[test]
fn large_values_are_evicted_by_the_background() {
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

/// Only what takes long to free is freed by another thread.
#[test]
fn who_frees_what() {
    let server = Server::weft(&["--io-threads", "1"]);
    let mut client = server.client();
    let value = vec![b'v'; 100_000];
    for _ in 0..200 {
        client.ok(&[&b"SET"[..], b"k", &value]);
    }
    assert_eq!(number(&mut client, "lazyfreed_objects"), 0);
    // Expired by the sweep, and replaced.
    fill_hash(&mut client, "expiring");
    assert_eq!(client.cmd(&["PEXPIRE", "expiring", "1"]).int(), 1);
    wait_for(&mut client, "lazyfreed_objects", 1);
    fill_hash(&mut client, "replaced");
    client.ok(&["SET", "replaced", "v"]);
    wait_for(&mut client, "lazyfreed_objects", 2);
}
