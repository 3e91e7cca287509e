//! Generates values of all types and encodings, and reads them back in a canonical form for
//! comparison between servers.

use weft_testkit::rng::Rng;
use weft_testkit::{Client, Value};

/// A command's words.
pub type Words = Vec<Vec<u8>>;

/// A short text, a number or noise.
pub fn text(rng: &mut Rng) -> Vec<u8> {
    match rng.below(12) {
        0..3 => rng.between(-10, 300).to_string().into_bytes(),
        3 => rng
            .pick(&[4095, -4097, 32768, 1 << 23, 1 << 31, i64::MAX, i64::MIN])
            .to_string()
            .into_bytes(),
        4 | 5 => rng.pick(&["", "007", "hello", "-0", "\u{e9}\r\n"]).as_bytes().to_vec(),
        6 | 7 => vec![*rng.pick(b"xyz"); *rng.pick(&[20, 21, 63, 64, 65, 200])],
        8 => b"many words that come again ".repeat(1 + rng.below(40)),
        9 => {
            let len = rng.below(200);
            rng.bytes(len)
        }
        10 => vec![b'l'; *rng.pick(&[4095, 4096, 8000, 9000])],
        _ => format!("m{}", rng.below(500)).into_bytes(),
    }
}

/// Commands that give `key` a value.
pub fn value(rng: &mut Rng, key: &[u8]) -> Vec<Words> {
    let count = *rng.pick(&[1, 2, 5, 20, 130, 600]);
    let many = |name: &str, words: Words| {
        let head = [name.as_bytes().to_vec(), key.to_vec()];
        words.chunks(100).map(|chunk| [&head[..], chunk].concat()).collect()
    };
    let small = |rng: &mut Rng| {
        if count > 100 { text(rng).into_iter().take(30).collect() } else { text(rng) }
    };
    match rng.below(8) {
        0 => vec![vec![b"SET".to_vec(), key.to_vec(), text(rng)]],
        1 => vec![vec![b"SET".to_vec(), key.to_vec(), rng.bytes(100_000)]],
        2 => many("RPUSH", (0..count).map(|_| text(rng)).collect()),
        3 => many(
            "SADD",
            (0..count).map(|n| (n as i64 * 77 - 50).to_string().into_bytes()).collect(),
        ),
        4 => many("SADD", (0..count).map(|_| small(rng)).collect()),
        5 => {
            let pairs = (0..count).flat_map(|_| {
                let score = rng.between(-40, 400) as f64 / 8.0;
                [score.to_string().into_bytes(), small(rng)]
            });
            many("ZADD", pairs.collect())
        }
        6 => many("HSET", (0..count).flat_map(|_| [small(rng), text(rng)]).collect()),
        _ => many("PFADD", (0..count).map(|_| text(rng)).collect()),
    }
}

/// The type and the whole content of a key, in an order that does not depend on the server.
pub fn content(client: &mut Client, key: &[u8]) -> (String, Vec<Vec<u8>>) {
    let kind = client.cmd(&[b"TYPE", key]).text();
    let all = |reply: Value| -> Vec<Vec<u8>> {
        reply.items().iter().map(|item| item.bytes().expect("a string").to_vec()).collect()
    };
    let found = match kind.as_str() {
        "none" => Vec::new(),
        "string" => vec![client.cmd(&[b"GET", key]).bytes().expect("a string").to_vec()],
        "list" => all(client.cmd(&[b"LRANGE", key, b"0", b"-1"])),
        "set" => {
            let mut members = all(client.cmd(&[b"SMEMBERS", key]));
            members.sort();
            members
        }
        // The scores are eighths, which every server prints alike.
        "zset" => all(client.cmd(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"])),
        "hash" => {
            let flat = all(client.cmd(&[b"HGETALL", key]));
            let mut pairs: Vec<Vec<u8>> =
                flat.chunks(2).map(|pair| pair.join(&b" = "[..])).collect();
            pairs.sort();
            pairs
        }
        other => panic!("{other}"),
    };
    (kind, found)
}

/// Fills a stream with several nodes, deleted entries and consumer groups, as far as the server
/// supports them.
pub fn fill_stream(client: &mut Client, rng: &mut Rng, key: &str) {
    client.cmd(&["DEL", key]);
    for n in 1..=*rng.pick(&[3, 50, 350]) {
        let id = format!("{}-{}", n * 3, rng.below(5));
        let value = text(rng);
        let mut words: Vec<&[u8]> = vec![b"XADD", key.as_bytes(), id.as_bytes(), b"field", &value];
        if rng.percent(20) {
            words.extend([&b"other"[..], b"1"]);
        }
        client.cmd(&words);
    }
    for n in 1..20 {
        if rng.percent(50) {
            for seq in 0..5 {
                client.cmd(&["XDEL", key, &format!("{}-{seq}", n * 6)]);
            }
        }
    }
    client.cmd(&["XGROUP", "CREATE", key, "g", "0"]);
    client.cmd(&["XGROUP", "CREATE", key, "h", "$"]);
    for name in ["ann", "bob"] {
        let count = (1 + rng.below(30)).to_string();
        client.cmd(&["XREADGROUP", "GROUP", "g", name, "COUNT", &count, "STREAMS", key, ">"]);
    }
    client.cmd(&["XGROUP", "CREATECONSUMER", key, "h", "idle"]);
}

/// The content of a stream and of its groups, without fields that only some versions report.
pub fn stream_content(client: &mut Client, key: &str) -> String {
    let mut all = client.cmd(&["XRANGE", key, "-", "+"]).to_string();
    for group in ["g", "h"] {
        let pending = client.cmd(&["XPENDING", key, group, "-", "+", "1000"]);
        let shown = pending.items().iter().map(|entry| {
            // Skip the idle time, which differs between servers.
            format!("{} {} {}", entry.items()[0], entry.items()[1], entry.items()[3])
        });
        all.push_str(&shown.collect::<Vec<_>>().join(", "));
    }
    all
}
