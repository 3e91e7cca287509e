//! Rules for Rust files.

use std::path::Path;

use super::source::code_only;
use super::text::has_word;

/// The longest file, in lines. Most should be half of that: a longer file has two subjects.
const MAX_LINES: usize = 900;

/// Files that may contain `unsafe`, with the reason; a name that ends in `/` is a folder. No other
/// file may.
const UNSAFE_FILES: &[(&str, &str)] = &[
    ("crates/table/", "the hash table: records and slots by raw pointers, read without locks"),
    (
        "crates/process/",
        "signals, forks, crash reports, limits: system calls that have no safe form",
    ),
    ("crates/base/src/bits.rs", "calls functions compiled for this processor"),
    ("crates/base/src/crc16.rs", "PCLMULQDQ on numbers, where the processor has it"),
    ("crates/base/src/topology.rs", "sched_getaffinity, sched_setaffinity, prctl"),
    ("crates/base/src/runs.rs", "AVX2 instructions on slices, where the processor has them"),
    ("crates/base/src/sixbit.rs", "AVX2 instructions on slices, where the processor has them"),
    ("crates/types/src/set/mod.rs", "says which payloads hold the box of a set's table"),
    ("crates/types/src/hash/mod.rs", "says which payloads hold the box of a hash's table"),
    ("crates/types/src/hash/write.rs", "says which payloads hold the box of a hash's table"),
    ("crates/types/src/list/mod.rs", "says which payloads hold the box of a list's chunks"),
    ("crates/types/src/list/write.rs", "says which payloads hold the box of a list's chunks"),
    ("crates/types/src/zset/edit.rs", "says which payloads hold the box of a sorted set's tree"),
    ("crates/types/src/zset/view.rs", "says which payloads hold the box of a sorted set's tree"),
    ("crates/types/src/stream/mod.rs", "says which payloads hold the box of a stream"),
    ("crates/types/src/kind.rs", "the table's callback that frees what a payload owns"),
    ("crates/types/src/boxed.rs", "a large collection is a box whose pointer is in the payload"),
    ("crates/types/src/counted.rs", "pieces of large values with a count of their holders"),
    ("crates/types/src/counted/tests.rs", "an allocator of copies"),
    ("crates/types/src/string/blob.rs", "a large string is an Arc whose pointer is in the payload"),
    ("crates/types/src/string/mod.rs", "reads such a string"),
    ("crates/types/src/string/write.rs", "edits such a string in place"),
    ("crates/keyspace/src/db.rs", "hands out a table while its shard's lock is held"),
    ("crates/keyspace/tests/loom_safepoint.rs", "model tests of what the lock protects"),
    ("crates/keyspace/tests/loom_hold.rs", "model tests of what the lock protects"),
    ("crates/keyspace/tests/loom_lock.rs", "model tests of what the lock protects"),
    (
        "crates/script/src/lua/context.rs",
        "lends the running script's host to functions that Lua calls",
    ),
    ("crates/script/src/lua/frame.rs", "the values of one call from Lua"),
    ("crates/script/src/lua/frame/functions.rs", "functions that Lua calls"),
    ("crates/script/src/lua/inputs.rs", "whether a table is as a new one would be"),
    ("crates/script/src/lua/interrupt.rs", "ends a script from its hook"),
    ("crates/script/src/lua/memory.rs", "Lua's allocator"),
    ("crates/script/src/lua/shared.rs", "finds a state's data from its pointer"),
    ("crates/script/src/lua/state.rs", "makes, calls and closes a Lua state"),
    ("crates/memory/src/counted.rs", "an allocator for sanitizers"),
    ("crates/server/src/main.rs", "the symbol that configures jemalloc"),
    (
        "crates/server/src/start.rs",
        "takes over the memory of the process title, before any thread exists",
    ),
    ("crates/memory/src/mallctl.rs", "jemalloc's control interface"),
    ("crates/io/src/read.rs", "reads into the spare capacity of a buffer"),
    ("crates/admin/src/commands/server/debug/mod.rs", "DEBUG SEGFAULT"),
];

