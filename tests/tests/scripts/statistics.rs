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
