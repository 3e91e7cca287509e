//! A node whose lease has ended acknowledges nothing: neither what it has executed nor what it executes.
//!
//! `DEBUG CLUSTER-LEASE` takes the place of the cluster's store. In the same write after other commands, it ends the lease
//! between their execution and their replies.

use rustix::process::Signal;
use std::time::Duration;
use weft_testkit::client::encode;
use weft_testkit::{Client, Server, Value};
use weft_tests::scene::{
    client, id, pause_slow_lane, reply, reply_text, send, send_all, until, until_blocked,
    until_in_slow_lane,
};

const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];
const END: &[&str] = &["DEBUG", "CLUSTER-LEASE", "0"];
const LONG: &[&str] = &["DEBUG", "CLUSTER-LEASE", "600000"];
const DOWN: &str = "CLUSTERDOWN The cluster is down";

/// Queued commands beyond which EXEC runs in the slow lane.
const MANY: usize = 2500;

/// A node that serves all slots and has a lease, with one thread unless `args` say otherwise: then the order of what happens
/// is known.
fn node(args: &[&str]) -> (Server, Client) {
    let all = [&["--cluster-enabled", "yes", "--io-threads", "1"][..], &DEBUG, args].concat();
    let server = Server::weft(&all);
    let mut admin = client(&server);
    admin.ok(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    admin.ok(LONG);
    (server, admin)
}

fn holds(admin: &mut Client, key: &str, value: &str) -> bool {
    admin.cmd(&["GET", key]).bytes() == Some(value.as_bytes())
}

/// The server closes the connection without a byte.
#[track_caller]
fn is_closed(client: &mut Client) {
    let got = client.read_to_close().expect("the server closes the connection");
    assert_eq!(String::from_utf8_lossy(&got), "");
}

/// Sends commands, in the same write the end of the lease, and expects no reply. Then the lease is long again.
#[track_caller]
fn closes(server: &Server, admin: &mut Client, commands: &[&[&str]]) {
    let mut late = client(server);
    send_all(&mut late, &[commands, &[END]].concat());
    is_closed(&mut late);
    admin.ok(LONG);
}

#[test]
fn reply_after_the_end_of_the_lease_closes_the_connection() {
    let (server, mut admin) = node(&[]);
    let scripts = "return redis.call('SET', KEYS[1], 'x')";
    for commands in [
        &[&["SET", "k", "1"][..]][..],
        &[&["GET", "k"]],
        &[&["INCR", "n"], &["INCR", "n"], &["PING"], &["GET", "n"]],
        &[&["PING"], &["DEL", "none"]],
        &[&["MULTI"], &["SET", "t", "1"], &["EXEC"]],
        &[&["MULTI"], &["PING"], &["EXEC"]],
        &[&["WATCH", "k"]],
        &[&["EVAL", scripts, "1", "s"]],
        &[&["EVAL", "return 1", "0"]],
        &[&["PUBLISH", "channel", "message"]],
        &[&["SPUBLISH", "channel", "message"]],
        &[&["HELLO", "3"], &["SSUBSCRIBE", "channel"]],
        &[&["LPUSH", "l", "x"], &["BLPOP", "l", "0"]],
        &[&["WAIT", "0", "0"]],
        &[&["DBSIZE"]],
        &[&["SCAN", "0"]],
        &[&["FLUSHALL"]],
        &[&["LPUSH", "string", "x"], &["GET", "string"]],
    ] {
        closes(&server, &mut admin, commands);
    }
    closes(&server, &mut admin, &[&["SET", "executed", "yes"]]);
    assert_eq!(
        admin.cmd(&["GET", "executed"]).text(),
        "yes",
        "it executed, and its client doesn't know"
    );
}

#[test]
fn connections_about_the_server_outlive_the_lease() {
    let (server, mut admin) = node(&[]);
    let mut operator = client(&server);
    for command in [
        &["PING"][..],
        &["ECHO", "a"],
        &["INFO"],
        &["CLUSTER", "INFO"],
        &["CLUSTER", "NODES"],
        &["CLUSTER", "COUNTKEYSINSLOT", "0"],
        &["CONFIG", "GET", "save"],
        &["CLIENT", "LIST"],
        &["ROLE"],
    ] {
        send_all(&mut operator, &[command, END]);
        assert_eq!(reply(&mut operator).error(), None, "{command:?}");
        assert!(reply(&mut operator).is_ok());
        assert_eq!(operator.cmd(command).error(), None, "{command:?}");
        admin.ok(LONG);
    }
    send_all(&mut operator, &[&["MULTI"], &["DISCARD"], END]);
    (0..3).for_each(|_| assert!(reply(&mut operator).is_ok()));
    operator.cmd(&["SUBSCRIBE", "c"]);
}

#[test]
fn requests_after_the_end_of_the_lease_are_refused() {
    let (server, mut admin) = node(&[]);
    admin.ok(&["SET", "k", "1"]);
    admin.ok(END);
    let mut late = client(&server);
    for command in [
        &["SET", "k", "2"][..],
        &["GET", "k"],
        &["MGET", "{k}1", "{k}2"],
        &["BLPOP", "l", "0"],
        &["EVAL", "return 1", "1", "k"],
        &["PUBLISH", "c", "m"],
        &["SPUBLISH", "c", "m"],
        &["SSUBSCRIBE", "c"],
        &["FLUSHALL"],
        &["DBSIZE"],
        &["WAIT", "0", "0"],
    ] {
        assert_eq!(reply_text(&mut late, command), DOWN, "{command:?}");
    }
    late.ok(&["MULTI"]);
    assert_eq!(reply_text(&mut late, &["SET", "k", "2"]), DOWN);
    assert!(reply_text(&mut late, &["EXEC"]).starts_with("EXECABORT"));
    // A pipeline of reads and refused writes is no acknowledgement, so its client stays.
    send_all(&mut late, &[&["PING"], &["SET", "k", "2"], &["PING"]]);
    assert_eq!(reply(&mut late).text(), "PONG");
    assert_eq!(reply(&mut late).error().as_deref(), Some(DOWN));
    assert_eq!(reply(&mut late).text(), "PONG");
    // Redirects are not acknowledgements, either.
    admin.ok(&["CLUSTER", "DELSLOTS", "0"]);
    admin.ok(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    assert_eq!(reply_text(&mut late, &["GET", "{06S}"]), "CLUSTERDOWN Hash slot not served");
    admin.ok(LONG);
    assert_eq!(late.cmd(&["GET", "k"]).text(), "1");
}

#[test]
fn transaction_that_was_queued_before_the_end_is_refused() {
    let (server, mut admin) = node(&[]);
    let mut late = client(&server);
    late.ok(&["MULTI"]);
    assert_eq!(late.cmd(&["SET", "k", "1"]).text(), "QUEUED");
    admin.ok(END);
    assert_eq!(reply_text(&mut late, &["EXEC"]), DOWN);
    admin.ok(LONG);
    assert!(late.cmd(&["GET", "k"]).is_null());
    assert_eq!(reply_text(&mut late, &["EXEC"]), "ERR EXEC without MULTI");
}

#[test]
fn blocked_client_that_is_served_too_late_gets_no_reply() {
    let (server, mut admin) = node(&[]);
    let (mut blocked, mut reader) = (client(&server), client(&server));
    send(&mut blocked, &["BLPOP", "l", "0"]);
    send(&mut reader, &["XREAD", "BLOCK", "0", "STREAMS", "stream", "$"]);
    until_blocked(&mut admin, 2);
    let mut late = client(&server);
    send_all(&mut late, &[&["RPUSH", "l", "x"], &["XADD", "stream", "*", "f", "v"], END]);
    is_closed(&mut late);
    is_closed(&mut blocked);
    is_closed(&mut reader);
}

#[test]
fn blocked_client_is_served_in_a_later_lease() {
    let (server, mut admin) = node(&[]);
    let (mut blocked, mut silent) = (client(&server), client(&server));
    send(&mut blocked, &["BLPOP", "l", "0"]);
    send(&mut silent, &["BLPOP", "other", "1"]);
    until_blocked(&mut admin, 2);
    admin.ok(END);
    admin.ok(LONG);
    assert_eq!(admin.cmd(&["RPUSH", "l", "x"]).int(), 1);
    assert_eq!(reply(&mut blocked).items()[1].text(), "x");
    assert!(reply(&mut silent).is_null());
}

#[test]
fn wait_that_ends_without_a_lease_gets_no_reply() {
    let (server, mut admin) = node(&[]);
    let (mut waits, mut lists, mut asked) = (client(&server), client(&server), client(&server));
    let asked_id = id(&mut asked);
    send(&mut waits, &["WAIT", "1", "2000"]);
    send(&mut lists, &["BLPOP", "l", "2"]);
    send(&mut asked, &["BLPOP", "l", "0"]);
    until_blocked(&mut admin, 3);
    admin.ok(END);
    is_closed(&mut waits);
    is_closed(&mut lists);
    // An error says nothing about keys.
    admin.cmd(&["CLIENT", "UNBLOCK", &asked_id, "ERROR"]);
    let error = reply(&mut asked).error().expect("an error");
    assert!(error.starts_with("UNBLOCKED"), "{error}");
}

/// The client has sent a transaction that waits for the slow lane.
fn long_transaction(server: &Server) -> Client {
    let mut long = client(server);
    let mut bytes = encode(&["MULTI"]);
    (0..MANY).for_each(|n| bytes.extend(encode(&["SET", &format!("{{long}}{n}"), "x"])));
    long.send_raw(&bytes).expect("the server reads");
    (0..=MANY).for_each(|_| assert!(reply(&mut long).error().is_none()));
    send(&mut long, &["EXEC"]);
    long
}

#[test]
fn reply_of_the_slow_lane_needs_the_lease() {
    let (server, mut admin) = node(&[]);
    for ends in [true, false] {
        pause_slow_lane(&mut admin, true);
        let mut long = long_transaction(&server);
        until_in_slow_lane(&mut admin, 1);
        admin.ok(END);
        if !ends {
            // Another node may have led in between.
            admin.ok(LONG);
        }
        pause_slow_lane(&mut admin, false);
        is_closed(&mut long);
        admin.ok(LONG);
    }
    let mut long = long_transaction(&server);
    assert_eq!(reply(&mut long).items().len(), MANY);
}

#[test]
fn slow_command_after_a_write_in_one_pipeline() {
    let (server, mut admin) = node(&[]);
    pause_slow_lane(&mut admin, true);
    let mut pipelined = client(&server);
    // BGSAVE runs aside, and needs no lease itself.
    send_all(&mut pipelined, &[&["SET", "k", "1"], &["BGREWRITEAOF"]]);
    assert!(reply(&mut pipelined).is_ok(), "it left in time");
    admin.ok(END);
    pause_slow_lane(&mut admin, false);
    admin.ok(LONG);
    pipelined.cmd(&["PING"]);
}

#[test]
fn messages_on_shard_channels_need_the_lease() {
    let (server, mut admin) = node(&[]);
    let mut own = client(&server);
    let (mut shard, mut plain) = (client(&server), client(&server));
    shard.cmd(&["SSUBSCRIBE", "c"]);
    plain.cmd(&["SUBSCRIBE", "c"]);
    assert_eq!(admin.cmd(&["SPUBLISH", "c", "in time"]).int(), 1);
    assert_eq!(reply(&mut shard).items()[2].text(), "in time");
    own.hello(3);
    send(&mut own, &["SSUBSCRIBE", "own"]);
    own.read_frame().expect("a push");
    let mut late = client(&server);
    send_all(&mut late, &[&["SPUBLISH", "c", "late"], &["PUBLISH", "c", "late"], END]);
    is_closed(&mut late);
    is_closed(&mut shard);
    assert_eq!(reply(&mut plain).items()[2].text(), "late", "another node may publish it as well");
    // A client that publishes to itself gets the message before the reply.
    admin.ok(LONG);
    send_all(&mut own, &[&["SPUBLISH", "own", "late"], END]);
    is_closed(&mut own);
}

#[test]
fn reply_that_waits_for_the_disk_needs_the_lease_when_it_leaves() {
    let (server, mut admin) = node(&["--appendonly", "yes", "--appendfsync", "always"]);
    admin.ok(&["SET", "k", "0"]);
    admin.ok(&["DEBUG", "AOF-FLUSH-SLEEP", "300000"]);
    for ends in [true, false] {
        let mut late = client(&server);
        send(&mut late, &["SET", "k", "1"]);
        until("the write has executed", || holds(&mut admin, "k", "1"));
        admin.ok(END);
        if !ends {
            admin.ok(LONG);
        }
        is_closed(&mut late);
        admin.ok(LONG);
        admin.ok(&["DEBUG", "AOF-FLUSH-SLEEP", "0"]);
        admin.ok(&["SET", "k", "0"]);
        admin.ok(&["DEBUG", "AOF-FLUSH-SLEEP", "300000"]);
    }
}

#[test]
fn replies_that_other_threads_write_need_the_lease() {
    let (server, mut admin) = node(&["--io-threads", "2", "--io-threads-do-reads", "no"]);
    let mut all: Vec<Client> = (0..16).map(|_| client(&server)).collect();
    for round in 0..20 {
        for (n, late) in all.iter_mut().enumerate() {
            send_all(late, &[&["SET", &format!("{n}"), &format!("{round}")], &["GET", "k"]]);
        }
        for late in &mut all {
            assert!(reply(late).is_ok() && reply(late).is_null());
        }
    }
    closes(&server, &mut admin, &[&["SET", "k", "1"]]);
}

#[test]
fn lease_of_a_replica_does_not_matter_for_its_own_data() {
    let primary = Server::weft(&["--repl-diskless-sync-delay", "0"]);
    let of = format!("127.0.0.1 {}", primary.port());
    let replica = Server::weft(&[&["--replicaof", &of][..], &DEBUG].concat());
    let mut admin = client(&replica);
    client(&primary).ok(&["SET", "k", "1"]);
    until("the key is there", || admin.cmd(&["DBSIZE"]) == Value::Integer(1));
    admin.ok(END);
    assert_eq!(admin.cmd(&["DBSIZE"]).int(), 1);
    assert_eq!(admin.cmd(&["PUBLISH", "c", "m"]).int(), 0);
    assert_eq!(reply_text(&mut admin, &["GET", "k"]), DOWN, "without READONLY");
}

/// Requests that arrive while the process is stopped are not acknowledged after it.
#[test]
fn process_that_was_stopped_beyond_its_lease_acknowledges_nothing() {
    let (server, mut admin) = node(&["--io-threads", "2"]);
    let mut blocked = client(&server);
    for round in 0..3 {
        send(&mut blocked, &["BLPOP", "l", "0"]);
        until_blocked(&mut admin, 1);
        let mut writers: Vec<Client> = (0..8).map(|_| client(&server)).collect();
        let mut subscriber = client(&server);
        subscriber.cmd(&["SSUBSCRIBE", "c"]);
        writers.iter_mut().for_each(|writer| assert!(writer.cmd(&["PING"]).error().is_none()));
        admin.ok(&["DEBUG", "CLUSTER-LEASE", "100"]);
        server.signal(Signal::STOP);
        std::thread::sleep(Duration::from_millis(150));
        for (n, writer) in writers.iter_mut().enumerate() {
            let key = format!("{round}:{n}");
            let script = "return redis.call('SET', KEYS[1], 'x')";
            match n % 4 {
                0 => send_all(writer, &[&["SET", &key, "1"], &["SET", &key, "2"]]),
                1 => send_all(writer, &[&["MULTI"], &["SET", &key, "1"], &["EXEC"]]),
                2 => send_all(writer, &[&["EVAL", script, "1", &key], &["RPUSH", "l", "x"]]),
                _ => send_all(writer, &[&["SPUBLISH", "c", "m"], &["PUBLISH", "c", "m"]]),
            }
        }
        server.signal(Signal::CONT);
        for writer in &mut writers {
            writer.send_raw(&encode(&["QUIT"])).expect("an open connection");
            let got =
                String::from_utf8_lossy(&writer.read_to_close().expect("an end")).into_owned();
            for line in got.lines() {
                let harmless =
                    [DOWN, "EXECABORT", "OK"].iter().any(|text| line[1..].starts_with(text));
                assert!(harmless, "{got}");
            }
            // MULTI and QUIT promise nothing.
            assert!(got.matches("+OK").count() <= 2 && !got.contains(':'), "{got}");
        }
        admin.ok(LONG);
        assert_eq!(admin.cmd(&["EXISTS", &format!("{round}:0")]).int(), 0);
        assert_eq!(admin.cmd(&["RPUSH", "l", "y"]).int(), 1);
        let served: Value = reply(&mut blocked);
        assert_eq!(served.items()[1].text(), "y");
    }
}
