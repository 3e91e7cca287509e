//! The effect log: each command logs the same as in the reference, and replaying the log yields the
//! same data.
//!
//! The reference's log is its append-only file. Ours is the output of DEBUG EFFECTS. A marker
//! follows each request, which splits both logs into the entries of each request. Intended
//! differences are listed in [`DIFFERENCES`], with the reasons.

mod effects;

use effects::{DIFFERENCES, Run, SCRIPTS, play, replay};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_testkit::{Client, Server, skip_without};
use weft_testkit_differential::Group;
use weft_tests::env_or;
use weft_tests::persistence::PATIENCE;

const ARGS: [&str; 2] = ["--enable-debug-command", "yes"];

fn valkey() -> Option<Server> {
    let aof = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""];
    Server::valkey(&[&ARGS[..], &aof, &["--auto-aof-rewrite-percentage", "0"]].concat())
}

/// Commands of all families are logged as by the reference.
#[test]
fn effects_match_the_reference() {
    let test = "effects_match_the_reference";
    let theirs = valkey();
    if skip_without(test, &theirs, "valkey-server") {
        return;
    }
    let (ours, theirs) = (Server::weft(&ARGS), theirs.expect("not skipped"));
    let mut wrong = Vec::new();
    let (mut lines, mut known) = (0, 0);
    for (name, script) in SCRIPTS {
        let (our, their) = (Run::of_lines(&ours, script), Run::of_lines(&theirs, script));
        for (n, line) in script.lines().map(str::trim).filter(|l| !l.is_empty()).enumerate() {
            lines += 1;
            let (our, their) = (our.of_request(n), their.of_request(n));
            if effects::same(&our, &their) {
                continue;
            }
            match DIFFERENCES.iter().find(|(start, _, _)| line.starts_with(start)) {
                Some((_, expected, _)) if effects::is_like(&our, expected) => known += 1,
                Some(_) | None => wrong.push(format!(
                    "{name}: {line}\n   ours: {}\n   theirs: {}",
                    effects::shown(&our),
                    effects::shown(&their)
                )),
            }
        }
    }
    println!("{test}: {lines} lines, {known} known differences");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(lines > 300, "{lines} lines");
}

