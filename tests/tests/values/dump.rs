//! DUMP, RESTORE and MIGRATE between this server and others, in both directions, with values of
//! every type and encoding.
//!
//! Peers of other versions are located as `redis6-server`, `redis7-server`, `redis8-server` and
//! `valkey8-server`; a skip is noted for each missing one.

use std::io::Read;
use std::net::TcpListener;
use std::time::Duration;

use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server, Value, locate, skipped};
use weft_tests::contents::{content, fill_stream, stream_content, value};

/// Program and name of each peer.
const PEERS: [(&str, &str); 5] = [
    ("valkey-server", "valkey"),
    ("redis8-server", "redis8"),
    ("redis7-server", "redis7"),
    ("redis6-server", "redis6"),
    ("valkey8-server", "valkey8"),
];

/// Values of each run.
const VALUES: usize = 250;

fn peers() -> Vec<Server> {
    let mut found = Vec::new();
    for (program, name) in PEERS {
        match locate::peer(program) {
            Some(path) => found.push(Server::start(name, &path, &[])),
            None => skipped::note_here(&format!("no {program} in PEERS_BIN or PATH")),
        }
    }
    found
}

fn dump(client: &mut Client, key: &[u8]) -> Vec<u8> {
    client.cmd(&[b"DUMP", key]).bytes().expect("a payload").to_vec()
}

fn restore(client: &mut Client, key: &[u8], payload: &[u8]) -> Value {
    client.cmd(&[b"RESTORE", key, b"0", payload, b"REPLACE"])
}

fn encoding(client: &mut Client, key: &[u8]) -> String {
    client.cmd(&[&b"OBJECT"[..], b"ENCODING", key]).text()
}

#[test]
fn values_of_peers_are_restored_here_and_ours_there() {
    let weft = Server::weft(&[]);
    let mut ours = weft.client();
    for (seed, peer) in peers().iter().enumerate() {
        let (name, mut theirs) = (peer.name(), peer.client());
        let mut rng = Rng::new(1 + seed as u64);
        for n in 0..VALUES {
            let key = format!("{name}:{n}").into_bytes();
            for command in value(&mut rng, &key) {
                let reply = theirs.cmd(&command);
                assert!(reply.error().is_none(), "{name}: {reply}");
            }
            let there = content(&mut theirs, &key);
            let payload = dump(&mut theirs, &key);
            let reply = restore(&mut ours, &key, &payload);
            assert!(reply.is_ok(), "of {name}, {}: {reply}", encoding(&mut theirs, &key));
            assert_eq!(
                content(&mut ours, &key),
                there,
                "of {name}: {}",
                encoding(&mut theirs, &key)
            );
            if name == "valkey" {
                // Loading may also change the encoding in the peer.
                assert!(restore(&mut theirs, &key, &payload).is_ok());
                let both = (encoding(&mut ours, &key), encoding(&mut theirs, &key));
                assert_eq!(both.0, both.1, "{} of {n}", there.0);
            }
            let reply = restore(&mut theirs, b"back", &dump(&mut ours, &key));
            assert!(reply.is_ok(), "to {name}, {}: {reply}", encoding(&mut ours, &key));
            assert_eq!(
                content(&mut theirs, b"back"),
                there,
                "to {name}: {}",
                encoding(&mut ours, &key)
            );
        }
    }
}

#[test]
fn own_values_are_restored_unchanged() {
    let weft = Server::weft(&[]);
    let (mut client, mut rng) = (weft.client(), Rng::new(9));
    for n in 0..VALUES {
        let key = format!("k{n}").into_bytes();
        for command in value(&mut rng, &key) {
            client.cmd(&command);
        }
        let payload = dump(&mut client, &key);
        let expected = content(&mut client, &key);
        assert_eq!(
            client.cmd(&[b"RESTORE", &key[..], b"0", &payload]).error().as_deref(),
            Some("BUSYKEY Target key name already exists.")
        );
        assert!(restore(&mut client, b"again", &payload).is_ok());
        assert_eq!(content(&mut client, b"again"), expected);
    }
}

