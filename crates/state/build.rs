//! Records the commit of the build for INFO and `--version`: `WEFT_COMMIT`, else the commit of the git checkout, else
//! zeros. A packager without git sets the variable.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=WEFT_COMMIT");
    let commit = std::env::var("WEFT_COMMIT").ok().or_else(from_git);
    let commit = commit.filter(|name| !name.is_empty()).unwrap_or_else(|| "0".repeat(8));
    println!("cargo::rustc-env=WEFT_COMMIT={}", &commit[..commit.len().min(8)]);
}

/// Also makes cargo run this script again after each commit and checkout.
fn from_git() -> Option<String> {
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=8", "HEAD"])
}
