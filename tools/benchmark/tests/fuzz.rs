//! `--fuzz` against real servers: it completes with consistent totals, its lines are those of the
//! reference, and it reports a dying server.

mod common;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use common::{OURS, describe, masked, ours, ours_ok, run, start, text, theirs};
use weft_testkit::{Server, skip_without};

/// The number after a title in the summary.
#[track_caller]
fn total(out: &str, title: &str) -> u64 {
    let rest =
        out.split(&format!("] {title}: ")).nth(1).unwrap_or_else(|| panic!("{title}: {out}"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// The sum of the counts in a line such as `Errors by code: ERR 3, WRONGTYPE 4`.
fn sum(out: &str, title: &str) -> u64 {
    let Some(rest) = out.split(&format!("] {title}: ")).nth(1) else { return 0 };
    let items = rest.lines().next().unwrap_or_default().split(", ");
    items.filter_map(|item| item.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[track_caller]
fn add_up(out: &str, sent: u64) {
    assert_eq!(total(out, "Total commands sent"), sent, "{out}");
    let (success, errors) = (total(out, "Success replies"), total(out, "Error replies"));
    assert_eq!((success + errors, total(out, "Malformed replies")), (sent, 0), "{out}");
    assert_eq!((sum(out, "Replies by type"), sum(out, "Errors by code")), (success, errors));
    assert_eq!(total(out, "Total errors"), errors);
    assert!(success > 0 && errors > 0, "{out}");
}

const MODES: [&str; 4] = [
    "",
    "--fuzz-mode malformed-commands",
    "--fuzz-mode config-commands",
    "--fuzz-mode malformed-commands,config-commands",
];

#[test]
fn a_server_survives_all_modes_and_the_totals_add_up() {
    let Some(mut server) = Server::valkey(&[]) else {
        weft_testkit::skipped::note(
            "a_server_survives_all_modes_and_the_totals_add_up",
            "no valkey-server in PEERS_BIN or PATH",
        );
        return;
    };
    for mode in MODES {
        let out = ours_ok(server.port(), &format!("--fuzz -n 20000 -c 10 --seed 7 {mode}"));
        assert!(out.starts_with(
            "Running fuzzer with 10 clients, 2000 commands per client (20000 total commands)\n"
        ));
        assert!(out.contains("All client threads completed. 10 succeeded, 0 failed."), "{out}");
        add_up(&out, 20_000);
        assert!(server.is_alive(), "{mode}: {}", server.log_tail());
    }
}

#[test]
fn our_own_server_survives() {
    let mut server = Server::weft(&[]);
    for mode in MODES {
        add_up(&ours_ok(server.port(), &format!("--fuzz -n 3000 -c 6 {mode}")), 3000);
        assert!(server.is_alive(), "{mode}: {}", server.log_tail());
    }
}

#[test]
fn the_lines_are_those_of_the_reference() {
    let theirs = theirs();
    if skip_without("the_lines_are_those_of_the_reference", &theirs, "valkey-benchmark") {
        return;
    }
    let Some(server) = Server::valkey(&[]) else {
        weft_testkit::skipped::note(
            "the_lines_are_those_of_the_reference",
            "no valkey-server in PEERS_BIN or PATH",
        );
        return;
    };
    for (call, same) in [
        ("-n 300 -c 2", false),
        ("-n 5 -c 3", false),
        ("-n 40 -c 2 --fuzz-loglevel none", true),
        ("-n 40 -c 2 --fuzz-loglevel error", true),
        ("-n 40 -c 2 --fuzz-loglevel loud", false),
        ("-n 40 -c 2 --fuzz-mode config-commands", false),
    ] {
        let call = format!("--fuzz {call}");
        let [want, got] = [theirs.as_deref().unwrap(), Path::new(OURS)].map(|tool| {
            let output = run(tool, server.port(), &call);
            assert!(output.status.success(), "{call}: {}", describe(&output));
            let lines = masked(&text(&output.stdout)).into_iter();
            // The number of errors and the duration depend on chance.
            let chance = ["To see full", "Progress"];
            let sure = |line: &String| !line.is_empty() && !chance.iter().any(|c| line.contains(c));
            lines.filter(sure).collect::<Vec<String>>()
        });
        let mut rest = got.iter();
        for line in &want {
            assert!(rest.any(|ours| ours == line), "{call}: {line:?} is not in {got:#?}");
        }
        assert!(!same || want == got, "{call}: {want:#?} {got:#?}");
    }
    for call in ["--fuzz --fuzz-mode nosuch", "--fuzz-mode nosuch -t get"] {
        let [want, got] = [theirs.as_deref().unwrap(), Path::new(OURS)]
            .map(|tool| run(tool, server.port(), call));
        assert_eq!((want.status.code(), got.status.code()), (Some(1), Some(1)));
        assert_eq!(text(&want.stderr), text(&got.stderr));
    }
}

#[test]
fn debug_shows_commands_and_replies() {
    let server = Server::weft(&[]);
    let output = ours(server.port(), "--fuzz -n 200 -c 2 --fuzz-loglevel debug --seed 1");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(out.matches("send Command: ").count(), 200);
    assert!(out.matches(": -> ").count() >= 200);
    assert!(err.contains("[ERROR] [Thread 1] === ERROR SUMMARY ==="), "{err}");
}

#[test]
fn time_and_passwords_and_databases_hold() {
    let server = Server::weft(&["--requirepass", "pw"]);
    let output = ours(server.port(), "--fuzz -n 10");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("NOAUTH"));
    let out = ours_ok(server.port(), "--fuzz -a pw --dbnum 5 -3 --duration 0.5 -c 3");
    assert!(out.starts_with("Running fuzzer with 3 clients for 500ms\n"), "{out}");
    add_up(&out, total(&out, "Total commands sent"));
}

#[test]
fn a_cluster_gets_keys_of_its_nodes() {
    let Some(server) = Server::valkey(&["--cluster-enabled", "yes"]) else {
        weft_testkit::skipped::note(
            "a_cluster_gets_keys_of_its_nodes",
            "no valkey-server in PEERS_BIN or PATH",
        );
        return;
    };
    let mut client = server.client();
    client.ok(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    while !client.cmd(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok") {
        std::thread::sleep(Duration::from_millis(20));
    }
    let out = ours_ok(server.port(), "--cluster --fuzz -n 3000 -c 3");
    add_up(&out[out.find("Running").expect("a beginning")..], 3000);
    let key = client.cmd(&["RANDOMKEY"]).text();
    assert!(key.starts_with('{'), "{key}");
}

#[test]
fn dying_server_is_reported() {
    let Some(mut server) = Server::valkey(&[]) else {
        weft_testkit::skipped::note(
            "dying_server_is_reported",
            "no valkey-server in PEERS_BIN or PATH",
        );
        return;
    };
    let child = start(server.port(), "--fuzz --duration 60 -c 4");
    std::thread::sleep(Duration::from_millis(700));
    server.kill();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(err.contains("Error: Server closed the connection (client "), "{err}");
    let commands = err.lines().filter(|line| {
        let number = line.trim_start_matches(['*', ' ']).split(' ').next();
        number.is_some_and(|number| ["1", "2", "3", "4"].contains(&number))
    });
    assert_eq!(commands.count(), 4, "{err}");
    assert!(err.contains("The seed was "), "{err}");
    assert!(out.contains("=== FINAL STATISTICS ==="), "{out}");
}

/// A server that documents GET, and replies to GET with this.
fn fake_server(answer: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut input = [0; 4096];
                while let Ok(n @ 1..) = stream.read(&mut input) {
                    let asked = text(&input[..n]);
                    let answer: &[u8] = match asked {
                        _ if asked.contains("DOCS") => b"*2\r\n$3\r\nget\r\n*0\r\n",
                        _ if asked.contains("COMMAND") || asked.contains("CONFIG") => b"*0\r\n",
                        _ if asked.contains("GET") => answer,
                        _ => b"+OK\r\n",
                    };
                    if stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

#[test]
fn malformed_reply_is_reported() {
    let output = ours(fake_server(b"HTTP/1.1 400\r\n"), "--fuzz -n 10 -c 1");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("\"HTTP/1.1 400\" begins no reply (client 1)"));
    assert_eq!(total(&text(&output.stdout), "Malformed replies"), 1);
    assert!(ours(fake_server(b"$-1\r\n"), "--fuzz -n 10 -c 1").status.success());
}
