//! Replies and effects of the hash commands, on one shard and without a server.

use crate::testing::Bench;

#[test]
fn fields_are_set_read_and_removed() {
    let mut bench = Bench::new(1000);
    bench.expect(&[
        ("HSET h a 1 b text a 2", ":2|"),
        ("HGET h a", "$1|2|"),
        ("HMGET h b none a", "*3|$4|text|$-1|$1|2|"),
        ("HGETALL h", "*4|$1|a|$1|2|$1|b|$4|text|"),
        ("HKEYS h", "*2|$1|a|$1|b|"),
        ("HVALS h", "*2|$1|2|$4|text|"),
        ("HLEN h", ":2|"),
        ("HSTRLEN h b", ":4|"),
        ("HEXISTS h c", ":0|"),
        ("HSETNX h c 3", ":1|"),
        ("HSETNX h c 4", ":0|"),
        ("HMSET h d 5", "+OK|"),
        ("HSCAN h 0 MATCH [cd]", "*2|$1|0|*4|$1|c|$1|3|$1|d|$1|5|"),
        ("HSCAN h 0 MATCH c NOVALUES", "*2|$1|0|*1|$1|c|"),
        ("HDEL h a b c none", ":3|"),
        ("HDEL h d", ":1|"),
        ("EXISTS h", ":0|"),
    ]);
    assert_eq!(bench.context.tally.dirty, 3 + 1 + 1 + 3 + 1);
}

#[test]
fn fields_are_incremented() {
    let mut bench = Bench::new(1000);
    bench.expect(&[
        ("HINCRBY h n 5", ":5|"),
        ("HINCRBY h n -7", ":-2|"),
        ("HINCRBYFLOAT h n 0.5", "$4|-1.5|"),
        ("HINCRBY h n 1", "-ERR hash value is not an integer|"),
        ("HSET h n text", ":0|"),
        ("HINCRBYFLOAT h n 1", "-ERR hash value is not a float|"),
        ("HINCRBYFLOAT h n inf", "-ERR value is NaN or Infinity|"),
        ("HINCRBY none n x", "-ERR value is not an integer or out of range|"),
        ("EXISTS none", ":0|"),
    ]);
}

#[test]
fn the_encoding_follows_the_directives() {
    let mut bench = Bench::new(1000);
    bench.settings.limits.hash_entries = 2;
    bench.settings.limits.hash_value = 4;
    let packed = "$8|listpack|";
    let table = "$9|hashtable|";
    bench.expect(&[
        ("HSET a f 1234 g 2", ":2|"),
        ("OBJECT ENCODING a", packed),
        ("HSETNX a f 12345", ":0|"),
        ("OBJECT ENCODING a", packed),
        ("HINCRBY a f 99999", ":101233|"),
        ("OBJECT ENCODING a", table),
        ("HSET b f 1 f 2 f 3", ":1|"),
        ("OBJECT ENCODING b", table),
        ("HSET c f 1 g 2", ":2|"),
        ("HSET c h 3", ":1|"),
        ("OBJECT ENCODING c", table),
        ("HDEL c h g", ":2|"),
        ("OBJECT ENCODING c", table),
        ("HGETALL c", "*2|$1|f|$1|1|"),
    ]);
}

#[test]
fn random_fields_are_fields() {
    let mut bench = Bench::new(1000);
    bench.expect(&[
        ("HSET h a 1", ":1|"),
        ("HRANDFIELD h", "$1|a|"),
        ("HRANDFIELD h -2 WITHVALUES", "*4|$1|a|$1|1|$1|a|$1|1|"),
        ("HRANDFIELD h 5", "*1|$1|a|"),
        ("HRANDFIELD h 4611686018427387904 WITHVALUES", "-ERR value is out of range|"),
        ("HRANDFIELD none 5", "*0|"),
        ("HRANDFIELD none", "$-1|"),
    ]);
}

