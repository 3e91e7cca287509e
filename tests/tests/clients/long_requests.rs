//! Long requests that a count of elements does not reveal also move to the slow lane: transactions
//! with many arguments or large keys, and arguments of megabytes.

use weft_testkit::{Client, Server};
use weft_tests::scene::{client, slow_lane_cpu, until};

/// Runs `queued` as transactions until the slow lane has spent CPU time on them.
fn assert_runs_in_slow_lane(what: &str, client: &mut Client, server: &Server, queued: &[&str]) {
    let before = slow_lane_cpu(server);
    until(&format!("{what} runs in the slow lane"), || {
        for _ in 0..10 {
            client.ok(&["MULTI"]);
            assert_eq!(client.cmd(queued).text(), "QUEUED");
            assert_eq!(client.cmd(&["EXEC"]).items().len(), 1, "{what}");
        }
        slow_lane_cpu(server) > before
    });
}

fn with_many<'a>(command: &[&'a str], words: &'a [String]) -> Vec<&'a str> {
    command.iter().copied().chain(words.iter().map(|word| &word[..])).collect()
}

#[test]
fn long_commands_in_transactions_run_in_the_slow_lane() {
    let server = Server::weft(&["--io-threads", "1"]);
    let mut client = client(&server);
    let members: Vec<String> = (0..50_000).map(|n| format!("m{n}")).collect();
    for command in [&["SADD", "set"][..], &["PFADD", "log"], &["HMGET", "hash"]] {
        assert_runs_in_slow_lane(command[0], &mut client, &server, &with_many(command, &members));
    }
    let logs: Vec<String> = vec!["log".into(); 2000];
    assert_runs_in_slow_lane("PFCOUNT", &mut client, &server, &with_many(&["PFCOUNT"], &logs));
    assert_runs_in_slow_lane("PFSELFTEST", &mut client, &server, &["PFSELFTEST"]);
}

#[test]
fn commands_on_long_strings_in_transactions_run_in_the_slow_lane() {
    let server = Server::weft(&["--io-threads", "1"]);
    let mut client = client(&server);
    for (key, len) in [("a", 20_000), ("b", 20_000), ("long", 20_000_000)] {
        client.cmd(&["SETRANGE", key, &len.to_string(), "x"]);
    }
    assert_runs_in_slow_lane("LCS", &mut client, &server, &["LCS", "a", "b", "LEN"]);
    assert_runs_in_slow_lane(
        "GETRANGE",
        &mut client,
        &server,
        &["GETRANGE", "long", "0", "9999999"],
    );
}

#[test]
fn popping_many_elements_in_a_transaction_runs_in_the_slow_lane() {
    let server = Server::weft(&["--io-threads", "1"]);
    let mut client = client(&server);
    let members: Vec<String> = (0..50_000).map(|n| format!("m{n}")).collect();
    let before = slow_lane_cpu(&server);
    until("pops run in the slow lane", || {
        // Each request is small enough to run on the I/O thread.
        for some in members.chunks(1000) {
            client.cmd(&with_many(&["SADD", "set"], some));
        }
        client.ok(&["MULTI"]);
        client.cmd(&["SPOP", "set", "50000"]);
        assert_eq!(client.cmd(&["EXEC"]).items()[0].items().len(), 50_000);
        slow_lane_cpu(&server) > before
    });
}

#[test]
fn commands_with_large_arguments_run_in_the_slow_lane() {
    let server = Server::weft(&["--io-threads", "1"]);
    let mut client = client(&server);
    let long = "x".repeat(10_000_000);
    for queued in [
        &["PFADD", "log", &long][..],
        &["SADD", "set", &long],
        &["SISMEMBER", "set", &long],
        &["EXISTS", &long],
    ] {
        let before = slow_lane_cpu(&server);
        until(&format!("{} runs in the slow lane", queued[0]), || {
            assert!(client.cmd(queued).error().is_none());
            slow_lane_cpu(&server) > before
        });
        assert_runs_in_slow_lane(queued[0], &mut client, &server, queued);
    }
}
