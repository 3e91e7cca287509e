//! Replies, counters and effects of the string commands.

use crate::testing::Bench;
use weft_keyspace::{Db, Tally};
use weft_resp::reply::SHARE_FROM;

const NOW: i64 = 1_700_000_000_000;

/// The reply to `line`, and its additions to (dirty, hits, misses, expired).
fn counted(bench: &mut Bench, line: &str) -> (String, (u64, u64, u64, u64)) {
    bench.context.tally = Tally::default();
    let reply = bench.run(line);
    let t = bench.context.tally;
    (reply, (t.dirty, t.hits, t.misses, t.expired))
}

#[test]
fn set_counts_its_effects() {
    let cases = [
        // (value before, options, reply, counts)
        (Some("a"), "", "+OK|", (1, 0, 0, 0)),
        (None, "NX", "+OK|", (1, 0, 0, 0)),
        (Some("a"), "NX", "$-1|", (0, 0, 0, 0)),
        (None, "XX", "$-1|", (0, 0, 0, 0)),
        (Some("a"), "XX", "+OK|", (1, 0, 0, 0)),
        (None, "IFEQ a", "$-1|", (0, 0, 0, 0)),
        (Some("a"), "IFEQ a", "+OK|", (1, 0, 0, 0)),
        (Some("12"), "IFEQ 12", "+OK|", (1, 0, 0, 0)),
        (Some("a"), "IFEQ b", "$-1|", (0, 0, 0, 0)),
        (None, "GET", "$-1|", (1, 0, 1, 0)),
        (Some("a"), "GET", "$1|a|", (1, 1, 0, 0)),
        (Some("a"), "NX GET", "$1|a|", (0, 1, 0, 0)),
        (None, "PXAT 1", "+OK|", (0, 0, 0, 0)),
        (Some("a"), "PXAT 1", "+OK|", (1, 0, 0, 1)),
        (Some("a"), "GET PXAT 1", "$1|a|", (1, 1, 0, 1)),
        (Some("a"), "NX PXAT 1", "$-1|", (0, 0, 0, 0)),
        (Some("a"), "EX 0", "-ERR invalid expire time in 'set' command|", (0, 0, 0, 0)),
    ];
    for (before, options, reply, counts) in cases {
        let mut bench = Bench::new(NOW);
        if let Some(value) = before {
            bench.run(&format!("set k {value}"));
        }
        let got = counted(&mut bench, &format!("set k new {options}"));
        assert_eq!(got, (reply.to_string(), counts), "{before:?} {options}");
    }
}

#[test]
fn lifetimes() {
    let mut bench = Bench::new(NOW);
    bench.expect(&[
        ("setex k 100 v", "+OK|"),
        ("append k w", ":2|"),
        ("setrange k 0 xy", ":2|"),
        ("set k v NX", "$-1|"),
        ("set k v KEEPTTL", "+OK|"),
        ("ttl k", ":100|"),
        ("getex k PX 5000", "$1|v|"),
        ("ttl k", ":5|"),
        ("getset k 7", "$1|v|"),
        ("ttl k", ":-1|"),
        ("psetex k 9000 7", "+OK|"),
        ("incr k", ":8|"),
        ("incrbyfloat k 0.5", "$3|8.5|"),
        ("ttl k", ":9|"),
        ("getex k PERSIST", "$3|8.5|"),
        ("ttl k", ":-1|"),
        ("msetex 1 k v EX 50", ":1|"),
        ("msetex 1 k w KEEPTTL", ":1|"),
        ("ttl k", ":50|"),
        ("mset k v", "+OK|"),
        ("ttl k", ":-1|"),
        ("setex k 0 v", "-ERR invalid expire time in 'setex' command|"),
        ("psetex k x v", "-ERR value is not an integer or out of range|"),
    ]);
    assert_eq!(counted(&mut bench, "getex k EXAT 1"), ("$1|v|".into(), (1, 1, 0, 1)));
    assert_eq!(counted(&mut bench, "getex k EXAT 1"), ("$-1|".into(), (0, 0, 1, 0)));
    // Stored although expired; the second pair then finds it expired.
    assert_eq!(counted(&mut bench, "msetex 2 k a k b PXAT 1"), (":1|".into(), (2, 0, 0, 1)));
    bench.expect(&[("get k", "$-1|")]);
}

