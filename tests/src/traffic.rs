//! Random writes as clients send them, reproducible by seed: values of all types in four databases,
//! with transactions, expiry, blocking pops, streams and consumer groups.
//! [`crate::replication::wait_for_same_data`] and [`wait_for_same_groups`] compare two servers afterwards.

use crate::persistence::PATIENCE;
use std::time::{Duration, Instant};
use weft_testkit::Client;
use weft_testkit::rng::Rng;

/// Number of databases that receive writes.
pub const DATABASES: usize = 4;
/// Keys of each type that receive most writes, and the number of all keys.
const OFTEN: usize = 40;
const KEYS: usize = 4000;

/// Sends one write or one transaction. Error replies are ignored: a server does not replicate a
/// refused command.
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
        // If its link is cut while it runs a FLUSHDB in the foreground, Redis 8 requests a full
        // sync, also from a Redis primary.
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

/// Increments three keys that must always change together.
fn transaction(client: &mut Client, key: &str) {
    client.ok(&["MULTI"]);
    for part in 0..3 {
        client.cmd(&["INCR", &format!("n{key}:{part}")]);
    }
    client.cmd(&["EXEC"]);
}

/// Writes the same key in two databases, and keys that expire.
fn transaction_over_databases(client: &mut Client, rng: &mut Rng, key: &str) {
    client.ok(&["MULTI"]);
    for _ in 0..2 {
        client.cmd(&["SELECT", &rng.below(DATABASES).to_string()]);
        client.cmd(&["INCR", &format!("m{key}")]);
        client.cmd(&["SET", &format!("s{key}"), "short", "PX", "20"]);
    }
    client.cmd(&["EXEC"]);
}

/// Acknowledges pending entries of a group.
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

/// Claims pending entries of another consumer.
fn claim(client: &mut Client, stream: &str) {
    client.cmd(&["XAUTOCLAIM", stream, "group", "thief", "0", "0", "COUNT", "2"]);
}

/// Paces writes evenly.
pub struct Pace {
    every: Duration,
    next: Instant,
}

impl Pace {
    /// `rate` is in writes per second; 0 means unlimited.
    #[must_use]
    pub fn new(rate: usize) -> Pace {
        let every = if rate == 0 { 0 } else { 1_000_000_000 / rate as u64 };
        Pace { every: Duration::from_nanos(every), next: Instant::now() }
    }

    /// Sleeps until the next write is due. A backlog is caught up, but at most one second of it.
    pub fn wait(&mut self) {
        let now = Instant::now();
        self.next += self.every;
        std::thread::sleep(self.next.saturating_duration_since(now));
        self.next = self.next.max(now.checked_sub(Duration::from_secs(1)).unwrap_or(now));
    }
}

/// The state of the streams' consumer groups, which no digest covers. Omits the fields in `but`.
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
                let shown = fields.filter(|field| !but.contains(&&field[0].text()[..]));
                let shown: Vec<_> =
                    shown.map(|field| format!("{}: {}", field[0], field[1])).collect();
                all.push(format!("{db} {stream}: {} {pending}", shown.join(", ")));
            }
        }
    }
    all
}

/// Fields of consumer groups that a primary of this name does not always replicate: consumers
/// created by a command that then reads nothing and, before Redis 8, the number of read entries.
#[must_use]
pub fn unreplicated_fields(primary: &str) -> &'static [&'static str] {
    match primary {
        "weft" => &[],
        "redis7-server" => &["consumers", "entries-read", "lag"],
        _ => &["consumers"],
    }
}

/// Waits until the consumer groups are equal on both servers, except for the fields in `but`.
/// Returns the number of groups.
///
/// # Panics
/// If they stay different.
#[track_caller]
pub fn wait_for_same_groups(primary: &mut Client, replica: &mut Client, but: &[&str]) -> usize {
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
