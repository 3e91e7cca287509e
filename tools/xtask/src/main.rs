//! Tasks of the repository that are programs: `cargo xtask TASK`.
//!
//! | task | what it does |
//! |---|---|
//! | `tidy` | checks the rules of style and layering; prints `file:line: message` |

mod tidy;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let task = std::env::args().nth(1);
    match task.as_deref() {
        Some("tidy") => tidy(&root),
        other => {
            if let Some(other) = other {
                eprintln!("unknown task {other:?}");
            }
            eprintln!("usage: cargo xtask tidy");
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
