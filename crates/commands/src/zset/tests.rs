//! The commands, on small and large sorted sets.

use crate::testing::Bench;
use std::collections::{BTreeMap, BTreeSet};

const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value|";
const SYNTAX: &str = "-ERR syntax error|";

/// Runs the same lines on packed sets and on sets that are large from the start.
fn both(lines: &[(&str, &str)]) {
    for entries in [128, 0] {
        let mut bench = Bench::new(1000);
        bench.settings.limits.zset_entries = entries;
        bench.expect(lines);
    }
}

/// A set of the members `m0` to `m<n-1>`, each with its number as the score.
fn counted(n: usize) -> Bench {
    let mut bench = Bench::new(1000);
    for i in 0..n {
        bench.run(&format!("zadd k {i} m{i}"));
    }
    bench
}

#[test]
fn adding() {
    both(&[
        ("zadd k 1 a 2 b", ":2|"),
        ("zadd k 1 a 3 b 4 c", ":1|"),
        ("zadd k ch 1 a 2 b 5 d", ":2|"),
        ("zadd k nx 9 a 6 e", ":1|"),
        ("zadd k xx ch 7 a 7 f", ":1|"),
        ("zadd k gt ch 6 a 8 b", ":1|"),
        ("zadd k lt ch 6 a 9 b", ":1|"),
        ("zadd k incr 1.5 a", "$3|7.5|"),
        ("zadd k nx incr 1 a", "$-1|"),
        ("zadd k gt incr -1 a", "$-1|"),
        ("zincrby k -7.5 a", "$1|0|"),
        ("zincrby k 2 new", "$1|2|"),
        ("zrange k 0 -1", "*6|$1|a|$3|new|$1|c|$1|d|$1|e|$1|b|"),
        ("zadd none xx 1 a", ":0|"),
        ("zadd none xx incr 1 a", "$-1|"),
        ("exists none", ":0|"),
    ]);
}

#[test]
fn adding_errors() {
    both(&[
        ("set s 1", "+OK|"),
        ("zadd s 1 a", WRONG),
        ("zadd k nx xx 1 a", "-ERR XX and NX options at the same time are not compatible|"),
        ("zadd k nx gt 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible|"),
        ("zadd k incr 1 a 2 b", "-ERR INCR option supports a single increment-element pair|"),
        ("zadd k 1 a 2", SYNTAX),
        ("zadd k ch incr", SYNTAX),
        ("zadd k 1 a x b", "-ERR value is not a valid float|"),
        ("exists k", ":0|"),
        ("zadd k inf a", ":1|"),
        ("zincrby k -inf a", "-ERR resulting score is not a number (NaN)|"),
        ("zscore k a", "$3|inf|"),
    ]);
}

#[test]
fn changes_are_counted() {
    for (line, dirty) in [
        ("zadd k 1 a 2 b 3 c", 3),
        ("zadd k 1 a 5 b", 1),
        ("zadd k nx 9 a", 0),
        ("zrem k missing", 0),
        ("zrangestore d k 0 -1", 1),
        ("zunionstore d 2 k k", 1),
        ("zinterstore none 2 k missing", 0),
        ("zinterstore d 2 k missing", 1),
        ("zpopmin k 2", 2),
        ("zremrangebyrank k 0 -1", 1),
        ("zpopmin k", 0),
    ]
    .iter()
    .scan(Bench::new(0), |bench, (line, dirty)| {
        let before = bench.context.tally.dirty;
        bench.run(line);
        Some((*line, (bench.context.tally.dirty - before, *dirty)))
    }) {
        assert_eq!(dirty.0, dirty.1, "{line}");
    }
}

