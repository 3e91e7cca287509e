//! Keyspace notifications of commands: every event, in the order of the reference.

use crate::testing::Bench;
use weft_keyspace::Classes;

/// A bench with all notification classes enabled.
fn bench() -> Bench {
    let mut bench = Bench::new(1_000_000);
    bench.context.effects.want(Classes::wanted(|_| true));
    bench
}

/// Runs the lines in order on an empty keyspace and compares the notifications of each.
fn expect(lines: &[(&str, &str)]) {
    let mut bench = bench();
    for (line, notifications) in lines {
        bench.run(line);
        assert_eq!(bench.take_notifications(), *notifications, "{line}");
    }
}

#[test]
fn strings() {
    expect(&[
        ("SET a 1", "new a, set a"),
        ("SET a 2 EX 9", "set a, expire a"),
        ("SET a 2 KEEPTTL", "set a"),
        ("SET a 2 NX", ""),
        ("SET a 2 EXAT 1", "expired a"),
        ("SET a 2 EXAT 1", ""),
        ("SET a 1 GET", "keymiss a, new a, set a"),
        ("SET a 1 XX GET", "set a"),
        ("SET b 1 XX GET", "keymiss b"),
        ("SETEX a 9 v", "set a, expire a"),
        ("SETNX a 1", ""),
        ("GETSET b 1", "keymiss b, new b, set b"),
        ("GET b", ""),
        ("GET c", "keymiss c"),
        ("MGET a c b d", "keymiss c, keymiss d"),
        ("GETDEL b", "del b"),
        ("GETDEL b", "keymiss b"),
        ("GETEX a EX 5", "expire a"),
        ("GETEX a PERSIST", "persist a"),
        ("GETEX a PERSIST", ""),
        ("GETEX a EXAT 1", "expired a"),
        ("MSET a 1 b 2 a 3", "new a, set a, new b, set b, set a"),
        ("MSETNX c 1 a 1", ""),
        ("MSETEX 2 a 1 c 2 EX 9", "set a, expire a, new c, set c, expire c"),
        ("DELIFEQ a 2", ""),
        ("DELIFEQ a 1", "del a"),
        ("APPEND a x", "new a, append a"),
        ("SETRANGE a 2 x", "setrange a"),
        ("SETRANGE n 2 x", "new n, setrange n"),
        ("STRLEN m", "keymiss m"),
        ("LCS m a", "keymiss m"),
        ("INCR i", "new i, incrby i"),
        ("DECRBY i 2", "incrby i"),
        ("INCRBYFLOAT i 2", "incrbyfloat i"),
        ("INCR a", ""),
    ]);
}

#[test]
fn keys_of_any_type() {
    expect(&[
        ("MSET a 1 b 2", "new a, set a, new b, set b"),
        ("DEL a m b a", "del a, del b"),
        ("EXISTS a", "keymiss a"),
        ("TTL a", "keymiss a"),
        ("TYPE a", "keymiss a"),
        ("OBJECT ENCODING a", ""),
        ("MSET a 1 b 2", "new a, set a, new b, set b"),
        ("EXPIRE a 9", "expire a"),
        ("EXPIRE a 9 NX", ""),
        ("PERSIST a", "persist a"),
        ("PERSIST a", ""),
        ("RENAME a c", "new c, rename_from a, rename_to c"),
        ("RENAME c b", "new b, rename_from c, rename_to b"),
        ("RENAME b b", ""),
        ("RENAMENX b a", "new a, rename_from b, rename_to a"),
        ("COPY a b", "new b, copy_to b"),
        ("COPY a b", ""),
        ("COPY a b REPLACE", "new b, copy_to b"),
        ("COPY m b", "keymiss m"),
        ("COPY a b DB 3", "3:new b, 3:copy_to b"),
        ("MOVE b 3", ""),
        ("MOVE b 4", "4:new b, move_from b, 4:move_to b"),
        ("EXPIRE a 0", "expired a"),
        ("RPUSH l 2 1", "new l, rpush l"),
        ("SORT l BY w_* GET g_*", "keymiss w_2, keymiss w_1, keymiss g_1, keymiss g_2"),
        ("SORT l STORE s", "new s, sortstore s"),
        ("SORT m STORE s", "keymiss m, del s"),
        ("SORT m STORE s", "keymiss m"),
        ("SWAPDB 0 1", ""),
        ("FLUSHALL", ""),
    ]);
}

