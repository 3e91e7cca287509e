//! Random commands must get the same replies from this server and from the reference.
//!
//! `weft_testkit_differential` describes the method. Intended differences are listed in
//! `known_differences.md`, with the reasons.
//!
//! | variable | meaning |
//! |---|---|
//! | `DIFF_COMMANDS` | commands per test, default 20,000 |
//! | `DIFF_SCRIPTS` | runs of scripts and functions in the test `scripts`, default 0: as `DIFF_COMMANDS` gives |
//! | `DIFF_SEED` | seed of the first episode, default 1; a failure prints the one to use |
//! | `DIFF_MAX` | differences to collect before a test ends, default 5 |

use weft_testkit::{Server, skip_without};
use weft_testkit_differential::Target;
use weft_testkit_differential::{Group, KnownDifferences, Options, commands, own, run};
use weft_tests::env_or;

const KNOWN: &str = include_str!("../known_differences.md");

/// Both servers get the same options: DEBUG is refused by default.
const ARGS: [&str; 2] = ["--enable-debug-command", "yes"];

/// Minimum percentage of replies without error. With fewer, the grammar would test only errors.
const SUCCESSES: usize = 40;

fn target(server: &Server) -> Target {
    Target { name: server.name().to_string(), port: server.port() }
}

fn compare(test: &str, groups: &[(Group, u32)]) {
    compare_with(test, groups, false, 20_000);
}

fn compare_with(test: &str, groups: &[(Group, u32)], notifications: bool, commands: usize) {
    let reference = Server::valkey(&ARGS);
    if skip_without(test, &reference, "valkey-server") {
        return;
    }
    let (weft, reference) = (Server::weft(&ARGS), reference.expect("not skipped"));
    let options = Options {
        seed: env_or("DIFF_SEED", 1),
        commands: env_or("DIFF_COMMANDS", commands),
        scripts: if test == "scripts" { env_or("DIFF_SCRIPTS", 0) } else { 0 },
        groups: groups.to_vec(),
        max_differences: env_or("DIFF_MAX", 5),
        known: KnownDifferences::from_markdown(KNOWN),
        notifications,
    };
    let outcome = run(&target(&weft), &target(&reference), &options).expect("both servers stay up");
    let rows = options.known.rows();
    for (row, times) in &outcome.known {
        println!("known difference, {times} times: {}: {}", rows[*row].command, rows[*row].why);
    }
    println!(
        "{test}: {} commands, {} of them run scripts or functions; {} replies without error",
        outcome.commands, outcome.scripts, outcome.successes
    );
    let report: Vec<String> =
        outcome.differences.iter().map(|difference| difference.to_string()).collect();
    if let Some(first) = outcome.differences.first() {
        // Stop the servers first: the last output should be the difference, not their logs.
        drop((weft, reference));
        panic!(
            "{} differences\n\n{}\nrepeat with: DIFF_SEED={} DIFF_COMMANDS=1 cargo test -p weft-tests --test differential {test}\n\n{}\n",
            report.len(),
            report.join("\n"),
            first.seed,
            first.in_one_line(),
        );
    }
    assert!(outcome.successes * 100 > outcome.commands * SUCCESSES, "mostly errors");
    assert!(test != "scripts" || outcome.scripts * 2 > outcome.commands, "too few scripts");
    if notifications {
        println!("{test}: {} notifications", outcome.notifications);
        assert!(outcome.notifications * 4 > outcome.commands, "too few notifications");
    }
}

#[test]
fn strings() {
    compare("strings", &[(Group::Strings, 90), (Group::Types, 10)]);
}

/// Few commands, since their values are large.
#[test]
fn large_strings() {
    let groups = [(Group::LargeStrings, 97), (Group::Strings, 3)];
    compare_with("large_strings", &groups, false, 3000);
}

#[test]
fn bits() {
    compare("bits", &[(Group::Bits, 85), (Group::Strings, 10), (Group::Types, 5)]);
}

#[test]
fn generic() {
    compare("generic", &[(Group::Generic, 60), (Group::Strings, 25), (Group::Types, 15)]);
}

#[test]
fn sets() {
    compare("sets", &[(Group::Sets, 80), (Group::Generic, 10), (Group::Strings, 10)]);
}