#[test]
fn field_expiry_is_dumped_and_restored() {
    let weft = Server::weft(&[]);
    let mut ours = weft.client();
    let far = b"4102444800000";
    for (program, name) in [("valkey-server", "valkey"), ("redis8-server", "redis8")] {
        let Some(path) = locate::peer(program) else {
            skipped::note_here(&format!("no {program} in PEERS_BIN or PATH"));
            continue;
        };
        let peer = Server::start(name, &path, &[]);
        let mut theirs = peer.client();
        for value in [vec![b'v'; 3], vec![b'v'; 300]] {
            theirs.cmd(&["DEL", "h"]);
            for field in [b"a", b"b", b"c"] {
                theirs.cmd(&[&b"HSET"[..], b"h", &field[..], &value]);
            }
            theirs.cmd(&[&b"HPEXPIREAT"[..], b"h", far, b"FIELDS", b"1", b"b"]);
            let shown = |client: &mut Client| {
                client.cmd(&["HPEXPIRETIME", "h", "FIELDS", "4", "a", "b", "c", "d"]).to_string()
            };
            let expected = shown(&mut theirs);
            let reply = restore(&mut ours, b"h", &dump(&mut theirs, b"h"));
            assert!(reply.is_ok(), "{name}: {reply}");
            assert_eq!(shown(&mut ours), expected, "{name}");
            assert_eq!(content(&mut ours, b"h"), content(&mut theirs, b"h"));
            // Only Valkey has a format that both know.
            if name == "valkey" {
                assert!(restore(&mut theirs, b"h", &dump(&mut ours, b"h")).is_ok());
                assert_eq!(shown(&mut theirs), expected);
            }
        }
    }
}

#[test]
fn streams_are_dumped_and_restored() {
    let weft = Server::weft(&[]);
    let mut ours = weft.client();
    let mut rng = Rng::new(5);
    for peer in peers() {
        let (name, mut theirs) = (peer.name(), peer.client());
        for n in 0..20 {
            fill_stream(&mut theirs, &mut rng, "x");
            let expected = stream_content(&mut theirs, "x");
            let reply = restore(&mut ours, b"x", &dump(&mut theirs, b"x"));
            assert!(reply.is_ok(), "of {name}, {n}: {reply}");
            assert_eq!(stream_content(&mut ours, "x"), expected, "of {name}");
            // Stream fields unknown before Redis 7.2 can't be dropped without loss.
            if !matches!(name, "redis6" | "redis7") {
                let reply = restore(&mut theirs, b"x", &dump(&mut ours, b"x"));
                assert!(reply.is_ok(), "to {name}, {n}: {reply}");
                assert_eq!(stream_content(&mut theirs, "x"), expected, "to {name}");
            }
            if name == "valkey" {
                for question in [&["XINFO", "GROUPS", "x"][..], &["XINFO", "STREAM", "x"]] {
                    let both = [&mut ours, &mut theirs].map(|client| {
                        let shown = client.cmd(question).to_string();
                        // The reference's radix tree keeps nodes whose entries are all deleted.
                        shown.split("\"radix-tree-keys\"").next().unwrap_or_default().to_owned()
                    });
                    assert_eq!(both[0], both[1], "{question:?}");
                }
            }
        }
    }
}

