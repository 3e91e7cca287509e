//! Servers with many databases. The tables of a database are created on first use.

use weft_testkit::{Client, Server};
use weft_tests::persistence::{info, until};

const DATABASES: usize = 1000;

fn server(more: &[&str]) -> Server {
    let databases = DATABASES.to_string();
    let args = ["--databases", &databases, "--enable-debug-command", "yes"];
    Server::weft(&[&args[..], more].concat())
}

fn in_database(client: &mut Client, db: usize, words: &[&str]) -> String {
    client.ok(&["SELECT", &db.to_string()]);
    client.cmd(words).text()
}

/// The content of a snapshot when databases are swapped, flushed and first used while it runs.
#[test]
fn snapshot_of_many_databases_is_consistent() {
    let mut weft = server(&["--save", ""]);
    let mut client = weft.client();
    // Every second database has keys.
    for db in (0..DATABASES).step_by(2) {
        assert_eq!(in_database(&mut client, db, &["MSET", "own", &db.to_string(), "a", "1"]), "OK");
    }
    client.ok(&["DEBUG", "PAUSE-SNAPSHOT", "1"]);
    client.cmd(&["BGSAVE"]);
    // Two with keys; one with and one without; two without; across the first group of databases and
    // the others.
    for (a, b) in [(100, 200), (300, 301), (401, 403), (2, 500), (5, 502)] {
        client.ok(&["SWAPDB", &a.to_string(), &b.to_string()]);
    }
    assert_eq!(in_database(&mut client, 600, &["FLUSHDB"]), "OK");
    assert_eq!(in_database(&mut client, 601, &["SET", "own", "new"]), "OK");
    for db in [100, 200, 301, 2, 500, 5, 700, 601] {
        assert_eq!(in_database(&mut client, db, &["SET", "a", "2"]), "OK");
    }
    assert_eq!(in_database(&mut client, 701, &["SET", "own", "new"]), "OK");
    client.ok(&["DEBUG", "PAUSE-SNAPSHOT", "0"]);
    until("the end of the save", || info(&mut client, "rdb_bgsave_in_progress") == "0");
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "ok");
    for (db, own) in [(100, "200"), (200, "100"), (301, "300"), (2, "500"), (500, "2"), (5, "502")]
    {
        assert_eq!(in_database(&mut client, db, &["GET", "own"]), own);
    }

    weft.restart_loading(&["--databases", &DATABASES.to_string()]);
    let mut client = weft.client();
    until("the data are loaded", || info(&mut client, "loading") == "0");
    for db in 0..DATABASES {
        let keys = if db % 2 == 0 { 2 } else { 0 };
        client.ok(&["SELECT", &db.to_string()]);
        assert_eq!(client.cmd(&["DBSIZE"]).int(), keys, "database {db}");
        if keys > 0 {
            assert_eq!(client.cmd(&["GET", "own"]).text(), db.to_string());
            assert_eq!(client.cmd(&["GET", "a"]).text(), "1", "database {db}");
        }
    }
}

/// Unused databases are empty for all commands, and take no memory for that.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn unused_databases_are_empty() {
    let weft = server(&[]);
    let mut client = weft.client();
    for db in [16, 17, 500, DATABASES - 1] {
        client.ok(&["SELECT", &db.to_string()]);
        for words in [&["DBSIZE"][..], &["EXISTS", "k"], &["DEL", "k"], &["TOUCH", "k"]] {
            assert_eq!(client.cmd(words).int(), 0, "{words:?}");
        }
        assert!(client.cmd(&["RANDOMKEY"]).is_null() && client.cmd(&["GET", "k"]).is_null());
        assert_eq!(client.cmd(&["SCAN", "0"]).items()[1].items().len(), 0);
        assert_eq!(client.cmd(&["KEYS", "*"]).items().len(), 0);
        client.ok(&["FLUSHDB"]);
        assert_eq!(client.cmd(&["MOVE", "k", "0"]).int(), 0);
        client.ok(&["SET", "k", "v", "PX", "1"]);
    }
    until("all keys expire", || client.cmd(&["INFO", "keyspace"]).text() == "# Keyspace\r\n");
    let last = (DATABASES - 1).to_string();
    assert_eq!(client.cmd(&["SWAPDB", "16", &last]).text(), "OK");
    client.ok(&["SELECT", "0"]);
    client.ok(&["SET", "k", "v"]);
    assert_eq!(client.cmd(&["MOVE", "k", &last]).int(), 1);
    assert_eq!(in_database(&mut client, DATABASES - 1, &["GET", "k"]), "v");
    assert_eq!(client.cmd(&["DBSIZE"]).int(), 1);
}
