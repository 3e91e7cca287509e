//! `rename-command`: which names clients, scripts, replies, logs, files and replicas see. Compared with the reference.

use std::time::Duration;
use weft_testkit::{Client, Server, Value};
use weft_tests::scene::{client, on_both, reply, until};

const RENAMES: &[&str] = &[
    "--rename-command",
    "SET",
    "Sx",
    "--rename-command",
    "DEL",
    "",
    "--rename-command",
    "CONFIG",
    "a-name-of-more-than-eight-bytes",
    "--rename-command",
    "GET",
    "g|t",
    "--rename-command",
    "LATENCY",
    "first",
    "--rename-command",
    "FIRST",
    "second",
];

/// Requests whose replies must be those of the reference.
const REQUESTS: &[&[&str]] = &[
    &["sX", "k", "v"],
    &["SX", "k"],
    &["set", "k", "v"],
    &["del", "k"],
    &["DEL"],
    &["g|t", "k"],
    &["get", "k"],
    &["config", "get", "port"],
    &["a-name-of-more-than-eight-bytes", "GET", "hz"],
    &["a-name-of-more-than-eight-bytes", "set"],
    &["a-name-of-more-than-eight-bytes", "foo"],
    &["A-name-of-more-than-eight-bytes"],
    &["first", "latest"],
    &["second", "latest"],
    &["second", "bar"],
    &["COMMAND", "INFO", "sx", "set", "SET", "del", "g|t", "second|latest", "latency|latest"],
    &["COMMAND", "INFO", "a-name-of-more-than-eight-bytes|get", "config|get"],
    &["COMMAND", "DOCS", "set", "del", "config"],
    &["COMMAND", "GETKEYS", "sx", "k", "v"],
    &["COMMAND", "GETKEYS", "set", "k", "v"],
    &["COMMAND", "LIST", "FILTERBY", "PATTERN", "sx"],
    &["COMMAND", "LIST", "FILTERBY", "PATTERN", "set"],
    &["COMMAND", "LIST", "FILTERBY", "PATTERN", "del"],
    &["EVAL", "return server.call('set', 'k', '1')", "0"],
    &["EVAL", "return server.call('sx', 'k', '1')", "0"],
    &["EVAL", "return server.call('sx', 'k')", "0"],
    &["EVAL", "return server.call('del', 'k')", "0"],
    &["MULTI"],
    &["sx", "q", "1"],
    &["set", "q", "1"],
    &["EXEC"],
    &["MULTI"],
    &["sx", "q", "1"],
    &["EXEC"],
    &["SLOWLOG", "LEN"],
];

/// The names in a reply of COMMAND INFO.
fn names(reply: &Value) -> Vec<Option<String>> {
    let name = |item: &Value| (!item.is_null()).then(|| item.items()[0].text());
    reply.items().iter().map(name).collect()
}

#[test]
fn renamed_commands_answer_as_in_the_reference() {
    let replies = std::cell::RefCell::new(Vec::new());
    on_both(RENAMES, &[], |server| {
        let mut client = client(server);
        let mut all = Vec::new();
        for request in REQUESTS {
            let reply = client.try_cmd(request).expect("a reply").value;
            let reply = match request {
                // Texts differ.
                ["COMMAND", "INFO", ..] => format!("{:?}", names(&reply)),
                _ => reply.to_string(),
            };
            all.push(format!("{request:?}: {reply}"));
        }
        let docs = client.cmd(&["COMMAND", "DOCS", "sx"]);
        all.push(docs.items()[0].text());
        let logged = client.cmd(&["SLOWLOG", "GET", "1"]);
        assert_eq!(logged.items().len(), 0);
        let stats = client.cmd(&["INFO", "commandstats"]).text();
        let counted = stats.lines().filter(|line| {
            ["cmdstat_set:", "cmdstat_config|get:", "cmdstat_sx"]
                .iter()
                .any(|name| line.starts_with(name))
        });
        let calls = |line: &str| line.split(",usec").next().unwrap_or_default().to_string();
        let mut counted: Vec<String> = counted.map(calls).collect();
        counted.sort();
        all.extend(counted);
        replies.borrow_mut().push(all);
    });
    let replies = replies.into_inner();
    let [.., weft] = &replies[..] else { unreachable!("one server at least") };
    for of_server in &replies {
        for (theirs, ours) in of_server.iter().zip(weft) {
            assert_eq!(ours, theirs);
        }
        assert_eq!(of_server.len(), weft.len());
    }
}

