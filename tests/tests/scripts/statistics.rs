//! Numbers in INFO and lines of MONITOR for scripts and the commands that they call.

use weft_testkit::{Client, Server};
use weft_tests::scene::{client, info, on_both, reply, send};

/// The lines of a section that begin so, without times, in order.
fn lines(client: &mut Client, section: &str, starts: &[&str]) -> String {
    let info = client.cmd(&["INFO", section]).text();
    let found = info.lines().filter(|line| starts.iter().any(|start| line.starts_with(start)));
    let mut lines: Vec<String> = found
        .map(|line| {
            let fields = line.split(',').filter(|field| !field.starts_with("usec"));
            fields.collect::<Vec<_>>().join(",")
        })
        .collect();
    lines.sort();
    lines.join(" ")
}

/// Numbers of errors and of calls after a script.
fn counted(client: &mut Client, words: &[&str]) -> String {
    client.ok(&["CONFIG", "RESETSTAT"]);
    client.cmd(words);
    let errors = lines(client, "errorstats", &["errorstat_"]);
    let total = lines(client, "stats", &["total_error_replies:"]);
    let calls = ["cmdstat_eval", "cmdstat_lpush", "cmdstat_set", "cmdstat_get", "cmdstat_fcall"];
    format!("{errors} {total} {}", lines(client, "commandstats", &calls))
}

const FAILING: [&str; 12] = [
    "return redis.call('lpush', 'q', 1)",
    "return redis.pcall('lpush', 'q', 1)",
    "redis.pcall('lpush', 'q', 1) return 1",
    "return {redis.pcall('lpush', 'q', 1), redis.pcall('lpush', 'q', 1)}",
    "error(redis.pcall('lpush', 'q', 1))",
    "return redis.error_reply('MINE x')",
    "return {{err='MINE x'}, {err='OTHER x'}}",
    "error('x')",
    "return redis.call('get')",
    "return redis.pcall('nosuch')",
    "#!lua flags=no-writes\nreturn redis.call('set', 'q', 1)",
    "redis.pcall('set', 'q') return 1",
];

/// Regression: an error that ended a script was counted twice, and one that it returned was not counted as its own.
#[test]
fn errors_are_counted_once() {
    let seen = std::sync::Mutex::new(Vec::new());
    on_both(&[], &[], |server| {
        let mut client = client(server);
        client.ok(&["SET", "q", "v"]);
        let counts = FAILING
            .map(|script| format!("{script}: {}", counted(&mut client, &["EVAL", script, "0"])));
        seen.lock().expect("no panic").push(counts);
    });
    let seen = seen.into_inner().expect("no panic");
    for counts in &seen {
        assert!(counts[0].contains("errorstat_WRONGTYPE:count=1 total_error_replies:1"));
        for (one, other) in counts.iter().zip(&seen[0]) {
            assert_eq!(one, other);
        }
    }
}

/// Regression: the calls of an undone run were counted, too.
#[test]
fn undone_runs_are_not_counted() {
    let server = Server::weft(&[]);
    let mut client = client(&server);
    client.ok(&["SET", "q", "v"]);
    let script = "redis.call('get', 'q') redis.pcall('lpush', 'q', 1) redis.call('set', 'q', 'v')
        redis.pcall('get') redis.call('dbsize') return 1";
    let counts = counted(&mut client, &["EVAL", script, "0"]);
    assert_eq!(info(&mut client, "script_restarts"), 1);
    let want = "errorstat_ERR:count=1 errorstat_WRONGTYPE:count=1 total_error_replies:2 \
        cmdstat_eval:calls=1,rejected_calls=0,failed_calls=0 \
        cmdstat_get:calls=1,rejected_calls=1,failed_calls=0 \
        cmdstat_lpush:calls=1,rejected_calls=0,failed_calls=1 \
        cmdstat_set:calls=1,rejected_calls=0,failed_calls=0";
    assert_eq!(counts, want);
}

