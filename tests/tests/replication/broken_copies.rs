//! Incomplete copies of a primary's data: their effect on memory and on disk.

use std::path::Path;
use std::time::Duration;
use weft_testkit::{Client, Server};
use weft_tests::persistence::until;
use weft_tests::replicas::{fields, number};
use weft_tests::replication::{FakePrimary, ID, ONE_KEY, info, replicate_from, wait_for_link};

/// A server that drops its data when a copy begins.
fn dropping(more: &[&str]) -> Server {
    let args = ["--repl-diskless-load", "flush-before-load", "--save", ""];
    Server::weft(&[&args[..], more].concat())
}

/// Makes the server replicate from a primary that dies in the middle of the copy, after the old
/// data were dropped.
fn lose_data(server: &Server, client: &mut Client) -> FakePrimary {
    let fake = FakePrimary::new();
    replicate_from(server, &fake.port());
    let (mut link, _) = fake.handshake();
    link.raw(format!("+FULLRESYNC {ID} 7\r\n${}\r\n", ONE_KEY.len()).as_bytes());
    link.raw(&ONE_KEY[..15]);
    until("the old data are dropped", || client.cmd(&["GET", "own"]).error().is_some());
    drop(link);
    until("the end of loading", || client.cmd(&["GET", "own"]).error().is_none());
    assert!(client.cmd(&["GET", "own"]).is_null());
    fake
}

fn file(server: &Server) -> Vec<u8> {
    std::fs::read(server.dir().join("dump.rdb")).expect("a file")
}

/// Waits for some ticks, in which a save point would trigger.
fn wait_for_ticks() {
    std::thread::sleep(Duration::from_millis(2500));
}

/// The file with the old data is not overwritten by an empty one: neither at a save point nor at
/// shutdown.
#[test]
fn rdb_file_is_kept_when_a_broken_copy_drops_the_data() {
    let mut server = dropping(&[]);
    let mut client = server.client();
    client.ok(&["SET", "own", "1"]);
    client.ok(&["SAVE"]);
    let good = file(&server);
    client.ok(&["SET", "own", "2"]);
    let fake = lose_data(&server, &mut client);
    client.ok(&["CONFIG", "SET", "save", "1 1"]);
    wait_for_ticks();
    assert!(file(&server) == good, "{}", server.log_tail());
    server.stop_term();
    assert!(file(&server) == good, "{}", server.log_tail());
    drop(fake);
    server.restart();
    assert_eq!(server.client().cmd(&["GET", "own"]).text(), "1");
}

/// An explicit save still writes a file, and so does a new primary that has new data.
#[test]
fn explicit_save_writes_a_file_after_a_broken_copy() {
    let server = dropping(&[]);
    let mut client = server.client();
    client.ok(&["SET", "own", "1"]);
    client.ok(&["SAVE"]);
    let good = file(&server);
    client.ok(&["SET", "own", "2"]);
    let _fake = lose_data(&server, &mut client);
    client.ok(&["CONFIG", "SET", "save", "1 1"]);
    client.ok(&["REPLICAOF", "NO", "ONE"]);
    wait_for_ticks();
    assert!(file(&server) == good, "nothing was written: {}", server.log_tail());
    client.ok(&["SET", "new", "1"]);
    until("a file", || file(&server) != good);
    let saved = file(&server);
    let _fake = lose_data(&server, &mut client);
    client.cmd(&["BGSAVE"]);
    until("an empty file", || file(&server) != saved);
}

/// After a complete copy, save points work again.
#[test]
fn complete_copy_is_saved() {
    let server = dropping(&[]);
    let mut client = server.client();
    client.ok(&["SET", "own", "1"]);
    client.ok(&["SAVE"]);
    let good = file(&server);
    let fake = lose_data(&server, &mut client);
    let mut link = fake.copy(ONE_KEY, 7);
    wait_for_link(&mut client);
    client.ok(&["CONFIG", "SET", "save", "1 1"]);
    link.write(&["SELECT", "0"]);
    link.write(&["SET", "new", "1"]);
    until("a file", || file(&server) != good);
}

const LOG: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

fn bases(dir: &Path) -> Vec<String> {
    let files = std::fs::read_dir(dir.join("appendonlydir")).expect("the folder exists").flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains(".base.")).collect()
}

