//! Tasks of the repository that are programs: `cargo xtask TASK`.
//!
//! | task | effect |
//! |---|---|
//! | `tidy [--update]` | checks the rules of style and layering; prints `file:line: message`. `--update` lowers the recorded numbers of words |
//! | `words [FOLDER]`, `words --changed` | lists the words that are not plain, in a folder or on changed lines |
//! | `check` | formatting, tidy, clippy, unit tests and documentation, each with its seconds |
//! | `test [--all] [ARGUMENTS]` | `cargo test --workspace ARGUMENTS`. `--all` runs the long tests, too |
//! | `dist [--static] [--deb] [--from FOLDER]` | release files in `target/dist/`: an archive, a Debian package, checksums. `--from` packs the programs of a folder instead of building them |
//! | `site` | the documentation as a web site, in `target/site/`; needs mdBook |
//! | `instructions` | counts the instructions of requests and compares them with the tree's file |

mod cargo;
mod dist;
mod instructions;
mod site;
mod steps;
mod tidy;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use tidy::Checked;
use tidy::words::Which;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut args = std::env::args().skip(1);
    let task = args.next();
    match task.as_deref() {
        Some("tidy") => match args.next().as_deref() {
            None => tidy(&root, false),
            Some("--update") => tidy(&root, true),
            Some(other) => wrong(&format!("unknown option {other:?}")),
        },
        Some("words") => words(&root, args.next().as_deref()),
        Some("check") => match args.next() {
            None => result(steps::check(&root)),
            Some(other) => wrong(&format!("unknown option {other:?}")),
        },
        Some("test") => {
            let mut rest: Vec<String> = args.collect();
            let all = rest.first().is_some_and(|arg| arg == "--all");
            if all {
                rest.remove(0);
            }
            result(steps::test(&root, all, &rest))
        }
        Some("dist") => match dist::Wanted::parse(args) {
            Ok(wanted) => match dist::make(&root, &wanted) {
                Ok(()) => ExitCode::SUCCESS,
                Err(why) => {
                    eprintln!("{why}");
                    ExitCode::FAILURE
                }
            },
            Err(option) => wrong(&format!("unknown option {option:?}")),
        },
        Some("site") => match site::build(&root) {
            Ok(done) => {
                println!("{done}");
                ExitCode::SUCCESS
            }
            Err(why) => {
                eprintln!("{why}");
                ExitCode::FAILURE
            }
        },
        Some("instructions") => instructions(&root, args),
        Some(other) => wrong(&format!("unknown task {other:?}")),
        None => wrong("no task"),
    }
}

fn result(passed: bool) -> ExitCode {
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn wrong(why: &str) -> ExitCode {
    eprintln!("{why}");
    eprintln!(
        "usage: cargo xtask tidy [--update] | words [FOLDER | --changed] | check | \
         test [--all] [ARGUMENTS] | dist [--static] [--deb] [--from FOLDER] | site | \
         instructions [--write REASON]"
    );
    ExitCode::from(2)
}

fn words(root: &Path, which: Option<&str>) -> ExitCode {
    let which = match which {
        Some("--changed") => Which::Changed,
        Some(option) if option.starts_with('-') => {
            return wrong(&format!("unknown option {option:?}"));
        }
        folder => {
            let folder = folder.unwrap_or_default().trim_end_matches('/');
            if !root.join(folder).exists() {
                return wrong(&format!("no folder {folder:?}"));
            }
            Which::Below(folder.into())
        }
    };
    match tidy::words::list(root, &which) {
        Ok(text) => {
            // A closed pipe, as of `head`, is not an error.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("words: {e}");
            ExitCode::FAILURE
        }
    }
}

fn tidy(root: &Path, update: bool) -> ExitCode {
    match tidy::check(root, update) {
        Ok(Checked { files, problems }) if problems.is_empty() => {
            println!("tidy: {files} files are in order");
            ExitCode::SUCCESS
        }
        Ok(Checked { problems, .. }) => {
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