#[test]
fn several_keys_in_one_request() {
    let mut bench = Bench::new(NOW);
    bench.expect(&[
        ("mset a 1 b 2 a 3", "+OK|"),
        ("mget a b c a", "*4|$1|3|$1|2|$-1|$1|3|"),
        ("msetnx c 1 b 1", ":0|"),
        ("exists c", ":0|"),
        ("msetnx c 1 c 2", ":1|"),
        ("get c", "$1|2|"),
        ("msetnx d 1 e", "-ERR wrong number of arguments for 'msetnx' command|"),
        ("msetex 2 a x d y XX", ":0|"),
        ("msetex 2 a x b y XX", ":1|"),
        ("msetex 2 d x b y NX", ":0|"),
        ("msetex 0 a x", "-ERR invalid numkeys value or out of range|"),
        ("msetex 2147483648 a x", "-ERR invalid numkeys value or out of range|"),
        ("msetex 2147483647 a x", "-ERR syntax error|"),
        ("msetex 1 a x b y", "-ERR syntax error|"),
        ("mget a b d", "*3|$1|x|$1|y|$-1|"),
    ]);
    // More keys than one prefetch block, with and without a partial last block.
    for n in [16, 32, 50] {
        let pairs: String = (0..n).map(|i| format!(" key{i} {}", i * i)).collect();
        assert_eq!(counted(&mut bench, &format!("mset{pairs}")), ("+OK|".into(), (n, 0, 0, 0)));
        let keys: String = (0..n).map(|i| format!(" key{i}")).collect();
        let value = |i: u64| (i * i).to_string();
        let values: String = (0..n).map(|i| format!("${}|{}|", value(i).len(), value(i))).collect();
        assert_eq!(bench.run(&format!("mget{keys}")), format!("*{n}|{values}"));
    }
}

#[test]
fn integers_and_their_limits() {
    let mut bench = Bench::new(NOW);
    bench.expect(&[
        ("decr k", ":-1|"),
        ("incrby k 9223372036854775807", ":9223372036854775806|"),
        ("incr k", ":9223372036854775807|"),
        ("incr k", "-ERR increment or decrement would overflow|"),
        ("decrby k -9223372036854775808", "-ERR decrement would overflow|"),
        ("incrby k 1.5", "-ERR value is not an integer or out of range|"),
        ("get k", "$19|9223372036854775807|"),
        ("set k 012", "+OK|"),
        ("incr k", "-ERR value is not an integer or out of range|"),
        ("setrange k 0 4", ":3|"),
        ("object encoding k", "$3|raw|"),
        ("incr k", ":413|"),
        ("object encoding k", "$3|int|"),
        ("incrbyfloat k abc", "-ERR value is not a valid float|"),
        ("incrbyfloat k inf", "-ERR increment would produce NaN or Infinity|"),
        ("incrbyfloat k 1", "$3|414|"),
        ("object encoding k", "$6|embstr|"),
    ]);
}

#[test]
fn parts_of_values() {
    let mut bench = Bench::new(NOW);
    bench.settings.max_string = 20;
    let too_long = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)|";
    bench.expect(&[
        ("append k hello", ":5|"),
        ("getrange k 1 -2", "$3|ell|"),
        ("substr k -100 -90", "$1|h|"),
        ("getrange nothing 0 -1", "$0||"),
        ("getrange k x 1", "-ERR value is not an integer or out of range|"),
        ("setrange k 19 x", ":20|"),
        ("setrange k 20 x", too_long),
        ("setrange k 9223372036854775807 x", too_long),
        ("setrange k -1 x", "-ERR offset is out of range|"),
        ("append k x", too_long),
        ("strlen k", ":20|"),
        ("getrange k 3 5", "$3|lo\0|"),
        ("strlen nothing", ":0|"),
    ]);
    assert_eq!(bench.run_words(&[b"setrange", b"none", b"5", b""]), b":0\r\n");
    assert_eq!(bench.run("exists none"), ":0|");
    assert_eq!(bench.run_words(&[b"append", b"none", b""]), b":0\r\n");
    assert_eq!(bench.run("exists none"), ":1|");
}

