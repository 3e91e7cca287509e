//! Plain words: a list of words and constructions that the style forbids, and a ratchet over them.
//!
//! The tree had thousands of hits when the rule came. So a file records the allowed number of hits
//! of each top folder, [`RECORD`]. A folder with more fails. A folder with fewer fails too, until
//! `cargo xtask tidy --update` lowers its number. A folder without a line, such as a new crate, may
//! have none.
//!
//! | module | holds |
//! |---|---|
//! | [`table`] | the words and the advice |
//! | [`prose`] | the text of a file that people read |
//! | [`pattern`] | the search |
//! | [`changed`] | the lines that differ from the last commit |

mod changed;
mod pattern;
mod prose;
mod table;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Problem;
use super::rust::covers;
use changed::Changed;
use pattern::{Sentence, matches};
use table::{EXEMPT, RULES};

/// The file of allowed numbers, relative to the root.
pub const RECORD: &str = "tools/xtask/words.txt";

const HEADER: &str = "\
# Hits of tidy's rule of plain words (tools/xtask/src/tidy/words/table.rs) that a folder may have.
# Numbers only sink: `cargo xtask tidy --update` lowers them, `cargo xtask words FOLDER` lists hits.
";

/// Kinds of files whose prose is checked.
const KINDS: [&str; 7] = ["rs", "md", "toml", "conf", "sh", "py", "yml"];

/// A place with a word that is not plain.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hit {
    line: usize,
    words: String,
    advice: &'static str,
}

/// Hits by top folder.
pub type Counts = BTreeMap<String, usize>;

/// The folder whose number counts a file: a crate, a folder of the root, or `.` for the root's
/// files.
fn folder(file: &Path) -> String {
    let parts: Vec<&str> = file.iter().filter_map(|part| part.to_str()).collect();
    match parts.as_slice() {
        [top @ ("crates" | "tools"), name, _, ..] => format!("{top}/{name}"),
        [top, _, ..] => (*top).to_string(),
        _ => ".".to_string(),
    }
}

/// The hits of a file, in the order of lines.
fn hits(file: &Path, text: &str) -> Vec<Hit> {
    let extension = file.extension().and_then(|e| e.to_str()).unwrap_or("sh");
    let exempt: Vec<&str> = EXEMPT
        .iter()
        .filter(|(place, _, _)| covers(place, file))
        .map(|(_, words, _)| *words)
        .collect();
    if !KINDS.contains(&extension) || exempt.contains(&"") {
        return Vec::new();
    }
    let mut hits = Vec::new();
    for paragraph in prose::paragraphs(extension, text) {
        let sentence = Sentence::split(&paragraph.text);
        for rule in RULES {
            for (at, end) in matches(rule, &sentence) {
                let words = paragraph.text[at..end].to_string();
                let around = &paragraph.text;
                if !exempt.iter().any(|quoted| around.contains(quoted) && quoted.contains(&words)) {
                    hits.push(Hit { line: paragraph.line(at), words, advice: rule.advice });
                }
            }
        }
    }
    hits.sort_by_key(|hit| hit.line);
    hits
}

/// Adds the hits of a file to the counts.
pub fn count(file: &Path, text: &str, counts: &mut Counts) {
    let found = hits(file, text).len();
    if found > 0 {
        *counts.entry(folder(file)).or_default() += found;
    }
}

fn parse(record: &str) -> BTreeMap<String, (usize, usize)> {
    let lines = record.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    let entries = lines.filter_map(|(at, line)| {
        let (count, folder) = line.trim().split_once(' ')?;
        Some((folder.trim().to_string(), (count.parse().ok()?, at + 1)))
    });
    entries.collect()
}

fn write(counts: &Counts) -> String {
    let mut out = HEADER.to_string();
    for (folder, count) in counts.iter().filter(|(_, count)| **count > 0) {
        // Writing into a string can't fail.
        let _ = writeln!(out, "{count:>5} {folder}");
    }
    out
}

/// Compares the counts with the record.
pub fn compare(record: &str, counts: &Counts, problems: &mut Vec<Problem>) {
    let allowed = parse(record);
    let mut report = |line, message| {
        problems.push(Problem { file: PathBuf::from(RECORD), line, message });
    };
    let mut folders: Vec<&String> = allowed.keys().chain(counts.keys()).collect();
    folders.sort();
    folders.dedup();
    for folder in folders {
        let (most, line) = allowed.get(folder).copied().unwrap_or((0, 1));
        let found = counts.get(folder).copied().unwrap_or(0);
        if found > most {
            report(
                line,
                format!(
                    "{folder}: {found} words that are not plain, {most} are allowed: `cargo xtask \
                     words --changed` lists those on changed lines, `cargo xtask words {folder}` all"
                ),
            );
        } else if found < most {
            report(
                line,
                format!(
                    "{folder}: only {found} words that are not plain, {most} are recorded: run \
                     `cargo xtask tidy --update`"
                ),
            );
        }
    }
}

/// Lowers the numbers of the record to the counts. Numbers that rose stay as they are, unless there
/// is no record yet.
///
/// # Errors
/// When the record cannot be written.
pub fn update(root: &Path, counts: &Counts) -> io::Result<()> {
    let path = root.join(RECORD);
    let lowered = match fs::read_to_string(&path) {
        Ok(record) => lower(&record, counts),
        Err(e) if e.kind() == io::ErrorKind::NotFound => counts.clone(),
        Err(e) => return Err(e),
    };
    fs::write(path, write(&lowered))
}

