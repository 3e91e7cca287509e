//! The manifest: the files of the log and their order.
//!
//! ```text
//! file appendonly.aof.3.base.rdb seq 3 type b        the data when the rewrite began
//! file appendonly.aof.7.incr.aof seq 7 type i        later writes, in the order of the numbers
//! file appendonly.aof.2.base.rdb seq 2 type h        obsolete, to be removed
//! ```
//!
//! Lines that begin with `#` are comments. Unknown keys are ignored, so later servers can add some.
//! This module doesn't access the disk.

use super::led::Led;
use super::words;
use std::fmt;

/// Maximum length of a line in bytes, with its end.
const LINE: usize = 1024;

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Base,
    Increment,
    History,
}

/// A line of the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub number: i64,
}

/// A manifest. The default has no files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    pub base: Option<Entry>,
    /// In ascending order of their numbers.
    pub increments: Vec<Entry>,
    /// Obsolete files, to be removed.
    pub history: Vec<Entry>,
    /// The primary of which the files have every confirmed write. [`Manifest::parse`] and [`Manifest::print`] don't know it.
    pub led: Option<Led>,
    /// The highest numbers in use so far.
    last_base: i64,
    last_increment: i64,
}

/// Why a text is not a valid manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestFault {
    /// The line number, from 1; 0 if no line is at fault.
    pub number: usize,
    /// The line, if it is complete.
    pub line: Option<String>,
    pub reason: &'static str,
}

impl fmt::Display for ManifestFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = &self.line {
            write!(f, "Reading the manifest file, at line {}\n>>> '{line}'\n", self.number)?;
        }
        f.write_str(self.reason)
    }
}

const INVALID: &str = "Invalid AOF manifest file format";

impl Manifest {
    /// Parses a manifest. O(bytes).
    ///
    /// # Errors
    /// The first invalid line, and the reason.
    pub fn parse(text: &[u8]) -> Result<Manifest, ManifestFault> {
        let mut manifest = Manifest::default();
        let mut number = 0;
        for line in text.split_inclusive(|b| *b == b'\n') {
            number += 1;
            if line[0] == b'#' {
                continue;
            }
            if line.len() > LINE || line.last() != Some(&b'\n') {
                let reason = "The AOF manifest file contains too long line";
                return Err(ManifestFault { number, line: None, reason });
            }
            let line = line.trim_ascii();
            manifest.take_line(line).map_err(|reason| {
                let line = Some(String::from_utf8_lossy(line).into_owned());
                ManifestFault { number, line, reason }
            })?;
        }
        if number == 0 {
            let reason = "Found an empty AOF manifest";
            return Err(ManifestFault { number, line: None, reason });
        }
        Ok(manifest)
    }

    fn take_line(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let words = words::split(line).ok_or(INVALID)?;
        // A later server may write more pairs.
        if words.len() < 6 || words.len() % 2 != 0 {
            return Err(INVALID);
        }
        let (mut name, mut number, mut role) = (None, 0, None);
        for pair in words.chunks_exact(2) {
            let value = &pair[1];
            if pair[0].eq_ignore_ascii_case(b"file") {
                let text = String::from_utf8(value.clone()).map_err(|_| INVALID)?;
                if text.contains(['/', '\\']) {
                    return Err("File can't be a path, just a filename");
                }
                name = Some(text).filter(|text| !text.is_empty());
            } else if pair[0].eq_ignore_ascii_case(b"seq") {
                number = weft_base::num::parse_i64(value).unwrap_or(0);
            } else if pair[0].eq_ignore_ascii_case(b"type") {
                role = value.first().copied();
            }
        }
        let (Some(name), Some(role), true) = (name, role, number > 0) else { return Err(INVALID) };
        let entry = Entry { name, number };
        match role {
            b'b' if self.base.is_some() => Err("Found duplicate base file information"),
            b'b' => {
                self.last_base = entry.number;
                self.base = Some(entry);
                Ok(())
            }
            b'i' if entry.number <= self.last_increment => {
                Err("Found a non-monotonic sequence number")
            }
            b'i' => {
                self.last_increment = entry.number;
                self.increments.push(entry);
                Ok(())
            }
            b'h' => {
                self.history.push(entry);
                Ok(())
            }
            _ => Err("Unknown AOF file type"),
        }
    }

    /// Prints the text that [`Manifest::parse`] reads.
    #[must_use]
    pub fn print(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let base = self.base.iter().map(|e| (e, 'b'));
        let history = self.history.iter().map(|e| (e, 'h'));
        let increments = self.increments.iter().map(|e| (e, 'i'));
        for (entry, role) in base.chain(history).chain(increments) {
            out.extend(b"file ");
            words::write(entry.name.as_bytes(), &mut out);
            out.extend(format!(" seq {} type {role}\n", entry.number).bytes());
        }
        out
    }

