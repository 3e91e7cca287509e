//! WAIT, ROLE, FAILOVER, REPLCONF and INFO: the replies match the reference, which runs first.

use rustix::process::Signal;
use std::time::Duration;
use weft_testkit::{Client, Server, locate, skipped};
use weft_tests::persistence::until;
use weft_tests::replicas::{RawReplica, fields, number, start_replica, wait_until_caught_up};
use weft_tests::scene::{on_both, reply, send, until_blocked};

const BOTH: [&str; 4] = ["--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes"];

/// A raw replica that is online and has announced this port.
fn online(server: &Server, port: &str) -> (RawReplica, u64) {
    let mut raw = RawReplica::new(server);
    assert_eq!(raw.ask(&["REPLCONF", "listening-port", port]), "+OK");
    let (_, offset) = raw.full_sync();
    raw.read_copy();
    raw.send(&["REPLCONF", "ACK", &offset.to_string()]);
    let mut client = server.client();
    until("the replica is online", || {
        let all = fields(&mut client, "replication");
        all.values().any(|value| value.contains(&format!("port={port},state=online")))
    });
    (raw, offset)
}

/// A reply as text: `+OK`, `-ERR ...`, `1`, `"text"`.
fn reply_text(client: &mut Client, words: &[&str]) -> String {
    client.cmd(words).to_string()
}

fn offset(client: &mut Client) -> u64 {
    number(client, "replication", "master_repl_offset")
}

#[test]
fn replication_commands_return_the_errors_of_the_reference() {
    on_both(&BOTH, &[], |server| {
        let mut client = server.client();
        let mut is = |words: &[&str], want: &str| {
            assert_eq!(reply_text(&mut client, words), want, "{words:?}")
        };
        is(&["ROLE"], "[\"master\", 0, []]");
        is(&["WAIT", "x", "0"], "-ERR value is not an integer or out of range");
        is(&["WAIT", "0", "x"], "-ERR timeout is not an integer or out of range");
        is(&["WAIT", "0", "-1"], "-ERR timeout is negative");
        is(&["WAIT", "0", "0"], "0");
        is(&["WAIT", "-1", "0"], "0");
        is(&["WAIT", "1", "1"], "0");
        is(&["WAITAOF", "0", "1", "1"], "[0, 0]");
        is(&["WAITAOF", "0", "-1", "1"], "-ERR value is out of range, must be positive");
        is(&["REPLCONF"], "+OK");
        is(&["REPLCONF", "a"], "-ERR syntax error");
        is(&["REPLCONF", "a", "b"], "-ERR Unrecognized REPLCONF option: a");
        is(&["REPLCONF", "capa", "nobody-knows"], "+OK");
        is(&["REPLCONF", "listening-port", "x"], "-ERR value is not an integer or out of range");
        is(&["REPLCONF", "version", "x"], "-ERR Unrecognized version format: x");
        is(&["PSYNC", "a"], "-ERR wrong number of arguments for 'psync' command");
        is(&["SYNC", "a"], "-ERR wrong number of arguments for 'sync' command");
        is(&["PSYNC", "?", "-1", "FAILOVER"], "-ERR PSYNC FAILOVER can't be sent to a master.");
        is(&["FAILOVER", "ABORT"], "-ERR No failover in progress.");
        is(&["FAILOVER"], "-ERR FAILOVER requires connected replicas.");
        is(&["FAILOVER", "TIMEOUT", "0"], "-ERR FAILOVER timeout must be greater than 0");
        is(&["FAILOVER", "TO", "h"], "-ERR syntax error");
        is(&["MULTI"], "+OK");
        is(&["PSYNC", "?", "-1"], "-ERR Command 'psync' not allowed inside a transaction");
        is(&["WAIT", "1", "0"], "+QUEUED");
        is(&["EXEC"], "-EXECABORT Transaction discarded because of previous errors.");
        is(&["MULTI"], "+OK");
        is(&["SET", "key", "value"], "+QUEUED");
        is(&["WAIT", "1", "0"], "+QUEUED");
        is(&["EXEC"], "[+OK, 0]");
    });
}

