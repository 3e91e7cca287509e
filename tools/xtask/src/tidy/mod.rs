//! The rules of the tree as a program, so that reviews need not repeat them.
//!
//! | rule | where |
//! |---|---|
//! | white space, line ends, unfinished work, paths of one machine | [`text`] |
//! | a Rust file begins with a module comment and is not too long | [`rust`] |
//! | `unsafe` only in listed files | [`rust`] |
//! | crates depend in one direction | [`layers`] |
//! | modules of a crate import in one direction | [`circles`] |
//! | every command on keys has a seed for its fuzz target | [`seeds`] |
//! | a specification that copies another one names its flags | [`specs`] |
//! | tests leave no files | [`litter`] |
//! | links of Markdown files lead somewhere; the book lists every page | [`links`] |
//! | plain words: their number never rises | [`words`] |
//!
//! A rule reports all [`Problem`]s, not only the first one.

mod circles;
mod layers;
pub mod links;
mod litter;
mod rust;
mod seeds;
mod source;
mod specs;
mod text;
pub mod words;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A place where a rule is broken.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    /// Relative to the root of the repository.
    pub file: PathBuf,
    /// From 1.
    pub line: usize,
    /// The broken rule.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.message)
    }
}

/// Folders without our own sources.
const SKIPPED: [&str; 6] = [".git", "target", "corpus", "artifacts", "coverage", "__pycache__"];

/// Kinds of files that are checked; others may be binary. Files without an extension are
/// checked when they are scripts.
const TEXT: [&str; 8] = ["rs", "md", "toml", "conf", "sh", "py", "yml", "json"];

/// The result of a check.
#[derive(Debug)]
pub struct Checked {
    /// Number of checked files.
    pub files: usize,
    /// Broken rules.
    pub problems: Vec<Problem>,
}

/// Whether tidy reads a file.
fn is_text(file: &Path, bytes: &[u8]) -> bool {
    let extension = file.extension().and_then(|e| e.to_str());
    extension.is_some_and(|e| TEXT.contains(&e)) || bytes.starts_with(b"#!")
}

/// Checks the whole tree below `root`. With `update`, lowers the recorded numbers of words first.
pub fn check(root: &Path, update: bool) -> io::Result<Checked> {
    let mut files = Vec::new();
    collect(root, Path::new(""), &mut files)?;
    files.sort();
    let mut problems = Vec::new();
    let mut words = words::Counts::new();
    let mut checked = 0;
    links::check(root, &files, &mut problems);
    for file in files {
        let bytes = fs::read(root.join(&file))?;
        litter::check(&file, &bytes, &mut problems);
        if !is_text(&file, &bytes) {
            continue;
        }
        checked += 1;
        let text = String::from_utf8_lossy(&bytes);
        let is_rust = file.extension().is_some_and(|extension| extension == "rs");
        check_file(&file, &bytes, is_rust, &mut problems);
        seeds::check(root, &file, &text, &mut problems);
        words::count(&file, &text, &mut words);
    }
    layers::check(root, &mut problems)?;
    circles::check(root, &mut problems)?;
    if update {
        words::update(root, &words)?;
    }
    let record = fs::read_to_string(root.join(words::RECORD)).unwrap_or_default();
    words::compare(&record, &words, &mut problems);
    Ok(Checked { files: checked, problems })
}

fn check_file(file: &Path, bytes: &[u8], is_rust: bool, problems: &mut Vec<Problem>) {
    let mut report = |line: usize, message: String| {
        problems.push(Problem { file: file.to_path_buf(), line, message })
    };
    let Ok(text) = std::str::from_utf8(bytes) else {
        return report(1, "is not UTF-8".to_string());
    };
    text::check(text, &mut report);
    if is_rust {
        specs::check(file, text, &mut report);
        rust::check(file, text, &mut report);
    }
}

/// All files below `root/dir`, relative to `root`.
fn collect(root: &Path, dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(dir))? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let path = dir.join(entry.file_name());
        if kind.is_dir() && !SKIPPED.iter().any(|name| entry.file_name() == *name) {
            collect(root, &path, files)?;
        } else if kind.is_file() {
            files.push(path);
        }
    }
    Ok(())
}
