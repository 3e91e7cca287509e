//! Scripts with commands of all families, and the intended differences from the reference's log.

/// Lines that are logged differently: the start of the line, the start of our log, and the reason.
pub const DIFFERENCES: &[(&str, &str, &str)] = &[
    ("XADD x MINID ~ 1-1 LIMIT 10", "XADD x MINID = ", LIMIT),
    ("XADD st MAXLEN ~ 10 LIMIT 5", "XADD st MAXLEN = 4 6-1", LIMIT),
    ("XREADGROUP GROUP g c1 STREAMS x 0", "XCLAIM x g c1 0 1-1 TIME ", AGAIN),
    ("XREADGROUP GROUP g c2 STREAMS x 0", "XGROUP CREATECONSUMER x g c2", CONSUMER),
    ("XREADGROUP GROUP g c4 STREAMS x >", "XGROUP CREATECONSUMER x g c4", CONSUMER),
    ("XCLAIM x g c9 0 77-1", "XGROUP CREATECONSUMER x g c9", CONSUMER),
    ("HEXPIRE h3 100 FIELDS 2 a b", "HPEXPIREAT h3 ", STALE),
    ("HDEL h3 a c", "HDEL h3 c", STALE),
    ("SORT sl BY w*->f STORE sd", "DEL sd | RPUSH sd 2 3 1", RESULT),
    ("HSETEX h3 KEEPTTL FIELDS 1 d 4", "HPERSIST h3 FIELDS 1 d | HSETEX h3 KEEPTTL", STALE),
    ("PFADD broken e0 e3 e1 e4", "PFADD broken e0 e3", BROKEN),
];

const BROKEN: &str = "a damaged value keeps the elements before the refused one: a copy \
                      must have it, too";
const RESULT: &str = "the sort order may depend on fields that have expired";
const LIMIT: &str =
    "with an exact bound LIMIT has no effect, and is an error except in the reference's own log";
const AGAIN: &str = "a copy of the stream needs the delivery counts of entries";
const CONSUMER: &str = "a copy of the stream needs all consumers";
const STALE: &str = "an expired field still exists during a replay: it must not \
                     get another time, or take the key with it";