/// Each command of a client is shown and logged once, even if its script runs twice.
#[test]
fn undone_runs_are_not_shown() {
    let server = Server::weft(&["--io-threads", "2"]);
    let (mut client, mut monitor) = (client(&server), client(&server));
    for (name, value) in [
        ("slowlog-log-slower-than", "0"),
        ("commandlog-reply-larger-than", "1"),
        ("commandlog-request-larger-than", "1"),
    ] {
        client.ok(&["CONFIG", "SET", name, value]);
    }
    client.ok(&["SET", "q", "v"]);
    for log in ["slow", "large-request", "large-reply"] {
        client.ok(&["COMMANDLOG", "RESET", log]);
    }
    client.ok(&["CONFIG", "RESETSTAT"]);
    monitor.ok(&["MONITOR"]);
    let script = "redis.call('get', 'q') redis.call('dbsize') return redis.call('get', 'q')";
    assert_eq!(client.cmd(&["EVAL", script, "0"]).text(), "v");
    assert_eq!(info(&mut client, "script_restarts"), 1);
    for log in ["slow", "large-request", "large-reply"] {
        let entries = client.cmd(&["COMMANDLOG", "GET", "-1", log]);
        let of = |name: &str| {
            let mut named = entries.items().to_vec();
            named.retain(|entry| entry.items()[3].items()[0].text() == name);
            named.len()
        };
        assert_eq!([of("EVAL"), of("get"), of("dbsize")], [1, 2, 1], "{log}: {entries}");
        let mut ids: Vec<_> = entries.items().iter().map(|entry| entry.items()[0].int()).collect();
        ids.dedup();
        assert_eq!(ids.len(), entries.items().len(), "{log}: {entries}");
    }
    assert_eq!(client.cmd(&["LATENCY", "HISTOGRAM", "get"]).items()[1].items()[1].int(), 2);
    let shown: Vec<String> = (0..5).map(|_| reply(&mut monitor).text()).collect();
    let expected = ["\"EVAL\"", "\"get\"", "\"dbsize\"", "\"get\"", "\"INFO\""];
    for (line, word) in shown.iter().zip(expected) {
        assert!(line.contains(word), "{word}: {shown:?}");
    }
}

/// As [`undone_runs_are_not_shown`], for commands that the user may not run.
#[test]
fn refused_commands_of_undone_runs_are_not_counted() {
    let server = Server::weft(&["--io-threads", "2"]);
    let (mut admin, mut guest) = (client(&server), client(&server));
    admin.ok(&["ACL", "SETUSER", "guest", "on", "nopass", "~own", "+@all"]);
    guest.ok(&["AUTH", "guest", "any"]);
    let script = "redis.pcall('get', 'hidden') redis.call('dbsize') return 'done'";
    assert_eq!(guest.cmd(&["EVAL", script, "0"]).text(), "done");
    assert_eq!(info(&mut admin, "script_restarts"), 1);
    assert_eq!(info(&mut admin, "acl_access_denied_key"), 1);
    let log = admin.cmd(&["ACL", "LOG"]);
    assert_eq!(log.items().len(), 1, "{log}");
    assert_eq!(log.items()[0].items()[1].int(), 1, "{log}");
}

/// A script that shows more than is kept back runs again, with all shards.
#[test]
fn long_output_for_monitors_is_shown_once() {
    const CALLS: usize = 12_000;
    let server = Server::weft(&["--io-threads", "2"]);
    let (mut client, mut monitor) = (client(&server), client(&server));
    monitor.ok(&["MONITOR"]);
    let key = "k".repeat(100);
    let script = format!("for n = 1, {CALLS} do redis.call('get', KEYS[1] .. n) end return 'done'");
    send(&mut client, &["EVAL", &script, "1", &key]);
    assert!(reply(&mut monitor).text().contains("\"EVAL\""));
    for n in 1..=CALLS {
        let line = reply(&mut monitor).text();
        assert!(line.ends_with(&format!("k{n}\"")), "{n}: {line}");
    }
    assert_eq!(reply(&mut client).text(), "done");
    client.cmd(&["PING"]);
    assert!(reply(&mut monitor).text().contains("\"PING\""));
}

/// Regression: monitors saw only scripts that exist.
#[test]
fn monitors_see_scripts_that_can_not_run() {
    on_both(&["--io-threads", "1"], &[], |server| {
        let (mut caller, mut monitor) = (client(server), client(server));
        send(&mut monitor, &["MONITOR"]);
        reply(&mut monitor);
        let commands: [&[&str]; 4] = [
            &["EVALSHA", "ffffffffffffffffffffffffffffffffffffffff", "0"],
            &["FCALL", "none", "0"],
            &["EVAL", "syntax(", "0"],
            &["EVAL", "return 1", "x"],
        ];
        for words in commands {
            assert!(caller.cmd(words).error().is_some());
            let shown = format!("{}", reply(&mut monitor));
            assert!(shown.contains(words[1]), "{}: {words:?}: {shown}", server.name());
        }
    });
}
