//! The command line of the program. This file also makes `cargo test` build the program: see `testkit/locate.rs`.

use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weft-server")).args(args).output().expect("the program starts")
}

#[test]
fn version_names_program_and_version() {
    for option in ["--version", "-v"] {
        let output = run(&[option]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{option}");
        assert!(text.starts_with("Weft server v="), "{text}");
        assert!(text.contains(env!("CARGO_PKG_VERSION")), "{text}");
    }
}

#[test]
fn unknown_directive_fails_with_its_line() {
    let output = run(&["--nosuchdirective", "1"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(text.contains("nosuchdirective"), "{text}");
}
