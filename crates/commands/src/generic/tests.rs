//! Replies and effects of the generic commands.

use super::scan;
use crate::testing::Bench;
use std::collections::HashSet;
use weft_keyspace::{Access, Policy, SHARDS};

const NOW: i64 = 1_700_000_000_000;

#[test]
fn expiry_is_set_reported_and_removed() {
    let mut bench = Bench::new(NOW);
    bench.expect(&[
        ("set k v", "+OK|"),
        ("ttl k", ":-1|"),
        ("pexpiretime nothing", ":-2|"),
        ("expire k 100", ":1|"),
        ("ttl k", ":100|"),
        ("pttl k", ":100000|"),
        ("expiretime k", ":1700000100|"),
        ("pexpireat k 1700000001499", ":1|"),
        ("ttl k", ":1|"),
        ("pexpiretime k", ":1700000001499|"),
        ("pexpire k 1500", ":1|"),
        ("ttl k", ":2|"),
        ("persist k", ":1|"),
        ("persist k", ":0|"),
        ("persist nothing", ":0|"),
        ("expireat k 1700000000", ":1|"),
        ("exists k", ":0|"),
        ("expire k 1", ":0|"),
        ("set k v", "+OK|"),
        ("pexpireat k 9223372036854775807", ":1|"),
        ("ttl k", ":9223370336854776|"),
        ("pexpire k 10", ":1|"),
    ]);
    bench.context.set_time(NOW + 10);
    bench.expect(&[("pttl k", ":-2|"), ("type k", "+none|")]);
    // One was removed by EXPIREAT, one when a command found it expired.
    assert_eq!(bench.context.tally.expired, 2);
}

#[test]
fn expiry_has_conditions() {
    let mut bench = Bench::new(NOW);
    let together = "-ERR NX and XX, GT or LT options at the same time are not compatible|";
    bench.expect(&[
        ("set k v", "+OK|"),
        ("expire k 10 xx", ":0|"),
        ("expire k 10 gt", ":0|"),
        ("expire k 10 lt", ":1|"),
        ("expire k 20 nx", ":0|"),
        ("expire k 10 gt", ":0|"),
        ("expire k 20 XX GT", ":1|"),
        ("expire k 20 lt", ":0|"),
        ("ttl k", ":20|"),
        ("expire k -1 gt", ":0|"),
        ("expire k 1 lt gt", "-ERR GT and LT options at the same time are not compatible|"),
        ("expire k 1 nx xx", together),
        ("expire k x nx y", "-ERR Unsupported option y|"),
        ("expire k x", "-ERR value is not an integer or out of range|"),
        ("expire k 9223372036854775", "-ERR invalid expire time in 'expire' command|"),
        ("pexpire k 9223372036854775807", "-ERR invalid expire time in 'pexpire' command|"),
        ("expireat k -9223372036854776", "-ERR invalid expire time in 'expireat' command|"),
        ("expire k -1 lt", ":1|"),
        ("exists k", ":0|"),
    ]);
}

#[test]
fn keys_are_counted_removed_and_renamed() {
    let mut bench = Bench::new(NOW);
    bench.expect(&[
        ("set a 1", "+OK|"),
        ("set b 2", "+OK|"),
        ("expire b 100", ":1|"),
        ("exists a b a nothing", ":3|"),
        ("rename nothing a", "-ERR no such key|"),
        ("rename nothing nothing", "-ERR no such key|"),
        ("renamenx a a", ":0|"),
        ("renamenx a b", ":0|"),
        ("rename b a", "+OK|"),
        ("ttl a", ":100|"),
        ("get a", "$1|2|"),
        ("rename a a", "+OK|"),
        ("renamenx a c", ":1|"),
        ("exists a b c", ":1|"),
        ("del a c c", ":1|"),
        ("unlink c", ":0|"),
    ]);
    assert_eq!(bench.context.tally.dirty, 6);
}

#[test]
fn deleted_values_go_to_the_deferred_free_list() {
    let mut bench = Bench::new(NOW);
    bench.expect(&[("set a 1", "+OK|"), ("set b 2", "+OK|"), ("unlink a", ":1|")]);
    bench.expect(&[("del b", ":1|")]);
    assert_eq!(bench.context.take_removed().map(|removed| removed.len()), Some(2));
    assert_eq!(bench.context.tally.dirty, 4);
}

