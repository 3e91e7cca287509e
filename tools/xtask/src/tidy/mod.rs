//! The rules of the tree as a program, so that nobody has to remember or to argue them.
//!
//! | rule | where |
//! |---|---|
//! | white space, line ends, unfinished work, paths of one machine | [`text`] |
//! | a Rust file opens with its essay and is not too long | [`rust`] |
//! | `unsafe` only in listed files | [`rust`] |
//! | crates depend in one direction | [`layers`] |
//! | every command on keys has a seed for its fuzz target | [`seeds`] |
//! | a specification that is like another says whose flags it has | [`specs`] |
//! | nothing lies about that a test left behind | [`litter`] |
//!
//! A rule reports what it finds as [`Problem`]s and never stops at the first.

mod layers;
mod litter;
mod rust;
mod seeds;
mod source;
mod specs;
mod text;

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
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.message)
    }
}

/// Folders that hold no source of ours.
const SKIPPED: [&str; 6] = [".git", "target", "corpus", "artifacts", "coverage", "__pycache__"];

/// Kinds of files that are checked; others may be binary. Files without an extension are
/// checked when they are scripts.
const TEXT: [&str; 8] = ["rs", "md", "toml", "conf", "sh", "py", "yml", "json"];

/// Checks the whole tree below `root`: how many files were looked at, and what is wrong.
pub fn check(root: &Path) -> io::Result<(usize, Vec<Problem>)> {
    let mut files = Vec::new();
    collect(root, Path::new(""), &mut files)?;
    files.sort();
    let mut problems = Vec::new();
    let mut checked = 0;
    for file in files {
        let bytes = fs::read(root.join(&file))?;
        litter::check(&file, &bytes, &mut problems);
        let extension = file.extension().and_then(|e| e.to_str());
        if !(extension.is_some_and(|e| TEXT.contains(&e)) || bytes.starts_with(b"#!")) {
            continue;
        }
        checked += 1;
        check_file(&file, &bytes, extension == Some("rs"), &mut problems);
        seeds::check(root, &file, &String::from_utf8_lossy(&bytes), &mut problems);
    }
    layers::check(root, &mut problems)?;
    Ok((checked, problems))
}

fn check_file(file: &Path, bytes: &[u8], is_rust: bool, problems: &mut Vec<Problem>) {
    let mut report = |line: usize, message: String| {
        problems.push(Problem { file: file.to_path_buf(), line, message })
    };
    let Ok(text) = std::str::from_utf8(bytes) else {
        return report(1, "is no UTF-8".to_string());
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