/// Crates with code in their documentation. The others set `doctest = false`, because rustdoc takes half a second for
/// each crate, and would not run such code. Programs have no documentation tests.
const DOCTESTS: &[&str] =
    &["crates/config/", "crates/keyspace/", "crates/process/", "crates/testkit/", "tools/"];

/// The lines on which code begins in the documentation.
fn doctests(text: &str) -> Vec<usize> {
    let fences = text.lines().enumerate().filter_map(|(i, line)| {
        let doc = line.trim_start();
        let doc = doc.strip_prefix("//!").or_else(|| doc.strip_prefix("///"))?;
        Some((i + 1, doc.trim().strip_prefix("```")?))
    });
    // The first of two fences opens a block, and names its language.
    let opening = fences.step_by(2);
    opening.filter(|(_, language)| !["text", "toml"].contains(language)).map(|(i, _)| i).collect()
}

/// Reports broken rules of a Rust file.
pub fn check(file: &Path, text: &str, report: &mut impl FnMut(usize, String)) {
    if !text.starts_with("//!") {
        report(
            1,
            "does not open with `//!`: describe the file and the reasons for its design"
                .to_string(),
        );
    }
    let lines = text.lines().count();
    if lines > MAX_LINES {
        report(MAX_LINES + 1, format!("{lines} lines, {MAX_LINES} are the most"));
    }
    if !DOCTESTS.iter().any(|allowed| covers(allowed, file)) {
        for line in doctests(text) {
            let message =
                "code in documentation is not tested: see DOCTESTS in tools/xtask/src/tidy/rust.rs";
            report(line, message.to_string());
        }
    }
    if !UNSAFE_FILES.iter().any(|(allowed, _)| covers(allowed, file)) {
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

/// Whether an entry of the list is this file or a folder that holds it.
pub fn covers(allowed: &str, file: &Path) -> bool {
    match allowed.strip_suffix('/') {
        Some(folder) => file.starts_with(folder),
        None => Path::new(allowed) == file,
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
        assert!(lines("//! Draws.\n//! ```text\n//! a\n//! ```\n").is_empty());
        assert_eq!(lines("//! Runs.\n\n/// ```\n/// f()\n/// ```\nfn f() {}\n"), [3]);
        assert_eq!(lines("//! Is unsafe.\nfn f() {\n    unsafe { g() }\n}\n"), [3]);
        assert_eq!(
            lines("//! Forbids.\n#![forbid(unsafe_code)]\nconst S: &str = \"unsafe\"; // unsafe\n"),
            [0; 0]
        );
    }

    #[test]
    fn list_has_no_unneeded_entries() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for listed in DOCTESTS.iter().filter(|listed| listed.starts_with("crates/")) {
            let manifest = std::fs::read_to_string(root.join(listed).join("Cargo.toml"));
            assert!(!manifest.unwrap_or_default().contains("doctest = false"), "{listed}");
        }
        for (listed, why) in UNSAFE_FILES {
            assert!(!why.is_empty(), "{listed} is listed without a reason");
            if listed.ends_with('/') {
                assert!(root.join(listed).is_dir(), "{listed} is listed for unsafe code but gone");
                continue;
            }
            let text = std::fs::read_to_string(root.join(listed)).unwrap_or_default();
            assert!(
                code_only(&text).lines().any(|line| has_word(line, "unsafe")),
                "{listed} no longer needs unsafe code"
            );
        }
    }

    #[test]
    fn folders_cover_their_files() {
        assert!(covers("a/b/", Path::new("a/b/c/d.rs")) && covers("a/b.rs", Path::new("a/b.rs")));
        assert!(
            !covers("a/b/", Path::new("a/bc/d.rs")) && !covers("a/b.rs", Path::new("a/b.rs/c"))
        );
    }
}
