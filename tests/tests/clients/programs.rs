//! Behaviour that real programs depend on: commands that tools send at connect, counters that
//! dashboards show, and waits that must not depend on the shards of the keys. Valkey is the
//! expected result and runs first.

use weft_testkit::{Client, Server};
use weft_tests::scene::{client, id, info, on_both, reply, reply_text, send, until, until_blocked};

const WRONGTYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// Blocks a client with `wait`, runs `steps` and returns the reply to the wait.
fn reply_of_wait(server: &Server, before: &[&[&str]], wait: &[&str], steps: &[&[&str]]) -> String {
    let (mut maker, mut waiter) = (client(server), client(server));
    maker.ok(&["FLUSHALL"]);
    for step in before {
        maker.cmd(step);
    }
    send(&mut waiter, wait);
    until_blocked(&mut maker, 1);
    for step in steps {
        maker.cmd(step);
    }
    let answer = reply(&mut waiter);
    answer.error().unwrap_or_else(|| answer.to_string())
}

/// An earlier key of the wait becomes another type. The client gets the error when a later key
/// becomes ready, whichever shards the pusher has locked. The keys are in different shards.
#[test]
fn wrong_type_of_an_earlier_key_is_reported_whatever_shards_are_locked() {
    let lists: [&[&str]; 3] = [
        &["BLPOP", "k1", "k2", "0"],
        &["BRPOP", "k1", "k2", "0"],
        &["BLMPOP", "0", "2", "k1", "k2", "LEFT"],
    ];
    let sorted_sets: [&[&str]; 3] = [
        &["BZPOPMIN", "k1", "k2", "0"],
        &["BZPOPMAX", "k1", "k2", "0"],
        &["BZMPOP", "0", "2", "k1", "k2", "MIN"],
    ];
    let streams: [&[&str]; 2] = [
        &["XREAD", "BLOCK", "0", "STREAMS", "k1", "k2", "$", "$"],
        &["XREAD", "BLOCK", "0", "STREAMS", "k2", "k1", "0", "0"],
    ];
    let waits = [
        (&lists[..], &["RPUSH", "k2", "a"][..], ["RPUSH", "other", "a"].as_slice()),
        (&sorted_sets[..], &["ZADD", "k2", "1", "a"], &["ZADD", "other", "1", "a"]),
        (&streams[..], &["XADD", "k2", "1-1", "a", "b"], &["XADD", "other", "1-1", "a", "b"]),
    ];
    on_both(&[], &[], |server| {
        for (waits, push, other) in waits {
            for wait in waits {
                let ways: [&[&[&str]]; 7] = [
                    &[&["SET", "k1", "v"], push],
                    &[&["MULTI"], &["SET", "k1", "v"], push, &["EXEC"]],
                    &[&["MULTI"], push, &["SET", "k1", "v"], &["EXEC"]],
                    &[
                        &["SET", "x", "v"],
                        &["RENAME", "x", "k1"],
                        other,
                        &["RENAME", "other", "k2"],
                    ],
                    &[&["SET", "x", "v"], &["COPY", "x", "k1"], other, &["COPY", "other", "k2"]],
                    &[
                        &["SELECT", "1"],
                        &["SET", "k1", "v"],
                        &["MOVE", "k1", "0"],
                        other,
                        &["MOVE", "other", "0"],
                        &["SELECT", "0"],
                        push,
                    ],
                    &[
                        &["SELECT", "1"],
                        &["SET", "k1", "v"],
                        &["SWAPDB", "0", "1"],
                        &["SELECT", "0"],
                        push,
                    ],
                ];
                for steps in ways {
                    let answer = reply_of_wait(server, &[], wait, steps);
                    assert_eq!(answer, WRONGTYPE, "{}: {wait:?} and {steps:?}", server.name());
                }
            }
        }
    });
}

/// A key that was of another type for a while and is gone counts as missing. The type of a later
/// key does not matter.
#[test]
fn wrong_type_of_a_removed_key_is_ignored() {
    let wait = ["BLPOP", "k1", "k2", "0"];
    let ways: [&[&[&str]]; 5] = [
        &[&["SET", "k1", "v"], &["DEL", "k1"], &["RPUSH", "k2", "a"]],
        &[&["SET", "k1", "v"], &["RENAME", "k1", "x"], &["RPUSH", "k2", "a"]],
        &[&["SET", "k1", "v"], &["PEXPIREAT", "k1", "1"], &["RPUSH", "k2", "a"]],
        &[&["MULTI"], &["SET", "k1", "v"], &["DEL", "k1"], &["RPUSH", "k2", "a"], &["EXEC"]],
        &[&["RPUSH", "k2", "a"], &["SET", "k1", "v"]],
    ];
    on_both(&[], &[], |server| {
        for steps in ways {
            let answer = reply_of_wait(server, &[], &wait, steps);
            assert!(answer.contains("k2"), "{}: {steps:?}: {answer}", server.name());
        }
        let first =
            reply_of_wait(server, &[], &wait, &[&["SET", "k2", "v"], &["RPUSH", "k1", "a"]]);
        assert!(first.contains("k1"), "{}: {first}", server.name());
    });
}

