//! Copies of a primary's data that break off: what they leave behind, in memory and on disk.

use std::path::Path;
use std::time::Duration;
use weft_testkit::{Client, Server};
use weft_tests::persistence::until;
use weft_tests::replicas::{fields, number};
use weft_tests::replication::{FakePrimary, ID, ONE_KEY, follow, info, linked};

/// A server that drops its data when a copy begins.
fn dropping(more: &[&str]) -> Server {
    let args = ["--repl-diskless-load", "flush-before-load", "--save", ""];
    Server::weft(&[&args[..], more].concat())
}

/// Has the server follow a primary that dies in the middle of the copy, when the old data have gone.
fn lose_data(server: &Server, client: &mut Client) -> FakePrimary {
    let fake = FakePrimary::new();
    follow(server, &fake.port());
    let (mut link, _) = fake.shake_hands();
    link.raw(format!("+FULLRESYNC {ID} 7\r\n${}\r\n", ONE_KEY.len()).as_bytes());
    link.raw(&ONE_KEY[..15]);
    until("the old data go", || client.cmd(&["GET", "own"]).error().is_some());
    drop(link);
    until("the end of loading", || client.cmd(&["GET", "own"]).error().is_none());
    assert!(client.cmd(&["GET", "own"]).is_null());
    fake
}

fn file(server: &Server) -> Vec<u8> {
    std::fs::read(server.dir().join("dump.rdb")).expect("a file")
}

/// Ticks of the server, in which it would save if it were to.
fn wait_for_ticks() {
    std::thread::sleep(Duration::from_millis(2500));
}

/// The file has all that there was, and is not replaced by one of nothing: not at a save point, and not when
/// the server ends.
#[test]
fn the_file_stays_when_the_data_are_lost() {
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

/// Who asks for a file gets it; and so does a primary that has data of its own again.
#[test]
fn what_is_asked_for_is_saved() {
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
    assert!(file(&server) == good, "nobody has written anything: {}", server.log_tail());
    client.ok(&["SET", "new", "1"]);
    until("a file", || file(&server) != good);
    let saved = file(&server);
    let _fake = lose_data(&server, &mut client);
    client.cmd(&["BGSAVE"]);
    until("a file of nothing", || file(&server) != saved);
}

/// A copy that comes in the end is saved as everything is.
#[test]
fn a_copy_that_comes_is_saved() {
    let server = dropping(&[]);
    let mut client = server.client();
    client.ok(&["SET", "own", "1"]);
    client.ok(&["SAVE"]);
    let good = file(&server);
    let fake = lose_data(&server, &mut client);
    let mut link = fake.copy(ONE_KEY, 7);
    linked(&mut client);
    client.ok(&["CONFIG", "SET", "save", "1 1"]);
    link.write(&["SELECT", "0"]);
    link.write(&["SET", "new", "1"]);
    until("a file", || file(&server) != good);
}

const LOG: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

fn bases(dir: &Path) -> Vec<String> {
    let files = std::fs::read_dir(dir.join("appendonlydir")).expect("its folder").flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains(".base.")).collect()
}

/// The append-only file is that of the old data still, which are there after a restart.
#[test]
fn the_log_stays_when_the_data_are_lost() {
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

/// A primary again: what it writes then does not come behind what it has lost.
#[test]
fn the_log_begins_anew_with_a_new_primary() {
    let mut server = dropping(&LOG);
    let mut client = server.client();
    client.ok(&["SET", "own", "1"]);
    let before = bases(server.dir());
    let _fake = lose_data(&server, &mut client);
    client.ok(&["REPLICAOF", "NO", "ONE"]);
    client.ok(&["SET", "new", "1"]);
    until("another base", || {
        bases(server.dir()) != before && info(&mut client, "aof_rewrite_in_progress") == "0"
    });
    server.restart();
    let mut client = server.client();
    assert!(client.cmd(&["GET", "own"]).is_null());
    assert_eq!(client.cmd(&["GET", "new"]).text(), "1");
}

/// Whether so many bytes of a copy have come.
fn has_come(client: &mut Client, bytes: &str) -> bool {
    let fields = fields(client, "replication");
    fields.get("master_sync_read_bytes").is_some_and(|read| read == bytes)
}

/// A copy that comes into a file needs no name for that: nothing is left when the process ends, and the
/// folder may become another.
#[test]
fn a_copy_on_its_way_leaves_no_file() {
    let mut server = Server::weft(&["--save", "", "--enable-protected-configs", "yes"]);
    let mut client = server.client();
    let fake = FakePrimary::new();
    follow(&server, &fake.port());
    let (mut link, _) = fake.shake_hands();
    link.raw(format!("+FULLRESYNC {ID} 7\r\n${}\r\n", ONE_KEY.len()).as_bytes());
    link.raw(&ONE_KEY[..15]);
    until("the copy", || has_come(&mut client, "15"));
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
    linked(&mut client);
    assert_eq!(client.cmd(&["GET", "old"]).text(), "data");
    // Another one, which nobody lives to see.
    drop(link);
    let (mut link, _) = fake.shake_hands();
    link.raw(format!("+FULLRESYNC {ID} 700\r\n${}\r\n", ONE_KEY.len()).as_bytes());
    link.raw(&ONE_KEY[..15]);
    until("the copy", || has_come(&mut client, "15"));
    server.stop_term();
    assert!(folder(server.dir()).is_empty() && folder(&other).is_empty());
}

/// What was loaded of a copy that breaks off is freed in the background.
#[test]
fn half_a_copy_is_freed_elsewhere() {
    const KEYS: usize = 2000;
    let mut primary = Server::weft(&["--save", "", "--repl-diskless-sync-delay", "0"]);
    let mut client = primary.client();
    for n in 0..KEYS {
        client.ok(&["SET", &format!("key:{n}"), &"x".repeat(2000)]);
    }
    client.ok(&["CONFIG", "SET", "rdbcompression", "no"]);
    client.ok(&["CONFIG", "SET", "rdb-key-save-delay", "2000"]);
    let replica = Server::weft(&["--save", "", "--repl-diskless-load", "swapdb"]);
    follow(&replica, &primary.port().to_string());
    let mut client = replica.client();
    until("half of the copy", || {
        let fields = fields(&mut client, "replication");
        let read = fields.get("master_sync_read_bytes").map(|read| read.parse::<u64>());
        read.is_some_and(|read| read.is_ok_and(|read| read > 1 << 20))
    });
    primary.kill();
    until("what has come is freed", || number(&mut client, "memory", "lazyfreed_objects") > 100);
    assert_eq!(client.cmd(&["DBSIZE"]).int(), 0);
}
