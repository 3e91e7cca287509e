//! `topology` and `doctor` as programs: what they print, and their exit status.

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
fn doctor_fails_only_when_told_to() {
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
}
