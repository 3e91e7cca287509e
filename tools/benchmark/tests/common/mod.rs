//! Shared by the black-box tests: runs both tools, and compares their output.

// Each test file uses a part of this.
#![allow(dead_code)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use weft_testkit::{Client, locate};

/// The tool under test.
pub const OURS: &str = env!("CARGO_BIN_EXE_weft-benchmark");

/// The reference, if it is installed.
pub fn theirs() -> Option<PathBuf> {
    locate::peer("valkey-benchmark")
}

/// Runs a tool on a port to its end. `line` is split at blanks.
pub fn run(tool: &Path, port: u16, line: &str) -> Output {
    run_with(tool, &format!("-p {port} {line}"), "")
}

/// The same without a port, with standard input.
pub fn run_with(tool: &Path, line: &str, input: &str) -> Output {
    let mut child = Command::new(tool)
        .args(line.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("cannot run {}: {e}", tool.display()));
    // A program that reads nothing may have ended already.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    child.wait_with_output().expect("our own child can be waited for")
}

/// Runs the tool under test on a port.
pub fn ours(port: u16, line: &str) -> Output {
    run(Path::new(OURS), port, line)
}

/// Starts the tool under test on a port; the test disturbs it while it runs.
pub fn start(port: u16, line: &str) -> Child {
    Command::new(OURS)
        .args(["-p", &port.to_string()])
        .args(line.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("our own program")
}

/// Moves a slot from one node to another permanently, by the protocol: the new owner gets a new
/// epoch. Otherwise both claim the slot.
pub fn move_slot(slot: u32, from: &mut Client, to: &mut Client) {
    let [from_id, to_id] = [&mut *from, &mut *to].map(|c| c.cmd(&["CLUSTER", "MYID"]).text());
    let slot = slot.to_string();
    to.ok(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]);
    from.ok(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]);
    to.ok(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]);
    from.ok(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]);
}

/// Runs the tool under test, which must succeed; returns its output.
#[track_caller]
pub fn ours_ok(port: u16, line: &str) -> String {
    let output = ours(port, line);
    assert!(output.status.success(), "{line}: {}", describe(&output));
    text(&output.stdout)
}

/// The one JSON document that a call prints.
#[track_caller]
pub fn json(port: u16, line: &str) -> serde_json::Value {
    let out = ours_ok(port, &format!("--json {line}"));
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{line}: {e}: {out}"))
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn describe(output: &Output) -> String {
    format!("{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr))
}

/// Lines without numbers, with single blanks, and without a progress line before the last carriage
/// return.
pub fn masked(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.rsplit('\r').next().unwrap_or_default());
    lines.map(mask).collect()
}

fn mask(line: &str) -> String {
    let mut out = String::new();
    for word in line.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        let mut in_number = false;
        // A rate over less than a millisecond is infinite there.
        let word = word.replace("-nan", "0");
        let word = if word == "inf" { "0".to_string() } else { word.replace("\"inf\"", "\"0\"") };
        for c in word.chars() {
            let is_number = c.is_ascii_digit() || (in_number && c == '.');
            if is_number && !in_number {
                out.push('N');
            } else if !is_number {
                out.push(c);
            }
            in_number = is_number;
        }
    }
    out
}
