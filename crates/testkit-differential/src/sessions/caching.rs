//! The next step of a client, if clients cache values.
//!
//! A step changes keys by one command or one transaction at most. The reference notifies BCAST clients
//! once for all requests of one read, which can't be compared.
//!
//! `@3` as an argument stands for the id of client 3, which each server assigns itself.

use super::draw::{Step, words};
use weft_testkit::rng::Rng;

const KEYS: &[&[u8]] =
    &[b"a", b"a1", b"a2", b"b1", b"b2", b"ab", b"k", b"", b"h\r\nx", b"\xff\x00"];

const PREFIXES: &[&[u8]] = &[b"a", b"b", b"a1", b"k", b"\xff", b"h\r", b""];

const READS: &[&str] = &[
    "GET K",
    "GET K",
    "GET K",
    "MGET K K K",
    "EXISTS K K",
    "STRLEN K",
    "TTL K",
    "TYPE K",
    "GETRANGE K 0 3",
    "LRANGE K 0 -1",
    "LLEN K",
    "SMEMBERS K",
    "SCARD K",
    "SINTER K K",
    "SUNION K K",
    "HGETALL K",
    "HGET K f",
    "ZRANGE K 0 -1",
    "ZSCORE K m",
    "ZINTERCARD 2 K K",
    "XRANGE K - +",
    "XREAD STREAMS K K 0 0",
    "XLEN K",
    "GETBIT K 1",
    "BITCOUNT K",
    "BITFIELD_RO K GET u8 0",
    "PFCOUNT K K",
    // Not the encoding: SORT changes that of a sorted set in the reference.
    "OBJECT FREQ K",
    "SORT_RO K BY a* GET b*",
    "LCS K K",
    "TOUCH K K",
    "ZUNION 2 K K",
    "SINTERCARD 2 K K LIMIT 1",
    "GEOPOS K m",
    "LPOS K x",
    "SRANDMEMBER K 0",
    "EXPIRETIME K",
    // They read, but are not read-only commands.
    "GETEX K",
    "SORT K",
    "BITFIELD K GET u8 0",
    "WATCH K",
    "SCAN 0 COUNT 0",
    "GET",
    "MGET",
    "SINTERCARD 9 K",
];

const WRITES: &[&str] = &[
    "SET K v",
    "SET K v",
    "SET K v",
    "SET K v",
    "SET K 7 EX 1000",
    "SET K v XX",
    "SET K v NX",
    "MSET K 1 K 2 K 3",
    "MSETNX K 1 K 2",
    "DEL K",
    "DEL K K K",
    "UNLINK K K",
    "APPEND K x",
    "INCR K",
    "GETDEL K",
    "GETEX K EX 900",
    "GETEX K PERSIST",
    "SETRANGE K 0 yy",
    "EXPIRE K 1000",
    "EXPIRE K -1",
    "PERSIST K",
    "RENAME K K",
    "RENAMENX K K",
    "COPY K K REPLACE",
    "COPY K K",
    "MOVE K 1",
    "LPUSH K x",
    "RPUSH K x y",
    "LPOP K",
    "RPOP K",
    "LSET K 0 z",
    "LREM K 0 x",
    "LTRIM K 0 1",
    "LMOVE K K LEFT RIGHT",
    "SADD K 1 2",
    "SREM K 1",
    "SMOVE K K 1",
    "SPOP K 9",
    "SUNIONSTORE K K K",
    "SINTERSTORE K K K",
    "HSET K f v",
    "HSET K f w",
    "HDEL K f",
    "HINCRBY K n 1",
    "HEXPIRE K 1000 FIELDS 1 f",
    "HSETNX K f v",
    "ZADD K 1 m",
    "ZADD K 2 m",
    "ZREM K m",
    "ZINCRBY K 1 m",
    "ZPOPMIN K",
    "ZUNIONSTORE K 2 K K",
    "ZRANGESTORE K K 0 -1",
    "XADD K 1-* f v",
    "XDEL K 1-1",
    "XTRIM K MAXLEN 1",
    "XGROUP CREATE K g 0 MKSTREAM",
    "SETBIT K 1 1",
    "SETBIT K 2 1",
    "BITOP OR K K K",
    "BITFIELD K SET u8 0 65",
    "PFADD K a",
    "PFADD K b",
    "PFMERGE K K",
    "GEOADD K 1 1 m",
    "SORT K ALPHA STORE K",
    "BLPOP K K 0.001",
    "BLMOVE K K LEFT LEFT 0.001",
    "FLUSHDB",
    "FLUSHALL",
    "SWAPDB 0 1",
];

fn key(rng: &mut Rng) -> Vec<u8> {
    rng.pick(KEYS).to_vec()
}

fn filled(rng: &mut Rng, lines: &[&str]) -> Vec<Vec<u8>> {
    let line = lines[rng.below(lines.len())];
    line.split(' ')
        .map(|word| if word == "K" { key(rng) } else { word.as_bytes().to_vec() })
        .collect()
}

fn read(rng: &mut Rng) -> Vec<Vec<u8>> {
    filled(rng, READS)
}

fn write(rng: &mut Rng) -> Vec<Vec<u8>> {
    filled(rng, WRITES)
}

