//! Files that tests leave in the tree.
//!
//! A test that takes a random word for a file name writes into the folder of its crate, and the
//! file is soon committed. So a crate's folder has only files that Cargo uses, the root only the
//! files listed here, and no file is empty.

use super::Problem;
use std::path::Path;

/// Files at the root.
const ROOT: &[&str] = &[
    ".dockerignore",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SECURITY.md",
    "deny.toml",
    "rustfmt.toml",
    "weft.conf",
    // A work tree of git.
    ".git",
];

/// Files in the folder of a crate.
const CRATE: &[&str] = &["Cargo.toml", "Cargo.lock", "README.md", "build.rs"];

/// Other files in folders of crates.
const RECORDS: &[&str] = &[super::words::RECORD];

/// Folders of crates.
const CRATES: &[&str] = &["crates", "tools"];

/// Reports a file in the wrong place. `file` is relative to the root.
pub fn check(file: &Path, content: &[u8], problems: &mut Vec<Problem>) {
    let mut report = |message: &str| {
        problems.push(Problem { file: file.to_path_buf(), line: 1, message: message.to_string() });
    };
    if content.is_empty() {
        report("is empty: what has written it?");
    }
    let parts: Vec<&str> = file.iter().filter_map(|part| part.to_str()).collect();
    let known = match parts.as_slice() {
        [name] => ROOT.contains(name),
        [folder, _, name] if CRATES.contains(folder) => {
            CRATE.contains(name) || RECORDS.iter().any(|record| Path::new(record) == file)
        }
        _ => true,
    };
    if !known {
        report("does not belong here: what has written it? (tools/xtask/src/tidy/litter.rs)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(file: &str, content: &[u8]) -> usize {
        let mut found = Vec::new();
        check(Path::new(file), content, &mut found);
        found.len()
    }

    #[test]
    fn files_where_they_belong() {
        for file in [
            "Cargo.toml",
            "crates/a/Cargo.toml",
            "crates/a/src/x.rs",
            "tests/data/dump",
            "tools/xtask/words.txt",
        ] {
            assert_eq!(problems(file, b"x"), 0, "{file}");
        }
    }

    #[test]
    fn files_of_tests_are_reported() {
        for file in ["generator.pids", "crates/config/1675kb", "tools/tune/4%"] {
            assert_eq!(problems(file, b"x"), 1, "{file}");
            assert_eq!(problems(file, b""), 2, "{file}");
        }
        assert_eq!(problems("crates/config/src/empty", b""), 1);
    }
}
