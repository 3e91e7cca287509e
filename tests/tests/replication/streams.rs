//! The replication stream to other servers: complete and in order, over links that are cut
//! repeatedly. `cut_links.rs` has longer runs, and chains.

use rustix::process::Signal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_testkit::rng::Rng;
use weft_testkit::{Server, locate, skipped};
use weft_tests::env_or;
use weft_tests::persistence::until;
use weft_tests::replicas::{
    Link, RawReplica, fields, fill, number, replica_programs, start_replica, wait_for_same_data,
    wait_until_caught_up,
};
use weft_tests::traffic;

const WEFT: [&str; 6] =
    ["--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes", "--io-threads", "4"];

fn weft(more: &[&str]) -> Server {
    Server::weft(&[&WEFT[..], more].concat())
}

/// Eight clients write while `disturb` is called repeatedly.
fn write_while(server: &Server, seed: u64, rounds: usize, mut disturb: impl FnMut()) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let (is_over, mut client) = (&is_over, server.client());
            scope.spawn(move || {
                let mut rng = Rng::new(seed * 100 + writer);
                while !is_over.load(Ordering::Relaxed) {
                    traffic::write(&mut client, &mut rng);
                }
            });
        }
        for _ in 0..rounds {
            std::thread::sleep(Duration::from_millis(150));
            disturb();
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn replicas_have_all_data_although_their_links_are_cut() {
    let seed = env_or("REPL_SEED", 1);
    for (name, program) in replica_programs() {
        let weft = weft(&[]);
        if name == "valkey" {
            fill(&weft, seed, true);
        }
        let link = Link::to(weft.port());
        let replica = start_replica(name, &program, link.port(), &[]);
        wait_until_caught_up(&weft, &replica);
        let mut admin = weft.client();
        let mut rounds = 0;
        write_while(&weft, seed, env_or("REPL_ROUNDS", 20), || {
            rounds += 1;
            match rounds % 2 {
                0 => drop(admin.cmd(&["CLIENT", "KILL", "TYPE", "replica"])),
                _ => link.cut(),
            }
        });
        wait_until_caught_up(&weft, &replica);
        wait_for_same_data(&weft, &replica);
        let stats = fields(&mut admin, "stats");
        assert_eq!((&stats["sync_full"][..], &stats["sync_partial_err"][..]), ("1", "0"), "{name}");
        assert!(stats["sync_partial_ok"].parse::<u64>().expect("a number") >= 3, "{name}");
    }
}

/// A replica that does not read is disconnected. The other replica and clients do not wait for it.
#[test]
fn replica_that_stops_reading_is_disconnected() {
    let Some(program) = locate::valkey() else { return skipped::note_here("valkey-server") };
    let weft =
        weft(&["--client-output-buffer-limit", "replica 32mb 0 0", "--repl-backlog-size", "1mb"]);
    let stopped = start_replica("valkey", &program, weft.port(), &[]);
    let other = start_replica("valkey", &program, weft.port(), &[]);
    wait_until_caught_up(&weft, &stopped);
    wait_until_caught_up(&weft, &other);
    stopped.signal(Signal::STOP);
    let (mut client, value) = (weft.client(), "x".repeat(1 << 20));
    let mut writes = 0;
    until("the replica is disconnected", || {
        for _ in 0..4 {
            client.ok(&["SET", &format!("key:{}", writes % 16), &value]);
            writes += 1;
        }
        // So that the other replica never lags much.
        std::thread::sleep(Duration::from_millis(50));
        number(&mut client, "replication", "connected_slaves") == 1
    });
    assert!(weft.log().contains("output buffer limits"), "{}", weft.log_tail());
    assert_eq!(number(&mut client, "stats", "client_output_buffer_limit_disconnections"), 1);
    wait_until_caught_up(&weft, &other);
    wait_for_same_data(&weft, &other);
    // The replica reconnects. The backlog does not have what it needs, so it does a full sync.
    stopped.signal(Signal::CONT);
    wait_until_caught_up(&weft, &stopped);
    wait_for_same_data(&weft, &stopped);
    let stats = fields(&mut client, "stats");
    assert_eq!((&stats["sync_full"][..], &stats["sync_partial_err"][..]), ("3", "1"));
}

/// A partial sync sends exactly the stream from the requested offset.
#[test]
fn partial_sync_sends_the_stream_from_its_offset() {
    let weft = weft(&[]);
    let mut client = weft.client();
    let mut first = RawReplica::new(&weft);
    let (id, offset) = first.full_sync();
    first.read_copy();
    first.send(&["REPLCONF", "ACK", "0"]);
    for n in 0..2000 {
        client.ok(&["SET", &format!("key:{n}"), &"v".repeat(n)]);
    }
    let end = number(&mut client, "replication", "master_repl_offset");
    let all = first.take((end - offset) as usize);
    let mut rng = Rng::new(3);
    for _ in 0..50 {
        let skip = rng.below(all.len());
        let mut next = RawReplica::new(&weft);
        assert_eq!(next.ask(&["REPLCONF", "capa", "psync2"]), "+OK");
        let from = (offset + 1 + skip as u64).to_string();
        assert_eq!(next.ask(&["PSYNC", &id, &from]), format!("+CONTINUE {id}"));
        assert!(next.take(all.len() - skip) == all[skip..], "from {skip}");
    }
    let mut ahead = RawReplica::new(&weft);
    let from = (end + 1000).to_string();
    ahead.send(&["PSYNC", &id, &from]);
    assert!(ahead.line().starts_with("+FULLRESYNC"));
}

/// A connection that becomes a replica no longer gets messages of its subscriptions, or
/// invalidations.
#[test]
fn replicas_get_no_pushes() {
    let weft = weft(&["--repl-timeout", "600"]);
    let mut client = weft.client();
    client.ok(&["SET", "key", "value"]);
    let subscribes = [&["HELLO", "3"][..], &["SUBSCRIBE", "channel"]];
    let tracks = [&["HELLO", "3"][..], &["CLIENT", "TRACKING", "ON"], &["GET", "key"]];
    for (before, then) in
        [(&subscribes[..], &["PUBLISH", "channel", "message"][..]), (&tracks, &["SET", "key", "x"])]
    {
        let mut raw = RawReplica::new(&weft);
        before.iter().for_each(|words| raw.send(words));
        std::thread::sleep(Duration::from_millis(200));
        raw.discard();
        raw.full_sync();
        raw.read_copy();
        client.cmd(then);
        let got = raw.read_to_end();
        assert!(got.is_empty(), "{then:?}: {:?}", String::from_utf8_lossy(&got));
    }
    until("no replicas", || number(&mut client, "replication", "connected_slaves") == 0);
}

/// A replica gets no replies; a command that has a reply closes its connection.
#[test]
fn replicas_get_no_replies() {
    let weft = weft(&["--repl-timeout", "600"]);
    for words in [&["PING"][..], &["SUBSCRIBE", "channel"], &["REPLCONF", "capa", "eof"], &["NONE"]]
    {
        let mut raw = RawReplica::new(&weft);
        raw.full_sync();
        raw.read_copy();
        raw.send(&["REPLCONF", "ACK", "0"]);
        raw.raw(b"\n\n");
        raw.send(&["PSYNC", "?", "-1"]);
        raw.send(&["MONITOR"]);
        raw.send(&["REPLCONF", "ACK", "0"]);
        raw.send(words);
        let got = raw.read_to_end();
        assert!(got.is_empty(), "{words:?}: {:?}", String::from_utf8_lossy(&got));
    }
    let mut client = weft.client();
    until("no replicas", || number(&mut client, "replication", "connected_slaves") == 0);
}
