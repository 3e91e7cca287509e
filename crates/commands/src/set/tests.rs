//! The set commands on a [`Bench`]: replies, dirty counts and effects.

use crate::testing::Bench;
use std::collections::BTreeSet;

/// The bulk strings of a reply, at any depth.
fn texts(reply: &str) -> Vec<String> {
    let mut lines = reply.split('|');
    let mut texts = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with('$') && line != "$-1" {
            texts.extend(lines.next().map(str::to_string));
        }
    }
    texts
}

fn sorted(reply: &str) -> Vec<String> {
    let mut texts = texts(reply);
    texts.sort();
    texts
}

fn dirty(bench: &Bench) -> u64 {
    bench.context.tally.dirty
}

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value|";

#[test]
fn members_are_added_and_removed() {
    let mut bench = Bench::new(1000);
    bench.expect(&[
        ("SADD s a b a", ":2|"),
        ("SADD s a c", ":1|"),
        ("SADD s a", ":0|"),
        ("SCARD s", ":3|"),
        ("SISMEMBER s c", ":1|"),
        ("SISMEMBER s d", ":0|"),
        ("SMISMEMBER s d a b", "*3|:0|:1|:1|"),
        ("SMISMEMBER none d", "*1|:0|"),
        ("SMEMBERS s", "*3|$1|a|$1|b|$1|c|"),
        ("SMEMBERS none", "*0|"),
        ("SREM s b x b", ":1|"),
        ("SREM s a c d", ":2|"),
        ("EXISTS s", ":0|"),
        ("SREM s a", ":0|"),
        ("SCARD s", ":0|"),
    ]);
    assert_eq!(dirty(&bench), 6);
}

#[test]
fn other_types_are_errors_and_change_nothing() {
    let mut bench = Bench::new(1000);
    bench.run("SET t v");
    bench.run("SADD s a");
    for line in [
        "SADD t a",
        "SREM t a",
        "SCARD t",
        "SISMEMBER t a",
        "SMISMEMBER t a",
        "SMEMBERS t",
        "SPOP t",
        "SPOP t 1",
        "SPOP t 0",
        "SRANDMEMBER t",
        "SRANDMEMBER t 0",
        "SSCAN t 0",
        "SSCAN t 0 NONSENSE",
        "SMOVE t s a",
        "SMOVE s t a",
        "SMOVE t t a",
        "SUNION s t",
        "SINTER none t",
        "SDIFF none t",
        "SUNIONSTORE d t",
        "SINTERSTORE d none t",
        "SDIFFSTORE d s t",
        "SINTERCARD 1 t",
    ] {
        assert_eq!(bench.run(line), WRONG_TYPE, "{line}");
    }
    bench.expect(&[("SMOVE none t a", ":0|"), ("SMEMBERS s", "*1|$1|a|"), ("EXISTS d", ":0|")]);
}

#[test]
fn moving_a_member_changes_both_or_nothing() {
    let mut bench = Bench::new(1000);
    bench.expect(&[
        ("SADD a x y", ":2|"),
        ("SMOVE a b z", ":0|"),
        ("EXISTS b", ":0|"),
        ("SMOVE a b x", ":1|"),
        ("SMOVE a b x", ":0|"),
        ("SMOVE a a y", ":1|"),
        ("SMOVE a a x", ":0|"),
        ("SADD b y", ":1|"),
        ("SMOVE a b y", ":1|"),
        ("EXISTS a", ":0|"),
        ("SCARD b", ":2|"),
    ]);
    assert_eq!(dirty(&bench), 2 + 2 + 1 + 1);
}

#[test]
fn unions_intersections_and_differences() {
    let mut bench = Bench::new(1000);
    bench.run("SADD a 1 2 3 x");
    bench.run("SADD b 2 3 4");
    bench.run("SADD c 3 x y");
    for (line, members) in [
        ("SUNION a", "1 2 3 x"),
        ("SUNION a b", "1 2 3 4 x"),
        ("SUNION none a b c a", "1 2 3 4 x y"),
        ("SUNION none", ""),
        ("SINTER a", "1 2 3 x"),
        ("SINTER a b", "2 3"),
        ("SINTER a b c", "3"),
        ("SINTER a none", ""),
        ("SDIFF a", "1 2 3 x"),
        ("SDIFF a b none", "1 x"),
        ("SDIFF a b c", "1"),
        ("SDIFF a b a", ""),
        ("SDIFF none a", ""),
    ] {
        let members: Vec<&str> = members.split_whitespace().collect();
        assert_eq!(sorted(&bench.run(line)), members, "{line}");
        let (name, keys) = line.split_once(' ').expect("a name and keys");
        bench.run("SADD to something else");
        let before = dirty(&bench);
        let stored = bench.run(&format!("{name}STORE to {keys}"));
        assert_eq!(stored, format!(":{}|", members.len()), "{line}");
        assert_eq!(dirty(&bench), before + 1);
        assert_eq!(sorted(&bench.run("SMEMBERS to")), members, "{line}");
        assert_eq!(bench.run("EXISTS to"), format!(":{}|", i32::from(!members.is_empty())));
        bench.run("DEL to");
        let before = dirty(&bench);
        bench.run(&format!("{name}STORE to {keys}"));
        assert_eq!(dirty(&bench) - before, u64::from(!members.is_empty()), "{line}");
        bench.run("DEL to");
    }
}

