//! RDB files exchanged between this server and others: each loads all data that the other saved.
//!
//! Peers are located as in `dump.rs`.

use std::collections::BTreeMap;
use std::path::Path;
use weft_tests::persistence::info;

use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server, locate, skipped};
use weft_tests::contents::{content, fill_stream, stream_content, value};

/// Values of each database.
const VALUES: usize = 60;

const FAR_MS: i64 = 4_102_444_800_000;

/// Whether the server supports expiry of hash fields.
fn has_field_expiry(name: &str) -> bool {
    matches!(name, "weft" | "valkey" | "redis8")
}

/// Fills five databases with values of all types and encodings. Some have an expiry.
fn fill(server: &Server, seed: u64) {
    let (mut client, mut rng) = (server.client(), Rng::new(seed));
    for db in ["0", "1", "3", "9", "15"] {
        client.ok(&["SELECT", db]);
        for n in 0..VALUES {
            let key = format!("key:{n}");
            for command in value(&mut rng, key.as_bytes()) {
                let reply = client.cmd(&command);
                assert!(reply.error().is_none(), "{}: {reply}", server.name());
            }
            if rng.percent(30) {
                let at = (FAR_MS + n as i64).to_string();
                client.cmd(&["PEXPIREAT", &key, &at]);
            }
            if has_field_expiry(server.name()) && client.cmd(&["TYPE", &key]).text() == "hash" {
                let field = client.cmd(&["HRANDFIELD", &key]);
                let field = field.bytes().expect("a field");
                let at = (FAR_MS + 7 * n as i64).to_string();
                client.cmd(&[b"HPEXPIREAT", key.as_bytes(), at.as_bytes(), b"FIELDS", b"1", field]);
            }
        }
        fill_stream(&mut client, &mut rng, "stream");
    }
}

/// All data of a server, by database and key.
fn everything(server: &Server) -> BTreeMap<(usize, Vec<u8>), String> {
    let mut client = server.client();
    let mut all = BTreeMap::new();
    for db in 0..16 {
        client.ok(&["SELECT", &db.to_string()]);
        let names = client.cmd(&["KEYS", "*"]);
        for name in names.items() {
            let name = name.bytes().expect("a key").to_vec();
            let ttl = expiry(&mut client, server.name(), &name);
            let shown = match client.cmd(&[b"TYPE", &name[..]]).text().as_str() {
                "stream" => {
                    stream_content(&mut client, std::str::from_utf8(&name).expect("valid UTF-8"))
                }
                _ => {
                    let (kind, values) = content(&mut client, &name);
                    let fields = match kind.as_str() {
                        "hash" if has_field_expiry(server.name()) => expiries(&mut client, &name),
                        _ => Vec::new(),
                    };
                    format!("{kind} {values:?} {fields:?}")
                }
            };
            all.insert((db, name), format!("{shown} until {ttl}"));
        }
    }
    all
}

/// The expiry time of a key. Redis 6 can't report it, so only whether there is one.
fn expiry(client: &mut Client, server: &str, key: &[u8]) -> i64 {
    match server {
        "redis6" => client.cmd(&[b"PTTL", key]).int().min(0),
        _ => client.cmd(&[b"PEXPIRETIME", key]).int(),
    }
}

/// The expiry times of a hash's fields.
fn expiries(client: &mut Client, key: &[u8]) -> Vec<(Vec<u8>, i64)> {
    let fields = client.cmd(&[b"HKEYS", key]);
    let fields: Vec<&[u8]> = fields.items().iter().map(|f| f.bytes().expect("a field")).collect();
    let count = fields.len().to_string();
    let words = [&[b"HPEXPIRETIME", key, b"FIELDS", count.as_bytes()][..], &fields].concat();
    let times = client.cmd(&words);
    let mut all: Vec<(Vec<u8>, i64)> =
        fields.iter().zip(times.items()).map(|(f, at)| (f.to_vec(), at.int())).collect();
    all.retain(|(_, at)| *at > 0);
    all.sort();
    all
}

/// Compares key by key, for short failure messages.
#[track_caller]
fn assert_same(
    found: &BTreeMap<(usize, Vec<u8>), String>,
    expected: &BTreeMap<(usize, Vec<u8>), String>,
    what: &str,
) {
    let names = |all: &BTreeMap<(usize, Vec<u8>), String>| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(found), names(expected), "{what}");
    for (name, value) in expected {
        assert_eq!(&found[name], value, "{what}: {name:?}");
    }
}

fn digest(server: &Server) -> String {
    server.client().cmd(&["DEBUG", "DIGEST"]).text()
}

fn in_folder_of(server: &Server) -> [String; 4] {
    let folder = server.dir().to_str().expect("a path in ASCII").to_owned();
    ["--dir".into(), folder, "--enable-debug-command".into(), "yes".into()]
}

