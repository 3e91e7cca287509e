//! Features beyond the reference: open loop, mixes, distributions, JSON, comparison; and runs
//! against all servers.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{OURS, describe, json, ours, ours_ok, text};
use weft_testkit::Server;

/// Weft, and the installed peers.
fn servers() -> Vec<Server> {
    let peers = [Server::valkey(&[]), Server::redis8(&[])];
    if peers.iter().any(Option::is_none) {
        weft_testkit::skipped::note_here("not all peers are in PEERS_BIN or PATH");
    }
    std::iter::once(Server::weft(&[])).chain(peers.into_iter().flatten()).collect()
}

#[test]
fn all_tests_run_against_all_servers() {
    for server in servers() {
        for name in
            "ping set get incr lpush rpush lpop rpop sadd hset spop zadd zpopmin lrange mset \
                     mget xadd function_load fcall"
                .split(' ')
        {
            for more in ["", "-3", "-P 16 -r 100 --verify"] {
                let output = ours(server.port(), &format!("-n 100 -c 5 -q -t {name} {more}"));
                // A server may lack a command, but the tool must report it.
                let unknown = server.name() == "weft"
                    && ["xadd", "function_load", "fcall"].contains(&name)
                    && text(&output.stderr).contains("is not supported by this version");
                assert!(
                    output.status.success() || unknown,
                    "{} {name} {more}: {}",
                    server.name(),
                    describe(&output)
                );
            }
        }
    }
}

#[test]
fn json_has_the_fields_of_a_sweep() {
    for server in servers() {
        let document =
            json(server.port(), "-n 2000 -c 10 -P 4 -r 100 -d 20 -t set,get --threads 2");
        assert_eq!(document["format"], 1);
        assert_eq!(document["error"], serde_json::Value::Null);
        assert_eq!(document["settings"]["pipeline"], 4);
        let tests = document["tests"].as_array().unwrap();
        assert_eq!(tests.iter().map(|test| &test["test"]).collect::<Vec<_>>(), ["SET", "GET"]);
        for test in tests {
            assert_eq!((&test["requests"], &test["loop"]), (&2000.into(), &"closed".into()));
            let latency = &test["latency_ms"];
            let figures = ["min", "p50", "p95", "p99", "p99.9", "max"]
                .map(|name| latency[name].as_f64().unwrap_or_else(|| panic!("{name}: {latency}")));
            assert!(figures.is_sorted(), "{latency}");
            assert!(latency["avg"].as_f64() <= latency["max"].as_f64());
            assert_eq!(test["generator"]["busy"].as_array().unwrap().len(), 2);
            assert!(test["generator"]["cpu_us"].as_f64().unwrap() > 0.0);
            assert!(test["server_cpu"]["user_us"].as_f64().is_some(), "{test}");
            assert_eq!(test["errors"], serde_json::json!({}));
        }
    }
}

#[test]
fn exact_number_of_requests_is_sent() {
    let server = Server::weft(&[]);
    for line in ["-n 1000 -P 16", "-n 1000 -c 7 --threads 3", "-n 1000 -k 0", "-n 7 -c 50"] {
        server.client().cmd(&["DEL", "counter:__rand_int__"]);
        let document = json(server.port(), &format!("{line} -t incr"));
        let sent = document["tests"][0]["requests"].as_u64().unwrap();
        let counted = server.client().cmd(&["GET", "counter:__rand_int__"]).text();
        assert_eq!(counted, sent.to_string(), "{line}");
        assert!(line.starts_with(&format!("-n {sent} ")), "{line}: {sent}");
    }
}

#[test]
fn an_open_loop_counts_a_stall() {
    let server = Server::weft(&[]);
    let call = "-t get --rps 2000 --duration 4 -c 10 --json";
    let child = Command::new(OURS)
        .args(["-p", &server.port().to_string()])
        .args(call.split(' '))
        .stdout(Stdio::piped())
        .spawn()
        .expect("our own program");
    std::thread::sleep(Duration::from_millis(1500));
    server.signal(rustix::process::Signal::STOP);
    std::thread::sleep(Duration::from_millis(500));
    server.signal(rustix::process::Signal::CONT);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let test = &document["tests"][0];
    assert_eq!((&test["loop"], &test["target_rps"]), (&"open".into(), &2000.0.into()));
    // The server stalled for an eighth of the time, so one in a hundred waited for most of that: a
    // slow machine only adds to it.
    let p99 = test["latency_ms"]["p99"].as_f64().unwrap();
    assert!(p99 > 300.0, "p99 is {p99} ms after a stall of 500: {test}");
    let count = |name: &str| test[name].as_u64().unwrap();
    assert_eq!(count("requests") + count("unsent"), 8000, "no request is left out");
}