#[test]
fn values_move_and_are_copied() {
    let mut bench = Bench::new(NOW);
    let same = "-ERR source and destination objects are the same|";
    let no_db = "-ERR DB index is out of range|";
    let no_int = "-ERR value is not an integer or out of range|";
    let no_int32 = "-ERR value is out of range, value must between -2147483648 and 2147483647|";
    bench.expect(&[
        ("set k v", "+OK|"),
        ("append k w", ":2|"),
        ("expire k 100", ":1|"),
        ("copy k k", same),
        ("copy nothing nothing db 0", same),
        ("copy nothing k", ":0|"),
        ("copy k l db 16", no_db),
        ("copy k l db -1", no_db),
        ("copy k l db x", no_int),
        ("copy k l db 4294967296", no_int32),
        ("copy k l replace db", "-ERR syntax error|"),
        ("copy k l", ":1|"),
        ("copy k l", ":0|"),
        ("persist k", ":1|"),
        ("copy k l REPLACE", ":1|"),
        ("ttl l", ":-1|"),
        ("object encoding l", "$3|raw|"),
        ("copy k k db 1", ":1|"),
        ("move k 0", same),
        ("move k 16", no_db),
        ("move k 4294967297", no_int32),
        ("move nothing 1", ":0|"),
        ("move k 1", ":0|"),
        ("move l 1", ":1|"),
        ("exists k l", ":1|"),
    ]);
    bench.db = 1;
    bench.expect(&[("get k", "$2|vw|"), ("get l", "$2|vw|")]);
}

#[test]
fn a_long_string_is_copied_on_write() {
    let mut bench = Bench::new(NOW);
    let long = vec![b'x'; 100_000];
    assert_eq!(bench.run_words(&[b"set", b"a", &long]), b"+OK\r\n");
    bench.expect(&[
        ("copy a b", ":1|"),
        ("append a y", ":100001|"),
        ("strlen b", ":100000|"),
        ("del a", ":1|"),
    ]);
    bench.context.free_removed();
    let mut want = b"$100000\r\n".to_vec();
    want.extend(&long);
    want.extend(b"\r\n");
    assert!(bench.run_words(&[b"get", b"b"]) == want);
}

#[test]
fn object_reports_on_values() {
    let mut bench = Bench::new(NOW);
    bench.expect(&[("set i 12", "+OK|"), ("set s hello", "+OK|")]);
    bench.context.set_time(NOW + 7000);
    bench.expect(&[
        ("object encoding i", "$3|int|"),
        ("object encoding s", "$6|embstr|"),
        ("object encoding nothing", "$-1|"),
        ("object refcount i", ":1|"),
        ("object freq nothing", "$-1|"),
        ("exists s", ":1|"),
        ("type s", "+string|"),
        ("ttl s", ":-1|"),
        ("object idletime s", ":7|"),
        ("touch s", ":1|"),
        ("object idletime s", ":0|"),
    ]);
    assert!(bench.run("object freq s").starts_with("-ERR An LFU maxmemory policy is not"));
    assert!(bench.run("object help").starts_with("*15|+OBJECT <subcommand>"));
    // EXISTS, TYPE, TTL and OBJECT count hits and misses like any other read.
    assert_eq!((bench.context.tally.hits, bench.context.tally.misses), (10, 2));
}

#[test]
fn object_reports_frequencies_under_lfu() {
    let mut bench = Bench::new(NOW);
    bench.settings.lfu = true;
    bench.context.access = Access::new(Policy::Lfu, NOW, 10, 1);
    bench.expect(&[("set k v", "+OK|"), ("object freq k", ":5|"), ("object freq k", ":5|")]);
    assert!(bench.run("object idletime k").starts_with("-ERR An LFU maxmemory policy is sel"));
}

#[test]
fn touch_counts_as_access_despite_no_touch() {
    let mut bench = Bench::new(NOW);
    bench.expect(&[("set k v", "+OK|")]);
    bench.context.set_time(NOW + 7000);
    bench.context.no_touch = true;
    bench.expect(&[
        ("get k", "$1|v|"),
        ("object idletime k", ":7|"),
        ("touch k nothing k", ":2|"),
        ("object idletime k", ":0|"),
    ]);
    assert!(bench.context.no_touch);
}

/// The cursor and the keys of a reply of SCAN.
fn scan_once(bench: &mut Bench, cursor: &str, options: &str) -> (String, Vec<String>) {
    let reply = bench.run(&format!("scan {cursor} {options}"));
    let mut lines = reply.split('|');
    assert_eq!(lines.next(), Some("*2"), "{reply}");
    let cursor = lines.nth(1).expect("a cursor").to_owned();
    let keys = lines.skip(1).filter(|line| !line.is_empty() && !line.starts_with('$'));
    (cursor, keys.map(str::to_owned).collect())
}

/// All keys of a complete scan, and the number of calls.
fn scan_all(bench: &mut Bench, options: &str) -> (Vec<String>, usize) {
    let (mut all, mut calls, mut cursor) = (Vec::new(), 0, "0".to_owned());
    loop {
        let (next, keys) = scan_once(bench, &cursor, options);
        all.extend(keys);
        calls += 1;
        if next == "0" {
            return (all, calls);
        }
        assert_ne!(next, cursor);
        cursor = next;
    }
}