/// Both streams exist, and one of them is replaced.
#[test]
fn wrong_type_of_a_replaced_stream_is_reported() {
    let before: [&[&str]; 2] = [&["XADD", "k1", "1-1", "a", "b"], &["XADD", "k2", "1-1", "a", "b"]];
    let wait = ["XREAD", "BLOCK", "0", "STREAMS", "k1", "k2", "$", "$"];
    on_both(&[], &[], |server| {
        for (replaced, grown) in [("k1", "k2"), ("k2", "k1")] {
            let steps: [&[&str]; 2] = [&["SET", replaced, "v"], &["XADD", grown, "2-1", "a", "b"]];
            assert_eq!(
                reply_of_wait(server, &before, &wait, &steps),
                WRONGTYPE,
                "{}",
                server.name()
            );
        }
    });
}

#[test]
fn blocking_keys_of_group_readers_are_counted() {
    on_both(&[], &[], |server| {
        let mut maker = client(server);
        let counted = |maker: &mut Client| {
            (info(maker, "total_blocking_keys"), info(maker, "total_blocking_keys_on_nokey"))
        };
        for stream in ["s", "t"] {
            maker.ok(&["XGROUP", "CREATE", stream, "g", "$", "MKSTREAM"]);
        }
        let waits: [(&[&str], (u64, u64)); 4] = [
            (&["XREAD", "BLOCK", "0", "STREAMS", "s", "$"], (1, 0)),
            (&["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"], (1, 1)),
            (
                &["XREADGROUP", "GROUP", "g", "d", "BLOCK", "0", "STREAMS", "s", "t", ">", ">"],
                (2, 2),
            ),
            (&["BLPOP", "l", "0"], (3, 2)),
        ];
        let mut waiters = Vec::new();
        for (wait, expected) in waits {
            let mut waiter = client(server);
            send(&mut waiter, wait);
            waiters.push(waiter);
            until_blocked(&mut maker, waiters.len() as u64);
            assert_eq!(counted(&mut maker), expected, "{}: {wait:?}", server.name());
        }
        drop(waiters);
        until("no client is blocked", || counted(&mut maker) == (0, 0));
    });
}

#[test]
fn client_delayed_by_a_pause_shows_as_blocked() {
    let held: [(&[&[&str]], &str, &str); 4] = [
        (&[&["SET", "a", "b"]], "b", "set"),
        (&[&["PING"], &["SET", "a", "b"], &["PING"]], "b", "set"),
        (&[&["PUBLISH", "a", "b"]], "b", "publish"),
        (&[&["BLPOP", "a", "0.001"]], "b", "blpop"),
    ];
    on_both(&[], &[], |server| {
        for (commands, flags, shown) in held {
            let (mut maker, mut paused) = (client(server), client(server));
            maker.ok(&["CLIENT", "PAUSE", "1000000", "WRITE"]);
            let id = id(&mut paused);
            for command in commands {
                send(&mut paused, command);
            }
            until_blocked(&mut maker, 1);
            let line = reply_text(&mut maker, &["CLIENT", "LIST", "ID", &id]);
            assert!(line.contains(&format!(" flags={flags} ")), "{}: {line}", server.name());
            assert!(line.contains(&format!(" cmd={shown} ")), "{}: {line}", server.name());
            // The client does not wait for a key, so CLIENT UNBLOCK does not unblock it.
            assert_eq!(maker.cmd(&["CLIENT", "UNBLOCK", &id]).int(), 0, "{}", server.name());
            maker.ok(&["CLIENT", "UNPAUSE"]);
            commands.iter().for_each(|_| drop(reply(&mut paused)));
            assert_eq!(info(&mut maker, "blocked_clients"), 0, "{}", server.name());
            let line = reply_text(&mut maker, &["CLIENT", "LIST", "ID", &id]);
            assert!(line.contains(" flags=N "), "{}: {line}", server.name());
        }
    });
}

#[test]
fn shard_channel_is_not_a_key() {
    const NO_KEYS: &str = "ERR The command has no key arguments";
    let requests: [&[&str]; 5] = [
        &["SPUBLISH", "channel", "m"],
        &["SSUBSCRIBE", "a", "b"],
        &["SUNSUBSCRIBE", "a"],
        &["SUNSUBSCRIBE"],
        &["PUBLISH", "channel", "m"],
    ];
    on_both(&[], &[], |server| {
        let mut asks = client(server);
        for request in requests {
            for word in ["GETKEYS", "GETKEYSANDFLAGS"] {
                let answer = reply_text(&mut asks, &[&["COMMAND", word], request].concat());
                assert!(answer.contains(NO_KEYS), "{}: {request:?}: {answer}", server.name());
            }
        }
    });
}