/// CLIENT TRACKING; mostly ON.
fn track(rng: &mut Rng, clients: usize) -> Vec<Vec<u8>> {
    if rng.percent(15) {
        return words("CLIENT TRACKING OFF");
    }
    let mut args = words("CLIENT TRACKING ON");
    let mut option = |chance: usize, words: &[&[u8]], rng: &mut Rng| {
        if rng.percent(chance) {
            args.extend(words.iter().map(|word| word.to_vec()));
        }
    };
    let follows = rng.percent(30);
    option(if follows { 100 } else { 3 }, &[b"BCAST"], rng);
    let prefixes = if follows { rng.below(4) } else { usize::from(rng.percent(3)) };
    for _ in 0..prefixes {
        let prefix = *rng.pick(PREFIXES);
        option(100, &[b"PREFIX", prefix], rng);
    }
    option(if follows { 3 } else { 15 }, &[b"OPTIN"], rng);
    option(if follows { 3 } else { 15 }, &[b"OPTOUT"], rng);
    option(25, &[b"NOLOOP"], rng);
    let to = format!("@{}", rng.below(clients));
    option(30, &[b"REDIRECT", to.as_bytes()], rng);
    option(2, &[b"REDIRECT", b"999999999"], rng);
    option(2, &[b"NOSUCH"], rng);
    args
}

fn listen(rng: &mut Rng) -> Vec<Vec<u8>> {
    const LINES: &[&str] = &[
        "SUBSCRIBE __redis__:invalidate",
        "SUBSCRIBE __redis__:invalidate",
        "SUBSCRIBE other",
        "UNSUBSCRIBE other",
        "UNSUBSCRIBE __redis__:invalidate",
        "PSUBSCRIBE nothing*",
        "PUNSUBSCRIBE nothing*",
    ];
    filled(rng, LINES)
}

fn inspect(rng: &mut Rng) -> Vec<Vec<u8>> {
    const LINES: &[&str] = &[
        "CLIENT TRACKINGINFO",
        "CLIENT TRACKINGINFO",
        "CLIENT TRACKINGINFO",
        "CLIENT LIST",
        "CLIENT INFO",
        "INFO stats",
        "INFO clients",
    ];
    filled(rng, LINES)
}

fn caching(rng: &mut Rng) -> Vec<Vec<u8>> {
    filled(
        rng,
        &["CLIENT CACHING YES", "CLIENT CACHING NO", "CLIENT CACHING YES", "CLIENT CACHING x"],
    )
}

/// CLIENT CACHING and the commands that it affects.
fn chosen(rng: &mut Rng) -> Vec<Vec<Vec<u8>>> {
    let mut commands = vec![caching(rng)];
    if rng.percent(30) {
        commands.push(inspect(rng));
    }
    if rng.percent(20) {
        commands.push(words("MULTI"));
        commands.extend((0..rng.below(3)).map(|_| read(rng)));
        let end = rng.pick(&["EXEC", "EXEC", "DISCARD"]);
        commands.push(words(end));
    }
    commands.extend((0..1 + rng.below(2)).map(|_| read(rng)));
    commands
}

fn change(rng: &mut Rng, clients: usize) -> Vec<Vec<Vec<u8>>> {
    match rng.below(12) {
        0..=4 => vec![words("HELLO 3")],
        5 => vec![words("HELLO 2")],
        6 => vec![words("RESET")],
        7 => vec![words("QUIT")],
        8 => vec![words(&format!("CLIENT KILL ID @{}", rng.below(clients)))],
        9 => vec![words("SELECT 1")],
        10 => vec![words("SELECT 0")],
        _ => vec![words("CLIENT REPLY SKIP"), if rng.percent(50) { read(rng) } else { write(rng) }],
    }
}

/// Tracking isn't changed inside a transaction: for earlier commands, the reference sends some
/// notifications by the old mode and some by the new one.
fn transaction(rng: &mut Rng) -> Vec<Vec<Vec<u8>>> {
    let inner = (0..rng.below(6)).map(|_| match rng.below(11) {
        0..=4 => read(rng),
        5..=9 => write(rng),
        _ => caching(rng),
    });
    let inner: Vec<_> = inner.collect();
    let end = rng.pick(&["EXEC", "EXEC", "EXEC", "DISCARD"]);
    [vec![words("MULTI")], inner, vec![words(end)]].concat()
}

/// The next step of one of the clients.
pub fn step(rng: &mut Rng, clients: usize) -> Step {
    let commands = match rng.below(100) {
        0..=29 => vec![read(rng)],
        30..=59 => vec![write(rng)],
        60..=69 => {
            // Most clients are notified only in RESP3.
            let first = rng.percent(60).then(|| words("HELLO 3"));
            first.into_iter().chain([track(rng, clients)]).collect()
        }
        70..=75 => chosen(rng),
        76..=79 => vec![listen(rng)],
        80..=84 => vec![inspect(rng)],
        85..=89 => change(rng, clients),
        90..=93 => {
            let reads: Vec<_> = (0..1 + rng.below(4)).map(|_| read(rng)).collect();
            [reads, vec![write(rng)]].concat()
        }
        _ => transaction(rng),
    };
    Step { commands }
}