    /// Whether there are no files to load.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.base.is_none() && self.increments.is_empty()
    }

    /// The files to load, in order.
    pub fn files(&self) -> impl DoubleEndedIterator<Item = (Role, &Entry)> {
        let increments = self.increments.iter().map(|e| (Role::Increment, e));
        self.base.iter().map(|e| (Role::Base, e)).chain(increments)
    }

    /// The name of the next base for the prefix `stem`. `snapshot`: the base is a snapshot, not a
    /// list of commands.
    #[must_use]
    pub fn next_base(&self, stem: &str, snapshot: bool) -> Entry {
        let number = self.last_base + 1;
        let ending = if snapshot { "rdb" } else { "aof" };
        Entry { name: format!("{stem}.{number}.base.{ending}"), number }
    }

    /// The name of the next increment for the prefix `stem`.
    #[must_use]
    pub fn next_increment(&self, stem: &str) -> Entry {
        let number = self.last_increment + 1;
        Entry { name: format!("{stem}.{number}.incr.aof"), number }
    }

    /// Adds an increment, which takes all writes from now on.
    pub fn add_increment(&mut self, entry: Entry) {
        debug_assert!(entry.number > self.last_increment);
        self.last_increment = entry.number;
        self.increments.push(entry);
    }

    /// Replaces all files before the last increment with `base`.
    pub fn rebase(&mut self, base: Entry) {
        self.last_base = base.number;
        self.history.extend(self.base.replace(base));
        let last = self.increments.pop();
        self.history.append(&mut self.increments);
        self.increments.extend(last);
    }

    /// Replaces all files with `base` and `increment`.
    pub fn restart(&mut self, base: Entry, increment: Entry) {
        self.led = None;
        self.add_increment(increment);
        self.rebase(base);
    }

    /// Replaces all files with `base`.
    pub fn replace_all(&mut self, base: Entry) {
        self.led = None;
        self.rebase(base);
        self.history.append(&mut self.increments);
    }

    /// The manifest of a single file, written by a server without manifests.
    #[must_use]
    pub fn of_single_file(name: &str) -> Manifest {
        let base = Entry { name: name.into(), number: 1 };
        Manifest { base: Some(base), last_base: 1, ..Manifest::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Manifest, &'static str> {
        Manifest::parse(text.as_bytes()).map_err(|fault| fault.reason)
    }

    #[test]
    fn printed_manifest_parses_to_the_same() {
        let mut manifest = Manifest::default();
        let base = manifest.next_base("a b", true);
        let increment = manifest.next_increment("a b");
        manifest.restart(base, increment);
        assert_eq!(
            String::from_utf8(manifest.print()).unwrap(),
            "file \"a b.1.base.rdb\" seq 1 type b\nfile \"a b.1.incr.aof\" seq 1 type i\n"
        );
        for _ in 0..2 {
            manifest.add_increment(manifest.next_increment("a"));
        }
        manifest.rebase(manifest.next_base("a", false));
        assert_eq!(manifest.history.len(), 3);
        assert_eq!(manifest.increments.len(), 1);
        let again = Manifest::parse(&manifest.print()).unwrap();
        assert_eq!(again, manifest);
        assert_eq!(again.next_base("x", true).name, "x.3.base.rdb");
        assert_eq!(again.next_increment("x").name, "x.4.incr.aof");
        let roles: Vec<Role> = again.files().map(|(role, _)| role).collect();
        assert_eq!(roles, [Role::Base, Role::Increment]);
    }

    #[test]
    fn invalid_manifests_are_refused() {
        let long = format!("file {} seq 1 type b\n", "a".repeat(1100));
        for (text, reason) in [
            ("", "Found an empty AOF manifest"),
            ("\n", INVALID),
            ("file a seq 1 type b", "The AOF manifest file contains too long line"),
            (&long, "The AOF manifest file contains too long line"),
            ("file a seq 1\n", INVALID),
            ("file a seq 1 type b more\n", INVALID),
            ("file a seq 0 type b\n", INVALID),
            ("file a seq x type b\n", INVALID),
            ("file \"a seq 1 type b\n", INVALID),
            ("file ../a seq 1 type b\n", "File can't be a path, just a filename"),
            ("file a seq 1 type b\nfile b seq 2 type b\n", "Found duplicate base file information"),
            ("file a seq 2 type i\nfile b seq 2 type i\n", "Found a non-monotonic sequence number"),
            ("file a seq 2 type x\n", "Unknown AOF file type"),
        ] {
            assert_eq!(read(text), Err(reason), "{text}");
        }
        let fault = Manifest::parse(b"# x\nfile a seq 1\n").unwrap_err();
        assert_eq!(
            fault.to_string(),
            format!("Reading the manifest file, at line 2\n>>> 'file a seq 1'\n{INVALID}")
        );
    }

    #[test]
    fn unknown_keys_are_ignored() {
        let manifest =
            read("# hello\nFILE a SEQ 5 TYPE i startoffset 100\nfile b seq 1 type h\n").unwrap();
        assert_eq!(manifest.increments, [Entry { name: "a".into(), number: 5 }]);
        assert_eq!(manifest.history.len(), 1);
        assert!(!manifest.is_empty());
    }
}