#[test]
fn the_time_holds_however_many_requests_are_asked_for() {
    let server = Server::weft(&[]);
    // Five million a second over four connections: each would have to answer in less than a
    // microsecond.
    let call = "-t get --rps 5000000 --duration 2 -c 4";
    let began = Instant::now();
    let document = json(server.port(), call);
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    let test = &document["tests"][0];
    let seconds = test["seconds"].as_f64().unwrap();
    assert!((2.0..20.0).contains(&seconds), "{test}");
    let count = |name: &str| test[name].as_u64().unwrap();
    assert!(count("requests") > 0, "{test}");
    assert_eq!(count("requests") + count("unsent"), 10_000_000, "{test}");
    let output = ours(server.port(), &format!("{call} -q"));
    let error = text(&output.stderr);
    assert!(error.contains("was not reached: ") && error.contains("were not sent"), "{error}");
}

#[test]
fn default_suite_skips_missing_commands() {
    let without = ["XADD", "FUNCTION", "FCALL"].map(|name| {
        ["--rename-command".to_string(), name.to_string(), "hidden-".to_string() + name]
    });
    let args: Vec<&str> = without.iter().flatten().map(String::as_str).collect();
    let Some(server) = Server::valkey(&args) else {
        eprintln!("SKIP the_whole_suite_skips_what_a_server_lacks: no valkey-server");
        return;
    };
    let output = ours(server.port(), "-n 50 -c 2 -q");
    assert!(output.status.success(), "{}", describe(&output));
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert!(out.contains("MGET (10 keys): ") && !out.contains("XADD"), "{out}");
    for title in ["XADD", "FUNCTION LOAD", "FCALL"] {
        let note = format!("{title}: skipped: valkey ");
        assert!(error.contains(&note), "{note}: {error}");
    }
    let document = json(server.port(), "-n 50 -c 2");
    assert_eq!(document["skipped"].as_array().unwrap().len(), 3, "{document}");
    assert!(document["tests"].as_array().unwrap().len() > 15);
    // Requested by name, it is an error.
    let output = ours(server.port(), "-n 50 -c 2 -q -t xadd");
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
}

#[test]
fn mix_counts_each_command() {
    let server = Server::weft(&[]);
    let document = json(server.port(), "-n 10000 -r 100 -d 16 --verify --mix GET:8,SET:2");
    let commands = document["tests"][0]["commands"].as_array().unwrap();
    let of = |name: &str| {
        let found = commands.iter().find(|command| command["command"] == name).unwrap();
        found["requests"].as_u64().unwrap()
    };
    assert_eq!(of("GET") + of("SET"), 10_000);
    assert!((7700..8300).contains(&of("GET")), "{}", of("GET"));
}

#[test]
fn preload_sets_every_key_in_every_size() {
    let server = Server::weft(&[]);
    ours_ok(
        server.port(),
        "-r 1000 --preload --sizes 20:1,300:1 --verify -t get -n 1000 -q --threads 2",
    );
    let mut client = server.client();
    assert_eq!(client.cmd(&["DBSIZE"]).int(), 1000);
    let sizes: Vec<i64> =
        (0..1000).map(|key| client.cmd(&["STRLEN", &format!("key:{key:012}")]).int()).collect();
    assert!(sizes.iter().all(|size| [20, 300].contains(size)));
    assert!((400..600).contains(&sizes.iter().filter(|size| **size == 20).count()));
}

#[test]
fn distributions_reach_the_server() {
    let server = Server::weft(&[]);
    ours_ok(server.port(), "-r 1000 --keys zipf:1.2 -t incr -n 20000 -P 10 -q");
    let count = |key: u32| -> u64 {
        server.client().cmd(&["GET", &format!("counter:{key:012}")]).text().parse().unwrap_or(0)
    };
    let (first, tenth) = (count(0), count(9));
    assert!(first > 3000 && tenth > 100 && tenth < first / 8, "{first} {tenth}");
    server.client().ok(&["FLUSHALL"]);
    ours_ok(server.port(), "-r 500 --keys seq -t incr -n 1000 -P 10 -q --threads 2");
    assert_eq!(server.client().cmd(&["DBSIZE"]).int(), 500);
    assert_eq!(server.client().cmd(&["GET", "counter:000000000499"]).text(), "2");
}

