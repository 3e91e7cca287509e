//! Rules for Rust files.

use std::path::Path;

use super::source::code_only;
use super::text::has_word;

/// The longest file, in lines. Most should be half of that: what does not fit is two things.
const MAX_LINES: usize = 900;

/// Files in which `unsafe` may stand, and what for. Everything else must do without.
const UNSAFE_FILES: &[(&str, &str)] = &[];

/// Reports what is wrong with a Rust file.
pub fn check(file: &Path, text: &str, report: &mut impl FnMut(usize, String)) {
    if !text.starts_with("//!") {
        report(1, "does not open with `//!`: say what the file is and why it is so".to_string());
    }
    let lines = text.lines().count();
    if lines > MAX_LINES {
        report(MAX_LINES + 1, format!("{lines} lines, {MAX_LINES} are the most"));
    }
    if !UNSAFE_FILES.iter().any(|(allowed, _)| Path::new(allowed) == file) {
        for (i, line) in code_only(text).lines().enumerate() {
            if has_word(line, "unsafe") {
                report(
                    i + 1,
                    "`unsafe` in a file that is not listed for it in tools/xtask/src/tidy/rust.rs"
                        .to_string(),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let mut found = Vec::new();
        check(Path::new("src/some.rs"), text, &mut |line, _| found.push(line));
        found
    }

    #[test]
    fn each_rule_finds_its_line() {
        assert!(lines("//! Fine.\n\nfn f() {}\n").is_empty());
        assert_eq!(lines("fn f() {}\n"), [1]);
        assert_eq!(lines(&format!("//! Long.\n{}", "\n".repeat(MAX_LINES))), [MAX_LINES + 1]);
        assert_eq!(lines("//! Is unsafe.\nfn f() {\n    unsafe { g() }\n}\n"), [3]);
        assert_eq!(
            lines("//! Forbids.\n#![forbid(unsafe_code)]\nconst S: &str = \"unsafe\"; // unsafe\n"),
            []
        );
    }

    #[test]
    fn listed_files_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (file, why) in UNSAFE_FILES {
            assert!(root.join(file).is_file(), "{file} is listed for unsafe code but gone");
            assert!(!why.is_empty(), "{file} is listed without a reason");
            let text = std::fs::read_to_string(root.join(file)).expect("it is a text file");
            assert!(
                code_only(&text).lines().any(|line| has_word(line, "unsafe")),
                "{file} needs no unsafe code any more"
            );
        }
    }
}
