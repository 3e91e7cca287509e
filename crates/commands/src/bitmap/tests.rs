//! Whole requests: their replies, their effects and their errors.

use crate::testing::Bench;
use weft_keyspace::Tally;

const BAD_OFFSET: &str = "-ERR bit offset is not an integer or out of range|";

#[test]
fn bits_are_set_and_values_grow() {
    let mut bench = Bench::new(1000);
    bench.expect(&[
        ("SETBIT k 9 1", ":0|"),
        ("STRLEN k", ":2|"),
        ("SETBIT k 9 1", ":1|"),
        ("GETBIT k 9", ":1|"),
        ("GETBIT k 8", ":0|"),
        ("GETBIT k 4000000000", ":0|"),
        ("GETBIT none 0", ":0|"),
        ("SETBIT new 0 0", ":0|"),
        ("STRLEN new", ":1|"),
        ("SETBIT k x 2", BAD_OFFSET),
        ("SETBIT k -1 1", BAD_OFFSET),
        ("SETBIT k 4294967296 1", BAD_OFFSET),
        ("GETBIT k 4294967296", BAD_OFFSET),
        ("SETBIT k 1 2", "-ERR bit is not an integer or out of range|"),
    ]);
    assert_eq!(bench.run("SETBIT far 40000 1"), ":0|");
    assert_eq!(bench.run("BITPOS far 1"), ":40000|");
    assert_eq!(bench.run("STRLEN far"), ":5001|");
}

#[test]
fn reads_keep_the_integer_encoding_and_writes_do_not() {
    let mut bench = Bench::new(1000);
    bench.expect(&[
        ("SET n 12", "+OK|"),
        ("GETBIT n 3", ":1|"),
        ("BITCOUNT n", ":6|"),
        ("BITFIELD n GET u8 #1", "*1|:50|"),
        ("OBJECT ENCODING n", "$3|int|"),
        ("SETBIT n 3 1", ":1|"),
        ("OBJECT ENCODING n", "$3|raw|"),
        ("GET n", "$2|12|"),
        ("BITOP NOT d n", ":2|"),
        ("BITOP NOT d d", ":2|"),
        ("GET d", "$2|12|"),
        ("OBJECT ENCODING d", "$3|raw|"),
    ]);
}

/// Dirty counts and expiries: a write of the same value is not a change.
#[test]
fn only_changes_count() {
    let mut bench = Bench::new(1000);
    bench.run("SET k a PX 500");
    for (line, dirty) in [
        ("SETBIT k 0 0", 0),
        ("SETBIT k 0 1", 1),
        ("SETBIT k 20 0", 1),
        ("BITFIELD k SET u8 0 225", 0),
        ("BITFIELD k SET u8 0 226 INCRBY u8 0 1 GET u8 0", 2),
        ("BITFIELD k OVERFLOW FAIL INCRBY u8 0 100", 0),
        ("BITFIELD k GET u8 100", 0),
        ("BITFIELD k SET u8 100 0", 1),
        ("BITCOUNT k", 0),
        ("BITOP AND k none", 1),
        ("BITOP AND k none", 0),
        ("BITFIELD fresh OVERFLOW FAIL SET u4 0 99", 0),
    ] {
        bench.context.tally = Tally::default();
        bench.run(line);
        assert_eq!(bench.context.tally.dirty, dirty, "{line}");
    }
    bench.expect(&[
        ("STRLEN fresh", ":1|"),
        ("SET k a PX 500", "+OK|"),
        ("SETBIT k 0 1", ":0|"),
        ("PTTL k", ":500|"),
        ("BITFIELD k SET i5 3 7", "*1|:1|"),
        ("PTTL k", ":500|"),
        ("BITOP OR k k", ":1|"),
        ("PTTL k", ":-1|"),
    ]);
}