#[test]
fn large_values_stay_whole() {
    let mut bench = Bench::new(NOW);
    let large: Vec<u8> = (0..2 * SHARE_FROM).map(|i| b'a' + (i % 26) as u8).collect();
    let mut want = format!("${}\r\n", large.len()).into_bytes();
    want.extend(&large);
    want.extend(b"\r\n");
    bench.run_words(&[b"set", b"k", &large]);
    for request in [
        &[&b"get"[..], b"k"][..],
        &[b"getrange", b"k", b"0", b"-1"],
        &[b"getex", b"k", b"EX", b"10"],
        &[b"set", b"k", &large, b"GET"],
        &[b"getset", b"k", &large],
        &[b"getdel", b"k"],
    ] {
        assert!(bench.run_words(request) == want, "{:?}", request[0]);
    }
    assert_eq!(bench.run("exists k"), ":0|");
}

#[test]
fn lcs_replies_and_errors() {
    let mut bench = Bench::new(NOW);
    let runs = "*3|*2|:4|:7|*2|:5|:8|:4|*3|*2|:2|:3|*2|:0|:1|:2|";
    bench.expect(&[
        ("mset a ohmytext b mynewtext", "+OK|"),
        ("lcs a b", "$6|mytext|"),
        ("lcs a b LEN", ":6|"),
        ("lcs a b LEN IDX", "-ERR If you want both the length and indexes, please just use IDX.|"),
        ("lcs a b IDX MINMATCHLEN", "-ERR syntax error|"),
        ("lcs a b IDX MINMATCHLEN x", "-ERR value is not an integer or out of range|"),
        ("lcs a b idx minmatchlen 3", "*4|$7|matches|*1|*2|*2|:4|:7|*2|:5|:8|$3|len|:6|"),
        ("lcs a none IDX", "*4|$7|matches|*0|$3|len|:0|"),
    ]);
    let all = bench.run("lcs a b IDX WITHMATCHLEN MINMATCHLEN -1");
    assert_eq!(all, format!("*4|$7|matches|*2|{runs}$3|len|:6|"));
    // The reference's table would have nine rows and ten columns of four bytes.
    bench.settings.max_string = 360;
    assert_eq!(bench.run("lcs a b LEN"), ":6|");
    bench.settings.max_string = 359;
    let refused = "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len|";
    assert_eq!(bench.run("lcs a b LEN"), refused);
}

#[test]
fn delifeq_compares_first() {
    let mut bench = Bench::new(NOW);
    bench.run("mset n 10 s abc");
    bench.expect(&[("delifeq n 010", ":0|"), ("delifeq none x", ":0|"), ("delifeq s ab", ":0|")]);
    assert_eq!(counted(&mut bench, "delifeq n 10"), (":1|".into(), (1, 0, 0, 0)));
    assert_eq!(counted(&mut bench, "delifeq s abc"), (":1|".into(), (1, 0, 0, 0)));
    bench.expect(&[("exists n s", ":0|")]);
}

/// The address of the value of `key`.
fn address(bench: &mut Bench, key: &[u8]) -> *const u8 {
    let mut inside = weft_keyspace::Outside::new(&bench.ks, 0).enter();
    let guard = inside.world(&mut bench.context).expect("no shard is held");
    let mut db = Db::new(&guard, &mut bench.context, bench.db);
    let key = db.key(key);
    db.peek(&key).expect("the key exists").payload().as_ptr()
}

#[test]
fn writing_a_value_of_the_same_size_allocates_nothing() {
    let mut bench = Bench::new(NOW);
    for writes in [
        ["set k abcdef", "set k ghijkl", "mset k mnopqr", "set k stuvwx XX GET"],
        ["setex k 10 abc", "setex k 20 def", "set k ghi KEEPTTL", "psetex k 5 jkl"],
        ["set k 5", "incr k", "set k -12345678", "decrby k 99"],
    ] {
        bench.run("del k");
        bench.run(writes[0]);
        bench.context.free_removed();
        let first = address(&mut bench, b"k");
        for write in &writes[1..] {
            bench.run(write);
            assert_eq!(address(&mut bench, b"k"), first, "{write}");
            assert!(bench.context.take_removed().is_none(), "{write}");
        }
    }
}
