//! The next step of a client, if clients subscribe and publish.

use weft_testkit::rng::Rng;

/// Commands that are sent in one piece.
#[derive(Debug)]
pub struct Step {
    pub commands: Vec<Vec<Vec<u8>>>,
}

const CHANNELS: &[&[u8]] =
    &[b"a", b"b", b"ab", b"news.1", b"news.2", b"", b"h\r\nx", b"\xff\x00z", b"[x]", b"*"];
const PATTERNS: &[&[u8]] =
    &[b"*", b"a*", b"news.*", b"?", b"[ab]", b"[^a]*", b"", b"\\*", b"h*x", b"news.[1-", b"a"];

pub(super) fn words(text: &str) -> Vec<Vec<u8>> {
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

/// Subscribes or unsubscribes.
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

/// A command without Pub/Sub, which is refused in RESP2 while the client is subscribed.
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

fn change(rng: &mut Rng) -> Vec<Vec<Vec<u8>>> {
    match rng.below(13) {
        0..=3 => vec![words("HELLO 3")],
        4 | 5 => vec![words("HELLO 2")],
        6 | 7 => vec![words("RESET")],
        8 => vec![words("QUIT")],
        9 => vec![words("CLIENT KILL TYPE pubsub SKIPME yes")],
        // A client must not stay without replies: the test would not know its position. In RESP2 it
        // could not re-enable them once it is subscribed.
        10 | 11 => {
            let inner = [listen(rng), other(rng), publish(rng)];
            let inner = inner.into_iter().filter(|_| rng.percent(70)).collect::<Vec<_>>();
            let (off, on) = (words("CLIENT REPLY OFF"), words("CLIENT REPLY ON"));
            [vec![words("HELLO 3"), off], inner, vec![on]].concat()
        }
        _ => {
            let skipped = if rng.percent(50) { listen(rng) } else { publish(rng) };
            vec![words("CLIENT REPLY SKIP"), skipped]
        }
    }
}

/// A whole transaction, so that no client is in one between two steps: the PING that marks the
/// position would be queued.
fn transaction(rng: &mut Rng) -> Vec<Vec<Vec<u8>>> {
    let count = rng.below(6);
    let inner = (0..count).map(|_| match rng.below(8) {
        0..=3 => publish(rng),
        4 | 5 => {
            let mut args = listen(rng);
            // Within EXEC's reply the remaining names of an UNSUBSCRIBE without arguments are not
            // sorted.
            if args.len() == 1 {
                args.push(rng.pick(CHANNELS).to_vec());
            }
            args
        }
        6 => inspect(rng),
        _ => other(rng),
    });
    let inner: Vec<_> = inner.collect();
    let end =
        *rng.pick(&["EXEC", "EXEC", "EXEC", "EXEC", "EXEC", "EXEC", "DISCARD", "RESET", "QUIT"]);
    [vec![words("MULTI")], inner, vec![words(end)]].concat()
}

/// The next step of a client.
pub fn step(rng: &mut Rng) -> Step {
    let commands = match rng.below(100) {
        0..=34 => vec![publish(rng)],
        35..=62 => vec![listen(rng)],
        63..=68 => vec![other(rng)],
        69..=75 => vec![inspect(rng)],
        76..=83 => change(rng),
        // Several commands at once: replies and pushes of one write.
        84..=91 => {
            let count = 2 + rng.below(5);
            (0..count).map(|_| if rng.percent(60) { publish(rng) } else { other(rng) }).collect()
        }
        _ => transaction(rng),
    };
    Step { commands }
}