/// A server that has loaded the file of another one.
fn loaded_from(name: &'static str, program: &Path, other: &Server, more: &[&str]) -> Server {
    let args = in_folder_of(other);
    let args: Vec<&str> = args.iter().map(String::as_str).chain(more.iter().copied()).collect();
    Server::start(name, program, &args)
}

#[test]
fn files_of_peers_are_loaded() {
    for (seed, (program, name)) in [
        ("valkey-server", "valkey"),
        ("redis8-server", "redis8"),
        ("redis7-server", "redis7"),
        ("redis6-server", "redis6"),
        ("valkey8-server", "valkey8"),
    ]
    .into_iter()
    .enumerate()
    {
        let Some(path) = locate::peer(program) else {
            skipped::note_here(&format!("no {program} in PEERS_BIN or PATH"));
            continue;
        };
        let debug = ["--enable-debug-command", "yes"];
        let peer = Server::start(name, &path, if name == "valkey" { &debug } else { &[] });
        fill(&peer, seed as u64);
        peer.client().ok(&["SAVE"]);
        let weft = loaded_from("weft", locate::weft(), &peer, &[]);
        let (mut found, mut expected) = (everything(&weft), everything(&peer));
        if !has_field_expiry(name) {
            // The peer has no field expiry.
            for shown in found.values_mut().chain(expected.values_mut()) {
                *shown = shown.replace(" [] until", " until");
            }
        }
        if name == "redis6" {
            for shown in found.values_mut() {
                *shown = shown.replace(" until 4102444", " until 0 ");
                shown.truncate(shown.rfind(" until 0").map_or(shown.len(), |at| at + 8));
            }
        }
        assert_same(&found, &expected, name);
        if name == "valkey" {
            assert_eq!(digest(&weft), digest(&peer));
        }
    }
}

#[test]
fn own_files_are_loaded_by_valkey_and_by_weft() {
    let debug = ["--enable-debug-command", "yes"];
    for (seed, background, compressed) in [(7, false, "yes"), (8, true, "no")] {
        let weft = Server::weft(&[&debug[..], &["--rdbcompression", compressed]].concat());
        fill(&weft, seed);
        let mut client = weft.client();
        match background {
            false => client.ok(&["SAVE"]),
            true => save_in_background(&mut client),
        }
        let expected = everything(&weft);
        let again = loaded_from("weft", locate::weft(), &weft, &[]);
        assert_same(&everything(&again), &expected, "our own");
        assert_eq!(digest(&again), digest(&weft));
        let Some(valkey) = locate::valkey() else {
            skipped::note_here("no valkey-server in PEERS_BIN or PATH");
            continue;
        };
        let valkey = loaded_from("valkey", &valkey, &weft, &[]);
        assert_same(&everything(&valkey), &expected, "ours, there");
        assert_eq!(digest(&valkey), digest(&weft));
        assert_same_encodings(&valkey, &again);
    }
}

/// Checks that both servers chose the same encodings.
fn assert_same_encodings(a: &Server, b: &Server) {
    let (mut a, mut b) = (a.client(), b.client());
    for n in 0..VALUES {
        let key = format!("key:{n}");
        let encoding = |client: &mut Client| client.cmd(&["OBJECT", "ENCODING", &key]).text();
        assert_eq!(encoding(&mut a), encoding(&mut b), "{key}");
    }
}

/// Runs BGSAVE and waits for its end.
fn save_in_background(client: &mut Client) {
    assert_eq!(client.cmd(&["BGSAVE"]).text(), "Background saving started");
    while info(client, "rdb_bgsave_in_progress") == "1" {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(info(client, "rdb_last_bgsave_status"), "ok");
}

#[test]
fn reload_changes_nothing() {
    let weft = Server::weft(&["--enable-debug-command", "yes"]);
    fill(&weft, 21);
    let (before, all) = (digest(&weft), everything(&weft));
    let mut client = weft.client();
    for words in [&["DEBUG", "RELOAD"][..], &["DEBUG", "RELOAD", "NOSAVE"]] {
        client.ok(words);
        assert_eq!(digest(&weft), before);
    }
    client.ok(&["DEBUG", "RELOAD", "MERGE", "NOFLUSH"]);
    assert_same(&everything(&weft), &all, "merged with itself");
    let twice = client.cmd(&["DEBUG", "RELOAD", "NOFLUSH"]).error();
    let expected = "ERR Error trying to load the RDB dump, check server logs.";
    assert_eq!(twice.as_deref(), Some(expected));
    client.ok(&["FLUSHALL"]);
    client.ok(&["DEBUG", "RELOAD", "NOSAVE"]);
    assert_same(&everything(&weft), &all, "from the file");
    let wrong = client.cmd(&["DEBUG", "RELOAD", "FOO"]).error();
    let expected = "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.";
    assert_eq!(wrong.as_deref(), Some(expected));
}