#[test]
fn reading() {
    both(&[
        ("zadd k 1 a 2 b 2 c 0.1 d", ":4|"),
        ("zcard k", ":4|"),
        ("zcard none", ":0|"),
        ("zscore k d", "$3|0.1|"),
        ("zscore k x", "$-1|"),
        ("zmscore k a x b", "*3|$1|1|$-1|$1|2|"),
        ("zmscore none a", "*1|$-1|"),
        ("zrank k b", ":2|"),
        ("zrevrank k b", ":1|"),
        ("zrank k b withscore", "*2|:2|$1|2|"),
        ("zrank k x withscore", "*-1|"),
        ("zrank none x", "$-1|"),
        ("zrank k b with", SYNTAX),
        ("zrank k b withscore x", "-ERR wrong number of arguments for 'zrank' command|"),
        ("zcount k (1 2", ":2|"),
        ("zcount k -inf +inf", ":4|"),
        ("zcount k 3 1", ":0|"),
        ("zcount k a 1", "-ERR min or max is not a float|"),
        ("zlexcount k - +", ":4|"),
        ("zlexcount none [a [b", ":0|"),
        ("zlexcount k a b", "-ERR min or max not valid string range item|"),
        ("set s 1", "+OK|"),
        ("zscore s a", WRONG),
        ("zcount s 1 2", WRONG),
    ]);
}

#[test]
fn ranges() {
    both(&[
        ("zadd k 1 a 2 b 3 c 4 d", ":4|"),
        ("zrange k 1 2", "*2|$1|b|$1|c|"),
        ("zrange k 0 1 rev withscores", "*4|$1|d|$1|4|$1|c|$1|3|"),
        ("zrevrange k -1 -1", "*1|$1|a|"),
        ("zrange k (1 +inf byscore limit 1 1", "*1|$1|c|"),
        ("zrange k +inf (1 byscore rev limit 0 2", "*2|$1|d|$1|c|"),
        ("zrangebyscore k 2 3 withscores", "*4|$1|b|$1|2|$1|c|$1|3|"),
        ("zrevrangebyscore k 3 2", "*2|$1|c|$1|b|"),
        ("zrangebyscore k 1 4 limit 9 1", "*0|"),
        ("zrangebyscore k 1 4 limit 1 -5", "*3|$1|b|$1|c|$1|d|"),
        (
            "zrange k 0 -1 limit 0 1",
            "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX|",
        ),
        ("zrange k 0 -1 limit 5 -1", "*4|$1|a|$1|b|$1|c|$1|d|"),
        (
            "zrange k - + bylex withscores",
            "-ERR syntax error, WITHSCORES not supported in combination with BYLEX|",
        ),
        ("zrange k 0 1 byscore bylex", SYNTAX),
        ("zrangebyscore k 0 1 rev", SYNTAX),
        ("zrange k a b", "-ERR value is not an integer or out of range|"),
        ("zrange none 0 -1", "*0|"),
        ("del k", ":1|"),
        ("zadd k 0 a 0 b 0 c 0 d", ":4|"),
        ("zrangebylex k [b (d", "*2|$1|b|$1|c|"),
        ("zrevrangebylex k + (b limit 1 5", "*1|$1|c|"),
        ("zrange k + - bylex rev limit 0 1", "*1|$1|d|"),
        ("zrangestore d k [b + bylex limit 0 2", ":2|"),
        ("zrange d 0 -1 withscores", "*4|$1|b|$1|0|$1|c|$1|0|"),
        ("zrangestore d k 0 1 rev", ":2|"),
        ("zrange d 0 -1", "*2|$1|c|$1|d|"),
        ("zrangestore k k 1 1", ":1|"),
        ("zrange k 0 -1", "*1|$1|b|"),
        ("zrangestore d none 0 -1", ":0|"),
        ("exists d", ":0|"),
        ("zrangestore d k 0 -1 withscores", SYNTAX),
    ]);
}