/// A damaged value accepts some elements and refuses a later one. The log has only the accepted
/// elements: an error during a replay would look like diverged data.
#[test]
fn damaged_value_logs_only_the_accepted_elements() {
    let (server, copy) = (Server::weft(&ARGS), Server::weft(&ARGS));
    let script = "PFADD broken\nSETRANGE broken 16 x\nPFADD broken e0 e3 e1 e4\nPFADD broken e1 e0";
    let run = Run::of_lines(&server, script);
    let logged: Vec<String> = (0..4).map(|n| effects::shown(&run.of_request(n))).collect();
    let expected = ["PFADD broken", "SETRANGE broken 16 x", "PFADD broken e0 e3", ""];
    assert_eq!(logged, expected);
    let (mut client, mut other) = (server.client(), copy.client());
    for line in &logged[..3] {
        let reply = other.cmd(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(reply.error(), None, "{line}");
    }
    assert_eq!(other.cmd(&["GET", "broken"]), client.cmd(&["GET", "broken"]));
}

/// A transaction and the retries of the clients that it serves are one unit in the log.
#[test]
fn group_of_effects_is_one_unit() {
    let server = Server::weft(&ARGS);
    let (mut client, mut waiting) = (server.client(), server.client());
    let path = server.dir().join("effects");
    let path = path.to_str().expect("a path of the test");
    client.ok(&["DEBUG", "EFFECTS", path]);
    let refused = client.cmd(&["DEBUG", "EFFECTS", path]).error().expect("refused");
    assert!(refused.contains("being read already"), "{refused}");
    waiting.send_raw(b"BLMOVE a{x} b{x} LEFT RIGHT 0\r\n").expect("sent");
    wait_for_blocked(&mut client, 1);
    client.cmd(&["RPUSH", "a{x}", "1"]);
    waiting.read_reply().expect("served");
    waiting.send_raw(b"BLPOP far 0\r\n").expect("sent");
    wait_for_blocked(&mut client, 1);
    for words in [&["MULTI"][..], &["SELECT", "3"], &["SET", "k", "v"], &["GET", "k"]] {
        client.cmd(words);
    }
    client.cmd(&["SELECT", "0"]);
    client.cmd(&["RPUSH", "far", "x", "y"]);
    client.cmd(&["EXEC"]);
    waiting.read_reply().expect("served");
    for words in [&["MULTI"][..], &["SET", "one", "1"], &["GET", "one"], &["EXEC"]] {
        client.cmd(words);
    }
    client.cmd(&["SET", "one", "2", "XX", "GET"]);
    client.ok(&["DEBUG", "EFFECTS"]);
    client.cmd(&["SET", "after", "1"]);
    let log = std::fs::read(path).expect("the log file");
    let words: Vec<String> = effects::parse(&log).iter().map(effects::words).collect();
    let expected = [
        "MULTI",
        "SELECT 0",
        "RPUSH a{x} 1",
        "LMOVE a{x} b{x} LEFT RIGHT",
        "EXEC",
        "MULTI",
        "SELECT 3",
        "SET k v",
        "SELECT 0",
        "RPUSH far x y",
        "LPOP far",
        "EXEC",
        "SET one 1",
        "SET one 2 XX",
    ];
    assert_eq!(words, expected);
}

fn wait_for_blocked(client: &mut Client, clients: usize) {
    let wanted = format!("blocked_clients:{clients}\r");
    while !client.cmd(&["INFO", "clients"]).text().contains(&wanted) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Expired and evicted keys are logged when they are removed.
#[test]
fn expired_and_evicted_keys_are_logged() {
    let server = Server::weft(&ARGS);
    let mut client = server.client();
    let path = server.dir().join("effects");
    let path = path.to_str().expect("a path of the test");
    client.ok(&["DEBUG", "EFFECTS", path]);
    for n in 0..100 {
        client.cmd(&["SET", &format!("short{n}"), "v", "PX", "1"]);
        client.cmd(&["HSET", &format!("hash{n}"), "gone", "1", "kept", "2"]);
        client.cmd(&["HPEXPIRE", &format!("hash{n}"), "1", "FIELDS", "1", "gone"]);
        client.cmd(&["HSETEX", &format!("all{n}"), "PX", "1", "FIELDS", "1", "gone", "1"]);
    }
    // Nothing reads the keys, only their number.
    while client.cmd(&["DBSIZE"]).int() > 100 {
        std::thread::sleep(Duration::from_millis(1));
    }
    for n in 0..100 {
        while client.cmd(&["HLEN", &format!("hash{n}")]).int() > 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    client.ok(&["CONFIG", "SET", "lazyfree-lazy-eviction", "no"]);
    client.ok(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
    client.ok(&["CONFIG", "SET", "maxmemory", "1"]);
    while client.cmd(&["DBSIZE"]).int() > 0 {
        client.cmd(&["SET", "more", "v"]);
    }
    client.ok(&["DEBUG", "EFFECTS"]);
    let log = std::fs::read(path).expect("the log file");
    let commands: Vec<String> = effects::parse(&log).iter().map(effects::words).collect();
    let count = |wanted: &str| commands.iter().filter(|c| c.starts_with(wanted)).count();
    assert_eq!(count("UNLINK short"), 100);
    assert_eq!(count("HDEL hash"), 100);
    assert_eq!((count("HDEL all"), count("UNLINK all")), (100, 100));
    assert_eq!(count("DEL hash"), 100, "evicted");
}

/// Published messages are in the log for replicas, in order among the writes, but not in the
/// append-only file.
#[test]
fn published_messages_are_logged_for_replicas_only() {
    let publish = |client: &mut Client| {
        client.ok(&["SELECT", "3"]);
        client.ok(&["SET", "a", "1"]);
        client.cmd(&["PUBLISH", "channel", "one"]);
        client.cmd(&["SPUBLISH", "shard", "two"]);
        client.ok(&["MULTI"]);
        client.cmd(&["SET", "a", "2"]);
        client.cmd(&["publish", "channel", "three"]);
        client.cmd(&["SET", "a", "3"]);
        assert_eq!(client.cmd(&["EXEC"]).items().len(), 3);
        client.ok(&["MULTI"]);
        client.cmd(&["PUBLISH", "empty", "four"]);
        assert_eq!(client.cmd(&["EXEC"]).items().len(), 1);
    };
    let words =
        |log: &[u8]| -> Vec<String> { effects::parse(log).iter().map(effects::words).collect() };
    let server = Server::weft(&ARGS);
    let mut client = server.client();
    let mut listener = server.client();
    listener.cmd(&["SUBSCRIBE", "channel"]);
    let path = server.dir().join("effects");
    client.ok(&["DEBUG", "EFFECTS", path.to_str().expect("a path of the test")]);
    publish(&mut client);
    client.ok(&["DEBUG", "EFFECTS"]);
    client.cmd(&["PUBLISH", "channel", "no subscriber"]);
    let expected = [
        "SELECT 3",
        "SET a 1",
        "PUBLISH channel one",
        "SPUBLISH shard two",
        "MULTI",
        "SET a 2",
        "publish channel three",
        "SET a 3",
        "EXEC",
        "PUBLISH empty four",
    ];
    assert_eq!(words(&std::fs::read(path).expect("the log file")), expected);

    let server = Server::weft(&["--appendonly", "yes", "--appendfsync", "always"]);
    publish(&mut server.client());
    let path = server.dir().join("appendonlydir/appendonly.aof.1.incr.aof");
    let log = std::fs::read(path).expect("the log file");
    // Drop the annotation lines.
    let text = String::from_utf8(log).expect("valid UTF-8");
    // Drop the zeros written ahead of the end.
    let text = text.trim_end_matches('\0');
    let commands: String = text.split_inclusive("\r\n").filter(|l| !l.starts_with('#')).collect();
    let expected = ["SELECT 3", "SET a 1", "MULTI", "SET a 2", "SET a 3", "EXEC"];
    assert_eq!(words(commands.as_bytes()), expected);
}

/// Several clients run random commands, with transactions, blocked clients and expiry. Replaying
/// the log on an empty server succeeds and yields the same data. (Without HyperLogLogs: a read-only
/// access also marks them as edited, like in the reference.)
#[test]
fn replay_of_the_log_yields_the_same_data() {
    let groups = [
        (Group::Strings, 12),
        (Group::Bits, 4),
        (Group::Generic, 16),
        (Group::Lists, 14),
        (Group::Hashes, 20),
        (Group::Sets, 10),
        (Group::SortedSets, 10),
        (Group::Geo, 3),
        (Group::Streams, 8),
        (Group::StreamGroups, 20),
        (Group::Dump, 4),
        (Group::Transactions, 8),
        (Group::Scripts, 8),
    ];
    let seed = env_or("DIFF_SEED", 1);
    let steps = env_or("DIFF_COMMANDS", 4000);
    let server = Server::weft(&[&ARGS[..], &["--io-threads", "3"]].concat());
    let path = server.dir().join("effects");
    let mut client = server.client();
    client.ok(&["DEBUG", "EFFECTS", path.to_str().expect("a path of the test")]);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..3).map(|n| (n, server.client())).collect();
        for (n, client) in waiters {
            let ended = &ended;
            scope.spawn(move || effects::wait_for_elements(client, n, ended));
        }
        let players: Vec<_> = (0..3)
            .map(|n| {
                let (server, groups) = (&server, &groups);
                scope.spawn(move || play(server, groups, seed * 100 + n, steps))
            })
            .collect();
        players.into_iter().for_each(|player| player.join().expect("no panic"));
        ended.store(true, Ordering::Relaxed);
    });
    client.ok(&["DEBUG", "EFFECTS"]);
    let log = effects::parse(&std::fs::read(&path).expect("the log file"));
    println!("{} commands are logged", log.len());
    assert!(log.len() > steps, "too few commands are logged");
    let copy = Server::weft(&ARGS);
    replay(&copy, &log);
    effects::assert_same_content(&server, &copy, seed);
}

/// Writes to a few keys until `ended`. Returns the number of rounds.
fn write_much(mut client: Client, seed: usize, ended: &AtomicBool) -> usize {
    let mut n = 0;
    while !ended.load(Ordering::Relaxed) {
        let (key, text) = (format!("{}", (seed + 7 * n) % 40), format!("{seed}.{n}"));
        client.cmd(&["APPEND", &format!("text{key}"), &text]);
        client.ok(&["MULTI"]);
        client.cmd(&["RPUSH", &format!("list{key}"), &text]);
        client.cmd(&["HSET", "hash", &key, &text]);
        client.cmd(&["EXEC"]);
        if n.is_multiple_of(13) {
            client.cmd(&["DEL", &format!("text{key}"), &format!("list{key}")]);
        }
        n += 1;
    }
    n
}

/// Two readers of the log at once: each starts and stops independently and misses nothing.
#[test]
fn effect_log_and_aof_are_independent() {
    let aof = ["--appendonly", "yes", "--appendfsync", "always", "--io-threads", "3"];
    let mut server = Server::weft(&[&ARGS[..], &aof].concat());
    let mut client = server.client();
    client.set_timeout(PATIENCE);
    let digest = |client: &mut Client| client.cmd(&["DEBUG", "DIGEST"]).text();
    let path = |server: &Server, name: &str| -> String {
        server.dir().join(name).to_str().expect("a path of the test").to_string()
    };
    let beside_writers = |server: &Server, act: &mut dyn FnMut()| {
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writing = |n| {
                let (client, ended) = (server.client(), &ended);
                scope.spawn(move || write_much(client, n, ended))
            };
            let writers: Vec<_> = (0..3).map(writing).collect();
            act();
            ended.store(true, Ordering::Relaxed);
            for writer in writers {
                assert!(writer.join().expect("no panic") > 0);
            }
        });
    };
    // The AOF is switched off and on; DEBUG EFFECTS continues.
    let all = path(&server, "all");
    client.ok(&["DEBUG", "EFFECTS", &all]);
    beside_writers(&server, &mut || {
        for n in 0..4 {
            client.ok(&["CONFIG", "SET", "appendonly", if n % 2 == 0 { "no" } else { "yes" }]);
            for m in 0..20 {
                client.ok(&["SET", "mark", &format!("{n}.{m}")]);
            }
        }
        // The last AOF has a base.
        assert_eq!(client.cmd(&["WAITAOF", "1", "0", "0"]).items()[0].int(), 1);
    });
    client.ok(&["DEBUG", "EFFECTS"]);
    let log = effects::parse(&std::fs::read(&all).expect("the log file"));
    let copy = Server::weft(&ARGS);
    replay(&copy, &log);
    assert_eq!(digest(&mut copy.client()), digest(&mut client));
    // DEBUG EFFECTS starts and stops; the AOF continues.
    beside_writers(&server, &mut || {
        for n in 0..10 {
            let part = path(&server, &format!("part{n}"));
            client.ok(&["SET", "mark", &format!("before {n}")]);
            client.ok(&["DEBUG", "EFFECTS", &part]);
            client.ok(&["SET", "mark", &format!("first {n}")]);
            client.ok(&["SET", "mark", &format!("last {n}")]);
            client.ok(&["DEBUG", "EFFECTS"]);
            let log = effects::parse(&std::fs::read(&part).expect("the log file"));
            let is_mark =
                |command: &&effects::Command| command.get(1).is_some_and(|name| name == b"mark");
            let marks = log.iter().filter(is_mark).map(effects::words);
            let expected = ["first", "last"].map(|which| format!("SET mark {which} {n}"));
            assert_eq!(marks.collect::<Vec<_>>(), expected);
        }
    });
    let before = digest(&mut client);
    server.restart();
    assert_eq!(digest(&mut server.client()), before);
}