#[test]
fn two_servers_give_a_ratio() {
    let (first, second) = (Server::weft(&[]), Server::weft(&[]));
    let versus = format!("-t get -n 4000 --rounds 4 --vs 127.0.0.1:{}", second.port());
    let document = json(first.port(), &versus);
    let comparison = &document["comparisons"][0];
    let figure = |name: &str| comparison["rps"][name].as_f64().unwrap();
    assert!(figure("low") <= figure("ratio") && figure("ratio") <= figure("high"));
    assert_eq!((&comparison["rounds"], &comparison["confidence"]), (&4.into(), &0.99.into()));
    assert_eq!(document["tests"].as_array().unwrap().len(), 2);
    assert_eq!(document["tests"][1]["requests"], 4000);
    let names = [&first, &second].map(|server| format!("(127.0.0.1:{})", server.port()));
    let versus = versus.replace("-t get", "-t get,set");
    let quiet = ours_ok(first.port(), &format!("{versus} -q"));
    for test in ["GET", "SET"] {
        for name in &names {
            let row = quiet.lines().find(|line| {
                line.starts_with(&format!("{test} at weft ")) && line.contains(&format!("{name}: "))
            });
            assert!(row.is_some(), "{test} {name}: {quiet}");
        }
    }
    let last = quiet.trim_end().lines().rfind(|line| line.starts_with("all 2 tests: ")).unwrap();
    assert!(names.iter().all(|name| last.contains(name.as_str())), "{last}");
    assert!(last.contains("99 % interval of 4 rounds"), "{last}");
    let csv = ours_ok(first.port(), &format!("{versus} --csv"));
    let mut rows = csv.lines().map(|row| row.rsplit(',').next().unwrap());
    assert_eq!(rows.next(), Some("\"server\""));
    let of_rows: Vec<&str> = rows.collect();
    assert_eq!(of_rows.len(), 4, "{csv}");
    assert!((0..4).all(|i| of_rows[i].contains(&names[i % 2])), "{csv}");
    let table = ours_ok(first.port(), &versus);
    let rows: Vec<&str> = table.lines().skip(3).take_while(|line| !line.is_empty()).collect();
    assert_eq!(rows.len(), 4, "{table}");
    for (at, row) in rows.iter().enumerate() {
        let title = if at < 2 { "SET " } else { "GET " };
        assert!(row.starts_with(title) && row.ends_with(&names[at % 2]), "{table}");
    }
    assert!(table.contains("\n\nSET: ") && table.contains("\nall 2 tests: "), "{table}");
    let full = ours_ok(first.port(), &format!("{versus} --full"));
    let heads = full.lines().filter(|line| line.starts_with("====== "));
    let named = heads.filter(|line| names.iter().any(|name| line.contains(name.as_str())));
    assert_eq!(named.count(), 4, "{full}");
}

#[test]
fn default_output_is_one_table() {
    let server = Server::weft(&[]);
    let out = ours_ok(server.port(), "-t set,get,lrange_100 -n 500 -c 5 -P 2");
    let lines: Vec<&str> = out.lines().collect();
    assert!(
        lines[0].starts_with("weft ")
            && lines[0].contains("5 clients, pipeline 2, 500 requests, closed loop"),
        "{out}"
    );
    assert_eq!((lines[1], lines.len()), ("", 7), "{out}");
    let columns: Vec<&str> =
        lines[2].split("  ").map(str::trim).filter(|c| !c.is_empty()).collect();
    assert_eq!(columns[..3], ["test", "requests/s", "avg ms"], "{out}");
    assert_eq!(columns.len(), 8, "{out}");
    for (line, title) in lines[3..].iter().zip(["SET", "GET", "LPUSH", "LRANGE_100"]) {
        assert!(line.starts_with(title) && line.len() == lines[2].len(), "{out}");
        let figures: Vec<&str> = line.split_whitespace().rev().take(7).collect();
        for figure in &figures {
            assert!(figure.parse::<f64>().is_ok_and(|figure| figure > 0.0), "{figure}: {out}");
        }
    }
    let full = ours_ok(server.port(), "-t get -n 500 --full");
    assert!(full.contains("====== GET ======") && full.contains("Latency by percentile"), "{full}");
}

#[test]
fn histogram_logs_hold_each_test() {
    let server = Server::weft(&[]);
    let path = server.dir().join("latencies.hlog");
    ours_ok(server.port(), &format!("-n 500 -t set,get -q --hdr {}", path.display()));
    let log = std::fs::read_to_string(path).unwrap();
    assert!(log.contains("Tag=SET,") && log.contains("Tag=GET,"), "{log}");
}

#[test]
fn loop_repeats_and_idle_connections_stay() {
    let server = Server::weft(&[]);
    let spawn = |line: &str| {
        Command::new(OURS)
            .args(["-p", &server.port().to_string()])
            .args(line.split(' '))
            .stdout(Stdio::piped())
            .spawn()
            .expect("our own program")
    };
    let mut forever = spawn("-l -q -n 50 -t get");
    let lines = BufReader::new(forever.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert_eq!(lines.filter(|line| line.starts_with("GET: ")).take(3).count(), 3);
    forever.kill().unwrap();
    forever.wait().unwrap();
    let mut idle = spawn("-I -c 20");
    let clients = || server.client().cmd(&["INFO", "clients"]).text();
    let is_there =
        |line: &str| line.strip_prefix("connected_clients:").is_some_and(|n| n.trim() == "21");
    while !clients().lines().any(is_there) {
        assert!(idle.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    idle.kill().unwrap();
    idle.wait().unwrap();
}