#[test]
fn other_types_are_errors() {
    let mut bench = Bench::new(1000);
    bench.run("SET s text");
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value|";
    for line in [
        "HSET s a 1",
        "HSETNX s a 1",
        "HGET s a",
        "HMGET s a",
        "HGETALL s",
        "HKEYS s",
        "HVALS s",
        "HLEN s",
        "HSTRLEN s a",
        "HEXISTS s a",
        "HDEL s a",
        "HINCRBY s a 1",
        "HINCRBYFLOAT s a 1",
        "HRANDFIELD s",
        "HRANDFIELD s 1",
        "HSCAN s 0 NONSENSE",
    ] {
        assert_eq!(bench.run(line), wrong, "{line}");
    }
    assert_eq!(bench.run("GET s"), "$4|text|");
}

#[test]
fn fields_expire() {
    let mut bench = Bench::new(1000);
    bench.expect(&[
        ("HSET h a 1 b 2 c 3", ":3|"),
        ("HEXPIRE h 10 FIELDS 2 a none", "*2|:1|:-2|"),
        ("OBJECT ENCODING h", "$9|hashtable|"),
        ("HPTTL h FIELDS 2 a b", "*2|:10000|:-1|"),
        ("HPEXPIRETIME h FIELDS 1 a", "*1|:11000|"),
        ("HEXPIRE h 5 GT FIELDS 1 a", "*1|:0|"),
        ("HINCRBY h a 1", ":2|"),
        ("HTTL h FIELDS 1 a", "*1|:10|"),
        ("HPERSIST h FIELDS 2 a b", "*2|:1|:-1|"),
        ("HSETEX h FNX PX 500 FIELDS 1 d 4", ":1|"),
        ("HGETEX h PX 600 FIELDS 1 a", "*1|$1|2|"),
        ("HPEXPIREAT h 1000 FIELDS 1 c", "*1|:2|"),
        ("HLEN h", ":3|"),
    ]);
    bench.context.set_time(1550);
    bench.expect(&[
        ("HGET h d", "$-1|"),
        ("HGET h a", "$1|2|"),
        ("HLEN h", ":3|"),
        ("HDEL h d", ":0|"),
        ("HSET h a 5", ":0|"),
        ("HSETNX h d 1", ":1|"),
        ("HTTL h FIELDS 2 a d", "*2|:-1|:-1|"),
        ("HGETDEL h FIELDS 3 a b d", "*3|$1|5|$1|2|$1|1|"),
        ("EXISTS h", ":0|"),
    ]);
}

#[test]
fn expired_fields_are_invisible() {
    let mut bench = Bench::new(1000);
    bench.expect(&[("HSETEX h PX 1 FIELDS 2 a 1 b 2", ":1|"), ("HSET h c 3", ":1|")]);
    bench.context.set_time(1001);
    bench.expect(&[
        ("HGETALL h", "*2|$1|c|$1|3|"),
        ("HKEYS h", "*1|$1|c|"),
        ("HMGET h a c", "*2|$-1|$1|3|"),
        ("HRANDFIELD h", "$1|c|"),
        ("HRANDFIELD h 3", "*1|$1|c|"),
        ("HRANDFIELD h -2", "*2|$1|c|$1|c|"),
        ("HSCAN h 0", "*2|$1|0|*2|$1|c|$1|3|"),
        ("HEXISTS h b", ":0|"),
        ("HTTL h FIELDS 1 a", "*1|:-2|"),
        ("HPEXPIRE h 5 FIELDS 1 a", "*1|:-2|"),
    ]);
}