#[test]
fn lists() {
    expect(&[
        ("RPUSH l a b c d e", "new l, rpush l"),
        ("LPUSHX l z", "lpush l"),
        ("RPUSHX m z", ""),
        ("LLEN m", "keymiss m"),
        ("LPOP m", ""),
        ("LPOP l 0", ""),
        ("RPOP l 2", "rpop l"),
        ("LSET l 0 y", "lset l"),
        ("LINSERT l BEFORE a x", "linsert l"),
        ("LINSERT l BEFORE m x", ""),
        ("LREM l 0 x", "lrem l"),
        ("LTRIM l 0 99", "ltrim l"),
        ("LTRIM l 7 8", "ltrim l, del l"),
        ("RPUSH l a", "new l, rpush l"),
        ("LREM l 0 a", "lrem l, del l"),
        ("RPUSH l a b", "new l, rpush l"),
        ("LMOVE l d LEFT RIGHT", "new d, rpush d, lpop l"),
        ("RPOPLPUSH l d", "lpush d, rpop l, del l"),
        ("LMOVE d d LEFT RIGHT", "rpush d, lpop d"),
        ("LMPOP 2 m d LEFT COUNT 9", "lpop d, del d"),
        ("RPUSH l a", "new l, rpush l"),
        ("BLPOP m l 0", "lpop l, del l"),
        ("BLPOP m l 0", ""),
    ]);
}

#[test]
fn hashes() {
    expect(&[
        ("HSET h f 1 g 2", "new h, hset h"),
        ("HSETNX h f 1", ""),
        ("HINCRBY h f 1", "hincrby h"),
        ("HINCRBYFLOAT h f 1", "hincrbyfloat h"),
        ("HGETALL m", "keymiss m"),
        ("HEXPIRE h 9 FIELDS 2 f m", "hexpire h"),
        ("HEXPIRE h 9 NX FIELDS 1 f", ""),
        ("HPERSIST h FIELDS 2 f g", "hpersist h"),
        ("HPERSIST h FIELDS 2 f g", ""),
        ("HGETEX h FIELDS 1 f", ""),
        ("HGETEX h EX 9 FIELDS 1 f", "hexpire h"),
        ("HGETEX h PERSIST FIELDS 1 f", "hpersist h"),
        ("HGETEX m EX 9 FIELDS 1 f", "keymiss m"),
        ("HGETEX h EXAT 1 FIELDS 1 f", "hexpired h"),
        ("HEXPIREAT h 1 FIELDS 1 g", "hexpired h, del h"),
        ("HSETEX h FIELDS 1 f v", "new h, hset h"),
        ("HSETEX h EX 9 FIELDS 2 f v g v", "hset h, hexpire h"),
        ("HSETEX h KEEPTTL FIELDS 1 f v", "hset h"),
        ("HSETEX h FNX FIELDS 1 f v", ""),
        ("HSETEX h EXAT 1 FIELDS 1 f v", "hset h, hexpire h, hexpired h"),
        ("HSETEX h EXAT 1 FIELDS 1 g v", "hset h, hexpire h, hexpired h, del h"),
        ("HSETEX h EXAT 1 FIELDS 1 g v", "new h, hset h, hexpire h, hexpired h, del h"),
        ("HSET h f 1 g 2 i 3", "new h, hset h"),
        ("HDEL h m", ""),
        ("HDEL h f m", "hdel h"),
        ("HGETDEL h FIELDS 1 g", "hdel h"),
        ("HDEL h i", "hdel h, del h"),
    ]);
}