#[test]
fn a_result_can_be_stored_over_its_own_source() {
    let mut bench = Bench::new(1000);
    bench.run("SADD a 1 2 3");
    bench.run("PEXPIRE a 5000");
    bench.run("SADD b 2");
    bench.expect(&[
        ("SDIFFSTORE a a b", ":2|"),
        ("SMEMBERS a", "*2|$1|1|$1|3|"),
        ("PTTL a", ":-1|"),
        ("SINTERSTORE a a b", ":0|"),
        ("EXISTS a", ":0|"),
    ]);
}

#[test]
fn stored_results_have_the_encoding_of_their_algorithm() {
    let mut bench = Bench::new(1000);
    bench.settings.limits.set_entries = 4;
    bench.settings.limits.set_ints = 6;
    bench.run("SADD ints 1 2 3 4 5 6");
    bench.run("SADD more 7");
    bench.run("SADD mixed 1 x");
    bench.run("SADD texts a b c d e");
    for (line, encoding) in [
        ("SUNIONSTORE to ints", "intset"),
        ("SUNIONSTORE to ints more", "hashtable"),
        ("SUNIONSTORE to mixed", "listpack"),
        ("SINTERSTORE to mixed ints", "intset"),
        ("SINTERSTORE to texts", "hashtable"),
        // A full copy with later removals leaves a table.
        ("SDIFFSTORE to texts none", "hashtable"),
        ("SADD parts a b c", "listpack"),
        ("SADD others x y z", "listpack"),
        ("SDIFFSTORE to texts parts others", "listpack"),
    ] {
        bench.run(line);
        let key = line.split(' ').nth(1).expect("a key");
        let answer = bench.run(&format!("OBJECT ENCODING {key}"));
        assert_eq!(texts(&answer), [encoding], "{line}");
    }
}

#[test]
fn counting_an_intersection_stops_at_the_limit() {
    let mut bench = Bench::new(1000);
    bench.run("SADD a 1 2 3 4");
    bench.run("SADD b 2 3 4 5");
    bench.expect(&[
        ("SINTERCARD 2 a b", ":3|"),
        ("SINTERCARD 2 a b LIMIT 2", ":2|"),
        ("SINTERCARD 2 a b limit 0", ":3|"),
        ("SINTERCARD 2 a none LIMIT 2", ":0|"),
        ("SINTERCARD 0 a", "-ERR numkeys should be greater than 0|"),
        ("SINTERCARD x a", "-ERR numkeys should be greater than 0|"),
        ("SINTERCARD 2 a", "-ERR Number of keys can't be greater than number of args|"),
        ("SINTERCARD 1 a LIMIT", "-ERR syntax error|"),
        ("SINTERCARD 1 a LIMIT -1", "-ERR LIMIT can't be negative|"),
        ("SINTERCARD 1 a LIMIT x", "-ERR LIMIT can't be negative|"),
    ]);
}

/// Every count on every encoding: the popped and the remaining members make up the set.
#[test]
fn popped_members_are_gone() {
    for (members, n) in [("1 2 3 4 5 6 7 8 9", 9), ("a b c d e f g h i", 9)] {
        for entries in [0, 128] {
            for count in [0, 1, 4, 8, 9, 100] {
                let mut bench = Bench::new(1000);
                bench.settings.limits.set_entries = entries;
                bench.settings.limits.set_ints = entries;
                bench.run(&format!("SADD s {members}"));
                bench.run("PEXPIRE s 5000");
                let before = dirty(&bench);
                let popped = texts(&bench.run(&format!("SPOP s {count}")));
                assert_eq!(popped.len(), count.min(n));
                assert_eq!(dirty(&bench) - before, popped.len() as u64);
                let left = texts(&bench.run("SMEMBERS s"));
                assert_eq!(left.len(), n - popped.len());
                assert_eq!(bench.run("EXISTS s"), format!(":{}|", i32::from(!left.is_empty())));
                if !left.is_empty() {
                    assert_eq!(bench.run("PTTL s"), ":5000|");
                }
                let all: BTreeSet<String> = popped.into_iter().chain(left).collect();
                let wanted: BTreeSet<String> = members.split(' ').map(str::to_string).collect();
                assert_eq!(all, wanted);
            }
        }
    }
}