/// Sends `commands` at once and reads `expected` replies.
fn replies(server: &Server, commands: &[&[&str]], expected: usize) -> Vec<String> {
    let mut asks = client(server);
    commands.iter().for_each(|command| send(&mut asks, command));
    (0..expected).map(|_| reply(&mut asks).to_string()).collect()
}

#[test]
fn client_reply_skip_holds_for_reset_too() {
    on_both(&[], &[], |server| {
        let skip: [&[&str]; 3] = [&["CLIENT", "REPLY", "SKIP"], &["RESET"], &["PING"]];
        assert_eq!(replies(server, &skip, 1), ["+PONG"], "{}", server.name());
        let off: [&[&str]; 3] = [&["CLIENT", "REPLY", "OFF"], &["RESET"], &["PING"]];
        assert_eq!(replies(server, &off, 2), ["+RESET", "+PONG"], "{}", server.name());
    });
}

#[test]
fn push_is_sent_although_its_command_gets_no_reply() {
    let enabled = ["--enable-debug-command", "yes"];
    on_both(&enabled, &[], |server| {
        for word in ["OFF", "SKIP"] {
            let commands: [&[&str]; 3] = [
                &["CLIENT", "REPLY", word],
                &["DEBUG", "PROTOCOL", "PUSH"],
                &["CLIENT", "REPLY", "ON"],
            ];
            let mut asks = client(server);
            asks.hello(3);
            commands.iter().for_each(|command| send(&mut asks, command));
            assert_eq!(reply(&mut asks).to_string(), "+OK", "{}", server.name());
            let pushes = asks.take_pushes();
            assert_eq!(pushes.len(), 1, "{}: {word}", server.name());
            assert_eq!(pushes[0].items()[0].text(), "server-cpu-usage", "{}", server.name());
        }
    });
}

/// Commands that need cluster mode can be queued in a transaction. A subscribed RESP2 client may
/// not call them, like any other command.
#[test]
fn cluster_commands_report_disabled_cluster_support() {
    const DISABLED: &str = "ERR This instance has cluster support disabled";
    on_both(&[], &[], |server| {
        let mut asks = client(server);
        for (key, slot) in [("a", 15495), ("{a}b", 15495), ("", 0), ("foo", 12182)] {
            assert_eq!(asks.cmd(&["CLUSTER", "KEYSLOT", key]).int(), slot, "{}", server.name());
        }
        let others: [&[&str]; 4] =
            [&["ASKING"], &["CLUSTER", "INFO"], &["CLUSTER", "SLOTS"], &["CLUSTER", "SHARDS"]];
        for command in others {
            assert!(
                reply_text(&mut asks, command).contains(DISABLED),
                "{}: {command:?}",
                server.name()
            );
        }
        asks.ok(&["MULTI"]);
        for command in [&["ASKING"][..], &["CLUSTER", "KEYSLOT", "a"], &["PING"]] {
            assert_eq!(reply_text(&mut asks, command), "QUEUED", "{}: {command:?}", server.name());
        }
        let done = asks.cmd(&["EXEC"]);
        assert_eq!(done.items()[0].error().as_deref(), Some(DISABLED), "{}", server.name());
        assert_eq!(done.items()[1].int(), 15495, "{}", server.name());
        asks.cmd(&["SUBSCRIBE", "c"]);
        for (command, name) in [
            (&["ASKING"][..], "asking"),
            (&["CLUSTER", "INFO"], "cluster|info"),
            (&["EVAL", "return 1", "0"], "eval"),
            (&["MODULE", "LIST"], "module|list"),
        ] {
            let refused = reply_text(&mut asks, command);
            let text = format!("ERR Can't execute '{name}': only (P|S)SUBSCRIBE");
            assert!(refused.contains(&text), "{}: {command:?}: {refused}", server.name());
        }
    });
}

/// Tools ask for the modules at connect, and exporters for the number of threads.
#[test]
fn commands_that_tools_send_at_connect_are_answered() {
    let server = Server::weft(&["--io-threads", "auto"]);
    let mut asks = client(&server);
    assert!(asks.cmd(&["MODULE", "LIST"]).items().is_empty());
    let threads = info(&mut asks, "io_threads").to_string();
    for pattern in ["io-threads", "io-thread?", "*"] {
        let found = asks.cmd(&["CONFIG", "GET", pattern]);
        let at = found.items().iter().position(|word| word.text() == "io-threads");
        let at = at.unwrap_or_else(|| panic!("CONFIG GET {pattern} has no io-threads"));
        assert_eq!(found.items()[at + 1].text(), threads, "CONFIG GET {pattern}");
    }
    asks.ok(&["CONFIG", "SET", "io-threads", "3"]);
    assert_eq!(asks.cmd(&["CONFIG", "GET", "io-threads"]).items()[1].text(), "3");
    asks.ok(&["CONFIG", "SET", "io-threads", "auto"]);
    assert_eq!(asks.cmd(&["CONFIG", "GET", "io-threads"]).items()[1].text(), threads);
}