#[test]
fn restore_sets_the_time_to_live() {
    let weft = Server::weft(&[]);
    let mut client = weft.client();
    client.ok(&["SET", "k", "v"]);
    let payload = dump(&mut client, b"k");
    client.ok(&[&b"RESTORE"[..], b"a", b"100000000", &payload]);
    let left = client.cmd(&["PTTL", "a"]).int();
    assert!((90_000_000..=100_000_000).contains(&left), "{left}");
    client.ok(&[&b"RESTORE"[..], b"b", b"4102444800000", &payload, b"ABSTTL"]);
    assert_eq!(client.cmd(&["PEXPIRETIME", "b"]).int(), 4_102_444_800_000);
    client.ok(&[&b"RESTORE"[..], b"b", b"1000", &payload, b"ABSTTL", b"REPLACE"]);
    assert_eq!(client.cmd(&["EXISTS", "b"]).int(), 0, "the time is in the past");
    client.ok(&[&b"RESTORE"[..], b"c", b"0", &payload, b"IDLETIME", b"500"]);
    assert!((500..600).contains(&client.cmd(&["OBJECT", "IDLETIME", "c"]).int()));
    client.ok(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"]);
    client.ok(&[&b"RESTORE"[..], b"d", b"0", &payload, b"FREQ", b"77"]);
    assert_eq!(client.cmd(&["OBJECT", "FREQ", "d"]).int(), 77);
}

/// A large RESTORE runs in the slow lane, with the same result.
#[test]
fn large_values_are_restored_in_the_slow_lane() {
    let weft = Server::weft(&[]);
    let mut client = weft.client();
    let members: Vec<String> = (0..50_000).map(|n| format!("member:{n}")).collect();
    for chunk in members.chunks(1000) {
        let words: Vec<&str> =
            ["SADD", "s"].into_iter().chain(chunk.iter().map(String::as_str)).collect();
        client.cmd(&words);
    }
    client.ok(&["SET", "text", &"0123456789".repeat(1 << 20)]);
    for key in [&b"s"[..], b"text"] {
        let payload = dump(&mut client, key);
        assert!(restore(&mut client, b"copy", &payload).is_ok());
        assert_eq!(content(&mut client, b"copy"), content(&mut client, key));
    }
    // A short payload with a long value: kilobytes that decompress to megabytes.
    let payload = dump(&mut client, b"text");
    assert!(payload.len() < 2 << 20, "{}", payload.len());
    client.ok(&["MULTI"]);
    client.cmd(&[&b"RESTORE"[..], b"copy", b"0", &payload, b"REPLACE"]);
    client.cmd(&["DUMP", "s"]);
    let replies = client.cmd(&["EXEC"]);
    assert!(replies.items()[0].is_ok() && replies.items()[1].bytes().is_some());
}

fn migrate(client: &mut Client, to: u16, words: &[&str]) -> String {
    let port = to.to_string();
    let all: Vec<&str> =
        ["MIGRATE", "127.0.0.1", &port].into_iter().chain(words.iter().copied()).collect();
    client.cmd(&all).to_string()
}

#[test]
fn migrate_moves_keys_to_every_server() {
    let weft = Server::weft(&[]);
    let mut ours = weft.client();
    let mut targets = peers();
    targets.push(Server::weft(&[]));
    for peer in &targets {
        let (name, port, mut theirs) = (peer.name(), peer.port(), peer.client());
        let mut rng = Rng::new(3);
        for n in 0..30 {
            let key = format!("{name}:{n}");
            for command in value(&mut rng, key.as_bytes()) {
                ours.cmd(&command);
            }
            let expected = content(&mut ours, key.as_bytes());
            assert_eq!(migrate(&mut ours, port, &[&key, "0", "9000", "COPY"]), "+OK", "{name}");
            assert_eq!(content(&mut theirs, key.as_bytes()), expected, "{name}");
            assert_eq!(content(&mut ours, key.as_bytes()), expected, "a copy stays");
            let busy = migrate(&mut ours, port, &[&key, "0", "9000"]);
            assert!(busy.contains("ERR Target instance replied with error: BUSYKEY"), "{busy}");
            assert_eq!(migrate(&mut ours, port, &[&key, "3", "9000", "REPLACE"]), "+OK");
            assert_eq!(ours.cmd(&["EXISTS", &key]).int(), 0, "the key has moved");
            theirs.ok(&["SELECT", "3"]);
            assert_eq!(content(&mut theirs, key.as_bytes()), expected, "{name}");
            theirs.ok(&["SELECT", "0"]);
        }
        let keys: Vec<String> = (0..700).map(|n| format!("many:{n}")).collect();
        for key in &keys {
            ours.ok(&["SET", key, key, "PX", "100000000"]);
        }
        let words: Vec<&str> = ["", "0", "9000", "REPLACE", "KEYS", "no-such-key"]
            .into_iter()
            .chain(keys.iter().map(String::as_str))
            .collect();
        assert_eq!(migrate(&mut ours, port, &words), "+OK", "{name}");
        assert_eq!(ours.cmd(&["DBSIZE"]).int(), 0);
        for key in &keys {
            assert_eq!(theirs.cmd(&["GET", key]).text(), *key);
            assert!(theirs.cmd(&["PTTL", key]).int() > 0);
        }
        assert_eq!(migrate(&mut ours, port, &words), "+NOKEY");
    }
}

#[test]
fn migrate_authenticates_with_a_password() {
    let weft = Server::weft(&[]);
    let target = Server::weft(&["--requirepass", "secret"]);
    let (mut ours, mut theirs) = (weft.client(), target.client());
    theirs.ok(&["AUTH", "secret"]);
    ours.ok(&["SET", "k", "v"]);
    let to = |client: &mut Client, words: &[&str]| {
        migrate(client, target.port(), &[&["k", "0", "9000"], words].concat())
    };
    let refused = "ERR Target instance replied with error: ";
    assert!(to(&mut ours, &[]).contains(&format!("{refused}NOAUTH")));
    assert!(to(&mut ours, &["AUTH", "wrong"]).contains(&format!("{refused}WRONGPASS")));
    assert_eq!(ours.cmd(&["GET", "k"]).text(), "v", "a failed MIGRATE keeps the key");
    assert_eq!(to(&mut ours, &["COPY", "AUTH", "secret"]), "+OK");
    assert_eq!(to(&mut ours, &["AUTH2", "default", "secret", "REPLACE"]), "+OK");
    assert_eq!(theirs.cmd(&["GET", "k"]).text(), "v");
    assert_eq!(ours.cmd(&["EXISTS", "k"]).int(), 0);
}

/// A MIGRATE to a server that accepts and never answers holds only the key's shard.
#[test]
fn migrate_to_a_silent_server_blocks_only_its_shard() {
    let weft = Server::weft(&["--io-threads", "2"]);
    let mut client = weft.client();
    client.ok(&["SET", "k", "v"]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("a port").port().to_string();
    for multi in [false, true] {
        let mut mover = weft.client();
        let request = ["MIGRATE", "127.0.0.1", &port, "k", "0", "60000"];
        if multi {
            mover.ok(&["MULTI"]);
            assert_eq!(mover.cmd(&request).text(), "QUEUED");
        }
        let last: &[&str] = if multi { &["EXEC"] } else { &request };
        mover.send_raw(&weft_testkit::client::encode(last)).expect("sent");
        let (mut silent, _) = listener.accept().expect("a connection");
        let mut heard = [0; 64];
        let n = silent.read(&mut heard).expect("a request");
        assert!(heard[..n].starts_with(b"*2\r\n$6\r\nSELECT"), "{:?}", &heard[..n]);
        // The key's shard is locked now, and a write to it waits.
        let mut waiting = weft.client();
        waiting.send_raw(&weft_testkit::client::encode(&["APPEND", "k", "w"])).expect("sent");
        for n in 0..300 {
            let key = format!("other:{n}");
            // One in 256 keys is in the same shard.
            if !same_shard(&key, "k") {
                client.ok(&["SET", &key, "v"]);
            }
        }
        assert_eq!(client.cmd(&["PING"]).text(), "PONG");
        waiting.set_timeout(Duration::from_millis(50));
        assert!(waiting.read_reply().is_err(), "the key is locked until the other server answers");
        drop(silent);
        let reply = mover.read_reply().expect("a reply").value;
        let error = if multi { reply.items()[0].error() } else { reply.error() };
        assert_eq!(error.as_deref(), Some("IOERR error or timeout reading to target instance"));
        assert!(client.cmd(&["GET", "k"]).text().starts_with('v'), "the key has not moved");
    }
}

/// Whether two keys are in the same of 256 shards: the lowest bits of their hash slots are equal.
fn same_shard(a: &str, b: &str) -> bool {
    let slot = |key: &str| {
        key.bytes().fold(0u16, |mut sum, byte| {
            sum ^= u16::from(byte) << 8;
            for _ in 0..8 {
                sum = if sum & 0x8000 != 0 { sum << 1 ^ 0x1021 } else { sum << 1 };
            }
            sum
        })
    };
    slot(a) % 256 == slot(b) % 256
}
