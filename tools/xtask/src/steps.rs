//! `cargo xtask check` and `cargo xtask test`: cargo commands in a row, each with its seconds.

use crate::cargo::cargo;
use std::path::Path;
use std::time::Instant;

/// One command of a task.
struct Step {
    name: &'static str,
    args: Vec<String>,
    /// Environment variables of the command.
    env: Vec<(&'static str, &'static str)>,
}

impl Step {
    fn new(name: &'static str, line: &str) -> Step {
        let args = line.split_whitespace().map(str::to_string).collect();
        Step { name, args, env: Vec::new() }
    }
}

/// The checks of a change before a commit: formatting, the rules of the tree, lints, unit tests, documentation.
pub fn check(root: &Path) -> bool {
    let doc = Step {
        env: vec![("RUSTDOCFLAGS", "-D warnings")],
        ..Step::new("documentation", "doc --workspace --no-deps --document-private-items --quiet")
    };
    run(
        root,
        &[
            Step::new("formatting", "fmt --all --check"),
            Step::new("tidy", "xtask tidy"),
            Step::new("clippy", "clippy --workspace --all-targets --quiet -- -D warnings"),
            Step::new("unit tests", "test --workspace --lib --quiet"),
            doc,
        ],
    )
}

/// The tests of the workspace: `rest` is passed to `cargo test`. `all`: with the long ones, which are ignored otherwise.
pub fn test(root: &Path, all: bool, rest: &[String]) -> bool {
    let mut step = Step::new("tests", "test --workspace");
    if rest.iter().any(|arg| arg == "-p" || arg == "--package") {
        step.args.truncate(1);
    }
    step.args.extend(rest.iter().cloned());
    if all {
        if !rest.iter().any(|arg| arg == "--") {
            step.args.push("--".into());
        }
        step.args.push("--include-ignored".into());
    }
    run(root, &[step])
}

/// Runs the steps until one fails, and prints the seconds of each.
fn run(root: &Path, steps: &[Step]) -> bool {
    let mut times = Vec::new();
    let mut passed = true;
    for step in steps {
        eprintln!("==== {}: cargo {}", step.name, step.args.join(" "));
        let start = Instant::now();
        let status =
            cargo().args(&step.args).envs(step.env.iter().copied()).current_dir(root).status();
        passed = match status {
            Ok(status) => status.success(),
            Err(e) => {
                eprintln!("{}: {e}", step.name);
                false
            }
        };
        times.push((step.name, start.elapsed().as_secs(), passed));
        if !passed {
            break;
        }
    }
    for (name, seconds, passed) in times {
        eprintln!("{seconds:5} s  {name}{}", if passed { "" } else { ": FAILED" });
    }
    passed
}