/// The append-only file keeps the old data, which are loaded after a restart.
#[test]
fn aof_is_kept_when_a_broken_copy_drops_the_data() {
    let mut server = dropping(&LOG);
    let mut client = server.client();
    client.ok(&["SET", "own", "1"]);
    let before = bases(server.dir());
    let fake = lose_data(&server, &mut client);
    wait_for_ticks();
    assert_eq!(bases(server.dir()), before, "{}", server.log_tail());
    server.kill();
    drop(fake);
    server.restart();
    assert_eq!(server.client().cmd(&["GET", "own"]).text(), "1");
}

/// After a promotion, new writes must not follow the lost data in the AOF.
#[test]
fn aof_is_rewritten_after_a_promotion() {
    let mut server = dropping(&LOG);
    let mut client = server.client();
    client.ok(&["SET", "own", "1"]);
    let before = bases(server.dir());
    let _fake = lose_data(&server, &mut client);
    client.ok(&["REPLICAOF", "NO", "ONE"]);
    client.ok(&["SET", "new", "1"]);
    until("a new base", || {
        bases(server.dir()) != before && info(&mut client, "aof_rewrite_in_progress") == "0"
    });
    server.restart();
    let mut client = server.client();
    assert!(client.cmd(&["GET", "own"]).is_null());
    assert_eq!(client.cmd(&["GET", "new"]).text(), "1");
}

/// Whether `bytes` bytes of a copy have been received.
fn has_received(client: &mut Client, bytes: &str) -> bool {
    let fields = fields(client, "replication");
    fields.get("master_sync_read_bytes").is_some_and(|read| read == bytes)
}

/// A copy is received into an unnamed file: nothing is left when the process exits, and the folder
/// may change.
#[test]
fn incomplete_copy_leaves_no_file() {
    let mut server = Server::weft(&["--save", "", "--enable-protected-configs", "yes"]);
    let mut client = server.client();
    let fake = FakePrimary::new();
    replicate_from(&server, &fake.port());
    let (mut link, _) = fake.handshake();
    link.raw(format!("+FULLRESYNC {ID} 7\r\n${}\r\n", ONE_KEY.len()).as_bytes());
    link.raw(&ONE_KEY[..15]);
    until("the copy", || has_received(&mut client, "15"));
    let folder = |dir: &Path| -> Vec<String> {
        let files = std::fs::read_dir(dir).expect("a folder").flatten();
        let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.contains("temp")).collect()
    };
    assert!(folder(server.dir()).is_empty(), "{:?}", folder(server.dir()));
    let other = server.dir().join("other");
    std::fs::create_dir(&other).expect("a folder");
    client.ok(&["CONFIG", "SET", "dir", &other.to_string_lossy()]);
    link.raw(&ONE_KEY[15..]);
    wait_for_link(&mut client);
    assert_eq!(client.cmd(&["GET", "old"]).text(), "data");
    // Another copy, which the server does not finish.
    drop(link);
    let (mut link, _) = fake.handshake();
    link.raw(format!("+FULLRESYNC {ID} 700\r\n${}\r\n", ONE_KEY.len()).as_bytes());
    link.raw(&ONE_KEY[..15]);
    until("the copy", || has_received(&mut client, "15"));
    server.stop_term();
    assert!(folder(server.dir()).is_empty() && folder(&other).is_empty());
}

/// The loaded part of an incomplete copy is freed in the background.
#[test]
fn incomplete_copy_is_freed_in_the_background() {
    const KEYS: usize = 2000;
    let mut primary = Server::weft(&["--save", "", "--repl-diskless-sync-delay", "0"]);
    let mut client = primary.client();
    for n in 0..KEYS {
        client.ok(&["SET", &format!("key:{n}"), &"x".repeat(2000)]);
    }
    client.ok(&["CONFIG", "SET", "rdbcompression", "no"]);
    client.ok(&["CONFIG", "SET", "rdb-key-save-delay", "2000"]);
    let replica = Server::weft(&["--save", "", "--repl-diskless-load", "swapdb"]);
    replicate_from(&replica, &primary.port().to_string());
    let mut client = replica.client();
    until("half of the copy", || {
        let fields = fields(&mut client, "replication");
        let read = fields.get("master_sync_read_bytes").map(|read| read.parse::<u64>());
        read.is_some_and(|read| read.is_ok_and(|read| read > 1 << 20))
    });
    primary.kill();
    until("the loaded part is freed", || number(&mut client, "memory", "lazyfreed_objects") > 100);
    assert_eq!(client.cmd(&["DBSIZE"]).int(), 0);
}