#[test]
fn an_invalid_request_changes_nothing() {
    let mut bench = Bench::new(1000);
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value|";
    bench.expect(&[
        ("RPUSH l a", ":1|"),
        ("SETBIT l 1 1", wrong),
        ("GETBIT l 1", wrong),
        ("BITCOUNT l", wrong),
        ("BITPOS l 1", wrong),
        ("BITOP AND d l none", wrong),
        ("BITFIELD l", wrong),
        ("BITFIELD l SET u8 0 1", wrong),
        ("BITFIELD_RO l GET u8 0", wrong),
        ("BITFIELD k SET u8 0 1 GET u64 0", "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.|"),
        ("BITFIELD k SET u8 0 1 GET u8", "-ERR syntax error|"),
        ("BITFIELD k SET u8 0 1 OVERFLOW", "-ERR syntax error|"),
        ("BITFIELD k SET u8 0 1 OVERFLOW no", "-ERR Invalid OVERFLOW type specified|"),
        ("BITFIELD k SET u8 #536870912 1", BAD_OFFSET),
        ("BITFIELD_RO k SET u8 0 1", "-ERR BITFIELD_RO only supports the GET subcommand|"),
        ("EXISTS k", ":0|"),
        ("BITOP NOT d a b", "-ERR BITOP NOT must be called with a single source key.|"),
        ("BITOP NAND d a", "-ERR syntax error|"),
        ("BITCOUNT k 0 1 BITS", "-ERR syntax error|"),
        ("BITPOS k 2", "-ERR The bit argument must be 1 or 0.|"),
    ]);
}

#[test]
fn bitop_replaces_a_value_of_any_type() {
    let mut bench = Bench::new(1000);
    bench.expect(&[
        ("RPUSH d a", ":1|"),
        ("SET a abc", "+OK|"),
        ("BITOP XOR d a a", ":3|"),
        ("BITCOUNT d", ":0|"),
        ("RPUSH e a", ":1|"),
        ("BITOP OR e none nothing", ":0|"),
        ("EXISTS e", ":0|"),
    ]);
}

#[test]
fn large_values_are_weighed() {
    let mut bench = Bench::new(1000);
    let long = vec![0xff; 5 << 20];
    bench.run_words(&[b"SET", b"long", &long]);
    bench.run("SET short abc");
    for heavy in ["BITCOUNT long", "BITPOS long 0", "BITOP NOT d long", "BITOP OR d short long"] {
        let args: Vec<&[u8]> = heavy.split(' ').map(str::as_bytes).collect();
        bench.context.tally = Tally::default();
        assert!(bench.needs_slow_lane(&args), "{heavy}");
        assert_eq!(bench.context.tally.dirty, 0, "{heavy}");
    }
    assert_eq!(bench.run("EXISTS d"), ":0|");
    for light in [
        "BITCOUNT short",
        "BITCOUNT long 0 1000",
        "BITPOS long 1",
        "BITPOS long 0 -1000",
        "BITOP NOT d short",
        "SETBIT long 7 0",
        "BITFIELD long SET u8 100 7",
        "BITPOS long 0",
    ] {
        let args: Vec<&[u8]> = light.split(' ').map(str::as_bytes).collect();
        assert!(!bench.needs_slow_lane(&args), "{light}");
    }
    // Around the position at which the fast lane stops.
    bench.run_words(&[b"SET", b"long", &long]);
    let bit = (2000 * 1024 * 8) + 3;
    assert_eq!(bench.run("BITPOS long 0 0"), format!(":{}|", long.len() * 8));
    for at in [bit - 4, bit, bit + 1000] {
        bench.run(&format!("SETBIT long {at} 0"));
        assert_eq!(bench.run("BITPOS long 0"), format!(":{at}|"));
        bench.run(&format!("SETBIT long {at} 1"));
    }
    // While another key shares the value, a write of one bit copies one piece.
    bench.run("COPY long other");
    assert!(!bench.needs_slow_lane(&[b"SETBIT", b"long", b"7", b"0"]));
    assert!(!bench.needs_slow_lane(&[b"BITFIELD", b"long", b"SET", b"u8", b"0", b"1"]));
    assert_eq!(bench.run_words(&[b"GET", b"other"]).len(), long.len() + "$3000000\r\n\r\n".len());
}