#[test]
fn expired_fields() {
    let mut bench = bench();
    let mut all_expire = |line: &str, notifications: &str| {
        bench.run("DEL h");
        bench.run("HSET h f 1 g 2");
        bench.run("HPEXPIRE h 5 FIELDS 2 f g");
        bench.context.set_time(bench.context.now_ms + 5);
        bench.take_notifications();
        bench.run(line);
        assert_eq!(bench.take_notifications(), notifications, "{line}");
    };
    all_expire("HGETALL h", "");
    all_expire("HSET h f 1 g 1", "hexpired h, hset h");
    all_expire("HSETNX h f 1", "hexpired h, hset h");
    all_expire("HINCRBY h f 1", "hexpired h, hincrby h");
    all_expire("HSETEX h EX 9 FIELDS 1 f 1", "hexpired h, hset h, hexpire h");
    all_expire("HSETEX h FXX EX 9 FIELDS 1 f 1", "");
    all_expire("HEXPIRE h 9 FIELDS 1 f", "");
    all_expire("HDEL h f g", "");
    all_expire("HGETDEL h FIELDS 2 f g", "");
}

#[test]
fn sets() {
    expect(&[
        ("SADD s a b c", "new s, sadd s"),
        ("SADD s a", ""),
        ("SREM s a m", "srem s"),
        ("SREM s m", ""),
        ("SMEMBERS m", "keymiss m"),
        ("SMOVE s t b", "srem s, new t, sadd t"),
        ("SMOVE s t m", ""),
        ("SMOVE s s c", ""),
        ("SMOVE s t c", "srem s, del s, sadd t"),
        ("SPOP t", "spop t"),
        ("SPOP t 9", "spop t, del t"),
        ("SADD s a b", "new s, sadd s"),
        ("SINTER s m n", "keymiss m, keymiss n"),
        ("SUNIONSTORE d s m", "keymiss m, new d, sunionstore d"),
        ("SDIFFSTORE d s m", "keymiss m, sdiffstore d"),
        ("SINTERSTORE d s s", "sinterstore d"),
        ("SINTERSTORE d s m", "keymiss m, del d"),
        ("SINTERSTORE d s m", "keymiss m"),
        ("SET x 1", "new x, set x"),
        // SINTER fails at the first key of another type and reads no further keys.
        ("SINTER m x n", "keymiss m"),
    ]);
}

#[test]
fn sorted_sets_and_geo() {
    expect(&[
        ("ZADD z 1 a 2 b 3 c 4 d 5 e 6 f", "new z, zadd z"),
        ("ZADD z 1 a", ""),
        ("ZADD z INCR 1 a", "zincr z"),
        ("ZINCRBY z 1 b", "zincr z"),
        ("ZADD z XX 1 m", ""),
        ("ZCARD m", "keymiss m"),
        ("ZREM z a m", "zrem z"),
        ("ZPOPMIN z", "zpopmin z"),
        ("ZPOPMAX z", "zpopmax z"),
        ("ZPOPMIN z 0", ""),
        ("ZREMRANGEBYRANK z 0 0", "zremrangebyrank z"),
        ("ZREMRANGEBYSCORE z 4 4", "zremrangebyscore z"),
        ("ZREMRANGEBYLEX z - +", "zremrangebylex z, del z"),
        ("ZREMRANGEBYLEX z - +", ""),
        ("ZADD z 1 a 2 b", "new z, zadd z"),
        ("ZRANGESTORE d z 0 -1", "new d, zrangestore d"),
        ("ZUNIONSTORE d 2 z m", "keymiss m, zunionstore d"),
        ("ZDIFFSTORE d 2 z m", "keymiss m, zdiffstore d"),
        ("ZINTERSTORE d 2 z z", "zinterstore d"),
        ("ZINTERSTORE d 2 z m", "keymiss m, del d"),
        ("ZMPOP 2 m z MAX COUNT 9", "zpopmax z, del z"),
        ("ZADD z 1 a", "new z, zadd z"),
        ("BZPOPMIN m z 0", "zpopmin z, del z"),
        ("GEOADD g 1 1 a", "new g, zadd g"),
        ("GEOPOS m a", "keymiss m"),
        ("GEOSEARCHSTORE d g FROMLONLAT 1 1 BYRADIUS 9 km", "new d, geosearchstore d"),
        ("GEORADIUS g 1 1 9 km STORE d", "georadiusstore d"),
        ("GEOSEARCHSTORE d m FROMLONLAT 1 1 BYRADIUS 9 km", "keymiss m, del d"),
    ]);
}

