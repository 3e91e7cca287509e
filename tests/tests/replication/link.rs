//! The link to the primary as clients of a replica see it: in CLIENT LIST, CLIENT KILL and MONITOR,
//! and during a pause.

use std::collections::BTreeMap;
use std::time::Duration;
use weft_testkit::{Client, Server, Value};
use weft_tests::replication::{
    FakeLink, FakePrimary, ID, NO_KEYS, info, replicate_from, wait_for_link,
};
use weft_tests::scene::{HeldShard, on_both, reply, send, until, until_blocked};

/// The fields of the lines of CLIENT LIST.
fn line(client: &mut Client, words: &[&str]) -> Vec<BTreeMap<String, String>> {
    let text = client.cmd(&[&["CLIENT", "LIST"], words].concat()).text();
    let fields = |line: &str| {
        let pairs = line.split(' ').filter_map(|word| word.split_once('='));
        pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect()
    };
    text.lines().filter(|line| !line.is_empty()).map(fields).collect()
}

/// Makes `replica` replicate from `fake`, without keys, at offset 0.
fn linked_to(fake: &FakePrimary, replica: &Server) -> FakeLink {
    replicate_from(replica, &fake.port());
    let mut link = fake.copy(NO_KEYS, 0);
    link.wait_for_ack(0);
    wait_for_link(&mut replica.client());
    link
}

#[test]
fn client_list_shows_the_primary() {
    on_both(&["--save", ""], &[], |replica| {
        let mut client = replica.client();
        assert_eq!(info(&mut client, "connected_clients"), "1");
        let fake = FakePrimary::new();
        assert!(line(&mut client, &["TYPE", "primary"]).is_empty());
        let mut link = linked_to(&fake, replica);
        let mut at = link.write(&["SELECT", "2"]) + link.write(&["SET", "k", "v"]);
        link.wait_for_ack(at);
        let shown = line(&mut client, &["TYPE", "master"]);
        let [own] = &shown[..] else { panic!("{shown:?}") };
        let addr = format!("127.0.0.1:{}", fake.port());
        let received = at.to_string();
        for (name, wanted) in [
            ("addr", addr.as_str()),
            ("name", ""),
            ("flags", "M"),
            ("capa", ""),
            ("db", "2"),
            ("sub", "0"),
            ("multi", "-1"),
            ("watch", "0"),
            ("qbuf", "0"),
            ("omem", "0"),
            ("cmd", "set"),
            ("user", "(superuser)"),
            ("redir", "-1"),
            ("resp", "2"),
            ("tot-net-in", &received),
            ("tot-cmds", "2"),
        ] {
            assert_eq!(own[name], wanted, "{name} of {}: {own:?}", replica.name());
        }
        assert_ne!(own["tot-net-out"], "0", "the replica has sent acknowledgements");
        // Like in the reference, the link counts as a connected client.
        assert_eq!(info(&mut client, "connected_clients"), "2");
        assert_eq!(info(&mut client, "connected_slaves"), "0");
        for (words, count) in [
            (&["TYPE", "primary"][..], 1),
            (&["FLAGS", "M"], 1),
            (&["ID", &own["id"]], 1),
            (&["ADDR", &addr], 1),
            (&["LADDR", &own["laddr"]], 1),
            (&["USER", "default"], 1),
            (&["TYPE", "normal"], 1),
            (&["NOT-TYPE", "master"], 1),
            (&["TYPE", "replica"], 0),
            (&["TYPE", "pubsub"], 0),
            (&[], 2),
        ] {
            assert_eq!(line(&mut client, words).len(), count, "{words:?} at {}", replica.name());
        }
        // `cmd` is the last command of the stream; a transaction shows as EXEC.
        at += link.write(&["PING"]);
        link.wait_for_ack(at);
        assert_eq!(line(&mut client, &["TYPE", "master"])[0]["cmd"], "ping");
        for words in [&["MULTI"][..], &["SET", "k", "w"], &["INCR", "n"], &["EXEC"]] {
            at += link.write(words);
        }
        link.wait_for_ack(at);
        assert_eq!(line(&mut client, &["TYPE", "master"])[0]["cmd"], "exec");
        client.ok(&["REPLICAOF", "NO", "ONE"]);
        assert!(line(&mut client, &["TYPE", "master"]).is_empty());
        assert_eq!(info(&mut client, "connected_clients"), "1");
    });
}

/// CLIENT KILL ends the link; the replica reconnects with a partial sync.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn killing_the_link_makes_the_replica_reconnect() {
    on_both(&["--save", ""], &[], |replica| {
        let mut client = replica.client();
        let fake = FakePrimary::new();
        let mut link = linked_to(&fake, replica);
        let mut at = link.write(&["SELECT", "0"]) + link.write(&["SET", "k", "0"]);
        link.wait_for_ack(at);
        let one = |value: &Value| assert_eq!(value.int(), 1, "at {}", replica.name());
        for round in 0..6 {
            // Other types do not match the link.
            for kind in ["normal", "pubsub", "replica"] {
                assert_eq!(client.cmd(&["CLIENT", "KILL", "TYPE", kind]).int(), 0, "{kind}");
            }
            let own = line(&mut client, &["TYPE", "master"]).remove(0);
            match round {
                0 => one(&client.cmd(&["CLIENT", "KILL", "TYPE", "master"])),
                1 => one(&client.cmd(&["CLIENT", "KILL", "TYPE", "primary"])),
                2 => one(&client.cmd(&["CLIENT", "KILL", "ID", &own["id"]])),
                3 => one(&client.cmd(&["CLIENT", "KILL", "ADDR", &own["addr"]])),
                4 => one(&client.cmd(&["CLIENT", "KILL", "LADDR", &own["laddr"]])),
                _ => client.ok(&["CLIENT", "KILL", &own["addr"]]),
            }
            while link.try_request().is_some() {}
            let (again, words) = fake.handshake();
            assert_eq!(words, ["PSYNC", ID, &(at + 1).to_string()], "at {}", replica.name());
            link = again;
            link.raw(b"+CONTINUE\r\n");
            at += link.write(&["SET", "k", &round.to_string()]);
            link.wait_for_ack(at);
            wait_for_link(&mut client);
            assert_eq!(client.cmd(&["GET", "k"]).text(), round.to_string());
        }
        // In a transaction, like Sentinel.
        client.ok(&["MULTI"]);
        client.cmd(&["CLIENT", "KILL", "TYPE", "master"]);
        assert_eq!(client.cmd(&["EXEC"]).items()[0].int(), 1);
        while link.try_request().is_some() {}
        let (_link, words) = fake.handshake();
        assert_eq!(words[2], (at + 1).to_string());
    });
}

