//! Group commands as clients see them. The differential tests compare them with the reference.

use crate::ctx::FAST_WORK;
use crate::testing::Bench;

/// A stream of five entries with a group that has read three of them.
fn bench() -> Bench {
    let mut bench = Bench::new(1_000_000);
    for id in ["1-1", "2-1", "3-1", "4-1", "5-1"] {
        bench.run(&format!("XADD s {id} f v"));
    }
    bench.expect(&[
        ("XGROUP CREATE s g 0", "+OK|"),
        (
            "XREADGROUP GROUP g ann COUNT 2 STREAMS s >",
            "*1|*2|$1|s|*2|*2|$3|1-1|*2|$1|f|$1|v|*2|$3|2-1|*2|$1|f|$1|v|",
        ),
        ("XREADGROUP GROUP g bob COUNT 1 STREAMS s >", "*1|*2|$1|s|*1|*2|$3|3-1|*2|$1|f|$1|v|"),
    ]);
    bench
}

#[test]
fn read_entries_are_pending_until_acknowledged() {
    let mut bench = bench();
    bench.expect(&[
        ("XPENDING s g", "*4|:3|$3|1-1|$3|3-1|*2|*2|$3|ann|$1|2|*2|$3|bob|$1|1|"),
        ("XACK s g 1-1 1-1 4-1", ":1|"),
        ("XPENDING s g - + 10 ann", "*1|*4|$3|2-1|$3|ann|:0|:1|"),
        ("XACK s g 2-1 3-1", ":2|"),
        ("XPENDING s g", "*4|:0|$-1|$-1|*-1|"),
        ("XACK s g 2-1 x", "-ERR Invalid stream ID specified as stream command argument|"),
    ]);
}

#[test]
fn an_invalid_id_prevents_all_acknowledgements() {
    let mut bench = bench();
    bench.run("XACK s g 1-1 x");
    assert!(bench.run("XPENDING s g").starts_with("*4|:3|"));
}

#[test]
fn pending_entries_have_idle_times() {
    let mut bench = bench();
    bench.context.set_time(1_000_500);
    bench.run("XREADGROUP GROUP g bob STREAMS s 0");
    bench.context.set_time(1_000_700);
    bench.expect(&[
        ("XPENDING s g IDLE 600 - + 10", "*2|*4|$3|1-1|$3|ann|:700|:1|*4|$3|2-1|$3|ann|:700|:1|"),
        ("XPENDING s g IDLE 600 - + 1", "*1|*4|$3|1-1|$3|ann|:700|:1|"),
        ("XPENDING s g IDLE 600 - + 10 bob", "*0|"),
        ("XPENDING s g IDLE 200 3 + 10 bob", "*1|*4|$3|3-1|$3|bob|:200|:2|"),
        ("XCLAIM s g cat 600 1-1 3-1 JUSTID", "*1|$3|1-1|"),
        ("XAUTOCLAIM s g cat 600 0 JUSTID", "*3|$3|0-0|*1|$3|2-1|*0|"),
        ("XPENDING s g IDLE 1 - + 10", "*1|*4|$3|3-1|$3|bob|:200|:2|"),
        ("XCLAIM s g cat 0 3-1 IDLE 100 RETRYCOUNT 7 JUSTID", "*1|$3|3-1|"),
        ("XPENDING s g 3 3 10", "*1|*4|$3|3-1|$3|cat|:100|:7|"),
        (
            "XINFO CONSUMERS s g",
            "*3|*8|$4|name|$3|ann|$7|pending|:0|$4|idle|:700|$8|inactive|:700|\
             *8|$4|name|$3|bob|$7|pending|:0|$4|idle|:200|$8|inactive|:700|\
             *8|$4|name|$3|cat|$7|pending|:3|$4|idle|:0|$8|inactive|:0|",
        ),
    ]);
}

#[test]
fn claims_remove_deleted_entries_from_pending_lists() {
    let mut bench = bench();
    bench.expect(&[
        ("XDEL s 1-1 3-1", ":2|"),
        ("XREADGROUP GROUP g bob STREAMS s 0", "*1|*2|$1|s|*1|*2|$3|3-1|*-1|"),
        ("XAUTOCLAIM s g bob 0 - COUNT 1", "*3|$3|2-1|*0|*1|$3|1-1|"),
        ("XCLAIM s g bob 0 3-1 JUSTID FORCE", "*0|"),
        ("XPENDING s g - + 10", "*1|*4|$3|2-1|$3|ann|:0|:1|"),
        ("XGROUP DELCONSUMER s g ann", ":1|"),
        ("XPENDING s g", "*4|:0|$-1|$-1|*-1|"),
    ]);
}