/// HGETEX is a read that may write. It counts one hit or miss, and one access.
#[test]
fn hgetex_counts_as_a_read() {
    use weft_keyspace::{Access, Policy};
    let mut bench = Bench::new(1000);
    // Every access counts.
    bench.context.access = Access::new(Policy::Lfu, 1000, 0, 1);
    bench.settings.lfu = true;
    bench.run("HSET h f v g w");
    let freq = |bench: &mut Bench| bench.run("OBJECT FREQ h");
    for (line, hits, misses) in [
        ("HGETEX h FIELDS 1 f", 1, 0),
        ("HGETEX h FIELDS 1 none", 1, 0),
        ("HGETEX h EX 100 FIELDS 1 f", 1, 0),
        ("HGETEX h PERSIST FIELDS 1 f", 1, 0),
        ("HGETEX none FIELDS 1 f", 0, 1),
        ("HSETEX h FIELDS 1 f v", 0, 0),
        ("HSETEX h XX FIELDS 1 f v", 0, 0),
    ] {
        let before = freq(&mut bench);
        bench.context.tally = weft_keyspace::Tally::default();
        bench.run(line);
        let tally = bench.context.tally;
        assert_eq!((tally.hits, tally.misses), (hits, misses), "{line}");
        let count = |text: &str| text[1..text.len() - 1].parse::<i64>().expect("a number");
        let more = count(&freq(&mut bench)) - count(&before);
        assert_eq!(more, i64::from(misses == 0), "{line}");
    }
}

/// `expired_fields` in INFO. The expected counts were taken from Valkey 9.1.
#[test]
fn expired_fields_are_counted() {
    // Commands that remove fields at once because the given time has passed.
    for (line, counted) in [
        ("HEXPIRE h 0 FIELDS 1 live", 1),
        ("HEXPIRE h 0 FIELDS 2 live other", 2),
        ("HPEXPIREAT h 1 FIELDS 3 live live none", 1),
        ("HEXPIRE h 0 GT FIELDS 1 live", 0),
        ("HGETEX h PXAT 1 FIELDS 3 live other none", 2),
        ("HGETEX h EXAT 1000 FIELDS 1 live", 0),
        ("HSETEX h PXAT 1 FIELDS 2 live 5 none 6", 2),
        ("HSETEX none PXAT 1 FIELDS 1 a 5", 1),
        ("HSETEX h FNX PXAT 1 FIELDS 2 live 1 none 2", 0),
        ("HSETEX none XX PXAT 1 FIELDS 1 a 5", 0),
        // Commands that replace expired fields.
        ("HSET h gone 2 late 2", 2),
        ("HMSET h gone 2 live 2", 1),
        ("HSETNX h gone 2", 1),
        ("HINCRBY h gone 2", 1),
        ("HINCRBYFLOAT h late 2", 1),
        ("HSETEX h FIELDS 2 gone 1 late 2", 2),
        ("HSETEX h PXAT 1 FIELDS 2 gone 1 late 2", 2),
        ("HDEL h gone late", 0),
        ("HGETDEL h FIELDS 1 gone", 0),
        ("HEXPIRE h 0 FIELDS 1 gone", 0),
        ("HPERSIST h FIELDS 1 gone", 0),
    ] {
        let mut bench = Bench::new(1000);
        bench.expect(&[
            ("HSET h live 1 other 2 gone 3 late 4", ":4|"),
            ("HPEXPIREAT h 1500 FIELDS 2 gone late", "*2|:1|:1|"),
        ]);
        bench.context.set_time(2000);
        bench.context.tally = weft_keyspace::Tally::default();
        bench.run(line);
        assert_eq!(bench.context.tally.expired_fields, counted, "{line}");
    }
}

#[test]
fn a_copy_has_no_expired_fields() {
    let mut bench = Bench::new(1000);
    bench.run("HSET h f v g w");
    bench.run("HPEXPIREAT h 2000 FIELDS 1 f");
    bench.run("HSET all f v");
    bench.run("HPEXPIREAT all 2000 FIELDS 1 f");
    bench.context.set_time(3000);
    bench.expect(&[
        ("HLEN h", ":2|"),
        ("COPY h d", ":1|"),
        ("HLEN d", ":1|"),
        ("HGETALL d", "*2|$1|g|$1|w|"),
        ("COPY all d", ":0|"),
        ("COPY all d REPLACE", ":1|"),
        ("HGETALL d", "*0|"),
    ]);
}