#[test]
fn sorted_sets() {
    compare(
        "sorted_sets",
        &[(Group::SortedSets, 80), (Group::Sets, 5), (Group::Generic, 10), (Group::Strings, 5)],
    );
}

#[test]
fn geo() {
    compare("geo", &[(Group::Geo, 85), (Group::SortedSets, 5), (Group::Generic, 10)]);
}

#[test]
fn hyperloglogs() {
    compare(
        "hyperloglogs",
        &[(Group::HyperLogLogs, 85), (Group::Generic, 10), (Group::Strings, 5)],
    );
}

#[test]
fn streams() {
    compare("streams", &[(Group::Streams, 90), (Group::Generic, 7), (Group::Connection, 3)]);
}

#[test]
fn pubsub() {
    compare("pubsub", &[(Group::PubSub, 85), (Group::Strings, 15)]);
}

#[test]
fn dump() {
    compare("dump", &[(Group::Dump, 95), (Group::Generic, 5)]);
}

#[test]
fn connection() {
    compare("connection", &[(Group::Connection, 80), (Group::Strings, 20)]);
}

#[test]
fn server() {
    compare("server", &[(Group::Server, 70), (Group::Strings, 20), (Group::Generic, 10)]);
}

#[test]
fn lists() {
    compare("lists", &[(Group::Lists, 80), (Group::Generic, 10), (Group::Strings, 10)]);
}

#[test]
fn hashes() {
    compare("hashes", &[(Group::Hashes, 80), (Group::Generic, 10), (Group::Strings, 10)]);
}

#[test]
fn stream_groups() {
    compare("stream_groups", &[(Group::StreamGroups, 95), (Group::Generic, 5)]);
}

#[test]
fn transactions() {
    compare(
        "transactions",
        &[
            (Group::Transactions, 60),
            (Group::Generic, 15),
            (Group::Strings, 15),
            (Group::Types, 10),
        ],
    );
}

#[test]
fn scripts() {
    compare(
        "scripts",
        &[
            (Group::Scripts, 80),
            (Group::Generic, 5),
            (Group::Strings, 5),
            (Group::Hashes, 5),
            (Group::SortedSets, 5),
        ],
    );
}

#[test]
fn everything() {
    compare(
        "everything",
        &[
            (Group::Strings, 35),
            (Group::Bits, 15),
            (Group::Generic, 30),
            (Group::Connection, 15),
            (Group::Server, 10),
            (Group::Lists, 15),
            (Group::Sets, 15),
            (Group::Hashes, 15),
            (Group::SortedSets, 15),
            (Group::Geo, 10),
            (Group::HyperLogLogs, 10),
            (Group::Streams, 15),
            (Group::StreamGroups, 10),
            (Group::PubSub, 5),
            (Group::Dump, 10),
            (Group::Transactions, 10),
            (Group::Scripts, 10),
            (Group::Types, 10),
        ],
    );
}

/// Both servers send the same notifications in the same order.
#[test]
fn notifications() {
    let groups = [
        (Group::Strings, 25),
        (Group::Bits, 15),
        (Group::Generic, 25),
        (Group::Lists, 25),
        (Group::Sets, 25),
        (Group::Hashes, 25),
        (Group::SortedSets, 25),
        (Group::Geo, 15),
        (Group::HyperLogLogs, 15),
        (Group::Streams, 25),
        (Group::StreamGroups, 25),
        (Group::Dump, 20),
        (Group::Transactions, 10),
        (Group::Types, 10),
    ];
    compare_with("notifications", &groups, true, 20_000);
}

/// A command without a grammar is never tested.
#[test]
fn every_command_is_covered() {
    let server = Server::weft(&[]);
    let list = server.client().cmd(&["COMMAND", "LIST"]);
    let names: Vec<String> = list.items().iter().map(|name| name.text()).collect();
    assert!(names.iter().any(|name| name == "get"), "COMMAND LIST has no GET: {names:?}");
    let compared = names.iter().filter(|name| !own::is_own(name));
    let missing: Vec<&String> = compared.filter(|name| !commands::covers(name)).collect();
    assert!(
        missing.is_empty(),
        "no grammar in weft_testkit_differential::commands for {missing:?}, which are not in \
         tests/own_commands.md either"
    );
}
