//! Readers of the effect log are blocked or too slow: their backlog is bounded and causes no
//! eviction, and writes accepted by a primary are accepted everywhere.

use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use weft_testkit::client::encode;
use weft_testkit::{Client, Server, skip_without};
use weft_tests::persistence::until;
use weft_tests::replicas::{RawReplica, number};
use weft_tests::replication::{
    info, replicate_from, wait_for_link, wait_for_same_data, wait_until_caught_up,
};

const WEFT: [&str; 8] = [
    "--save",
    "",
    "--repl-diskless-sync-delay",
    "0",
    "--enable-debug-command",
    "yes",
    "--io-threads",
    "2",
];

fn weft(more: &[&str]) -> Server {
    Server::weft(&[&WEFT[..], more].concat())
}

const MB: u64 = 1 << 20;

/// A primary with an effect log that is not read. Its reader thread must close the log, since the
/// last replica is gone. It can't stop the world for that, because a MIGRATE to a silent server
/// holds a shard.
struct UnreadLog {
    server: Server,
    client: Client,
    _mover: Client,
    _silent: (TcpListener, TcpStream),
}

impl UnreadLog {
    fn new() -> UnreadLog {
        let server = weft(&["--repl-backlog-ttl", "1"]);
        let mut client = server.client();
        client.ok(&["SET", "moves", "v"]);
        let mut replica = RawReplica::new(&server);
        replica.full_sync();
        replica.read_copy();
        replica.send(&["REPLCONF", "ACK", "0"]);
        until("the replica", || number(&mut client, "replication", "connected_slaves") == 1);
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = silent.local_addr().expect("a port").port().to_string();
        let mut mover = server.client();
        let words = ["MIGRATE", "127.0.0.1", &port, "moves", "0", "60000"];
        mover.send_raw(&encode(&words)).expect("the server reads");
        let held = silent.accept().expect("the key is moved").0;
        drop(replica);
        until("the end of the backlog", || {
            number(&mut client, "replication", "repl_backlog_active") == 0
        });
        UnreadLog { server, client, _mover: mover, _silent: (silent, held) }
    }
}

/// Overwrites sixteen keys with values of 16 KB, `megabytes` MB in total, and calls `look` after
/// each MB.
fn overwrite(client: &mut Client, megabytes: usize, mut look: impl FnMut()) {
    let value = "v".repeat(16 << 10);
    let commands: Vec<Vec<String>> =
        (0..64).map(|n| vec!["SET".into(), format!("key:{}", n % 16), value.clone()]).collect();
    for _ in 0..megabytes {
        for reply in client.pipeline(&commands).expect("answers") {
            assert!(reply.value.error().is_none(), "{}", reply.value);
        }
        look();
    }
}

#[test]
fn unread_effect_log_is_bounded() {
    let mut unread = UnreadLog::new();
    let mut looker = unread.server.client();
    overwrite(&mut unread.client, 1, || {});
    let before = number(&mut looker, "memory", "used_memory");
    let mut most = 0;
    overwrite(&mut unread.client, 400, || {
        most = most.max(number(&mut looker, "memory", "used_memory"));
    });
    let more = most.saturating_sub(before) / MB;
    assert!(more < 150, "400 MB were written, and {more} MB are kept");
}

#[test]
fn unread_effect_log_does_not_cause_eviction() {
    let mut unread = UnreadLog::new();
    let client = &mut unread.client;
    overwrite(client, 1, || {});
    client.ok(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let limit = number(client, "memory", "used_memory") + 6 * MB;
    client.ok(&["CONFIG", "SET", "maxmemory", &limit.to_string()]);
    overwrite(client, 12, || {});
    assert_eq!(number(client, "stats", "evicted_keys"), 0);
    let not_counted = number(client, "memory", "mem_not_counted_for_evict") / MB;
    assert!((8..32).contains(&not_counted), "{not_counted} MB");
}

/// All possible readers of the log run at once, and start and stop independently.
#[test]
fn all_readers_of_the_effect_log_run_at_once() {
    let server = weft(&["--repl-backlog-ttl", "1"]);
    let mut client = server.client();
    let file = server.dir().join("effects").to_string_lossy().into_owned();
    for round in 0..3 {
        client.ok(&["DEBUG", "EFFECTS", &file]);
        for _ in 0..2 {
            client.ok(&["CONFIG", "SET", "appendonly", "yes"]);
            client.ok(&["CONFIG", "SET", "appendonly", "no"]);
        }
        client.ok(&["CONFIG", "SET", "appendonly", "yes"]);
        let mut replica = RawReplica::new(&server);
        replica.full_sync();
        replica.read_copy();
        replica.send(&["REPLCONF", "ACK", "0"]);
        let value = format!("round {round}");
        client.ok(&["SET", "key", &value]);
        let mut got = String::new();
        while !got.contains(&value) {
            got.push_str(&String::from_utf8_lossy(&replica.take(1)));
        }
        client.ok(&["DEBUG", "EFFECTS"]);
        let effects = std::fs::read_to_string(&file).expect("a file");
        assert!(effects.contains(&value), "{effects}");
        client.ok(&["CONFIG", "SET", "appendonly", "no"]);
        drop(replica);
        until("the end of the backlog", || {
            number(&mut client, "replication", "repl_backlog_active") == 0
        });
    }
    assert!(!server.log().contains("too many readers"), "{}", server.log_tail());
}

/// Many writers at once, and one replica: it gets all writes.
#[test]
fn replica_gets_all_writes_of_fast_writers() {
    let primary = weft(&["--client-output-buffer-limit", "replica 0 0 0"]);
    let replica = weft(&[]);
    replicate_from(&replica, &primary.port().to_string());
    wait_for_link(&mut replica.client());
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| overwrite(&mut primary.client(), 40, || {}));
        }
    });
    let (mut ours, mut theirs) = (primary.client(), replica.client());
    wait_until_caught_up(&mut ours, &mut theirs);
    wait_for_same_data(&mut ours, &mut theirs);
    assert_eq!(number(&mut ours, "stats", "sync_full"), 1);
}

