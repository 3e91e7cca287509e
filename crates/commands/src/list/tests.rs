//! Replies and effects of the list commands.

use crate::testing::Bench;

#[test]
fn ends_and_ranges() {
    Bench::new(1000).expect(&[
        ("RPUSH l a b c", ":3|"),
        ("LPUSH l x y", ":5|"),
        ("LRANGE l 0 -1", "*5|$1|y|$1|x|$1|a|$1|b|$1|c|"),
        ("LRANGE l -2 10", "*2|$1|b|$1|c|"),
        ("LRANGE l 3 1", "*0|"),
        ("LINDEX l -1", "$1|c|"),
        ("LINDEX l 9", "$-1|"),
        ("LPOP l", "$1|y|"),
        ("RPOP l 2", "*2|$1|c|$1|b|"),
        ("LLEN l", ":2|"),
        ("LPUSHX none a", ":0|"),
        ("LPOP none", "$-1|"),
        ("LPOP none 1", "*-1|"),
        ("LPOP l 10", "*2|$1|x|$1|a|"),
        ("EXISTS l", ":0|"),
    ]);
}

#[test]
fn changes_within() {
    Bench::new(1000).expect(&[
        ("RPUSH l a b c b a", ":5|"),
        ("LSET l -1 z", "+OK|"),
        ("LSET l 9 z", "-ERR index out of range|"),
        ("LINSERT l BEFORE c n", ":6|"),
        ("LINSERT l AFTER none n", ":-1|"),
        ("LREM l -1 b", ":1|"),
        ("LRANGE l 0 -1", "*5|$1|a|$1|b|$1|n|$1|c|$1|z|"),
        ("LPOS l n", ":2|"),
        ("LPOS l n RANK 2", "$-1|"),
        ("LPOS l z RANK -1 COUNT 0", "*1|:4|"),
        ("LTRIM l 1 2", "+OK|"),
        ("LRANGE l 0 -1", "*2|$1|b|$1|n|"),
        ("LTRIM l 5 9", "+OK|"),
        ("TYPE l", "+none|"),
    ]);
}

#[test]
fn moves_and_the_wrong_type() {
    Bench::new(1000).expect(&[
        ("RPUSH {a}l a b c", ":3|"),
        ("LMOVE {a}l {a}l LEFT RIGHT", "$1|a|"),
        ("LMOVE {a}l {a}m RIGHT LEFT", "$1|a|"),
        ("RPOPLPUSH {a}l {a}m", "$1|c|"),
        ("LRANGE {a}m 0 -1", "*2|$1|c|$1|a|"),
        ("SET {a}s 1", "+OK|"),
        (
            "LMOVE {a}l {a}s LEFT LEFT",
            "-WRONGTYPE Operation against a key holding the wrong kind of value|",
        ),
        ("LLEN {a}l", ":1|"),
        ("LMPOP 2 {a}none {a}m RIGHT COUNT 5", "*2|$4|{a}m|*2|$1|a|$1|c|"),
    ]);
}

/// The removed part of a long list is freed after the guard is released.
#[test]
fn removed_elements_go_to_deferred_free() {
    let mut bench = Bench::new(1000);
    bench.settings.limits.list_size = 1;
    let words = ["RPUSH", "l"].into_iter().chain((0..500).map(|n| ["a", "b"][n % 2]));
    bench.run(&words.collect::<Vec<_>>().join(" "));
    for (line, reply, deferred) in [
        ("LPOP l", "$1|a|", 0),
        ("LTRIM l 0 399", "+OK|", 99),
        ("LREM l 0 a", ":200|", 192),
        ("LMPOP 1 l RIGHT COUNT 9", "", 1),
        ("LTRIM l 0 -2", "+OK|", 0),
        ("LTRIM l 5 2", "+OK|", 190),
    ] {
        let answer = bench.run(line);
        assert!(reply.is_empty() || answer == reply, "{line}: {answer}");
        let removed = bench.context.take_removed().unwrap_or_default();
        let elements: usize = removed.iter().map(weft_types::value::elements).sum();
        assert_eq!(elements, deferred, "{line}");
    }
}

/// As in the reference, a list that would become a quicklist with the new element becomes one even
/// if the command then fails.
#[test]
fn the_encoding_changes_before_the_index_is_checked() {
    let mut bench = Bench::new(1000);
    bench.settings.limits.list_size = 3;
    bench.expect(&[
        ("RPUSH l a b c", ":3|"),
        ("OBJECT ENCODING l", "$8|listpack|"),
        ("LSET l 3 x", "-ERR index out of range|"),
        ("OBJECT ENCODING l", "$9|quicklist|"),
        ("DEL l", ":1|"),
        ("RPUSH l a b c", ":3|"),
        ("LINSERT l BEFORE none x", ":-1|"),
        ("OBJECT ENCODING l", "$9|quicklist|"),
    ]);
}

/// As in the reference, LTRIM checks the size of a list even if it removes nothing.
#[test]
fn a_trimmed_list_has_the_encoding_of_its_size() {
    let mut bench = Bench::new(1000);
    bench.settings.limits.list_size = 3;
    bench.expect(&[
        ("RPUSH l a b c d", ":4|"),
        ("LTRIM l 0 2", "+OK|"),
        ("OBJECT ENCODING l", "$9|quicklist|"),
    ]);
    bench.settings.limits.list_size = -2;
    bench.expect(&[("LTRIM l -10 50", "+OK|"), ("OBJECT ENCODING l", "$8|listpack|")]);
}
