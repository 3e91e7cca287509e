//! Replies and effects of the commands on whole databases.

use crate::testing::Bench;
use weft_keyspace::context::Free;

const NOW: i64 = 1_700_000_000_000;

fn filled() -> Bench {
    let mut bench = Bench::new(NOW);
    bench.db = 3;
    bench.expect(&[("set other v", "+OK|")]);
    bench.db = 0;
    for i in 0..1000 {
        bench.run(&format!("set key{i} v"));
    }
    bench.context.tally.dirty = 0;
    bench
}

#[test]
fn flushes_empty_one_database_or_all() {
    for (line, keys, free) in [
        ("flushdb", 1000, Free::Background),
        ("flushdb SYNC", 1000, Free::Here),
        ("flushall Async", 1001, Free::Background),
        ("flushall sync", 1001, Free::Here),
    ] {
        let mut bench = filled();
        bench.expect(&[(line, "+OK|"), ("dbsize", ":0|")]);
        assert_eq!(bench.ks.counts(3).0, 1001 - keys, "{line}");
        assert_eq!(bench.context.tally.dirty, keys as u64, "{line}");
        let emptied = bench.context.take_detached();
        let count = |e: &weft_keyspace::context::Emptied| -> usize {
            e.contents.iter().map(|table| table.len()).sum()
        };
        assert_eq!(emptied.iter().map(count).sum::<usize>(), keys, "{line}");
        assert!(emptied.iter().all(|e| e.free == free), "{line}");
        bench.expect(&[(line, "+OK|"), ("set k v", "+OK|"), ("get k", "$1|v|")]);
        assert!(bench.context.take_detached().is_empty(), "{line}: nothing was detached");
    }
}

#[test]
fn flushes_without_an_option_follow_the_configuration() {
    let mut bench = filled();
    bench.settings.lazy_user_flush = false;
    bench.expect(&[
        ("flushdb both", "-ERR syntax error|"),
        ("flushall async sync", "-ERR syntax error|"),
        ("dbsize", ":1000|"),
        ("flushall", "+OK|"),
    ]);
    assert!(bench.context.take_detached().iter().all(|e| e.free == Free::Here));
}

#[test]
fn keys_lists_matching_keys() {
    let mut bench = filled();
    bench.expect(&[("pexpire key7 1", ":1|")]);
    assert!(bench.run("keys key77[0-6]").starts_with("*7|"));
    bench.context.set_time(NOW + 1);
    assert!(bench.run("keys *").starts_with("*999|"));
    bench.expect(&[("keys key7", "*0|"), ("keys key70", "*1|$5|key70|")]);
    bench.run_words(&[b"set", b"", b"v"]);
    assert!(bench.run("keys *").starts_with("*1000|"));
    assert!(bench.run("keys **").starts_with("*999|"));
}

#[test]
fn randomkey_picks_a_live_key() {
    let mut bench = Bench::new(NOW);
    bench.expect(&[("randomkey", "$-1|"), ("set a v", "+OK|"), ("randomkey", "$1|a|")]);
    bench.expect(&[("set b v", "+OK|")]);
    let picked: std::collections::HashSet<_> = (0..200).map(|_| bench.run("randomkey")).collect();
    assert_eq!(picked.len(), 2);
    bench.expect(&[("pexpire a 1", ":1|"), ("pexpire b 1", ":1|")]);
    bench.context.set_time(NOW + 1);
    bench.expect(&[("dbsize", ":2|"), ("randomkey", "$-1|"), ("dbsize", ":0|")]);
}

#[test]
fn swapdb_exchanges_contents() {
    let mut bench = filled();
    bench.expect(&[
        ("swapdb x y", "-ERR invalid first DB index|"),
        ("swapdb 0 4294967296", "-ERR invalid second DB index|"),
        ("swapdb 99 y", "-ERR invalid second DB index|"),
        ("swapdb 0 16", "-ERR DB index is out of range|"),
        ("swapdb -1 0", "-ERR DB index is out of range|"),
        ("swapdb 3 3", "+OK|"),
        ("dbsize", ":1000|"),
        ("swapdb 0 3", "+OK|"),
        ("dbsize", ":1|"),
        ("get other", "$1|v|"),
    ]);
    assert_eq!((bench.ks.counts(3).0, bench.context.tally.dirty), (1000, 2));
}