fn lower(record: &str, counts: &Counts) -> Counts {
    let allowed = parse(record).into_iter();
    let least = |folder: &str, most: usize| counts.get(folder).copied().unwrap_or(0).min(most);
    allowed.map(|(folder, (most, _))| (folder.clone(), least(&folder, most))).collect()
}

/// Which hits [`list`] prints.
pub enum Which {
    /// Those below a folder or in a file, relative to the root.
    Below(PathBuf),
    /// Those on lines that differ from the last commit.
    Changed,
}

/// Lists hits: the lines, and a count for each folder.
///
/// # Errors
/// If files can't be read, or git does not answer.
pub fn list(root: &Path, which: &Which) -> io::Result<String> {
    let changed = match which {
        Which::Changed => Some(Changed::read(root)?),
        Which::Below(_) => None,
    };
    let mut files = Vec::new();
    super::collect(root, Path::new(""), &mut files)?;
    files.sort();
    let (mut out, mut counts) = (String::new(), Counts::new());
    for file in files {
        let wanted = match which {
            Which::Below(folder) => file.starts_with(folder),
            Which::Changed => true,
        };
        let bytes = if wanted { fs::read(root.join(&file))? } else { continue };
        if !super::is_text(&file, &bytes) {
            continue;
        }
        for hit in hits(&file, &String::from_utf8_lossy(&bytes)) {
            if changed.as_ref().is_none_or(|changed| changed.has(&file, hit.line)) {
                *counts.entry(folder(&file)).or_default() += 1;
                let Hit { line, words, advice } = hit;
                // Writing into a string can't fail.
                let _ = writeln!(out, "{}:{line}: \"{words}\": {advice}", file.display());
            }
        }
    }
    for (folder, count) in &counts {
        let _ = writeln!(out, "{count:>5} {folder}");
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_testkit::machines::Machine;

    fn counts(of: &[(&str, usize)]) -> Counts {
        of.iter().map(|(folder, count)| ((*folder).to_string(), *count)).collect()
    }

    fn problems(record: &str, of: &[(&str, usize)]) -> Vec<(usize, String)> {
        let mut problems = Vec::new();
        compare(record, &counts(of), &mut problems);
        problems.into_iter().map(|problem| (problem.line, problem.message)).collect()
    }

    #[test]
    fn file_counts_for_its_top_folder() {
        for (file, of) in [
            ("crates/io/src/read.rs", "crates/io"),
            ("tools/tune/Cargo.toml", "tools/tune"),
            ("docs/design/a.md", "docs"),
            ("README.md", "."),
        ] {
            assert_eq!(folder(Path::new(file)), of);
        }
    }

    #[test]
    fn hit_has_its_line_and_its_words() {
        let text = "//! A file.\n\n/// It stays in\n/// front of it.\nfn f() {}\n";
        let found = hits(Path::new("crates/a/src/b.rs"), text);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].line, found[0].words.as_str()), (3, "in front"));
        let exempt = hits(Path::new("tools/xtask/src/tidy/words/table.rs"), text);
        assert!(exempt.is_empty());
        assert!(hits(Path::new("a/data.json"), "# in front\n").is_empty());
        assert_eq!(hits(Path::new(".ci/run"), "#!/bin/sh\n# in front\n").len(), 1);
    }

    #[test]
    fn equal_counts_pass_and_others_fail() {
        let record = "# comment\n    3 crates/a\n   12 docs\n";
        assert!(problems(record, &[("crates/a", 3), ("docs", 12)]).is_empty());
        let rose = problems(record, &[("crates/a", 4), ("docs", 12)]);
        assert_eq!((rose.len(), rose[0].0), (1, 2));
        assert!(rose[0].1.contains("4 words") && rose[0].1.contains("3 are allowed"), "{rose:?}");
        let sank = problems(record, &[("crates/a", 3)]);
        assert_eq!((sank.len(), sank[0].0), (1, 3));
        assert!(sank[0].1.contains("cargo xtask tidy --update"), "{sank:?}");
        let new = problems(record, &[("crates/a", 3), ("docs", 12), ("crates/new", 1)]);
        assert!(new.len() == 1 && new[0].1.contains("0 are allowed"), "{new:?}");
    }

    #[test]
    fn update_lowers_numbers_and_raises_none() {
        let record = "    3 crates/a\n   12 docs\n    5 tests\n";
        let lowered = lower(record, &counts(&[("crates/a", 4), ("docs", 2), ("crates/new", 1)]));
        assert_eq!(write(&lowered), format!("{HEADER}    3 crates/a\n    2 docs\n"));
        let root = Machine::empty();
        root.write("tools/xtask/Cargo.toml", "");
        update(root.root(), &counts(&[("docs", 7)])).unwrap();
        let read = || root.text(RECORD);
        assert_eq!(read(), format!("{HEADER}    7 docs\n"));
        update(root.root(), &counts(&[("docs", 9)])).unwrap();
        assert_eq!(read(), format!("{HEADER}    7 docs\n"));
    }

    #[test]
    fn list_names_file_line_words_and_advice() {
        let root = Machine::empty();
        root.write("docs/a.md", "All is well.\n\nIt waits behind it.\n");
        root.write("crates/a/src/b.rs", "//! Told.\n");
        let below = |folder: &str| list(root.root(), &Which::Below(folder.into())).unwrap();
        assert_eq!(below("docs"), "docs/a.md:3: \"behind\": after, below, next\n    1 docs\n");
        assert!(below("").contains("crates/a/src/b.rs:1: \"Told\": "), "{}", below(""));
        assert_eq!(below("tests"), "");
    }
}
