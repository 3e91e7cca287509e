//! COMMANDLOG: which requests and replies count as large, and their sizes, compared with the
//! reference.

use std::collections::BTreeSet;
use weft_testkit::{Client, Server, Value};
use weft_tests::scene::{client, id, on_both, reply, send, send_all, until_blocked};

/// The log entries: bytes, command, and the last argument as shown.
fn logged(client: &mut Client, kind: &str) -> Vec<(i64, String, String)> {
    let entry = |entry: &Value| {
        let entry = entry.items();
        let args = entry[3].items();
        (entry[2].int(), args[0].text(), args[args.len() - 1].text())
    };
    client.cmd(&["COMMANDLOG", "GET", "-1", kind]).items().iter().map(entry).collect()
}

fn ask(client: &mut Client) {
    let values: Vec<String> =
        [0, 8, 90, 99, 100, 101, 300, 20_000].iter().map(|n| "x".repeat(*n)).collect();
    for value in &values {
        client.ok(&["SET", "k", value]);
        client.cmd(&["GET", "k"]);
    }
    // Several requests in one read, one of them large.
    let some: Vec<[&str; 3]> = values.iter().map(|value| ["SET", "k", value]).collect();
    let some: Vec<&[&str]> = some.iter().map(|one| &one[..]).collect();
    send_all(client, &some);
    some.iter().for_each(|_| assert!(reply(client).is_ok()));
    // The reply of a transaction belongs to EXEC.
    client.ok(&["MULTI"]);
    client.cmd(&["SET", "k", &values[6]]);
    client.cmd(&["GET", "k"]);
    client.cmd(&["EXEC"]);
    client.cmd(&[&["RPUSH", "l"][..], &["element"; 150]].concat());
    client.cmd(&["LRANGE", "l", "0", "-1"]);
    client.cmd(&["BLPOP", "l", "0"]);
}

#[test]
fn large_requests_and_replies_are_measured_as_by_the_reference() {
    let logs = std::cell::RefCell::new(Vec::new());
    on_both(&[], &["--io-threads", "1"], |server| {
        let mut client = client(server);
        let mut all = Vec::new();
        for (kind, limit) in [
            ("large-request", "commandlog-request-larger-than"),
            ("large-reply", "commandlog-reply-larger-than"),
        ] {
            for bytes in ["0", "1", "128", "129", "20031", "-1"] {
                client.ok(&["CONFIG", "SET", limit, bytes]);
                client.ok(&["COMMANDLOG", "RESET", kind]);
                ask(&mut client);
                client.ok(&["CONFIG", "SET", limit, "-1"]);
                all.push((kind, bytes, logged(&mut client, kind)));
                client.ok(&["FLUSHALL"]);
            }
        }
        logs.borrow_mut().push(all);
    });
    let logs = logs.into_inner();
    let [.., weft] = &logs[..] else { unreachable!("one server at least") };
    for of_server in &logs {
        for (theirs, ours) in of_server.iter().zip(weft) {
            assert_eq!(theirs, ours);
        }
    }
    let limited = |bytes: &str| weft.iter().find(|one| one.1 == bytes).map(|one| &one.2);
    let sizes: Option<BTreeSet<i64>> = limited("129").map(|log| log.iter().map(|e| e.0).collect());
    let sizes: Vec<i64> = sizes.into_iter().flatten().collect();
    assert_eq!(sizes[0], 129, "the limit itself is logged");
    assert_eq!(limited("-1").map(Vec::len), Some(0));
}