#[test]
fn psync_is_refused_without_auth_or_with_pending_replies() {
    on_both(&BOTH, &[], |server| {
        let mut raw = RawReplica::new(server);
        let ask = |words: &[&str]| weft_testkit::client::encode(words);
        raw.raw(&[ask(&["PING"]), ask(&["PSYNC", "?", "-1"])].concat());
        assert_eq!(raw.line(), "+PONG");
        assert_eq!(raw.line(), "-ERR SYNC and PSYNC are invalid with pending output");
        server.client().ok(&["CONFIG", "SET", "requirepass", "secret"]);
        let mut stranger = RawReplica::new(server);
        for words in [&["PSYNC", "?", "-1"][..], &["SYNC"], &["REPLCONF", "capa", "eof"], &["ROLE"]]
        {
            assert_eq!(stranger.ask(words), "-NOAUTH Authentication required.", "{words:?}");
        }
        assert_eq!(stranger.ask(&["AUTH", "secret"]), "+OK");
        stranger.full_sync();
    });
}

#[test]
fn role_and_info_show_replicas() {
    on_both(&BOTH, &[], |server| {
        let mut client = server.client();
        let (mut raw, _) = online(server, "1234");
        client.ok(&["SET", "key", "value"]);
        let end = offset(&mut client);
        raw.send(&["REPLCONF", "ACK", &end.to_string()]);
        until("the offset is acknowledged", || {
            fields(&mut client, "replication")["slave0"].contains(&format!("offset={end},"))
        });
        let all = fields(&mut client, "replication");
        assert_eq!(
            all["slave0"].replace("lag=1", "lag=0"),
            format!("ip=127.0.0.1,port=1234,state=online,offset={end},lag=0,type=replica")
        );
        for (name, value) in [
            ("role", "master"),
            ("connected_slaves", "1"),
            ("master_failover_state", "no-failover"),
            ("second_repl_offset", "-1"),
            ("repl_backlog_active", "1"),
            ("repl_backlog_first_byte_offset", "1"),
            ("repl_backlog_histlen", &end.to_string()),
        ] {
            assert_eq!(all[name], value, "{name}");
        }
        assert_eq!(
            reply_text(&mut client, &["ROLE"]),
            format!("[\"master\", {end}, [[\"127.0.0.1\", \"1234\", \"{end}\"]]]")
        );
        let line = client.cmd(&["CLIENT", "LIST", "TYPE", "replica"]).text();
        assert!(line.contains(" flags=S ") && line.lines().count() == 1, "{line}");
        // A server closes the connection that asked whether it is up a moment later than its client.
        until("this client is the only one", || {
            fields(&mut client, "clients")["connected_clients"] == "1"
        });
        // The idle timeout closes clients, but not replicas.
        client.ok(&["CONFIG", "SET", "timeout", "1"]);
        std::thread::sleep(Duration::from_millis(2500));
        assert_eq!(fields(&mut server.client(), "replication")["connected_slaves"], "1");
        let mut client = server.client();
        assert_eq!(client.cmd(&["CLIENT", "KILL", "TYPE", "replica"]).int(), 1);
        until("it is gone", || fields(&mut client, "replication")["connected_slaves"] == "0");
        raw.read_to_end();
    });
}

