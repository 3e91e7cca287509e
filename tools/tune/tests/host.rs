//! `topology` and `doctor` as programs: their output and exit status.

use std::path::Path;
use std::process::{Command, Output};

use weft_testkit::machines::{Machine, known};

fn tune(command: &str, root: &Path, options: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_weft-tune");
    let mut run = Command::new(program);
    run.arg(command).arg("--root").arg(root).args(options).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn topology_of_another_machine() {
    let machine = known::six_cores().build();
    let output = tune("topology", machine.root(), &[]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output).starts_with("6 CPUs on 6 cores in 1 socket, 1 memory node; no SMT\n"));
    let output = tune("topology", machine.root(), &["--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["online"], &json["interfaces"][0]["name"]), (&"0-5".into(), &"eth0".into()));
}

#[test]
fn doctor_fails_only_with_strict() {
    let machine = Machine::empty();
    let status = |options: &[&str]| tune("doctor", machine.root(), options).status.code();
    machine.write("proc/sys/vm/overcommit_memory", "2\n");
    assert_eq!(status(&[]), Some(0));
    assert_eq!(status(&["--strict"]), Some(1));
    assert_eq!(status(&["--strict", "--check", "swappiness"]), Some(0));
    machine.write("proc/sys/vm/overcommit_memory", "0\n");
    assert_eq!(status(&["--strict", "--server", "redis"]), Some(1));
    assert_eq!(status(&["--strict", "--server", "weft"]), Some(0));
    assert_eq!(status(&["--check", "nothing-known"]), Some(2));
    let output = tune("doctor", machine.root(), &["--json", "--check", "overcommit"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json[0]["value"], &json[0]["weft"]), (&"0".into(), &"ok".into()));
    assert_eq!(json[0]["action"], "Set vm.overcommit_memory to 1");
}

#[test]
fn doctor_prints_problems_only_unless_verbose() {
    let machine = Machine::empty();
    machine.write("proc/sys/vm/overcommit_memory", "2\n");
    machine.write("proc/sys/net/core/somaxconn", "4096\n");
    let shown = |options: &[&str]| text(&tune("doctor", machine.root(), options));
    let short = shown(&[]);
    assert!(short.starts_with("warning    Set vm.overcommit_memory to 1: sysctl -w"), "{short}");
    assert!(short.contains("\n1 problem: 1 warning, 0 advice; "), "{short}");
    assert!(!short.contains("somaxconn") && !short.contains("/proc/"), "{short}");
    for flag in ["-v", "--verbose"] {
        let long = shown(&[flag]);
        assert!(long.contains("\nok         net.core.somaxconn: 4096\n"), "{long}");
        assert!(long.contains("\n  file     /proc/sys/vm/overcommit_memory\n"), "{long}");
    }
    assert_eq!(tune("doctor", machine.root(), &["-v", "--json"]).status.code(), Some(2));
}

#[test]
fn doctor_judges_a_running_server() {
    let server = weft_testkit::Server::weft(&["--maxclients", "50"]);
    let run = |options: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_weft-tune")).arg("doctor").args(options).output().unwrap()
    };
    let port = server.port().to_string();
    let output = run(&["--port", &port, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let value = |check: &str| {
        let found = json.as_array().unwrap().iter().find(|finding| finding["check"] == check);
        found.unwrap_or_else(|| panic!("{check}: {json}"))["value"].as_str().unwrap().to_string()
    };
    assert!(value("server-clients").ends_with("for maxclients 50"), "{}", value("server-clients"));
    assert!(value("server-memory").starts_with("none, of "), "{}", value("server-memory"));
    assert!(value("server-threads").contains(" on "), "{}", value("server-threads"));
    assert!(value("others").contains(" CPUs, for half a second"), "{}", value("others"));
    for check in ["server-backlog", "server-swap"] {
        assert_ne!(value(check), "", "{check}");
    }
    let nobody = weft_testkit::server::free_port().to_string();
    let output = run(&["--port", &nobody]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing listens on port"));
}

/// Topology and the header of a sweep print one number for memory, in one form.
#[test]
fn topology_and_reports_agree_on_memory() {
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_weft-tune")).args(args).output().unwrap();
        text(&output)
    };
    let shown = run(&["topology"]);
    let shown =
        shown.lines().find_map(|line| line.strip_prefix("  memory   ")).unwrap().to_string();
    assert!(shown.ends_with("iB"), "{shown}");
    let json: serde_json::Value = serde_json::from_str(&run(&["topology", "--json"])).unwrap();
    let gib = json["memory_bytes"].as_u64().unwrap() as f64 / (1u64 << 30) as f64;
    assert!(gib < 1.0 || shown == format!("{gib:.1} GiB"), "{shown}: {gib}");
}
