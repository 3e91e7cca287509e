//! The commands of `docs/moving.md` work, from Valkey to Weft and back.

use std::process::Command;
use weft_testkit::{Server, locate, skipped};
use weft_tests::scene::{client, until};

const PAGE: &str = include_str!("../../../docs/moving.md");

/// Runs the only command of the page that contains `part`, with the ports of these servers. Returns its output.
fn run(part: &str, old: &Server, weft: &Server) -> String {
    let mut lines = PAGE.lines().map(str::trim).filter(|line| line.starts_with("valkey-cli"));
    let line = lines.find(|line| line.contains(part)).unwrap_or_else(|| panic!("no {part:?}"));
    assert!(lines.all(|line| !line.contains(part)), "two commands with {part:?}");
    let line = line
        .replace("6379", &old.port().to_string())
        .replace("6380", &weft.port().to_string())
        .replace("valkey-cli", &locate::peer("valkey-cli").expect("valkey-cli").to_string_lossy());
    let output = Command::new("sh").args(["-c", &line]).output().expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{line}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn role(server: &Server) -> String {
    client(server).cmd(&["ROLE"]).items()[0].text().to_string()
}

#[test]
fn live_move_and_return_of_the_page() {
    let Some(old) = Server::valkey(&["--save", "", "--repl-diskless-sync-delay", "0"]) else {
        return skipped::note("live_move_and_return_of_the_page", "no valkey-server");
    };
    if locate::peer("valkey-cli").is_none() {
        return skipped::note("live_move_and_return_of_the_page", "no valkey-cli");
    }
    client(&old).ok(&["SET", "before", "v"]);
    let primary = format!("127.0.0.1 {}", old.port());
    let weft = Server::weft(&["--replicaof", &primary, "--repl-diskless-sync-delay", "0"]);
    until("the replica has everything", || {
        let state = run("master_(link_status|sync_in_progress)", &old, &weft);
        state.contains("link_status:up") && state.contains("sync_in_progress:0")
    });
    let keys = |text: String| text.lines().nth(1).map(str::to_string);
    assert_eq!(
        keys(run("-p 6380 info keyspace", &old, &weft)),
        Some("db0:keys=1,expires=0,avg_ttl=0,keys_with_volatile_items=0".to_string())
    );

    // Refused as long as the old server waits for the first acknowledgement.
    until("FAILOVER is accepted", || run("-p 6379 failover to", &old, &weft) == "OK\n");
    until("Weft leads", || role(&weft) == "master" && role(&old) == "slave");
    client(&weft).ok(&["SET", "after", "v"]);
    until("the old server follows", || client(&old).cmd(&["GET", "after"]).bytes().is_some());

    until("FAILOVER is accepted", || run("-p 6380 failover to", &old, &weft) == "OK\n");
    until("the old server leads", || role(&old) == "master" && role(&weft) == "slave");
    for key in ["before", "after"] {
        assert_eq!(client(&old).cmd(&["GET", key]).bytes(), Some(&b"v"[..]), "{key}");
    }
}

#[test]
fn file_of_the_page_is_loaded() {
    let Some(old) = Server::valkey(&[]) else {
        return skipped::note("file_of_the_page_is_loaded", "no valkey-server");
    };
    if locate::peer("valkey-cli").is_none() {
        return skipped::note("file_of_the_page_is_loaded", "no valkey-cli");
    }
    client(&old).ok(&["SET", "key", "v"]);
    let unused = Server::weft(&[]);
    assert_eq!(run("-p 6379 save", &old, &unused), "OK\n");
    let file = old.dir().join("dump.rdb");
    let check = Command::new(locate::weft()).arg("--check-rdb").arg(&file).output();
    let check = check.expect("the check");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::copy(&file, dir.path().join("dump.rdb")).expect("a copy");
    let weft = Server::weft(&["--dir", dir.path().to_str().expect("valid UTF-8")]);
    assert_eq!(client(&weft).cmd(&["GET", "key"]).bytes(), Some(&b"v"[..]));
}

/// No version of Redis reads an RDB file of Weft; it reads an append-only file without one.
#[test]
fn append_only_file_of_the_page_is_loaded_by_redis() {
    let name = "append_only_file_of_the_page_is_loaded_by_redis";
    if locate::redis8().is_none() || locate::peer("valkey-cli").is_none() {
        return skipped::note(name, "no redis8-server or valkey-cli");
    }
    let weft = Server::weft(&["--save", ""]);
    client(&weft).ok(&["SET", "key", "v"]);
    client(&weft).cmd(&["HSET", "hash", "field", "v"]);
    assert_eq!(
        client(&weft).cmd(&["HEXPIRE", "hash", "10000", "FIELDS", "1", "field"]).items()[0].int(),
        1
    );
    assert_eq!(run("aof-use-rdb-preamble no", &weft, &weft), "OK\n");
    assert_eq!(run("appendonly yes", &weft, &weft), "OK\n");
    run("bgrewriteaof", &weft, &weft);
    until("the file is written", || {
        let info = client(&weft).cmd(&["INFO", "persistence"]).text();
        info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
    });
    let dir = tempfile::tempdir().expect("a folder");
    let (from, to) = (weft.dir().join("appendonlydir"), dir.path().join("appendonlydir"));
    std::fs::create_dir(&to).expect("a folder");
    for file in std::fs::read_dir(from).expect("the folder") {
        let file = file.expect("a file");
        std::fs::copy(file.path(), to.join(file.file_name())).expect("a copy");
    }
    let args = ["--dir", dir.path().to_str().expect("valid UTF-8"), "--appendonly", "yes"];
    let redis = Server::redis8(&args).expect("redis8-server");
    assert_eq!(client(&redis).cmd(&["GET", "key"]).bytes(), Some(&b"v"[..]));
    let ttl = client(&redis).cmd(&["HTTL", "hash", "FIELDS", "1", "field"]).items()[0].int();
    assert!((1..=10_000).contains(&ttl), "{ttl}");
}
