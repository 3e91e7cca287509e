//! Replies, counters and effects of the commands. The expected bytes were read from the reference.

use crate::testing::Bench;
use weft_keyspace::Tally;

const NOW: i64 = 1_700_000_000_000;
const INVALID: &str = "-WRONGTYPE Key is not a valid HyperLogLog string value.|";
const CORRUPTED: &str = "-INVALIDOBJ Corrupted HLL object detected|";
const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value|";

/// An empty HyperLogLog with an outdated estimate, and one whose runs cover too few registers.
const EMPTY: &[u8] = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80\x7f\xff";
const SHORT: &[u8] = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80\x7f\xfe";

fn get(bench: &mut Bench, key: &[u8]) -> Vec<u8> {
    let reply = bench.run_words(&[b"GET", key]);
    let start = reply.iter().position(|byte| *byte == b'\n').expect("a header") + 1;
    reply[start..reply.len() - 2].to_vec()
}

fn set(bench: &mut Bench, key: &[u8], value: &[u8]) {
    bench.run_words(&[b"SET", key, value]);
}

/// The reply to `line`, and its additions to (dirty, hits, misses).
fn counted(bench: &mut Bench, line: &str) -> (String, (u64, u64, u64)) {
    bench.context.tally = Tally::default();
    let reply = bench.run(line);
    let t = bench.context.tally;
    (reply, (t.dirty, t.hits, t.misses))
}