/// MONITOR and SLOWLOG show the name that the client sent.
#[test]
fn logs_show_the_name_that_was_sent() {
    on_both(&[RENAMES, &["--slowlog-log-slower-than", "0"]].concat(), &[], |server| {
        let mut monitor = client(server);
        monitor.ok(&["MONITOR"]);
        let mut client = client(server);
        client.ok(&["sX", "k", "v"]);
        let line = reply(&mut monitor).text();
        assert!(line.contains("\"sX\" \"k\" \"v\""), "{line}");
        let slow = client.cmd(&["SLOWLOG", "GET", "1"]);
        assert_eq!(slow.items()[0].items()[3].items()[0].text(), "sX");
    });
}

/// The error for each line that can't be obeyed. The reference aborts with an assertion for subcommands.
#[test]
fn impossible_renames_refuse_the_start() {
    let dir = tempfile::tempdir().expect("a folder");
    for (lines, number, expected) in [
        ("rename-command NOPE x", 1, "No such command in rename-command"),
        ("rename-command GET SET", 1, "Target command name already exists"),
        ("rename-command GET \"\"\nrename-command GET x", 2, "No such command in rename-command"),
        ("rename-command config|get \"\"", 1, "No such command in rename-command"),
        (
            "rename-command SET \"\"\nrename-command GET set",
            2,
            "Target command name is the original name of another command",
        ),
    ] {
        let file = dir.path().join("weft.conf");
        std::fs::write(&file, format!("port 0\n{lines}\n")).expect("a file");
        let program = weft_testkit::locate::weft();
        let out = std::process::Command::new(program).arg(&file).output().expect("it runs");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success());
        assert!(said.contains(expected), "{lines}: {said}");
        assert!(said.contains(&format!("at line {}", number + 1)), "{lines}: {said}");
    }
}

fn value(client: &mut Client, name: &str, key: &str) -> Value {
    client.cmd(&[name, key])
}

/// Files and replicas contain names that clients have sent and, for the server's own deletions, original names. Both
/// are understood, with the same renames and, for original names, without.
#[test]
fn files_and_replicas_keep_the_data_of_renamed_commands() {
    let args = &[RENAMES, &["--appendonly", "yes", "--enable-debug-command", "yes"]].concat();
    let mut server = Server::weft(args);
    let port = server.port().to_string();
    let replica = Server::weft(&[RENAMES, &["--replicaof", "127.0.0.1", &port]].concat());
    let mut on_replica = replica.client();
    let mut client = server.client();
    until("the link is up", || {
        client.cmd(&["INFO", "replication"]).text().contains("state=online")
    });
    client.ok(&["sx", "a", "1"]);
    client.ok(&["sx", "gone", "1", "PX", "20"]);
    client.cmd(&["EVAL", "server.call('sx', 'b', '2') server.call('unlink', 'none')", "0"]);
    client.ok(&["MULTI"]);
    client.cmd(&["sx", "c", "3"]);
    client.cmd(&["INCR", "c"]);
    client.cmd(&["EXEC"]);
    std::thread::sleep(Duration::from_millis(60));
    assert!(value(&mut client, "g|t", "gone").is_null());
    until("the replica has it", || client.cmd(&["WAIT", "1", "1000"]).int() == 1);
    until("the key is gone", || on_replica.cmd(&["DBSIZE"]).int() == 3);
    for (key, expected) in [("a", "1"), ("b", "2"), ("c", "4")] {
        assert_eq!(value(&mut on_replica, "g|t", key).text(), expected);
    }
    server.restart();
    let mut client = server.client();
    for (key, expected) in [("a", "1"), ("b", "2"), ("c", "4")] {
        assert_eq!(value(&mut client, "g|t", key).text(), expected);
    }
    // A file that ends before the deletion has the key until it expires again.
    until("the key is gone", || client.cmd(&["DBSIZE"]).int() == 3);
}
