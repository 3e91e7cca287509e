//! `weft-server --check-aof`: checks the files of an append-only log and repairs the end of the
//! last one, without a server.

use crate::aof::lock::lock_for_repair;
use std::ffi::OsString;
use std::io::{BufRead, Cursor, Read, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use weft_persist::aof::{Operator, Repair, check};
use weft_persist::rdb::file;
use weft_persist::storage::Disk;

/// Checks the files named by `words` and returns the exit code. `program`: the name of the
/// executable, for the usage.
pub fn run(program: &str, words: &[OsString]) -> i32 {
    let text: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let options: Vec<&str> = text.iter().map(|word| &**word).collect();
    let repair = match options[..] {
        [_] => Repair::Nothing,
        ["--fix", _] => Repair::Cut,
        ["--truncate-to-timestamp", second, _] => match second.parse() {
            Ok(second) if second > 0 => Repair::CutAfter(second),
            Ok(_) | Err(_) => {
                println!("Invalid timestamp, aborting...");
                return 1;
            }
        },
        _ => {
            println!(
                "Usage: {program} [--fix|--truncate-to-timestamp $timestamp] <file.manifest|file.aof>"
            );
            return 1;
        }
    };
    let Some(path) = words.last() else { return 1 };
    let _locks = match repair {
        Repair::Nothing => Vec::new(),
        Repair::Cut | Repair::CutAfter(_) => match lock_for_repair(Path::new(path)) {
            Ok(locks) => locks,
            Err(refusal) => {
                println!("{refusal}");
                return 1;
            }
        },
    };
    i32::from(check(&Disk, Path::new(path), repair, &mut Terminal).is_err())
}

/// The operator at a terminal.
struct Terminal;

impl Operator for Terminal {
    fn line(&mut self, line: String) {
        println!("{line}");
    }

    fn agrees(&mut self) -> bool {
        print!("Continue? [y/N]: ");
        let mut answer = String::new();
        let read =
            std::io::stdout().flush().and_then(|()| std::io::stdin().lock().read_line(&mut answer));
        read.is_ok() && answer.to_ascii_lowercase().starts_with('y')
    }

    fn snapshot(&mut self, file: Box<dyn Read + Send>) -> Option<(u64, Box<dyn Read + Send>)> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut file = file;
        let mut line = |line: String| println!("{line}");
        let (checked, taken, ahead) =
            file::check_front(&mut file, now.as_millis() as i64, &mut line);
        checked.is_right.then(|| {
            let rest: Box<dyn Read + Send> = Box::new(Cursor::new(ahead).chain(file));
            (taken, rest)
        })
    }
}