#[test]
fn only_reads_of_new_entries_block() {
    let mut bench = bench();
    bench.run("XREADGROUP GROUP g bob STREAMS s >");
    let read = |bench: &mut Bench, id: &str| {
        let words = ["XREADGROUP", "GROUP", "g", "new", "BLOCK", "0", "STREAMS", "s", id];
        bench.run_words(&words.map(str::as_bytes))
    };
    assert_eq!(read(&mut bench, ">"), b"*-1\r\n", "the reply for a timeout");
    assert_eq!(read(&mut bench, "0"), b"*1\r\n*2\r\n$1\r\ns\r\n*0\r\n");
    assert!(bench.run("XINFO CONSUMERS s g").contains("new"), "the consumer exists nevertheless");
}

#[test]
fn large_requests_go_to_the_slow_lane() {
    let mut bench = Bench::new(1_000_000);
    bench.run("XGROUP CREATE s g 0 MKSTREAM");
    for n in 1..=2 * FAST_WORK {
        bench.run(&format!("XADD s {n}-1 f v"));
    }
    let lines = [
        ("XREADGROUP GROUP g c STREAMS s >", "XREADGROUP GROUP g c COUNT 10 STREAMS s >"),
        ("XREADGROUP GROUP g c STREAMS s 0", "XREADGROUP GROUP g c COUNT 10 STREAMS s 0"),
        ("XPENDING s g - + 10000", "XPENDING s g - + 10"),
        ("XPENDING s g IDLE 1 - + 10 c", "XPENDING s g - + 10 c"),
        ("XAUTOCLAIM s g d 1000 0 COUNT 1000", "XAUTOCLAIM s g d 1000 0 COUNT 10"),
        ("XINFO STREAM s FULL COUNT 0", "XINFO STREAM s FULL"),
        ("XGROUP DELCONSUMER s g c", "XGROUP DELCONSUMER s g d"),
    ];
    for (much, little) in lines {
        let words = |line: &'static str| line.split(' ').map(str::as_bytes).collect::<Vec<_>>();
        assert!(bench.needs_slow_lane(&words(much)), "{much}");
        assert!(!bench.needs_slow_lane(&words(little)), "{little}");
        bench.run(much);
    }
}

/// Few entries are pending, for one of many consumers. Many groups have no pending entries.
#[test]
fn many_consumers_and_groups_are_weighed() {
    let mut bench = bench();
    for n in 0..2 * FAST_WORK {
        bench.run(&format!("XGROUP CREATECONSUMER s g c{n}"));
        bench.run(&format!("XGROUP CREATE t g{n} 0 MKSTREAM"));
    }
    for line in ["XPENDING s g", "XINFO CONSUMERS s g", "XINFO STREAM t FULL", "XINFO GROUPS t"] {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        assert!(bench.needs_slow_lane(&words), "{line}");
    }
}

/// One long entry may be as much work as thousands of short ones.
#[test]
fn long_entries_are_weighed() {
    let mut bench = Bench::new(1_000_000);
    let many = [&b""[..]; 2 * 10 * FAST_WORK];
    let long = vec![b'x'; 1 << 20];
    for (key, texts) in [(&b"many"[..], &many[..]), (b"long", &[b"f", &long])] {
        bench.run_words(&[&[&b"XGROUP"[..], b"CREATE", key, b"g", b"0", b"MKSTREAM"][..]].concat());
        // The other entries of its block have one field.
        for n in 0..4 {
            let id = format!("{}-1", 1 + 3 * n);
            bench.run_words(&[b"XADD", key, id.as_bytes(), b"f", b"v"]);
            let id = format!("{}-1", 2 + 3 * n);
            bench.run_words(&[&[&b"XADD"[..], key, id.as_bytes()], texts].concat());
        }
        bench.run_words(&[b"XREADGROUP", b"GROUP", b"g", b"c", b"STREAMS", key, b">"]);
        let name = String::from_utf8_lossy(key);
        for line in [
            "XRANGE KEY - +",
            "XREVRANGE KEY + -",
            "XREAD STREAMS KEY 0",
            "XREADGROUP GROUP g c STREAMS KEY 0",
            "XCLAIM KEY g c 0 2-1 5-1 8-1 11-1",
            "XAUTOCLAIM KEY g c 0 0",
        ] {
            let line = line.replace("KEY", &name);
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            assert!(bench.needs_slow_lane(&words), "{line}");
        }
        // With JUSTID, the entries are not returned.
        let ids = [&b"XCLAIM"[..], key, b"g", b"c", b"0", b"2-1", b"5-1", b"8-1", b"JUSTID"];
        assert!(!bench.needs_slow_lane(&ids), "{name}");
    }
    assert!(bench.needs_slow_lane(&[b"XINFO", b"STREAM", b"many"]));
}