/// Kind of log, command name and, except for slow commands, bytes.
type Entries = BTreeSet<(&'static str, String, i64)>;

/// Unblocks the client with this id.
type End<'a> = &'a dyn Fn(&mut Client, &str);

/// The entries of a command that blocked, and of the command that unblocked it.
fn logged_of_waits(server: &Server, wait: &[&str], end: End<'_>) -> Entries {
    const KINDS: [&str; 3] = ["slow", "large-request", "large-reply"];
    let (mut maker, mut waiter) = (client(server), client(server));
    maker.ok(&["FLUSHALL"]);
    maker.cmd(&["XGROUP", "CREATE", "stream", "group", "0", "MKSTREAM"]);
    let waiter_id = id(&mut waiter);
    KINDS.iter().for_each(|kind| maker.ok(&["COMMANDLOG", "RESET", kind]));
    send(&mut waiter, wait);
    if wait[0] != "WAIT" {
        until_blocked(&mut maker, 1);
    }
    end(&mut maker, &waiter_id);
    reply(&mut waiter);
    let mut all = Entries::new();
    for kind in KINDS {
        for entry in logged(&mut maker, kind) {
            let bytes = if kind == "slow" { 0 } else { entry.0 };
            // Skip the commands of the test itself.
            if !["INFO", "COMMANDLOG", "CLIENT"].contains(&&*entry.1) {
                all.insert((kind, entry.1, bytes));
            }
        }
    }
    all
}

#[test]
fn blocked_commands_are_logged_as_by_the_reference() {
    let large = "v".repeat(3000);
    let name = "k".repeat(300);
    let timed_out = |_: &mut Client, _: &str| {};
    let does =
        |args: &'static [&'static str]| move |maker: &mut Client, _: &str| drop(maker.cmd(args));
    let push = |maker: &mut Client, _: &str| drop(maker.cmd(&["RPUSH", "k", &large]));
    let unblock = |maker: &mut Client, id: &str| drop(maker.cmd(&["CLIENT", "UNBLOCK", id]));
    let kick = |maker: &mut Client, id: &str| drop(maker.cmd(&["CLIENT", "UNBLOCK", id, "ERROR"]));
    let cases: [(&[&str], End<'_>); 12] = [
        (&["BLPOP", "k", "0"], &push),
        (&["BLMPOP", "0", "2", "k", &name, "LEFT"], &push),
        (&["BLMOVE", "k", &name, "LEFT", "LEFT", "0"], &push),
        (&["BRPOPLPUSH", "k", "to", "0"], &push),
        (&["BLPOP", &name, "0.05"], &timed_out),
        (&["BLPOP", &name, "0"], &unblock),
        (&["BLPOP", &name, "0"], &kick),
        (&["BZPOPMIN", "k", "0"], &does(&["ZADD", "k", "1", "member"])),
        (&["XREAD", "BLOCK", "0", "STREAMS", "k", "$"], &does(&["XADD", "k", "1-1", "f", "v"])),
        (
            &["XREADGROUP", "GROUP", "group", &name, "BLOCK", "0", "STREAMS", "stream", ">"],
            &does(&["XADD", "stream", "1-1", "f", "v"]),
        ),
        (
            &["XREADGROUP", "GROUP", "group", &name, "BLOCK", "0", "STREAMS", "stream", ">"],
            &does(&["DEL", "stream"]),
        ),
        (&["WAIT", "1", "20"], &timed_out),
    ];
    let logs = std::cell::RefCell::new(Vec::new());
    on_both(&[], &["--io-threads", "2", "--io-threads-always-active", "yes"], |server| {
        let mut admin = client(server);
        admin.ok(&["CONFIG", "SET", "commandlog-execution-slower-than", "0"]);
        admin.ok(&["CONFIG", "SET", "commandlog-request-larger-than", "200"]);
        admin.ok(&["CONFIG", "SET", "commandlog-reply-larger-than", "200"]);
        drop(admin);
        let all: Vec<Entries> =
            cases.iter().map(|(wait, end)| logged_of_waits(server, wait, *end)).collect();
        logs.borrow_mut().push(all);
    });
    let logs = logs.into_inner();
    let [.., weft] = &logs[..] else { unreachable!("one server at least") };
    for of_server in &logs {
        for ((case, theirs), ours) in cases.iter().zip(of_server).zip(weft) {
            assert_eq!(theirs, ours, "{:?}", case.0[0]);
        }
    }
    for ((wait, _), entries) in cases.iter().zip(weft) {
        assert!(entries.iter().any(|entry| entry.0 == "slow" && entry.1 == wait[0]), "{wait:?}");
    }
}

/// A reply that CLIENT REPLY drops does not count as a large reply.
#[test]
fn dropped_replies_are_not_logged() {
    on_both(&[], &["--io-threads", "1"], |server| {
        let (mut admin, mut silent) = (client(server), client(server));
        // Skip the INFO of the test itself.
        let replied = |admin: &mut Client| {
            let all = logged(admin, "large-reply").into_iter();
            all.filter(|entry| entry.1 != "INFO").map(|entry| entry.1).collect::<Vec<_>>()
        };
        admin.ok(&["SET", "k", &"v".repeat(5000)]);
        admin.ok(&["CONFIG", "SET", "commandlog-reply-larger-than", "1000"]);
        send_all(&mut silent, &[&["CLIENT", "REPLY", "SKIP"], &["GET", "k"], &["PING"]]);
        assert!(reply(&mut silent).text() == "PONG");
        send_all(
            &mut silent,
            &[&["CLIENT", "REPLY", "OFF"], &["GET", "k"], &["CLIENT", "REPLY", "ON"]],
        );
        assert!(reply(&mut silent).is_ok());
        assert!(replied(&mut admin).is_empty(), "{}", server.name());
        for words in [&["CLIENT", "REPLY", "OFF"], &["CLIENT", "REPLY", "SKIP"]] {
            let mut waiter = client(server);
            send_all(&mut waiter, &[words, &["BLPOP", "list", "0"]]);
            until_blocked(&mut admin, 1);
            assert_eq!(admin.cmd(&["RPUSH", "list", &"v".repeat(5000)]).int(), 1);
            until_blocked(&mut admin, 0);
        }
        assert!(replied(&mut admin).is_empty(), "{}", server.name());
        silent.cmd(&["GET", "k"]);
        assert_eq!(replied(&mut admin).len(), 1, "{}", server.name());
        send_all(
            &mut silent,
            &[&["CLIENT", "REPLY", "OFF"], &["SUBSCRIBE", &"c".repeat(2000)], &["PING"]],
        );
        assert_eq!(reply(&mut silent).items()[0].text(), "subscribe");
        assert_eq!(replied(&mut admin).len(), 2, "{}", server.name());
    });
}

/// A blocked reader replaces `$` by an id; the log must show the `$` that the client sent.
#[test]
fn blocked_reader_is_logged_with_the_id_that_it_sent() {
    on_both(&[], &["--io-threads", "2", "--io-threads-always-active", "yes"], |server| {
        let (mut maker, mut waiter) = (client(server), client(server));
        let waiter_id = id(&mut waiter);
        maker.ok(&["CONFIG", "SET", "commandlog-execution-slower-than", "0"]);
        maker.cmd(&["XADD", "there", "1-1", "f", "v"]);
        let add = |key| ["XADD", key, "*", "f", "v"];
        for (key, end) in [
            ("there", &add("there")[..]),
            ("none", &add("none")[..]),
            ("there", &["CLIENT", "UNBLOCK", &waiter_id][..]),
        ] {
            maker.ok(&["COMMANDLOG", "RESET", "slow"]);
            send(&mut waiter, &["XREAD", "BLOCK", "0", "STREAMS", key, "$"]);
            until_blocked(&mut maker, 1);
            maker.cmd(end);
            reply(&mut waiter);
            let all = logged(&mut maker, "slow");
            let found: Vec<_> = all.iter().filter(|entry| entry.1 == "XREAD").collect();
            assert!(found.len() == 1 && found[0].2 == "$", "{}: {found:?}", server.name());
        }
    });
}