#[test]
fn bytes_are_those_of_the_reference() {
    let mut bench = Bench::new(NOW);
    assert_eq!(bench.run("pfadd h"), ":1|");
    assert_eq!(get(&mut bench, b"h"), EMPTY);
    assert_eq!(bench.run("pfadd h"), ":0|");
    assert_eq!(bench.run("pfadd h a"), ":1|");
    assert_eq!(get(&mut bench, b"h"), b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80q\xa6\x84NW");
    assert_eq!(bench.run("pfcount h"), ":1|");
    let counted = b"HYLL\x01\0\0\0\x01\0\0\0\0\0\0\0q\xa6\x84NW";
    assert_eq!(get(&mut bench, b"h"), counted);
    assert_eq!(bench.run("pfadd h a"), ":0|");
    assert_eq!(get(&mut bench, b"h"), counted, "the estimate stays valid");
    bench.run_words(&[b"PFADD", b"h", b""]);
    assert_eq!(get(&mut bench, b"h"), b"HYLL\x01\0\0\0\x01\0\0\0\0\0\0\x80W1\x84Zs\x84NW");
    bench.expect(&[
        ("pfdebug decode h", "$32|Z:5938 v:2,1 Z:6772 v:2,1 Z:3672|"),
        ("object encoding h", "$3|raw|"),
        ("pfdebug encoding h", "+sparse|"),
        ("pfdebug todense h", ":1|"),
        ("pfdebug todense h", ":0|"),
        ("pfdebug encoding h", "+dense|"),
        ("pfdebug decode h", "-ERR HLL encoding is not sparse|"),
        ("strlen h", ":12304|"),
        ("pfcount h", ":2|"),
        ("pfadd h a", ":0|"),
        ("pfadd h b", ":1|"),
        ("pfcount h", ":3|"),
        ("pfmerge d h", "+OK|"),
        ("pfdebug encoding d", "+dense|"),
    ]);
    let registers = bench.run("pfdebug getreg d");
    assert!(registers.starts_with("*16384|:0|"));
    assert_eq!(registers.matches(":0|").count(), 16384 - 3);
}

#[test]
fn counters_and_encodings_match_the_reference() {
    let cases: &[(&str, (u64, u64, u64), &str)] = &[
        ("pfcount e", (1, 1, 0), "raw"),
        ("pfcount e e", (0, 2, 0), "embstr"),
        ("pfcount e nk", (0, 1, 1), "embstr"),
        ("pfadd e", (0, 0, 0), "raw"),
        ("pfadd e a b", (2, 0, 0), "raw"),
        ("pfmerge e", (1, 1, 0), "raw"),
        ("pfmerge e e", (1, 2, 0), "raw"),
        ("pfmerge nk e", (1, 1, 1), "embstr"),
        ("pfdebug encoding e", (0, 0, 0), "raw"),
        ("pfdebug todense e", (1, 0, 0), "raw"),
        ("pfdebug getreg e", (1, 0, 0), "raw"),
        ("pfdebug xx e", (0, 0, 0), "raw"),
        ("pfcount nk", (0, 0, 1), "embstr"),
        ("pfadd nk", (1, 0, 0), "embstr"),
        ("pfadd nk a b a", (3, 0, 0), "embstr"),
        ("pfmerge nk", (1, 0, 1), "embstr"),
    ];
    for (line, counts, encoding) in cases {
        let mut bench = Bench::new(NOW);
        set(&mut bench, b"e", EMPTY);
        bench.run("expire e 1000");
        assert_eq!(counted(&mut bench, line).1, *counts, "{line}");
        let seen = format!("${}|{encoding}|", encoding.len());
        assert_eq!(bench.run("object encoding e"), seen, "{line}");
        assert_eq!(bench.run("ttl e"), ":1000|", "{line}");
    }
    let mut bench = Bench::new(NOW);
    set(&mut bench, b"e", &[&EMPTY[..15], b"\0\x7f\xff"].concat());
    assert_eq!(counted(&mut bench, "pfcount e"), (":0|".into(), (0, 1, 0)), "known");
    bench.expect(&[("object encoding e", "$3|raw|")]);
}

#[test]
fn errors() {
    let mut bench = Bench::new(NOW);
    bench.run("lpush l 1");
    bench.run("set s hello");
    bench.run("set i 123");
    bench.run("pfadd h a");
    for key in ["s", "i", "l"] {
        let error = if key == "l" { WRONG_TYPE } else { INVALID };
        for command in ["pfadd K a", "pfcount K", "pfcount h K", "pfmerge K h", "pfmerge h K"] {
            assert_eq!(bench.run(&command.replace('K', key)), error, "{command} {key}");
        }
        assert_eq!(bench.run(&format!("pfdebug xx {key}")), error);
    }
    bench.expect(&[
        ("pfdebug xx none", "-ERR The specified key does not exist|"),
        ("pfdebug xx h", "-ERR Unknown PFDEBUG subcommand 'xx'|"),
        ("pfdebug simd h", "-ERR Argument must be ON or OFF|"),
        ("pfcount none also-none", ":0|"),
        ("exists none also-none", ":0|"),
    ]);
    set(&mut bench, b"x", SHORT);
    bench.expect(&[
        ("pfcount x", CORRUPTED),
        ("pfcount h x", CORRUPTED),
        ("pfmerge none x", CORRUPTED),
        ("pfmerge x", CORRUPTED),
        ("pfdebug todense x", CORRUPTED),
        ("pfdebug getreg x", CORRUPTED),
        ("pfdebug decode x", "$7|Z:16383|"),
        ("exists none", ":0|"),
        // It works for a register that the runs cover.
        ("pfadd x a", ":1|"),
    ]);
    assert_eq!(&get(&mut bench, b"x")[16..], b"q\xa6\x84NV");
}

/// A single element is added in place if the record has room; several are not.
#[test]
fn single_and_batch_adds_agree() {
    let mut bench = Bench::new(NOW);
    for n in 0..2000 {
        let alone = bench.run(&format!("pfadd alone e{n}"));
        assert_eq!(bench.run(&format!("pfadd pairs e{n} e{n}")), alone);
        assert_eq!(bench.run(&format!("pfadd alone e{}", n / 2)), ":0|");
        assert_eq!(get(&mut bench, b"alone"), get(&mut bench, b"pairs"), "{n}");
    }
    bench.expect(&[("pfdebug encoding alone", "+dense|")]);
}

#[test]
fn limits_of_the_sparse_encoding() {
    let mut bench = Bench::new(NOW);
    let elements: String = (0..400).map(|n| format!(" e{n}")).collect();
    bench.run(&format!("pfadd all {elements}"));
    bench.expect(&[("pfdebug encoding all", "+sparse|")]);
    // The first element takes 21 bytes.
    bench.settings.limits.hyperloglog_sparse = 20;
    bench.expect(&[("pfadd small a", ":1|"), ("pfdebug encoding small", "+dense|")]);
    bench.expect(&[("pfmerge merged all", "+OK|"), ("pfdebug encoding merged", "+dense|")]);
    bench.settings.limits.hyperloglog_sparse = 21;
    bench.expect(&[("pfadd fits a", ":1|"), ("pfdebug encoding fits", "+sparse|")]);
    // Sparse and dense HyperLogLogs of the same elements.
    bench.run(&format!("pfadd dense {elements}"));
    bench.expect(&[("pfdebug encoding dense", "+dense|")]);
    let estimate = bench.run("pfcount all");
    for line in ["pfcount dense", "pfcount merged", "pfcount all dense", "pfcount all none"] {
        assert_eq!(bench.run(line), estimate, "{line}");
    }
    let dense = get(&mut bench, b"dense");
    assert_eq!(get(&mut bench, b"merged")[16..], dense[16..]);
}

/// The work of a merge is weighed before anything changes, so the command can move to the slow
/// lane.
#[test]
fn many_keys_go_to_the_slow_lane() {
    let mut bench = Bench::new(NOW);
    bench.run("pfadd h a");
    assert!(
        !bench.needs_slow_lane(&[b"PFMERGE", b"d", b"h", b"h", b"h", b"h", b"h", b"h", b"h", b"h"])
    );
    assert!(bench.needs_slow_lane(&[b"PFDEBUG", b"GETREG", b"h"]));
    assert!(bench.needs_slow_lane(&[b"PFSELFTEST"]));
    assert_eq!(bench.run("pfdebug encoding h"), "+sparse|", "nothing has changed");
}

#[test]
fn the_self_test_passes_with_and_without_simd() {
    let mut bench = Bench::new(NOW);
    bench.expect(&[("pfdebug simd off", "+disabled|"), ("pfselftest", "+OK|")]);
    bench.run("pfdebug simd on");
    bench.expect(&[("pfselftest", "+OK|")]);
}