#[test]
fn info_fields_match_the_reference() {
    let Some(reference) = Server::valkey(&BOTH) else { return skipped::note_here("valkey-server") };
    let weft = Server::weft(&BOTH);
    let shape = |server: &Server| {
        let (_raw, _) = online(server, "1234");
        let mut client = server.client();
        client.ok(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
        let text = client.cmd(&["INFO", "replication"]).text();
        text.lines()
            .map(|line| line.split(':').next().unwrap_or_default().to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(shape(&weft), shape(&reference));
}

#[test]
fn wait_counts_replicas_that_have_the_writes_of_its_client() {
    on_both(&BOTH, &[], |server| {
        let mut client = server.client();
        let (mut one, _) = online(server, "1");
        let (mut two, _) = online(server, "2");
        // A client without writes does not wait.
        assert_eq!(client.cmd(&["WAIT", "2", "0"]).int(), 2);
        client.ok(&["SET", "key", "value"]);
        let end = offset(&mut client);
        send(&mut client, &["WAIT", "1", "0"]);
        let mut other = server.client();
        until_blocked(&mut other, 1);
        assert_eq!(other.cmd(&["WAIT", "2", "0"]).int(), 2);
        one.send(&["REPLCONF", "ACK", &(end - 1).to_string()]);
        std::thread::sleep(Duration::from_millis(100));
        until_blocked(&mut other, 1);
        one.send(&["REPLCONF", "ACK", &end.to_string()]);
        assert_eq!(reply(&mut client).int(), 1);
        // On timeout WAIT returns the current number.
        assert_eq!(client.cmd(&["WAIT", "2", "50"]).int(), 1);
        send(&mut client, &["WAIT", "2", "0"]);
        until_blocked(&mut other, 1);
        let id = other.cmd(&["CLIENT", "LIST"]).text();
        let id = id.lines().find(|line| line.contains("cmd=wait ")).expect("the client is blocked");
        let id =
            id.split(' ').next().and_then(|id| id.strip_prefix("id=")).expect("an id").to_string();
        assert_eq!(other.cmd(&["CLIENT", "UNBLOCK", &id]).int(), 1);
        assert_eq!(reply(&mut client).int(), 1);
        send(&mut client, &["WAIT", "2", "0"]);
        until_blocked(&mut other, 1);
        assert_eq!(other.cmd(&["CLIENT", "UNBLOCK", &id, "ERROR"]).int(), 1);
        assert_eq!(
            reply(&mut client).to_string(),
            "-UNBLOCKED client unblocked via CLIENT UNBLOCK"
        );
        // A write in the same batch counts.
        send(&mut client, &["SET", "key", "other"]);
        send(&mut client, &["WAIT", "2", "0"]);
        client.read_reply().expect("the reply to SET");
        until_blocked(&mut other, 1);
        let end = offset(&mut other).to_string();
        one.send(&["REPLCONF", "ACK", &end]);
        two.send(&["REPLCONF", "ACK", &end]);
        assert_eq!(reply(&mut client).int(), 2);
        // No replica counts for WAITAOF until it acknowledges its sync.
        assert_eq!(client.cmd(&["WAITAOF", "0", "1", "50"]).to_string(), "[0, 0]");
        send(&mut client, &["WAITAOF", "0", "2", "0"]);
        until_blocked(&mut other, 1);
        let end = offset(&mut other).to_string();
        one.send(&["REPLCONF", "ACK", &end, "FACK", &end]);
        two.send(&["REPLCONF", "ACK", &end, "FACK", &end]);
        assert_eq!(reply(&mut client).to_string(), "[0, 2]");
    });
}

/// WAIT requests an acknowledgement from the replicas, instead of waiting for the next periodic
/// one.
#[test]
fn wait_sends_getack() {
    let server = Server::weft(&BOTH);
    let mut client = server.client();
    let (mut raw, from) = online(&server, "1");
    client.ok(&["SET", "key", "value"]);
    send(&mut client, &["WAIT", "1", "0"]);
    let mut got = Vec::new();
    until("GETACK", || {
        got.extend(raw.take(1));
        String::from_utf8_lossy(&got).contains("REPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n")
    });
    raw.send(&["REPLCONF", "ACK", &(from + got.len() as u64).to_string()]);
    assert_eq!(reply(&mut client).int(), 1);
}

#[test]
fn min_replicas_to_write_needs_replicas_that_keep_up() {
    on_both(&BOTH, &[], |server| {
        let mut client = server.client();
        let refused = "-NOREPLICAS Not enough good replicas to write.";
        client.ok(&["SET", "key", "0"]);
        client.ok(&["CONFIG", "SET", "min-replicas-to-write", "1", "min-replicas-max-lag", "2"]);
        assert_eq!(reply_text(&mut client, &["INCR", "key"]), refused);
        assert_eq!(reply_text(&mut client, &["GET", "key"]), "\"0\"");
        client.ok(&["MULTI"]);
        assert_eq!(reply_text(&mut client, &["INCR", "key"]), refused);
        assert!(reply_text(&mut client, &["EXEC"]).starts_with("-EXECABORT"));
        let (mut raw, from) = online(server, "1");
        until("writes are allowed", || {
            reply_text(&mut client, &["INCR", "key"]).parse::<i64>().is_ok()
        });
        assert_eq!(fields(&mut client, "replication")["min_slaves_good_slaves"], "1");
        // The replica sends nothing more.
        until("writes are refused", || reply_text(&mut client, &["INCR", "key"]) == refused);
        assert_eq!(fields(&mut client, "replication")["min_slaves_good_slaves"], "0");
        raw.send(&["REPLCONF", "ACK", &from.to_string()]);
        until("writes are allowed again", || {
            reply_text(&mut client, &["INCR", "key"]).parse::<i64>().is_ok()
        });
        drop(raw);
        until("the replica is gone", || reply_text(&mut client, &["INCR", "key"]) == refused);
        client.ok(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
        assert!(reply_text(&mut client, &["INCR", "key"]).parse::<i64>().is_ok());
    });
}

/// FAILOVER waits for a replica that does not acknowledge. Until it is aborted, writes wait,
/// whatever clients do with CLIENT PAUSE.
#[test]
fn failover_can_be_aborted_and_times_out() {
    on_both(&BOTH, &[], |server| {
        let mut client = server.client();
        let (mut raw, _) = online(server, "1");
        client.ok(&["SET", "key", "1"]);
        let mut is = |words: &[&str], want: &str| {
            assert_eq!(reply_text(&mut client, words), want, "{words:?}")
        };
        is(
            &["FAILOVER", "TO", "127.0.0.1", "2"],
            "-ERR FAILOVER target HOST and PORT is not a replica.",
        );
        is(
            &["FAILOVER", "TO", "127.0.0.1", "1", "FORCE"],
            "-ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
        );
        is(&["FAILOVER", "TO", "127.0.0.1", "1"], "+OK");
        is(&["FAILOVER"], "-ERR FAILOVER already in progress.");
        let mut admin = server.client();
        let state =
            |admin: &mut Client| fields(admin, "replication")["master_failover_state"].clone();
        let paused = |admin: &mut Client| fields(admin, "clients")["paused_reason"].clone();
        assert_eq!(state(&mut admin), "waiting-for-sync");
        assert_eq!(paused(&mut admin), "failover_in_progress");
        send(&mut client, &["SET", "key", "2"]);
        until_blocked_or_paused(&mut admin);
        admin.ok(&["CLIENT", "UNPAUSE"]);
        admin.ok(&["CLIENT", "PAUSE", "50", "WRITE"]);
        std::thread::sleep(Duration::from_millis(400));
        assert_eq!(reply_text(&mut admin, &["GET", "key"]), "\"1\"");
        assert_eq!(paused(&mut admin), "failover_in_progress");
        let mut late = RawReplica::new(server);
        assert_eq!(late.ask(&["PSYNC", "?", "-1"]), "-NOMASTERLINK Can't SYNC while failing over");
        admin.ok(&["FAILOVER", "ABORT"]);
        assert_eq!(reply(&mut client).text(), "OK");
        assert_eq!((state(&mut admin), paused(&mut admin)), ("no-failover".into(), "none".into()));
        // A timeout also aborts it. A pause of a client outlives the failover.
        admin.ok(&["CLIENT", "PAUSE", "100000", "WRITE"]);
        admin.ok(&["FAILOVER", "TIMEOUT", "100"]);
        until("the failover is aborted", || state(&mut admin) == "no-failover");
        assert_eq!(paused(&mut admin), "client_pause");
        admin.ok(&["CLIENT", "UNPAUSE"]);
        admin.ok(&["SET", "key", "3"]);
        raw.send(&["REPLCONF", "ACK", "0"]);
    });
}

/// A paused write has no visible effect, so this only waits until its client has sent it.
fn until_blocked_or_paused(admin: &mut Client) {
    until("the write was sent", || {
        admin.cmd(&["CLIENT", "LIST"]).text().lines().filter(|line| line.contains("cmd=")).count()
            > 0
    });
    std::thread::sleep(Duration::from_millis(200));
}

/// The backlog is freed after a while without replicas, and the replication id changes.
#[test]
fn replication_id_changes_when_the_backlog_is_freed() {
    on_both(&BOTH, &[], |server| {
        let mut client = server.client();
        client.ok(&["CONFIG", "SET", "repl-backlog-ttl", "1", "repl-backlog-size", "20000"]);
        let mut raw = RawReplica::new(server);
        let (id, _) = raw.full_sync();
        raw.read_copy();
        client.ok(&["SET", "key", "value"]);
        assert_eq!(fields(&mut client, "replication")["repl_backlog_size"], "20000");
        assert_eq!(fields(&mut client, "replication")["master_replid"], id);
        drop(raw);
        until("no backlog", || fields(&mut client, "replication")["repl_backlog_active"] == "0");
        assert_ne!(fields(&mut client, "replication")["master_replid"], id);
        client.ok(&["SET", "key", "other"]);
        let mut next = RawReplica::new(server);
        assert_eq!(next.ask(&["REPLCONF", "capa", "eof", "capa", "psync2"]), "+OK");
        assert!(next.ask(&["PSYNC", &id, "1"]).starts_with("+FULLRESYNC"));
        next.read_copy();
        let id = fields(&mut client, "replication")["master_replid"].clone();
        client.ok(&["DEBUG", "CHANGE-REPL-ID"]);
        assert_ne!(fields(&mut client, "replication")["master_replid"], id);
    });
}

/// INFO reports the memory kept for a slow replica, which is freed when it has caught up.
#[test]
fn info_reports_the_memory_kept_for_replicas() {
    let Some(program) = locate::valkey() else { return skipped::note_here("valkey-server") };
    let weft = Server::weft(&[&BOTH[..], &["--repl-backlog-size", "1mb"]].concat());
    let replica = start_replica("valkey", &program, weft.port(), &[]);
    wait_until_caught_up(&weft, &replica);
    replica.signal(Signal::STOP);
    let (mut client, value) = (weft.client(), "x".repeat(1 << 20));
    for n in 0..32 {
        client.ok(&["SET", &format!("key:{}", n % 4), &value]);
    }
    until("the replica lags", || number(&mut client, "memory", "mem_clients_slaves") > 16 << 20);
    let memory = fields(&mut client, "memory");
    let of = |name: &str| memory[name].parse::<u64>().expect("a number");
    assert!(of("mem_total_replication_buffers") > 16 << 20, "{memory:?}");
    assert!(of("mem_replication_backlog") < 3 << 20, "{memory:?}");
    assert!(of("mem_not_counted_for_evict") > 16 << 20, "{memory:?}");
    replica.signal(Signal::CONT);
    wait_until_caught_up(&weft, &replica);
    until("the memory is freed", || {
        number(&mut client, "memory", "mem_total_replication_buffers") < 3 << 20
    });
}