/// A replica with a slow disk reads no more than it may buffer, as a primary delays its clients.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn replica_waits_for_its_disk() {
    let primary = weft(&["--client-output-buffer-limit", "replica 0 0 0"]);
    let replica = weft(&["--appendonly", "yes"]);
    replicate_from(&replica, &primary.port().to_string());
    let (mut ours, mut theirs) = (primary.client(), replica.client());
    wait_for_link(&mut theirs);
    until("the base", || info(&mut theirs, "aof_rewrite_in_progress") == "0");
    theirs.ok(&["DEBUG", "AOF-FLUSH-SLEEP", "2000000"]);
    overwrite(&mut ours, 300, || {});
    let mut waiting = || number(&mut theirs, "persistence", "aof_buffer_length") / MB;
    until("data wait for the disk", || waiting() > 60);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        let megabytes = waiting();
        assert!(megabytes < 110, "{megabytes} MB wait");
        std::thread::sleep(Duration::from_millis(20));
    }
    theirs.ok(&["DEBUG", "AOF-FLUSH-SLEEP", "0"]);
    wait_until_caught_up(&mut ours, &mut theirs);
    wait_for_same_data(&mut ours, &mut theirs);
    assert_eq!(number(&mut ours, "stats", "sync_full"), 1);
}

/// A limit for strings below the default.
const SMALL: [&str; 2] = ["--proto-max-bulk-len", "1mb"];

/// Writes strings longer than the smaller limit, by all commands.
fn make_long_strings(client: &mut Client) {
    let long = "x".repeat(700_000);
    for words in [
        &["SET", "appended", &long][..],
        &["APPEND", "appended", &long],
        &["SETRANGE", "range", "2000000", "tail"],
        &["SETBIT", "bit", "16000000", "1"],
        &["BITFIELD", "field", "SET", "u8", "#3000000", "255"],
    ] {
        let answer = client.cmd(words);
        assert!(answer.error().is_none(), "{}: {answer}", words[0]);
    }
    let longer = long.repeat(3);
    client.ok(&["SET", "whole", &longer]);
    client.ok(&["MULTI"]);
    client.cmd(&["APPEND", "appended", &long]);
    client.cmd(&["SETRANGE", "range", "1500000", "x"]);
    client.cmd(&["EXEC"]);
}

/// Checks that clients are still refused.
fn refuses_clients(client: &mut Client) {
    for words in [
        &["APPEND", "appended", "x"][..],
        &["SETRANGE", "range", "2000000", "x"],
        &["SETBIT", "other", "16000000", "1"],
    ] {
        assert!(client.cmd(words).error().is_some(), "{words:?}");
    }
}

#[test]
fn client_limits_do_not_apply_to_the_primary() {
    let valkey = Server::valkey(&["--save", "", "--repl-diskless-sync-delay", "0"]);
    skip_without("client_limits_do_not_apply_to_the_primary", &valkey, "valkey-server");
    for primary in [Some(weft(&[])), valkey].into_iter().flatten() {
        let replica = weft(&SMALL);
        replicate_from(&replica, &primary.port().to_string());
        let (mut ours, mut theirs) = (primary.client(), replica.client());
        wait_for_link(&mut theirs);
        make_long_strings(&mut ours);
        wait_until_caught_up(&mut ours, &mut theirs);
        for key in ["appended", "range", "bit", "field", "whole"] {
            let length = ours.cmd(&["STRLEN", key]).int();
            assert!(length > 1 << 20);
            assert_eq!(theirs.cmd(&["STRLEN", key]).int(), length, "{key} of {}", primary.name());
            assert_eq!(ours.cmd(&["GET", key]), theirs.cmd(&["GET", key]), "{key}");
        }
        assert!(!replica.log().contains("== CRITICAL =="), "{}", replica.log_tail());
        theirs.ok(&["REPLICAOF", "NO", "ONE"]);
        refuses_clients(&mut theirs);
    }
}

#[test]
fn client_limits_do_not_apply_to_files() {
    const LOG: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut server = weft(&LOG);
    let mut client = server.client();
    make_long_strings(&mut client);
    let before = client.cmd(&["DEBUG", "DIGEST"]);
    server.kill();
    server.restart_loading(&[&WEFT[..], &LOG, &SMALL].concat());
    server.wait_until_loaded();
    let mut client = server.client();
    assert_eq!(client.cmd(&["DEBUG", "DIGEST"]), before);
    client.ok(&["DEBUG", "LOADAOF"]);
    assert_eq!(client.cmd(&["DEBUG", "DIGEST"]), before);
    refuses_clients(&mut client);
}