/// Scripts, one command a line. `~` waits until a TTL of a millisecond is over.
pub const SCRIPTS: &[(&str, &str)] = &[
    (
        "strings",
        r#"
        set a 1
        SET a 2 EX 100
        SET a 2 PX 100000 NX
        SET a 3 PX 100000 XX GET
        SET a 3 KEEPTTL
        SET a 3 EXAT 1999999999
        SET a 3 PXAT 1999999999000
        SET a 3 EXAT 1
        SET a 4 GET
        SET a 5 IFEQ 4
        SET a 5 IFEQ 4
        SETEX a 100 v
        PSETEX a 100000 v
        SETNX a v
        SETNX b v
        GETSET a w
        MSET a 1 b 2
        MSETNX a 1 b 2
        MSETNX m1 1 m2 2
        MSETEX 2 a 1 b 2 EX 100
        MSETEX 2 a 1 b 2 KEEPTTL
        MSETEX 2 c 1 d 2 NX PX 10000
        MSETEX 2 c 1 d 2
        APPEND a x
        APPEND a ""
        SETRANGE a 0 yy
        SETRANGE a 0 ""
        INCR n
        DECRBY n 5
        INCRBYFLOAT n 1.5
        EXPIRE n 100
        INCRBYFLOAT n 1.5
        GETEX n
        GETEX n EX 100
        GETEX n PXAT 1999999999000
        GETEX n PERSIST
        GETEX n PERSIST
        GETEX n EXAT 1
        GETDEL n
        SET n 1
        GETDEL n
        DELIFEQ a foo
        SET a foo
        DELIFEQ a foo
        SET a 1
        DEL a b c
        UNLINK d
        DEL nothing
        "#,
    ),
    (
        "generic",
        r#"
        SET a v
        EXPIRE a 100
        PEXPIRE a 100000
        EXPIREAT a 1999999999
        PEXPIREAT a 1999999999000
        EXPIRE a 100 NX
        EXPIRE a 100 LT
        PERSIST a
        PERSIST a
        EXPIRE a -1
        SET a v
        EXPIREAT a 1
        SET a v
        PEXPIRE a 0
        RENAME nokey b
        SET a v
        RENAME a b
        RENAMENX b c
        RENAME c c
        COPY c e
        COPY c e
        COPY c e REPLACE DB 3
        MOVE c 4
        SET p v PX 1
        ~
        GET p
        SET p v PX 1
        ~
        SET p w
        SET p v PX 1
        ~
        GET p
        SET p v PX 1
        ~
        INCR p
        SET p v PX 1
        ~
        SETNX p v
        SET p v PX 1
        ~
        DEL p
        SET p v PX 1
        ~
        RENAME e p
        SET p v PX 1
        ~
        EXISTS p
        SET p v PX 1
        SET q v PX 1
        ~
        MGET p q
        SET p v PX 1
        ~
        PERSIST p
        SET p v PX 1
        ~
        FLUSHDB
        FLUSHDB ASYNC
        FLUSHALL
        FLUSHALL SYNC
        SWAPDB 0 0
        SET a b
        SET a 1
        SET a 1
        SET a 1
        "#,
    ),
    (
        "lists",
        r#"
        RPUSH l a b c d e f g h
        LPUSHX l z
        LPUSHX nol z
        LPOP l
        LPOP l 2
        LPOP l 0
        RPOP l 1
        RPOPLPUSH l l2
        LMOVE l l2 LEFT RIGHT
        LMPOP 2 nol l LEFT COUNT 2
        BLPOP l 0
        BRPOP l2 0
        LREM l2 0 nothere
        LREM l2 0 f
        DEL l l2
        RPUSH l a b c d
        BLMOVE l l2 LEFT LEFT 0
        BRPOPLPUSH l l2 0
        BLMPOP 0 1 l LEFT
        LSET l2 0 x
        LSET l2 0 x
        LINSERT l2 BEFORE x y
        LINSERT l2 BEFORE nope y
        LTRIM l2 0 -1
        LTRIM l2 0 0
        LTRIM l2 5 6
        "#,
    ),
    (
        "sets",
        r#"
        SADD s a b c d e
        SADD s a
        SREM s a
        SREM s a
        SPOP s 100
        SADD s a b c d e
        SPOP s 0
        SPOP s 5
        SADD s a b c d e f g h i j k l
        SMOVE s t a
        SADD s a
        SMOVE s t a
        SMOVE t t a
        SADD s b
        SUNIONSTORE u s t
        SINTERSTORE u s none
        SINTERSTORE u s none
        SDIFFSTORE u t s
        "#,
    ),
    (
        "sorted_sets",
        r#"
        ZADD z 1 a 2 b 3 c
        ZADD z 1 a
        ZADD z INCR 1 a
        ZADD z NX 1 a
        ZADD z GT CH 10 a
        ZINCRBY z 1 a
        ZREM z a
        ZREM z a
        ZPOPMIN z
        ZPOPMAX z
        ZADD z 1 a 2 b 3 c 4 d 5 e
        ZPOPMIN z 2
        BZPOPMIN z 0
        BZPOPMAX z 0
        ZMPOP 1 z MIN
        ZADD z 1 a 2 b 3 c 4 d 5 e
        BZMPOP 0 1 z MAX COUNT 2
        ZRANGESTORE zd z 0 -1
        ZRANGESTORE zd none 0 -1
        ZUNIONSTORE zd 1 z
        ZINTERSTORE zd 2 z none
        ZDIFFSTORE zd 1 z
        ZREMRANGEBYRANK z 0 0
        ZREMRANGEBYRANK z 10 20
        ZREMRANGEBYSCORE z 0 100
        ZREMRANGEBYLEX z - +
        "#,
    ),
    (
        "hashes",
        r#"
        HSET h a 1 b 2
        HSET h a 1
        HSETNX h a 2
        HSETNX h c 2
        HMSET h a 1
        HINCRBY h a 1
        HINCRBYFLOAT h a 1.5
        HDEL h nope
        HDEL h c
        HEXPIRE h 100 FIELDS 1 a
        HEXPIRE h 100 FIELDS 2 a nope
        HEXPIRE h 100 NX FIELDS 2 a b
        HPEXPIRE h 200000 GT FIELDS 2 a b
        HEXPIREAT h 1999999999 FIELDS 1 a
        HPEXPIREAT h 1999999999000 FIELDS 1 a
        HEXPIREAT h 1 FIELDS 1 a
        HPERSIST h FIELDS 2 a b
        HSET h a 1 b 2 c 3 d 4
        HSETEX h EX 100 FIELDS 2 a 1 b 2
        HSETEX h KEEPTTL FIELDS 1 a 1
        HSETEX h FNX FIELDS 1 a 1
        HSETEX h FNX PX 10000 FIELDS 2 n1 1 n2 2
        HSETEX h FXX PXAT 1999999999000 FIELDS 1 a 1
        HSETEX h EXAT 1 FIELDS 1 a 1
        HSETEX h PXAT 1 FIELDS 2 b 1 nx 2
        HGETEX h EX 100 FIELDS 2 c nope
        HGETEX h PERSIST FIELDS 2 c d
        HGETEX h FIELDS 1 c
        HGETEX h EXAT 1 FIELDS 2 c d
        HGETDEL h FIELDS 2 n1 n2
        HGETDEL h FIELDS 2 n1 n2
        HSET h x 1 y 2
        HEXPIREAT h 1 FIELDS 2 x y
        HSET h x 1 y 2 z 3
        HPEXPIRE h 1 FIELDS 2 x y
        ~
        HGETALL h
        HSET h2 x 1 y 2
        HPEXPIRE h2 1 FIELDS 2 x y
        ~
        HGETALL h2
        HSET h2 x 1 y 2
        HPEXPIRE h2 1 FIELDS 1 x
        ~
        HSET h2 x 5
        HPEXPIRE h2 1 FIELDS 1 x
        ~
        HGET h2 x
        HINCRBY h2 x 1
        HPEXPIRE h2 1 FIELDS 1 x
        ~
        HSETNX h2 x 1
        HPEXPIRE h2 1 FIELDS 1 x
        ~
        HDEL h2 x
        HSET h2 w 1
        HPEXPIRE h2 1 FIELDS 1 x
        ~
        HDEL h2 y
        HDEL h2 w
        EXISTS h2
        HLEN h2
        ~
        EXISTS h2
        "#,
    ),
    (
        "streams",
        r#"
        XADD x 1-1 f v
        XADD x * f v
        ~
        XADD x NOMKSTREAM MAXLEN ~ 1000 * f v
        ~
        XADD x MAXLEN 2 * f v
        ~
        XADD x MAXLEN = 2 * f v
        ~
        XADD x MINID ~ 1-1 LIMIT 10 * f v
        ~
        XADD none NOMKSTREAM * f v
        XADD x MAXLEN ~ 1 99999999999999-* f v
        ~
        XADD x 99999999999999-9 f v
        XTRIM x MAXLEN 2
        XTRIM x MAXLEN 2
        XTRIM x MAXLEN ~ 1
        XTRIM x MINID 5
        XDEL x 5-5
        XADD x 99999999999999-10 f v
        XDEL x 99999999999999-10
        XSETID x 99999999999999-20
        XSETID x 99999999999999-30 ENTRIESADDED 100 MAXDELETEDID 5-5
        DEL x
        XADD x 1-1 f v
        XADD x 2-1 f v
        XADD x 3-1 f v
        XADD x 4-1 f v
        XGROUP CREATE x g 0
        XGROUP CREATE y g $ MKSTREAM ENTRIESREAD 5
        XGROUP CREATECONSUMER x g c0
        XGROUP CREATECONSUMER x g c0
        XREADGROUP GROUP g c1 COUNT 1 STREAMS x >
        XREADGROUP GROUP g c1 COUNT 2 STREAMS x >
        XREADGROUP GROUP g c1 STREAMS x 0
        XREADGROUP GROUP g c2 STREAMS x 0
        XREADGROUP GROUP g c3 NOACK STREAMS x >
        XREADGROUP GROUP g c3 NOACK STREAMS x >
        XREADGROUP GROUP g c4 STREAMS x >
        XREADGROUP GROUP g c4 STREAMS x >
        XACK x g 1-1
        XACK x g 1-1
        XCLAIM x g c2 0 2-1
        XCLAIM x g c2 0 2-1 IDLE 1000 RETRYCOUNT 5 FORCE JUSTID
        XCLAIM x g c9 0 77-1
        XCLAIM x g c9 0 4-1 FORCE
        XCLAIM x g c9 0 4-1 LASTID 4-1
        XDEL x 2-1
        XCLAIM x g c9 0 2-1
        XCLAIM x g c9 999999 4-1 LASTID 9-1
        XAUTOCLAIM x g c5 0 0
        XAUTOCLAIM x g c5 0 0 JUSTID
        XDEL x 3-1
        XAUTOCLAIM x g c6 0 0 COUNT 10
        XGROUP SETID x g 2-1
        XGROUP SETID x g 2-1 ENTRIESREAD 3
        XGROUP DELCONSUMER x g c5
        XGROUP DELCONSUMER x g c5
        XGROUP DESTROY x g
        XGROUP DESTROY x g
        SET k v
        DUMP k
        "#,
    ),
    (
        "bits_and_geo",
        r#"
        SETBIT bm 7 1
        SETBIT bm 7 1
        BITFIELD bm SET u8 0 255
        BITFIELD bm GET u8 0
        BITFIELD bm INCRBY u8 0 0
        BITOP AND bd bm
        BITOP AND bd none
        BITOP AND bd none
        TOUCH bm
        OBJECT ENCODING bm
        DUMP bm
        PFADD hll a b c
        PFADD hll a
        PFCOUNT hll
        PFCOUNT hll
        PFADD h2
        PFADD h2
        PFMERGE hd hll h2
        PFCOUNT hd hll
        PFMERGE hd
        PFADD broken
        SETRANGE broken 16 x
        PFADD broken e0 e3 e1 e4
        PFADD broken e1 e0
        PFADD broken e0 e1
        GEOADD g 1 1 a 2 2 b
        GEOADD g 1 1 a
        GEOADD g XX CH 1 1.1 a
        GEORADIUS g 1 1 1000 km STORE gd
        GEORADIUS g 50 50 1 km STORE gd
        GEORADIUS g 50 50 1 km STORE gd
        GEORADIUSBYMEMBER g a 1000 km STOREDIST gd
        GEOSEARCHSTORE gd2 g FROMLONLAT 1 1 BYRADIUS 1000 km
        GEOSEARCHSTORE gd2 g FROMLONLAT 50 50 BYRADIUS 1 km
        SORT nolist STORE sd
        RPUSH sl 3 1 2
        SORT sl STORE sd
        HSET w1 f 9
        HSET w2 f 1
        HSET w3 f 5
        SORT sl BY w*->f STORE sd
        SORT sl
        SORT nolist STORE sd
        "#,
    ),
    (
        "fields",
        r#"
        HSET h a 1 b 2
        HEXPIRE h 100 FIELDS 1 a
        HINCRBYFLOAT h a 1.5
        HTTL h FIELDS 1 a
        HINCRBY h b 1
        HEXPIRE h 100 FIELDS 1 b
        HINCRBY h b 1
        HTTL h FIELDS 1 b
        HSETEX h NX EX 100 KEEPTTL FIELDS 1 b 1
        HSETEX newk NX EX 100 FIELDS 1 b 1
        HSETEX newk XX FXX EX 100 FIELDS 1 b 1
        HSETEX newk FXX KEEPTTL FIELDS 1 b 1
        HSETEX newk XX FIELDS 1 b 1
        HSETEX newk FIELDS 1 b 1
        hgetdel newk fields 1 b
        HSET newk a 1 b 2
        HGETDEL newk FIELDS 1 b
        HGETDEL newk FIELDS 2 a zz
        HSET newk a 1 b 2
        HSETEX newk EXAT 1 FIELDS 2 a 1 b 2
        HSET newk a 1 b 2
        HEXPIREAT newk 1 FIELDS 2 a b
        HSET newk a 1 b 2
        HGETEX newk EXAT 1 FIELDS 2 a b
        HSETEX gone EXAT 1 FIELDS 2 a 1 b 2
        HSET h3 a 1 b 2 c 3
        HPEXPIRE h3 1 FIELDS 1 a
        ~
        HEXPIRE h3 100 FIELDS 2 a b
        HPEXPIRE h3 1 FIELDS 1 b
        ~
        HPERSIST h3 FIELDS 2 a b
        HDEL h3 a c
        HGETDEL h3 FIELDS 2 a b
        HSET h3 d 1
        HPEXPIRE h3 1 FIELDS 1 d
        ~
        HSETEX h3 KEEPTTL FIELDS 1 d 4
        HTTL h3 FIELDS 1 d
        HSET h3 e 1 f 2
        HPEXPIRE h3 1 FIELDS 1 e
        ~
        HINCRBYFLOAT h3 e 2
        HGETALL h3
        "#,
    ),
    (
        "values",
        r#"
        SET d v
        DUMP d
        RESTORE e 0 \x00\x01v\x50\x00^\x22\x07#\x87j\xed:
        RESTORE e 0 \x00\x01v\x50\x00^\x22\x07#\x87j\xed: REPLACE
        RESTORE e 10000 \x00\x01v\x50\x00^\x22\x07#\x87j\xed: REPLACE
        RESTORE e 1999999999000 \x00\x01v\x50\x00^\x22\x07#\x87j\xed: REPLACE ABSTTL
        RESTORE e 1000 \x00\x01v\x50\x00^\x22\x07#\x87j\xed: REPLACE IDLETIME 5
        RESTORE e 1 \x00\x01v\x50\x00^\x22\x07#\x87j\xed: REPLACE ABSTTL
        RESTORE e 1 \x00\x01v\x50\x00^\x22\x07#\x87j\xed: ABSTTL
        restore e 1000 \x00\x01v\x50\x00^\x22\x07#\x87j\xed: replace
        LPOP nolist
        RPUSH l a b c
        LMPOP 1 l LEFT COUNT 100
        ZADD z 1 a 2 b
        ZMPOP 1 z MIN COUNT 100
        SET a v
        SET a v2 NX GET
        SET newa v NX GET
        SET newa v KEEPTTL GET
        set newa v get xx
        set newa v ex 100
        set newa v GET
        GETSET newa v
        SET newa v XX EX 1000 GET
        SET newa v IFEQ v GET
        SORT l STORE l2
        SADD ss 1 2 3
        EXPIRE newa 100 XX
        pexpireat newa 1999999999000 xx
        expireat newa 1999999999
        GETEX newa PX 10000
        CONFIG SET lazyfree-lazy-server-del no
        SADD ss 1 2 3
        SPOP ss 3
        CONFIG SET lazyfree-lazy-expire no
        EXPIRE newa 0
        SET x v PX 1
        ~
        "#,
    ),
    (
        "words of deletions",
        r#"
        SET a v
        SET b v
        SET c v
        DEL a
        UNLINK b
        CONFIG SET lazyfree-lazy-user-del no
        DEL c nothing
        SET c v
        UNLINK c
        CONFIG SET lazyfree-lazy-user-del yes
        SET c v
        RENAME c d
        FLUSHDB
        FLUSHDB SYNC
        FLUSHDB async
        FLUSHALL
        CONFIG SET lazyfree-lazy-user-flush no
        FLUSHALL
        FLUSHALL ASYNC
        flushall sync
        FLUSHALL NONSENSE
        "#,
    ),
    (
        "trims",
        r#"
        XADD st 1-1 a b
        XADD st 1-* a b
        XADD st 5 a b
        XADD st MAXLEN ~ 10 LIMIT 5 6-1 a b
        XADD st MAXLEN ~ 10 7-1 a b
        XADD st MINID ~ 5 8-1 a b
        XADD st MINID = 5 9-1 a b
        XTRIM st MINID 5
        XTRIM st MINID ~ 9
        "#,
    ),
    (
        "scripts and functions",
        r#"
        EVAL redis.call('set',KEYS[1],'v')\x20redis.call('incr',KEYS[2]) 2 a n
        EVAL redis.call('set',KEYS[1],'v') 1 a
        EVAL return\x20redis.call('get',KEYS[1]) 1 a
        EVAL redis.call('set',KEYS[1],'w')\x20redis.call('incr',KEYS[1]) 1 a
        FUNCTION LOAD #!lua\x20name=l1\x0aredis.register_function('f',function(k,a)\x20return\x20redis.call('set',k[1],a[1])\x20end)
        FUNCTION LOAD #!lua\x20name=l1\x0aredis.register_function('f',function()\x20end)
        FCALL f 1 a v
        FCALL_RO f 1 a v
        FUNCTION LOAD REPLACE #!lua\x20name=l1\x0aredis.register_function('f',function(k,a)\x20redis.call('incr',k[1])\x20redis.call('rpush',k[2],a[1])\x20end)
        FCALL f 2 n l x
        FCALL f 2 n n x
        FUNCTION DELETE l1
        FUNCTION DELETE l1
        FCALL f 1 a v
        FUNCTION LOAD #!lua\x20name=l2\x0aredis.register_function('g',function()\x20end)
        FUNCTION FLUSH
        FUNCTION FLUSH ASYNC
        "#,
    ),
];