#[test]
fn streams() {
    expect(&[
        ("XADD s 1-1 f v", "new s, xadd s"),
        ("XADD s MAXLEN 2 2-1 f v", "xadd s"),
        ("XADD s MAXLEN 2 3-1 f v", "xadd s, xtrim s"),
        ("XADD s 1-1 f v", ""),
        ("XADD m NOMKSTREAM 1-1 f v", ""),
        ("XADD t MAXLEN 0 1-1 f v", "new t, xadd t, xtrim t"),
        ("XTRIM s MAXLEN 2", ""),
        ("XTRIM s MAXLEN 1", "xtrim s"),
        ("XTRIM m MAXLEN 1", ""),
        ("XDEL s 3-1 2-1", "xdel s"),
        ("XDEL s 3-1", ""),
        ("XDEL m 3-1", ""),
        ("XSETID s 9-1", "xsetid s"),
        ("XSETID s 1-1", ""),
        ("XSETID m 9-1", ""),
        ("XLEN m", "keymiss m"),
        ("XRANGE m - + COUNT 0", "keymiss m"),
        ("XREVRANGE m + -", "keymiss m"),
        ("XINFO STREAM m", "keymiss m"),
        ("XINFO CONSUMERS m g", "keymiss m"),
        // XREAD reads its streams twice.
        ("XREAD STREAMS m s n 0 0 $", "keymiss m, keymiss n, keymiss m, keymiss n"),
        ("XREAD BLOCK 0 STREAMS m +", "keymiss m, keymiss m"),
        ("XADD s 10-1 f v", "xadd s"),
        ("XREAD STREAMS m s 0 0", "keymiss m, keymiss m"),
        ("XREAD STREAMS s $", ""),
        // An invalid id ends the first pass.
        ("XREAD STREAMS m n x 0", "keymiss m"),
        ("XREAD STREAMS m >", "keymiss m"),
    ]);
}

#[test]
fn stream_groups() {
    expect(&[
        ("XGROUP CREATE s g 0", ""),
        ("XGROUP CREATE s g x MKSTREAM", ""),
        ("XGROUP CREATE s g 0 MKSTREAM", "new s, xgroup-create s"),
        ("XGROUP CREATE s g 0 MKSTREAM", ""),
        ("XGROUP CREATE s h 0", "xgroup-create s"),
        ("XGROUP SETID s g 0", "xgroup-setid s"),
        ("XGROUP SETID s m 0", ""),
        ("XGROUP CREATECONSUMER s g c", "xgroup-createconsumer s"),
        ("XGROUP CREATECONSUMER s g c", ""),
        ("XGROUP DELCONSUMER s g c", "xgroup-delconsumer s"),
        ("XGROUP DELCONSUMER s g c", ""),
        ("XGROUP DESTROY s h", "xgroup-destroy s"),
        ("XGROUP DESTROY s h", ""),
        ("XREADGROUP GROUP g a STREAMS s >", "xgroup-createconsumer s"),
        ("XREADGROUP GROUP g a STREAMS s >", ""),
        ("XREADGROUP GROUP g b STREAMS s 0", "xgroup-createconsumer s"),
        ("XADD s 1-1 f v", "xadd s"),
        ("XREADGROUP GROUP g c STREAMS s >", "xgroup-createconsumer s"),
        ("XREADGROUP GROUP g d STREAMS s m n > > >", "keymiss m"),
        ("XREADGROUP GROUP m d STREAMS s >", ""),
        ("XPENDING m g", "keymiss m"),
        ("XPENDING s g", ""),
        ("XCLAIM s g d 0 1-1", "xgroup-createconsumer s"),
        ("XCLAIM s g d 0 1-1", ""),
        ("XCLAIM s g e 0 9-9", "xgroup-createconsumer s"),
        ("XCLAIM m g e 0 9-9", "keymiss m"),
        ("XAUTOCLAIM s g f 0 0", "xgroup-createconsumer s"),
        ("XAUTOCLAIM s g f 0 0", ""),
        ("XAUTOCLAIM m g f 0 0", "keymiss m"),
        ("XAUTOCLAIM m g f 0 x", "keymiss m"),
        ("XACK s g 1-1", ""),
        ("XACK m g 1-1", "keymiss m"),
        ("XREADGROUP GROUP g z BLOCK 0 STREAMS s >", "xgroup-createconsumer s"),
    ]);
}