#[test]
fn popping_the_last_member_removes_the_key() {
    let mut bench = Bench::new(1000);
    bench.run("SADD s a b c");
    let mut popped: Vec<String> = (0..3).flat_map(|_| texts(&bench.run("SPOP s"))).collect();
    popped.sort();
    assert_eq!(popped, ["a", "b", "c"]);
    bench.expect(&[("EXISTS s", ":0|"), ("SPOP s", "$-1|"), ("SPOP s 3", "*0|")]);
    let not_positive = "-ERR value is out of range, must be positive|";
    bench.expect(&[
        ("SPOP s -1", not_positive),
        ("SPOP s x", not_positive),
        ("SPOP s 1 1", "-ERR syntax error|"),
    ]);
}

#[test]
fn random_members_are_members() {
    for (members, entries) in [("1 2 3 4 5 6 7", 128), ("a b c d e f g", 128), ("a b c d e f g", 0)]
    {
        let mut bench = Bench::new(1000);
        bench.settings.limits.set_entries = entries;
        bench.run(&format!("SADD s {members}"));
        let of = |reply: String| {
            let found = texts(&reply);
            assert!(found.iter().all(|m| members.split(' ').any(|member| member == m)));
            found
        };
        assert_eq!(of(bench.run("SRANDMEMBER s")).len(), 1);
        for count in [1, 2, 3, 6, 7, 8] {
            let found = of(bench.run(&format!("SRANDMEMBER s {count}")));
            let different: BTreeSet<_> = found.iter().collect();
            assert_eq!((found.len(), different.len()), (count.min(7), count.min(7)));
            assert_eq!(of(bench.run(&format!("SRANDMEMBER s -{count}"))).len(), count);
        }
        bench.expect(&[("SRANDMEMBER s 0", "*0|"), ("SCARD s", ":7|")]);
    }
    let mut bench = Bench::new(1000);
    bench.expect(&[
        ("SRANDMEMBER none", "$-1|"),
        ("SRANDMEMBER none 3", "*0|"),
        ("SRANDMEMBER none x", "-ERR value is not an integer or out of range|"),
        ("SRANDMEMBER none 1 2", "-ERR syntax error|"),
    ]);
}

#[test]
fn a_scan_returns_all_lasting_members_while_the_encoding_changes() {
    let mut bench = Bench::new(1000);
    for n in 0..3000 {
        bench.run(&format!("SADD s m{n}"));
    }
    let mut seen = BTreeSet::new();
    let mut cursor = "0".to_string();
    let mut calls = 0;
    loop {
        let mut found = texts(&bench.run(&format!("SSCAN s {cursor} COUNT 20")));
        cursor = found.remove(0);
        seen.extend(found);
        calls += 1;
        if cursor == "0" {
            break;
        }
        match calls {
            2 => (0..5000).for_each(|n| drop(bench.run(&format!("SADD s x{n}")))),
            4 => (0..2990).for_each(|n| drop(bench.run(&format!("SREM s m{n}")))),
            6 => (0..5000).for_each(|n| drop(bench.run(&format!("SREM s x{n}")))),
            _ => {}
        }
    }
    for n in 2990..3000 {
        assert!(seen.contains(&format!("m{n}")), "m{n} was not returned");
    }
    assert!(calls > 6, "everything in {calls} calls");
}

#[test]
fn options_of_a_scan() {
    let mut bench = Bench::new(1000);
    bench.run("SADD s one two three 4");
    bench.expect(&[
        ("SSCAN s 0 MATCH t*", "*2|$1|0|*2|$3|two|$5|three|"),
        ("SSCAN s 17 MATCH ? COUNT 1", "*2|$1|0|*1|$1|4|"),
        ("SSCAN none 0 NONSENSE", "*2|$1|0|*0|"),
        ("SSCAN none x", "-ERR invalid cursor|"),
        ("SSCAN s 0 COUNT 0", "-ERR syntax error|"),
        ("SSCAN s 0 COUNT x", "-ERR value is not an integer or out of range|"),
        ("SSCAN s 0 COUNT", "-ERR syntax error|"),
        ("SSCAN s 0 TYPE set", "-ERR syntax error|"),
        ("SSCAN s 0 NOVALUES", "-ERR NOVALUES option can only be used in HSCAN|"),
        ("SSCAN s 0 NOSCORES", "-ERR NOSCORES option can only be used in ZSCAN|"),
    ]);
}

#[test]
fn many_given_members_change_the_encoding_even_if_none_is_new() {
    let mut bench = Bench::new(1000);
    bench.settings.limits.set_entries = 3;
    bench.run("SADD s a b");
    bench.expect(&[("SADD s a b a b", ":0|"), ("OBJECT ENCODING s", "$9|hashtable|")]);
    assert_eq!(dirty(&bench), 2);
}