#[test]
fn scan_returns_every_key_once() {
    let mut bench = Bench::new(NOW);
    for i in 0..5000 {
        bench.run(&format!("set key{i} v"));
    }
    // And many keys in one shard.
    for i in 0..3000 {
        bench.run(&format!("set {{tag}}{i} v"));
    }
    for count in [1, 10, 100, 4000, 1_000_000] {
        let (keys, calls) = scan_all(&mut bench, &format!("count {count}"));
        let distinct: HashSet<_> = keys.iter().collect();
        assert_eq!((keys.len(), distinct.len()), (8000, 8000), "COUNT {count}");
        // A call visits COUNT keys, plus less than one step.
        assert!(calls >= 8000 / (count + 100), "COUNT {count}: {calls} calls");
        assert!(calls <= 1 + 8000 / count + SHARDS, "COUNT {count}: {calls} calls");
    }
    let (keys, _) = scan_all(&mut bench, "match {tag}* count 100");
    assert_eq!(keys.len(), 3000);
}

#[test]
fn scan_of_a_small_database_is_one_call() {
    let mut bench = Bench::new(NOW);
    bench.expect(&[("scan 0", "*2|$1|0|*0|"), ("set k v", "+OK|")]);
    bench.expect(&[
        ("scan 0", "*2|$1|0|*1|$1|k|"),
        ("scan 0 match x*", "*2|$1|0|*0|"),
        ("scan 0 MATCH k COUNT 5 TYPE String", "*2|$1|0|*1|$1|k|"),
        ("scan 0 match x match k", "*2|$1|0|*1|$1|k|"),
        ("scan 0 type zset", "*2|$1|0|*0|"),
    ]);
    for i in 0..8 {
        bench.run(&format!("set k{i} v"));
    }
    let (cursor, keys) = scan_once(&mut bench, "0", "");
    assert_eq!((cursor.as_str(), keys.len()), ("0", 9));
    bench.run_words(&[b"set", b"", b"v"]);
    assert_eq!(scan_once(&mut bench, "0", "match *").0, "0");
    assert!(bench.run("scan 0 match *").contains("|$0||"), "a lone star matches the empty key");
    assert!(bench.run("scan 0 match ** count 1000").starts_with("*2|$1|0|*9|"));
}

#[test]
fn scan_keeps_its_guarantee_while_keys_are_added_and_removed() {
    let mut bench = Bench::new(NOW);
    for i in 0..2000 {
        bench.run(&format!("set stays{i} v"));
    }
    let (mut seen, mut cursor, mut round) = (HashSet::new(), "0".to_owned(), 0);
    loop {
        for i in 0..40 {
            bench.run(&format!("set passes{i}.{round} v"));
            if let Some(old) = usize::checked_sub(round, 20) {
                bench.run(&format!("del passes{i}.{old}"));
            }
        }
        let (next, keys) = scan_once(&mut bench, &cursor, "count 20");
        seen.extend(keys.into_iter().filter(|key| key.starts_with("stays")));
        cursor = next;
        round += 1;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 2000);
    bench.context.free_removed();
}

#[test]
fn scan_skips_expired_keys_and_refuses_bad_arguments() {
    let mut bench = Bench::new(NOW);
    bench.expect(&[
        ("set k v", "+OK|"),
        ("pexpire k 5", ":1|"),
        ("scan x", "-ERR invalid cursor|"),
        ("scan -1 foo", "-ERR invalid cursor|"),
        ("scan 18446744073709551616", "-ERR invalid cursor|"),
        ("scan 0 count", "-ERR syntax error|"),
        ("scan 0 count 0", "-ERR syntax error|"),
        ("scan 0 count x y", "-ERR value is not an integer or out of range|"),
        ("scan 0 type none", "-ERR unknown type name 'none'|"),
        ("scan 0 novalues", "-ERR NOVALUES option can only be used in HSCAN|"),
        ("scan 0 noscores", "-ERR NOSCORES option can only be used in ZSCAN|"),
        ("scan 18446744073709551615", "*2|$1|0|*0|"),
    ]);
    bench.context.set_time(NOW + 5);
    bench.expect(&[("scan 0", "*2|$1|0|*0|")]);
}

#[test]
fn scan_holds_as_many_shards_as_it_needs() {
    let mut bench = Bench::new(NOW);
    let held = |bench: &Bench, args: &[&[u8]]| scan::shards(args, &bench.ks, 0).iter().count();
    assert_eq!(held(&bench, &[b"scan", b"0"]), 1);
    for i in 0..10_000 {
        bench.run(&format!("set key{i} v"));
    }
    // About 39 keys in each shard.
    assert_eq!(held(&bench, &[b"scan", b"0"]), 1);
    assert!((2..6).contains(&held(&bench, &[b"scan", b"0", b"count", b"100"])));
    assert_eq!(held(&bench, &[b"scan", b"0", b"count", b"9223372036854775807"]), SHARDS);
    assert_eq!(held(&bench, &[b"scan", b"250", b"count", b"9223372036854775807"]), 6);
    for wrong in [&[&b"scan"[..]][..], &[b"scan", b"x"], &[b"scan", b"255", b"count", b"0"]] {
        assert_eq!(held(&bench, wrong), 1);
    }
}
