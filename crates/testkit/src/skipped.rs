//! Counts the tests that could not run, over all test programs of one `cargo test`.
//!
//! A test that lacks a program passes, and cargo hides the output of passing tests. A developer
//! without peers would believe that everything was compared. So each such test adds a line to a
//! file in the target folder, which isn't captured. The last test program of a run prints the sum
//! (`tools/xtask/tests/skipped.rs`; programs run in the order of their packages' names).
//!
//! A file belongs to one run: its name has the process id of cargo, the parent of every test
//! program, and the start time of that process.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};

/// The environment variable with the path of a file. Each test program that skips a test adds its own path to that file.
/// So a second run, with the peers, needs only these programs.
const PROGRAMS: &str = "WEFT_SKIPPED_PROGRAMS";

/// Prefix of ledgers.
const PREFIX: &str = "tests-skipped-";

/// Notes that `test`, or a part of it, can't run, and why.
///
/// The output starts with `SKIP`, so that a log can be searched for it.
pub fn note(test: &str, why: &str) {
    eprintln!("SKIP {test}: {why}");
    if let (Some(list), Ok(program)) = (env::var_os(PROGRAMS), env::current_exe()) {
        append(Path::new(&list), &format!("{}\n", program.display()));
    }
    // Without a writable target folder nothing is counted, but the test must not fail.
    let Some(ledger) = target_folder().and_then(|folder| ledger(&folder, parent_id())) else {
        return;
    };
    append(&ledger, &format!("{test}\t{why}\n"));
}

/// Adds a line in one write, which appending keeps whole.
fn append(path: &Path, line: &str) {
    if let Ok(mut file) = File::options().create(true).append(true).open(path) {
        let _ = file.write_all(line.as_bytes());
    }
}

/// Like [`note`], for the test of the calling thread, which has its name.
pub fn note_here(why: &str) {
    note(std::thread::current().name().unwrap_or("a test"), why);
}

/// The numbers of noted tests in the run of this program, by reason. Removes the files of this run
/// and of ended ones.
pub fn take() -> BTreeMap<String, usize> {
    let Some(folder) = target_folder() else { return BTreeMap::new() };
    let own = ledger(&folder, parent_id());
    let noted = own.as_deref().map(fs::read_to_string).and_then(Result::ok).unwrap_or_default();
    for path in ledgers(&folder) {
        if Some(&path) == own.as_ref() || is_over(&path) {
            let _ = fs::remove_file(path);
        }
    }
    sums(&noted)
}

/// Tests by reason; a test that was noted twice for one reason counts once.
fn sums(noted: &str) -> BTreeMap<String, usize> {
    let mut lines: Vec<(&str, &str)> = noted.lines().filter_map(|l| l.split_once('\t')).collect();
    lines.sort_unstable();
    lines.dedup();
    let mut sums = BTreeMap::new();
    for (_, why) in lines {
        *sums.entry(why.to_string()).or_default() += 1;
    }
    sums
}

/// The profile's folder, which contains the test program's folder.
fn target_folder() -> Option<PathBuf> {
    env::current_exe().ok()?.parent()?.parent().map(Path::to_path_buf)
}

fn ledger(folder: &Path, run: u32) -> Option<PathBuf> {
    Some(folder.join(format!("{PREFIX}{run}-{}", started(run)?)))
}

fn ledgers(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_ledger = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
    };
    entries.map(|entry| entry.path()).filter(is_ledger).collect()
}

/// Whether the run of a file has ended.
fn is_over(ledger: &Path) -> bool {
    let name = ledger.file_name().map(|name| name.to_string_lossy().into_owned());
    let ids = name.as_deref().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
    let Some((run, begun)) = ids else { return false };
    run.parse().ok().and_then(started).is_none_or(|now| now != begun)
}

/// The start time of a process, in ticks since boot; `None` if it has ended.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain spaces and parentheses; the 20th field after it is the start time.
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_whitespace().nth(19).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_by_reason() {
        let noted = "a\tno peer\nb\tno peer\na\tno peer\na\tone CPU\nbroken\n";
        let expected = [("no peer".to_string(), 2), ("one CPU".to_string(), 1)];
        assert_eq!(sums(noted), BTreeMap::from(expected));
    }

    #[test]
    fn run_is_over_when_its_process_has_ended() {
        let own = std::process::id();
        let now = started(own).expect("this process runs");
        let path = |begun: &str| PathBuf::from(format!("/x/{PREFIX}{own}-{begun}"));
        assert!(!is_over(&path(&now)) && is_over(&path("1")));
        assert!(!is_over(Path::new("/x/other")));
    }
}