#[test]
fn bits_and_hyperloglogs() {
    expect(&[
        ("SETBIT b 1 1", "new b, setbit b"),
        ("SETBIT b 1 1", ""),
        ("BITCOUNT m", "keymiss m"),
        ("BITOP AND d b m", "keymiss m, new d, set d"),
        ("BITOP AND d m", "keymiss m, del d"),
        ("BITFIELD b SET u8 0 1", "setbit b"),
        ("BITFIELD b SET u8 0 1", ""),
        ("BITFIELD f OVERFLOW FAIL INCRBY u2 0 9", "new f"),
        ("BITFIELD m GET u8 0", "keymiss m"),
        ("PFADD p a", "new p, pfadd p"),
        ("PFADD p a", ""),
        ("PFCOUNT m p", "keymiss m"),
        ("PFMERGE q p m", "keymiss q, keymiss m, new q, pfadd q"),
    ]);
}

#[test]
fn expired_keys_are_removed_first() {
    let mut bench = bench();
    let mut expired = |line: &str, notifications: &str| {
        bench.run("FLUSHALL");
        bench.run("MSET a 1 x 1");
        bench.run("SET k 1 PX 5");
        bench.context.set_time(bench.context.now_ms + 5);
        bench.take_notifications();
        bench.run(line);
        assert_eq!(bench.take_notifications(), notifications, "{line}");
    };
    expired("GET k", "expired k, keymiss k");
    expired("EXISTS k", "expired k, keymiss k");
    expired("OBJECT ENCODING k", "expired k");
    expired("MGET k k", "expired k, keymiss k, keymiss k");
    expired("SET k 1", "expired k, new k, set k");
    expired("SET k 1 GET", "expired k, keymiss k, new k, set k");
    expired("SET k 1 XX", "expired k");
    expired("DEL k", "expired k");
    expired("EXPIRE k 9", "expired k");
    expired("RPUSH k 1", "expired k, new k, rpush k");
    expired("SADD k 1", "expired k, new k, sadd k");
    expired("RENAME a k", "expired k, new k, rename_from a, rename_to k");
    expired("COPY a k", "expired k, new k, copy_to k");
    expired("COPY k a", "expired k, keymiss k");
    expired("BITOP AND k a", "expired k, new k, set k");
    expired("SUNIONSTORE k m", "keymiss m, del k");
    expired("SORT m STORE k", "keymiss m, del k");
    expired("ZUNIONSTORE k 1 m", "keymiss m, del k");
    expired("BITOP AND k m", "keymiss m, del k");
}

#[test]
fn only_enabled_classes_are_notified() {
    let mut bench = Bench::new(1000);
    bench.run("SET a 1");
    assert_eq!(bench.take_notifications(), "");
    let classes =
        |letters: &'static str| Classes::wanted(move |letter| letters.as_bytes().contains(&letter));
    for (letters, notifications) in [
        ("g$lshzxetnm", ""),
        ("Kg", "del k, del h"),
        ("E$", "set k"),
        ("Km", "keymiss k"),
        ("En", "new k, new h"),
        ("Kh", "hset h, hdel h"),
        ("KEgm", "keymiss k, del k, del h"),
    ] {
        bench.context.effects.want(classes(letters));
        for line in ["GET k", "SET k 1", "DEL k", "HSET h f v", "HDEL h f"] {
            bench.run(line);
        }
        assert_eq!(bench.take_notifications(), notifications, "{letters}");
    }
}