#[test]
fn removing() {
    both(&[
        ("zadd k 1 a 2 b 3 c 4 d 5 e 6 f 7 g", ":7|"),
        ("zrem k a x g", ":2|"),
        ("zremrangebyrank k -1 -1", ":1|"),
        ("zremrangebyscore k (2 3", ":1|"),
        ("zremrangebyscore k 9 1", ":0|"),
        ("zrange k 0 -1", "*3|$1|b|$1|d|$1|e|"),
        ("zremrangebyrank k 0 99", ":3|"),
        ("exists k", ":0|"),
        ("zadd k 0 a 0 b", ":2|"),
        ("zremrangebylex k [b [b", ":1|"),
        ("zrem k a", ":1|"),
        ("exists k", ":0|"),
        ("zrem k a", ":0|"),
        ("set k 1", "+OK|"),
        ("zrem k a", WRONG),
        ("zremrangebyrank k 0 0", WRONG),
        ("zremrangebyrank k a 0", "-ERR value is not an integer or out of range|"),
    ]);
}

#[test]
fn popping() {
    both(&[
        ("zadd k 1 a 2 b 3 c 4 d 5 e", ":5|"),
        ("zpopmin k", "*2|$1|a|$1|1|"),
        ("zpopmax k 2", "*4|$1|e|$1|5|$1|d|$1|4|"),
        ("zpopmin k 0", "*0|"),
        ("zpopmin none", "*0|"),
        ("zpopmin k -1", "-ERR value is out of range, must be positive|"),
        ("zpopmin k 1 1", SYNTAX),
        ("zmpop 2 none k min count 9", "*2|$1|k|*2|*2|$1|b|$1|2|*2|$1|c|$1|3|"),
        ("exists k", ":0|"),
        ("zmpop 1 k max", "*-1|"),
        ("zmpop 0 k max", "-ERR numkeys should be greater than 0|"),
        ("zmpop 1 k up", SYNTAX),
        ("zmpop 9 k max", SYNTAX),
        ("zmpop 1 k max count 0", "-ERR count should be greater than 0|"),
        ("zadd k 1 a 2 b", ":2|"),
        ("bzpopmax none k 0", "*3|$1|k|$1|b|$1|2|"),
        ("bzmpop 0 1 k min", "*2|$1|k|*1|*2|$1|a|$1|1|"),
        ("bzpopmin k 0", "*-1|"),
        ("bzpopmin k x", "-ERR timeout is not a float or out of range|"),
        ("set s 1", "+OK|"),
        ("bzpopmin k s 0", WRONG),
        ("zpopmin s 0", WRONG),
    ]);
}

#[test]
fn combining() {
    both(&[
        ("zadd x 1 a 2 b 3 c", ":3|"),
        ("zadd y 10 b 20 c 30 d", ":3|"),
        ("sadd s a c", ":2|"),
        ("zunion 2 x y withscores", "*8|$1|a|$1|1|$1|b|$2|12|$1|c|$2|23|$1|d|$2|30|"),
        (
            "zunion 2 x y weights 2 0.5 aggregate max withscores",
            "*8|$1|a|$1|2|$1|b|$1|5|$1|c|$2|10|$1|d|$2|15|",
        ),
        ("zinter 3 x y s withscores", "*2|$1|c|$2|24|"),
        ("zinter 2 x x aggregate min withscores", "*6|$1|a|$1|1|$1|b|$1|2|$1|c|$1|3|"),
        ("zdiff 2 x s withscores", "*2|$1|b|$1|2|"),
        ("zdiff 2 x x", "*0|"),
        ("zintercard 2 x y", ":2|"),
        ("zintercard 2 x y limit 1", ":1|"),
        ("zintercard 2 x none limit 1", ":0|"),
        ("zunionstore x 2 x s aggregate min", ":3|"),
        ("zrange x 0 -1 withscores", "*6|$1|a|$1|1|$1|c|$1|1|$1|b|$1|2|"),
        ("zdiffstore y 2 x y", ":1|"),
        ("zinterstore y 2 y none", ":0|"),
        ("exists y", ":0|"),
        ("zadd i inf a", ":1|"),
        ("zunion 2 i i weights 1 -1 withscores", "*2|$1|a|$1|0|"),
        ("zinter 1 i weights 0 withscores", "*2|$1|a|$1|0|"),
        ("set str 1", "+OK|"),
        ("zunion 1 str bad", WRONG),
        ("zunion 0 x", "-ERR at least 1 input key is needed for 'zunion' command|"),
        ("zunion 2 x", SYNTAX),
        ("zunion 1 x weights", SYNTAX),
        ("zunion 1 x weights a", "-ERR weight value is not a float|"),
        ("zunion 1 x aggregate avg", SYNTAX),
        ("zdiff 1 x weights 1", SYNTAX),
        ("zunionstore d 1 x withscores", SYNTAX),
        ("zintercard 1 x limit -1", "-ERR LIMIT can't be negative|"),
    ]);
}

