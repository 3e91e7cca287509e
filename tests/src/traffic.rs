//! Writes as clients make them, by seed: values of all types over four databases, with transactions, expiry,
//! blocking pops, streams and their groups. What two servers must agree on in the end is compared by
//! [`crate::replication::same_data`] and [`same_groups`].

use crate::persistence::PATIENCE;
use std::time::{Duration, Instant};
use weft_testkit::Client;
use weft_testkit::rng::Rng;

/// Databases that are written to.
pub const DATABASES: usize = 4;
/// Keys of each type that are written to most of the time, and all of them.
const OFTEN: usize = 40;
const KEYS: usize = 4000;

/// One write, or one transaction of them. Errors are answers like others: what a server refuses it does not
/// replicate.
pub fn write(client: &mut Client, rng: &mut Rng) {
    let (often, key, other) = (format!("key:{}", rng.below(OFTEN)), some_key(rng), some_key(rng));
    let text = "x".repeat(rng.below(300));
    let n = rng.below(100).to_string();
    let soon = (1 + rng.below(60)).to_string();
    let of = |kind: char| format!("{kind}{key}");
    let (string, list, set, zset, hash, stream) =
        (of('s'), of('l'), of('u'), of('z'), of('h'), format!("x{often}"));
    let words: &[&str] = match rng.below(30) {
        0 => &["SET", &string, &text],
        1 => &["SET", &string, &text, "PX", &soon],
        2 => &["INCR", &of('n')],
        3 => &["RPUSH", &list, &text, "b"],
        4 => &["BLMPOP", "0.01", "1", &list, "LEFT", "COUNT", "3"],
        5 => &["SADD", &set, &n, &text],
        6 => &["SPOP", &set],
        7 => &["ZADD", &zset, &n, &text],
        8 => &["BZPOPMIN", &zset, "0.01"],
        9 => &["HSET", &hash, &n, &text],
        10 => &["HINCRBYFLOAT", &of('f'), "field", "0.1"],
        11 => &["XADD", &stream, "MAXLEN", "~", "50", "*", "f", &text],
        12 => &["EXPIRE", &hash, "1"],
        13 => &["DEL", &zset, &stream],
        14 => return client.ok(&["SELECT", &rng.below(DATABASES).to_string()]),
        15 => &["BLMOVE", &list, &format!("l{other}"), "LEFT", "RIGHT", "0.01"],
        16 => &["LTRIM", &list, "-20", "-1"],
        17 => &["SPOP", &set, &n],
        18 => &["ZREMRANGEBYRANK", &zset, "0", &soon],
        19 => &["GETEX", &string, "PX", &soon],
        20 => &["XGROUP", "CREATE", &stream, "group", "$", "MKSTREAM"],
        21 => return read_group(client, &stream, &format!("consumer:{}", rng.below(3))),
        22 => return acknowledge(client, &stream),
        23 => return claim(client, &stream),
        24 => &["RENAME", &string, &format!("s{other}")],
        25 => &["COPY", &hash, &format!("h{other}"), "REPLACE"],
        26 => &["MOVE", &string, &rng.below(DATABASES).to_string()],
        // Redis 8 asks for a copy when its link is cut while it does this in the foreground, be its primary
        // Redis as well.
        27 if rng.below(1000) == 0 => &["FLUSHDB", "ASYNC"],
        27 => &["SETRANGE", &string, &n, "range"],
        28 => return transaction_over_databases(client, rng, &key),
        _ => return transaction(client, &key),
    };
    client.cmd(words);
}

fn some_key(rng: &mut Rng) -> String {
    let most = if rng.percent(70) { OFTEN } else { KEYS };
    format!("key:{}", rng.below(most))
}

/// Three keys, which are never apart.
fn transaction(client: &mut Client, key: &str) {
    client.ok(&["MULTI"]);
    for part in 0..3 {
        client.cmd(&["INCR", &format!("n{key}:{part}")]);
    }
    client.cmd(&["EXEC"]);
}

