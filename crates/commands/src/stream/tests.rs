//! Replies and effects of the stream commands.

use crate::testing::Bench;

#[test]
fn entries_are_added_and_read() {
    Bench::new(1000).expect(&[
        ("XADD s * f v", "$6|1000-0|"),
        ("XADD s * f v g w", "$6|1000-1|"),
        ("XADD s 1000-* f v", "$6|1000-2|"),
        ("XADD s 1001 f v", "$6|1001-0|"),
        (
            "XADD s 1001-0 f v",
            "-ERR The ID specified in XADD is equal or smaller than the target stream top item|",
        ),
        ("XLEN s", ":4|"),
        ("XRANGE s - + COUNT 1", "*1|*2|$6|1000-0|*2|$1|f|$1|v|"),
        ("XRANGE s (1000-0 1000-1", "*1|*2|$6|1000-1|*4|$1|f|$1|v|$1|g|$1|w|"),
        ("XREVRANGE s + - COUNT 1", "*1|*2|$6|1001-0|*2|$1|f|$1|v|"),
        ("XRANGE s - + COUNT 0", "*-1|"),
        ("XRANGE none - + COUNT 0", "*0|"),
        ("XREAD STREAMS s none 1000-2 0", "*1|*2|$1|s|*1|*2|$6|1001-0|*2|$1|f|$1|v|"),
        ("XREAD STREAMS s $", "*-1|"),
        ("XREAD COUNT 1 STREAMS s +", "*1|*2|$1|s|*1|*2|$6|1001-0|*2|$1|f|$1|v|"),
        ("XADD none NOMKSTREAM * f v", "$-1|"),
        ("EXISTS none", ":0|"),
        ("TYPE s", "+stream|"),
        ("OBJECT ENCODING s", "$6|stream|"),
    ]);
}

#[test]
fn entries_are_removed() {
    let mut bench = Bench::new(1000);
    for n in 1..=250 {
        bench.run(&format!("XADD s {n}-1 f v"));
    }
    bench.expect(&[
        ("XDEL s 1-1 300-1 1-1 250-1", ":2|"),
        ("XDEL s 2-1 x", "-ERR Invalid stream ID specified as stream command argument|"),
        ("XDEL none x", ":0|"),
        ("XLEN s", ":248|"),
        ("XTRIM s MAXLEN ~ 200", ":0|"),
        ("XTRIM s MAXLEN ~ 149", ":99|"),
        ("XTRIM s MAXLEN 10", ":139|"),
        ("XTRIM s MINID 245", ":5|"),
        ("XTRIM s MINID ~ 999 LIMIT 3", ":0|"),
        ("XADD s MAXLEN = 2 500-1 f v", "$5|500-1|"),
        ("XLEN s", ":2|"),
        ("XTRIM s MAXLEN 0", ":2|"),
        ("EXISTS s", ":1|"),
        (
            "XADD s 500-1 f v",
            "-ERR The ID specified in XADD is equal or smaller than the target stream top item|",
        ),
        (
            "XSETID s 249-9",
            "-ERR The ID specified in XSETID is smaller than current max_deleted_entry_id|",
        ),
        ("XSETID s 250-1 ENTRIESADDED 7", "+OK|"),
        ("XADD s 250-* f v", "$5|250-2|"),
    ]);
}

#[test]
fn large_requests_are_weighed() {
    let mut bench = Bench::new(1000);
    for n in 1..=60_000 {
        let id = format!("{n}-1");
        bench.run_words(&[b"XADD", b"s", id.as_bytes(), b"f", b"v", b"g", b"w"]);
    }
    let mut long = |line: &str| {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        bench.needs_slow_lane(&words)
    };
    for line in [
        "XRANGE s - +",
        "XREVRANGE s + -",
        "XREAD STREAMS s 0",
        "XREAD STREAMS s none s 59900 0 100",
        "XINFO STREAM s FULL COUNT 0",
        "XTRIM s MAXLEN 5",
        "XADD s MAXLEN 5 99999-1 f v",
        "XTRIM s MINID 59000",
        "COPY s t",
    ] {
        assert!(long(line), "{line}");
    }
    for line in [
        "XRANGE s - + COUNT 100",
        "XREVRANGE s (500 (100 COUNT 10",
        "XREAD COUNT 10 STREAMS s 30000",
        "XREAD STREAMS s 59900",
        "XINFO STREAM s",
        "XINFO STREAM s FULL",
        "XDEL s 5-1 6-1 7-1",
        "XTRIM s MAXLEN ~ 59000",
        "XADD s MAXLEN 59000 99999-1 f v",
    ] {
        assert!(!long(line), "{line}");
    }
    assert_eq!(bench.run("XLEN s"), ":59000|");
}

#[test]
fn deleted_ids_are_remembered() {
    Bench::new(1000).expect(&[
        ("XADD s 1-1 f 1", "$3|1-1|"),
        ("XADD s 2-1 f 2", "$3|2-1|"),
        ("XDEL s 2-1", ":1|"),
        (
            "XINFO STREAM s",
            "*20|$6|length|:1|$15|radix-tree-keys|:1|$16|radix-tree-nodes|:2|\
             $17|last-generated-id|$3|2-1|$20|max-deleted-entry-id|$3|2-1|$13|entries-added|:2|\
             $23|recorded-first-entry-id|$3|1-1|$6|groups|:0|\
             $11|first-entry|*2|$3|1-1|*2|$1|f|$1|1|$10|last-entry|*2|$3|1-1|*2|$1|f|$1|1|",
        ),
        ("XINFO STREAM none", "-ERR no such key|"),
        (
            "XINFO STREAM s FULL COUNT",
            "-ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP.|",
        ),
        ("SORT s", "-WRONGTYPE Operation against a key holding the wrong kind of value|"),
    ]);
}

#[test]
fn other_types_are_errors() {
    let mut bench = Bench::new(1000);
    bench.run("SET k v");
    for line in [
        "XADD k * f v",
        "XLEN k",
        "XRANGE k - +",
        "XREVRANGE k + -",
        "XDEL k 1-1",
        "XTRIM k MAXLEN 1",
        "XSETID k 1-1",
        "XREAD STREAMS k 0",
        "XINFO STREAM k",
    ] {
        let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value|";
        assert_eq!(bench.run(line), wrong, "{line}");
    }
    bench.run("XADD s 1-1 f v");
    for line in ["GET s", "LPUSH s a", "HGET s f", "SADD s a", "ZADD s 1 a"] {
        let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value|";
        assert_eq!(bench.run(line), wrong, "{line}");
    }
}