#[test]
fn stored_results_are_packed() {
    let mut bench = Bench::new(0);
    bench.settings.limits.zset_entries = 2;
    bench.expect(&[
        ("zadd k 1 a 2 b 3 c", ":3|"),
        ("object encoding k", "$8|skiplist|"),
        ("zrem k c", ":1|"),
        ("object encoding k", "$8|skiplist|"),
        ("zunionstore u 1 k", ":2|"),
        ("object encoding u", "$8|listpack|"),
        ("zrangestore r k 0 -1", ":2|"),
        ("object encoding r", "$8|listpack|"),
        // Given elements count even if they are not added.
        ("zadd r xx 1 x 1 y 1 z", ":0|"),
        ("object encoding r", "$8|skiplist|"),
        ("copy k copied", ":1|"),
        ("object encoding copied", "$8|skiplist|"),
    ]);
}

#[test]
fn random_members_are_members() {
    for n in [1, 20, 400] {
        let mut bench = counted(n);
        let words = |reply: String| -> Vec<String> {
            reply.split('|').filter(|w| w.starts_with('m')).map(str::to_string).collect()
        };
        let mut times: BTreeMap<String, u32> = BTreeMap::new();
        for _ in 0..20 * n {
            let found = words(bench.run("zrandmember k"));
            assert_eq!(found.len(), 1);
            *times.entry(found[0].clone()).or_default() += 1;
        }
        assert_eq!(times.len(), n, "some member is never drawn");
        assert!(times.values().all(|t| *t < 80), "some member is drawn too often");
        for count in [1, 2, n / 4, n - 1, n, n + 5] {
            let found = words(bench.run(&format!("zrandmember k {count}")));
            assert_eq!(found.len(), count.min(n));
            assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), count.min(n));
        }
        assert_eq!(words(bench.run("zrandmember k -1000 withscores")).len(), 1000);
    }
    let mut bench = counted(1);
    bench.expect(&[
        ("zrandmember k 5 withscores", "*2|$2|m0|$1|0|"),
        ("zrandmember k 0", "*0|"),
        ("zrandmember none", "$-1|"),
        ("zrandmember none 3", "*0|"),
        ("zrandmember k x", "-ERR value is not an integer or out of range|"),
        ("zrandmember k 1 scores", SYNTAX),
        ("zrandmember k 9223372036854775807 withscores", "-ERR value is out of range|"),
    ]);
}

#[test]
fn a_scan_ends_with_all_members() {
    for (n, most) in [(0, 0), (50, 50), (1000, 40)] {
        let mut bench = counted(n);
        let mut seen = BTreeSet::new();
        let mut cursor = "0".to_string();
        loop {
            let reply = bench.run(&format!("zscan k {cursor} count 30 match m*"));
            let words: Vec<&str> = reply.split('|').collect();
            cursor = words[2].to_string();
            let members: Vec<_> = words[4..].chunks(4).filter_map(|pair| pair.get(1)).collect();
            assert!(members.len() <= most, "{}", members.len());
            seen.extend(members.into_iter().map(|m| m.to_string()));
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(seen.len(), n);
    }
    let mut bench = counted(2);
    bench.expect(&[
        ("zscan k 0 noscores match *1", "*2|$1|0|*1|$2|m1|"),
        ("zscan k 0 match *1", "*2|$1|0|*2|$2|m1|$1|1|"),
        ("zscan k x", "-ERR invalid cursor|"),
        ("zscan k 0 novalues", "-ERR NOVALUES option can only be used in HSCAN|"),
        ("zscan none 0 count 0", "*2|$1|0|*0|"),
    ]);
}
