//! What a client does next.

use crate::rng::Rng;

/// Commands that are sent in one piece.
#[derive(Debug)]
pub struct Step {
    pub commands: Vec<Vec<Vec<u8>>>,
}

const CHANNELS: &[&[u8]] =
    &[b"a", b"b", b"ab", b"news.1", b"news.2", b"", b"h\r\nx", b"\xff\x00z", b"[x]", b"*"];
const PATTERNS: &[&[u8]] =
    &[b"*", b"a*", b"news.*", b"?", b"[ab]", b"[^a]*", b"", b"\\*", b"h*x", b"news.[1-", b"a"];

fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn named(rng: &mut Rng, command: &str, pool: &[&[u8]], least: usize) -> Vec<Vec<u8>> {
    let count = least + rng.below(3);
    let names = (0..count).map(|_| rng.pick(pool).to_vec());
    std::iter::once(command.as_bytes().to_vec()).chain(names).collect()
}

fn message(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(20) {
        0 => 0,
        1 => 600,
        2 => 20_000,
        3 => 511,
        _ => 1 + rng.below(12),
    };
    if len > 100 { vec![b'm'; len] } else { rng.bytes(len) }
}

fn publish(rng: &mut Rng) -> Vec<Vec<u8>> {
    let command = *rng.pick(&["PUBLISH", "PUBLISH", "PUBLISH", "SPUBLISH"]);
    vec![command.as_bytes().to_vec(), rng.pick(CHANNELS).to_vec(), message(rng)]
}

/// Subscribes or unsubscribes, one way or another.
fn listen(rng: &mut Rng) -> Vec<Vec<u8>> {
    match rng.below(10) {
        0..=2 => named(rng, "SUBSCRIBE", CHANNELS, 1),
        3 | 4 => named(rng, "PSUBSCRIBE", PATTERNS, 1),
        5 => named(rng, "SSUBSCRIBE", CHANNELS, 1),
        6 | 7 => named(rng, "UNSUBSCRIBE", CHANNELS, 0),
        8 => named(rng, "PUNSUBSCRIBE", PATTERNS, 0),
        _ => named(rng, "SUNSUBSCRIBE", CHANNELS, 0),
    }
}

/// Something that has nothing to do with it, and is refused while the client listens in RESP2.
fn other(rng: &mut Rng) -> Vec<Vec<u8>> {
    const OTHERS: &[&str] = &[
        "GET k",
        "INCR k",
        "SET k v",
        "DEL k",
        "PING",
        "PING x",
        "PING x y",
        "ECHO x",
        "NOSUCH x",
        "LPUSH k x",
        "SUBSCRIBE",
        "PUBLISH",
        "PUBLISH a",
        "PUBLISH a b c",
        "SPUBLISH a",
        "PSUBSCRIBE",
        "SSUBSCRIBE",
        "CLIENT NOSUCH",
        "PUBSUB NOSUCH",
        "PUBSUB",
        "SELECT 0",
        "TYPE k",
    ];
    words(OTHERS[rng.below(OTHERS.len())])
}

fn inspect(rng: &mut Rng) -> Vec<Vec<u8>> {
    const INSPECTS: &[&str] = &[
        "PUBSUB NUMSUB",
        "PUBSUB NUMSUB a b ab",
        "PUBSUB NUMSUB news.1 zz a a",
        "PUBSUB NUMPAT",
        "PUBSUB NUMPAT x",
        "PUBSUB SHARDNUMSUB a b",
        "PUBSUB SHARDNUMSUB",
        "PUBSUB CHANNELS zz*",
        "PUBSUB CHANNELS a b",
        "PUBSUB CHANNELS b",
        "PUBSUB CHANNELS new*1",
        "PUBSUB SHARDCHANNELS b",
        "PUBSUB SHARDCHANNELS a b",
        "CLIENT INFO",
        "CLIENT LIST",
        "CLIENT LIST TYPE pubsub",
        "CLIENT LIST TYPE normal",
        "CLIENT LIST FLAGS P",
        "CLIENT LIST NOT-TYPE pubsub",
        "INFO stats",
        "INFO clients",
    ];
    words(INSPECTS[rng.below(INSPECTS.len())])
}

fn change(rng: &mut Rng, queues: bool) -> Vec<Vec<Vec<u8>>> {
    match rng.below(14) {
        0..=3 => vec![words("HELLO 3")],
        4 | 5 => vec![words("HELLO 2")],
        6 | 7 => vec![words("RESET")],
        8 if !queues => vec![words("QUIT")],
        9 if !queues => vec![words("CLIENT KILL TYPE pubsub SKIPME yes")],
        // A client may not be left without replies, nor queue that: nobody could tell where it is.
        10 | 11 if !queues => {
            let inner = [listen(rng), other(rng), publish(rng)];
            let inner = inner.into_iter().filter(|_| rng.percent(70)).collect::<Vec<_>>();
            let (off, on) = (words("CLIENT REPLY OFF"), words("CLIENT REPLY ON"));
            [vec![off], inner, vec![on]].concat()
        }
        12 | 13 if !queues => {
            vec![
                words("CLIENT REPLY SKIP"),
                if rng.percent(50) { listen(rng) } else { publish(rng) },
            ]
        }
        _ => vec![words("MULTI")],
    }
}

/// What a client does that is between MULTI and EXEC if it `queues`.
pub fn step(rng: &mut Rng, queues: bool) -> Step {
    let commands = match rng.below(100) {
        0..=34 => vec![publish(rng)],
        35..=62 => vec![listen(rng)],
        63..=68 => vec![other(rng)],
        69..=75 => vec![inspect(rng)],
        76..=83 => change(rng, queues),
        // Several at once: replies and pushes of one write.
        84..=90 => {
            let count = 2 + rng.below(5);
            (0..count).map(|_| if rng.percent(60) { publish(rng) } else { other(rng) }).collect()
        }
        91..=96 if queues => vec![words("EXEC")],
        97 if queues => vec![words("DISCARD")],
        _ => {
            let count = rng.below(5);
            let inner = (0..count).map(|_| match rng.below(4) {
                0 | 1 => publish(rng),
                2 => listen(rng),
                _ => other(rng),
            });
            let inner: Vec<_> = inner.collect();
            [vec![words("MULTI")], inner, vec![words("EXEC")]].concat()
        }
    };
    Step { commands }
}