/// The same key in two databases, and what expires.
fn transaction_over_databases(client: &mut Client, rng: &mut Rng, key: &str) {
    client.ok(&["MULTI"]);
    for _ in 0..2 {
        client.cmd(&["SELECT", &rng.below(DATABASES).to_string()]);
        client.cmd(&["INCR", &format!("m{key}")]);
        client.cmd(&["SET", &format!("s{key}"), "short", "PX", "20"]);
    }
    client.cmd(&["EXEC"]);
}

/// Takes something from what a group waits for.
fn acknowledge(client: &mut Client, stream: &str) {
    let pending = client.cmd(&["XPENDING", stream, "group", "-", "+", "2"]);
    if pending.error().is_none() {
        for entry in pending.items() {
            client.cmd(&["XACK", stream, "group", &entry.items()[0].text()]);
        }
    }
}

fn read_group(client: &mut Client, stream: &str, consumer: &str) {
    let words = ["XREADGROUP", "GROUP", "group", consumer, "COUNT", "4", "BLOCK", "5"];
    client.cmd(&[&words[..], &["STREAMS", stream, ">"]].concat());
}

/// Takes over what another consumer was given.
fn claim(client: &mut Client, stream: &str) {
    client.cmd(&["XAUTOCLAIM", stream, "group", "thief", "0", "0", "COUNT", "2"]);
}

/// So many writes a second, evenly.
pub struct Pace {
    every: Duration,
    next: Instant,
}

impl Pace {
    /// `rate` is a second's; 0 for as many as there can be.
    #[must_use]
    pub fn new(rate: usize) -> Pace {
        let every = if rate == 0 { 0 } else { 1_000_000_000 / rate as u64 };
        Pace { every: Duration::from_nanos(every), next: Instant::now() }
    }

    /// Sleeps until the next one is due. What was missed is made up for, but no more than of a second.
    pub fn wait(&mut self) {
        let now = Instant::now();
        self.next += self.every;
        std::thread::sleep(self.next.saturating_duration_since(now));
        self.next = self.next.max(now.checked_sub(Duration::from_secs(1)).unwrap_or(now));
    }
}

/// What groups of streams know, which no digest has, but for these fields.
fn groups(client: &mut Client, but: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    for db in 0..DATABASES {
        client.ok(&["SELECT", &db.to_string()]);
        for n in 0..OFTEN {
            let stream = format!("xkey:{n}");
            let groups = client.cmd(&["XINFO", "GROUPS", &stream]);
            if groups.error().is_none() && !groups.items().is_empty() {
                let pending = client.cmd(&["XPENDING", &stream, "group"]);
                let fields = groups.items()[0].items().chunks_exact(2);
                let told = fields.filter(|field| !but.contains(&&field[0].text()[..]));
                let told: Vec<_> =
                    told.map(|field| format!("{}: {}", field[0], field[1])).collect();
                all.push(format!("{db} {stream}: {} {pending}", told.join(", ")));
            }
        }
    }
    all
}

/// What a primary of this name does not always tell its replicas of groups: of a consumer that a command makes
/// and then finds nothing for, and, before Redis 8, how many entries were read.
#[must_use]
pub fn untold(primary: &str) -> &'static [&'static str] {
    match primary {
        "weft" => &[],
        "redis7-server" => &["consumers", "entries-read", "lag"],
        _ => &["consumers"],
    }
}

/// Waits until the groups of streams are the same at both, but for these fields: how many there were.
///
/// # Panics
/// When they never are.
#[track_caller]
pub fn same_groups(primary: &mut Client, replica: &mut Client, but: &[&str]) -> usize {
    let begun = Instant::now();
    loop {
        let (ours, theirs) = (groups(primary, but), groups(replica, but));
        if ours == theirs {
            return ours.len();
        }
        if begun.elapsed() > PATIENCE {
            let other = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
            panic!("{} groups and {}, the first that differ: {other:#?}", ours.len(), theirs.len());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