/// During a pause of writes the replica does not read from the primary. That must not count as a
/// timeout.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn pause_may_last_longer_than_the_link_timeout() {
    on_both(&["--save", "", "--repl-timeout", "3"], &[], |replica| {
        let mut client = replica.client();
        let fake = FakePrimary::new();
        let mut link = linked_to(&fake, replica);
        let mut at = link.write(&["SELECT", "0"]) + link.write(&["SET", "k", "1"]);
        link.wait_for_ack(at);
        client.ok(&["CLIENT", "PAUSE", "1000000", "WRITE"]);
        let paused = at;
        at += link.write(&["SET", "k", "2"]);
        for _ in 0..24 {
            std::thread::sleep(Duration::from_millis(300));
            at += link.write(&["PING"]);
        }
        for _ in 0..2 {
            link.wait_for_ack(paused);
        }
        assert_eq!(client.cmd(&["GET", "k"]).text(), "1");
        assert_eq!(info(&mut client, "master_link_status"), "up");
        client.ok(&["CLIENT", "UNPAUSE"]);
        link.wait_for_ack(at);
        assert_eq!(client.cmd(&["GET", "k"]).text(), "2");
        assert!(!replica.log().contains("imeout"), "{}", replica.log_tail());
    });
}

/// A unit that was waiting for its shards when a pause began keeps waiting.
#[test]
fn pause_delays_a_unit_that_waits_for_its_shards() {
    let replica = Server::weft(&["--save", "", "--replica-read-only", "no"]);
    let mut client = replica.client();
    let fake = FakePrimary::new();
    let mut link = linked_to(&fake, &replica);
    let held = HeldShard::with_tag(&replica, "tag");
    // Too long to be applied between the commands of clients.
    let value = "v".repeat(400 << 10);
    let mut at = link.write(&["SELECT", "0"]);
    let paused = at;
    at += link.write(&["SET", "{tag}k", &value]);
    std::thread::sleep(Duration::from_millis(300));
    let mut pauser = replica.client();
    send(&mut pauser, &["CLIENT", "PAUSE", "1000000", "WRITE"]);
    until("writes are paused", || {
        client.cmd(&["INFO", "clients"]).text().contains("paused_actions:write")
    });
    held.release();
    assert!(reply(&mut pauser).is_ok());
    for _ in 0..2 {
        link.wait_for_ack(paused);
    }
    assert!(client.cmd(&["GET", "{tag}k"]).is_null());
    client.ok(&["CLIENT", "UNPAUSE"]);
    link.wait_for_ack(at);
    assert_eq!(client.cmd(&["STRLEN", "{tag}k"]).int(), 400 << 10);
}

/// A long command is applied on another thread than others, but shown once like them.
#[test]
fn monitor_shows_a_long_command_of_the_stream_once() {
    on_both(&["--save", ""], &[], |replica| {
        let fake = FakePrimary::new();
        let mut link = linked_to(&fake, replica);
        let mut monitor = replica.client();
        monitor.ok(&["MONITOR"]);
        let members: Vec<String> = (0..10_000).map(|n| n.to_string()).collect();
        let add = ["SADD", "set"].into_iter().chain(members.iter().map(String::as_str));
        let mut at = link.write(&["SELECT", "0"]) + link.write(&add.collect::<Vec<_>>());
        at += link.write(&["RPUSH", "list", "small"]);
        link.wait_for_ack(at);
        let mut shown = Vec::new();
        while !shown.last().is_some_and(|line: &String| line.contains("\"RPUSH\" \"list\"")) {
            shown.push(monitor.read_frame().expect("a line").value.text());
        }
        let times =
            shown.iter().filter(|line| line.contains("\"SADD\" \"set\" \"0\" \"1\"")).count();
        assert_eq!(times, 1, "at {}", replica.name());
    });
}

/// Replicas do not count as connected clients of a primary.
#[test]
fn replicas_do_not_count_as_connected_clients() {
    on_both(&["--save", ""], &[], |primary| {
        let mut client = primary.client();
        let mut replica = weft_tests::replicas::RawReplica::new(primary);
        replica.full_sync();
        let shown = line(&mut client, &["TYPE", "replica"]);
        assert_eq!((shown.len(), shown[0]["flags"].as_str()), (1, "S"));
        assert_eq!(info(&mut client, "connected_clients"), "1");
        let mut waiting = primary.client();
        send(&mut waiting, &["BLPOP", "none", "0"]);
        until_blocked(&mut client, 1);
        assert_eq!(info(&mut client, "connected_clients"), "2");
        assert_eq!(client.cmd(&["CLIENT", "KILL", "TYPE", "replica"]).int(), 1);
        assert!(line(&mut client, &["TYPE", "replica"]).is_empty());
    });
}
