//! Tasks of the repository that are programs: `cargo xtask TASK`.
//!
//! | task | what it does |
//! |---|---|
//! | `tidy` | checks the rules of style and layering; prints `file:line: message` |
//! | `instructions` | counts the instructions of requests and compares them with the tree's file |

mod instructions;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut args = std::env::args().skip(1);
    let task = args.next();
    match task.as_deref() {
        Some("tidy") => tidy(&root),
        Some("instructions") => instructions(&root, args),
        other => {
            if let Some(other) = other {
                eprintln!("unknown task {other:?}");
            }
            eprintln!("usage: cargo xtask tidy | instructions [--write REASON]");
            ExitCode::from(2)
        }
    }
}

fn tidy(root: &Path) -> ExitCode {
    match tidy::check(root) {
        Ok((files, problems)) if problems.is_empty() => {
            println!("tidy: {files} files are in order");
            ExitCode::SUCCESS
        }
        Ok((_, problems)) => {
            for problem in &problems {
                eprintln!("{problem}");
            }
            eprintln!("tidy: {} problems", problems.len());
            ExitCode::FAILURE
        }
        Err(e) => {
            eprintln!("tidy: {e}");
            ExitCode::FAILURE
        }
    }
}

fn instructions(root: &Path, args: impl Iterator<Item = String>) -> ExitCode {
    let done = instructions::Task::from_args(root, args)
        .and_then(|task| task.run(root).map_err(|e| e.to_string()));
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("instructions: {why}");
            ExitCode::FAILURE
        }
    }
}
