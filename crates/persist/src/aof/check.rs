//! The operator's check of AOF files: finds damage, prints its offset, and repairs the end.
//!
//! Options and lines are those of the reference's check, because programs parse them. A batch with
//! a wrong checksum is reported in addition.

use super::manifest::{Manifest, Role};
use super::parse::{Item, ParseFault, Parser, Wrong};
use crate::storage::Storage;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// How to handle damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    Nothing,
    /// Truncate the last file after its valid part.
    Cut,
    /// Truncate the last file before the first time stamp later than this Unix second.
    CutAfter(i64),
}

/// Receives the report and answers its questions.
pub trait Operator {
    /// A line of the report.
    fn line(&mut self, line: String);

    /// Whether to make the announced change.
    fn agrees(&mut self) -> bool;

    /// Checks a snapshot at the start of a file. Returns its length in bytes and the rest of the
    /// file; `None` if the snapshot is invalid.
    fn snapshot(&mut self, file: Box<dyn Read + Send>) -> Option<(u64, Box<dyn Read + Send>)>;
}

/// The check failed: the program exits with code 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// Checks `path`: a manifest and all files that it names, or a single file. O(bytes).
///
/// # Errors
/// A file is damaged and was not repaired; the report gives the reason.
pub fn check(
    storage: &dyn Storage,
    path: &Path,
    repair: Repair,
    operator: &mut dyn Operator,
) -> Result<(), Stopped> {
    let is_manifest = path.extension().is_some_and(|ending| ending == "manifest");
    let mut check = Check { storage, repair, operator, lines: 1 };
    if is_manifest { check.manifest(path) } else { check.single(path) }
}

struct Check<'a> {
    storage: &'a dyn Storage,
    repair: Repair,
    operator: &'a mut dyn Operator,
    /// Lines of all files so far, plus one.
    lines: u64,
}

/// The file under check.
struct Target<'a> {
    /// Its name in the report.
    name: &'a str,
    path: PathBuf,
    is_last: bool,
}

/// The result for one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Valid,
    Empty,
    Invalid,
    Cut,
    CutInTime,
}

impl Check<'_> {
    fn say(&mut self, line: impl Into<String>) {
        self.operator.line(line.into());
    }

    fn stop<T>(&mut self, line: impl Into<String>) -> Result<T, Stopped> {
        self.say(line);
        Err(Stopped)
    }

    fn manifest(&mut self, path: &Path) -> Result<(), Stopped> {
        self.say("Start checking Multi Part AOF");
        let mut text = Vec::new();
        let read = self.storage.read(path).and_then(|mut file| file.read_to_end(&mut text));
        if let Err(e) = read {
            return self.cannot_open(path, &e);
        }
        let manifest = match Manifest::parse(&text) {
            Ok(manifest) => manifest,
            Err(fault) => {
                return self.stop(format!("*** FATAL AOF MANIFEST FILE ERROR ***\n{fault}"));
            }
        };
        let folder = path.parent().unwrap_or(Path::new(""));
        let files: Vec<_> = manifest.files().collect();
        for (nth, (role, entry)) in files.iter().enumerate() {
            let path = folder.join(&entry.name);
            if nth == 0 || *role == Role::Increment && files[nth - 1].0 == Role::Base {
                match role {
                    Role::Base if self.begins_with_snapshot(&path)? => {
                        self.say("Start to check BASE AOF (RDB format).");
                    }
                    Role::Base => self.say("Start to check BASE AOF (RESP format)."),
                    Role::Increment | Role::History => self.say("Start to check INCR files."),
                }
            }
            let kind = if *role == Role::Base { "BASE AOF" } else { "INCR AOF" };
            let target = Target { name: &entry.name, path, is_last: nth + 1 == files.len() };
            let found = self.file(&target)?;
            self.conclude(&target, kind, found)?;
        }
        self.say("All AOF files and manifest are valid");
        Ok(())
    }

    fn single(&mut self, path: &Path) -> Result<(), Stopped> {
        let name = path.to_string_lossy().into_owned();
        // Opens the file before the first line of the report.
        self.begins_with_snapshot(path)?;
        self.say("Start checking Old-Style AOF");
        let target = Target { name: &name, path: path.into(), is_last: true };
        let found = self.file(&target)?;
        self.conclude(&target, "AOF", found)
    }

    fn conclude(&mut self, target: &Target<'_>, kind: &str, found: Found) -> Result<(), Stopped> {
        let name = target.name;
        match found {
            Found::Valid => self.say(format!("{kind} {name} is valid")),
            Found::Empty => self.say(format!("{kind} {name} is empty")),
            Found::Cut => self.say(format!("Successfully truncated AOF {name}")),
            Found::CutInTime => {
                let Repair::CutAfter(second) = self.repair else { return Ok(()) };
                self.say(format!("Successfully truncated AOF {name} to timestamp {second}"));
            }
            Found::Invalid => {
                return self.stop(format!(
                    "AOF {name} is not valid. Use the --fix option to try fixing it."
                ));
            }
        }
        Ok(())
    }

    fn cannot_open<T>(&mut self, path: &Path, e: &io::Error) -> Result<T, Stopped> {
        let e = e.to_string();
        let e = e.split(" (os error").next().unwrap_or_default().to_string();
        self.stop(format!("Cannot open file {}: {e}", path.display()))
    }

    fn begins_with_snapshot(&mut self, path: &Path) -> Result<bool, Stopped> {
        let mut head = Vec::new();
        let read = self.storage.read(path).and_then(|file| file.take(6).read_to_end(&mut head));
        match read {
            Ok(_) => Ok(head.starts_with(b"REDIS") || head == b"VALKEY"),
            Err(e) => self.cannot_open(path, &e),
        }
    }

    fn file(&mut self, target: &Target<'_>) -> Result<Found, Stopped> {
        let opened = self.storage.length(&target.path);
        let (length, file) = match opened.and_then(|n| Ok((n, self.storage.read(&target.path)?))) {
            Ok(opened) => opened,
            Err(e) => return self.cannot_open(&target.path, &e),
        };
        if length == 0 {
            return Ok(Found::Empty);
        }
        if !self.begins_with_snapshot(&target.path)? {
            return self.commands(target, Parser::new(file, length, true), length);
        }
        match self.operator.snapshot(file) {
            Some((taken, rest)) => {
                self.say("RDB preamble is OK, proceeding with AOF tail...");
                let parser = Parser::new(rest, length, true).starting_at(taken);
                self.commands(target, parser, length)
            }
            None => self.stop("RDB preamble of AOF file is not sane, aborting."),
        }
    }

    fn commands<R: Read>(
        &mut self,
        target: &Target<'_>,
        mut parser: Parser<R>,
        length: u64,
    ) -> Result<Found, Stopped> {
        // Offset of the open transaction's MULTI.
        let mut transaction = None;
        let wrong = loop {
            let offset = parser.offset();
            let wrong = |words: String| Wrong { at: offset, words };
            match parser.item() {
                Ok(Item::Time(second)) => {
                    if self.is_too_late(target, second, offset)? {
                        return self.cut(target, offset).map(|()| Found::CutInTime);
                    }
                }
                Ok(Item::Note | Item::Position(_)) => {}
                Ok(Item::Command) => {
                    let name = parser.args().next().unwrap_or_default().to_ascii_lowercase();
                    let path = target.path.display();
                    match (&name[..], transaction) {
                        (b"multi", None) => transaction = Some(offset),
                        (b"multi", Some(_)) => {
                            break Some(wrong(format!("Unexpected MULTI in AOF {path}")));
                        }
                        (b"exec", Some(_)) => transaction = None,
                        (b"exec", None) => {
                            // The repair truncates the EXEC and everything after it.
                            transaction = Some(offset);
                            break Some(wrong(format!("Unexpected EXEC in AOF {path}")));
                        }
                        _ => {}
                    }
                }
                Ok(Item::End) => {
                    let open = "Reached EOF before reading EXEC for MULTI";
                    break transaction.map(|_| wrong(open.into()));
                }
                Err(ParseFault::Torn(wrong) | ParseFault::Corrupt(wrong)) => break Some(wrong),
                Err(ParseFault::Io(e)) => {
                    return self.stop(format!("Failed to read from AOF {}: {e}", target.name));
                }
            }
        };
        let right = match &wrong {
            None => length,
            Some(_) => transaction.unwrap_or_else(|| parser.offset()),
        };
        self.lines += parser.lines();
        if let Some(wrong) = wrong.filter(|wrong| !wrong.words.is_empty()) {
            self.say(format!("0x{:>16}: {}", format!("{:x}", wrong.at), wrong.words));
        }
        self.analyzed(target, length, right)
    }

    fn analyzed(&mut self, target: &Target<'_>, length: u64, right: u64) -> Result<Found, Stopped> {
        let (name, lines, left) = (target.name, self.lines, length - right);
        if left == 0
            && let Repair::CutAfter(second) = self.repair
        {
            self.say(format!("Truncate nothing in AOF {name} to timestamp {second}"));
            return Ok(Found::Valid);
        }
        self.say(format!(
            "AOF analyzed: filename={name}, size={length}, ok_up_to={right}, \
             ok_up_to_line={lines}, diff={left}"
        ));
        if left == 0 {
            return Ok(Found::Valid);
        }
        if self.repair != Repair::Cut {
            return Ok(Found::Invalid);
        }
        if !target.is_last {
            let why = "because it is not the last file";
            return self.stop(format!("Failed to truncate AOF {name} {why}"));
        }
        self.say(format!(
            "This will shrink the AOF {name} from {length} bytes, with {left} bytes, to {right} bytes"
        ));
        if !self.operator.agrees() {
            return self.stop("Aborting...");
        }
        self.cut(target, right).map(|()| Found::Cut)
    }

    fn is_too_late(
        &mut self,
        target: &Target<'_>,
        second: i64,
        offset: u64,
    ) -> Result<bool, Stopped> {
        let Repair::CutAfter(last) = self.repair else { return Ok(false) };
        if second <= last {
            return Ok(false);
        }
        let name = target.path.display();
        if offset == 0 {
            return self
                .stop(format!("AOF {name} has nothing before timestamp {last}, aborting..."));
        }
        if !target.is_last {
            self.say(format!(
                "Failed to truncate AOF {name} to timestamp {last} to offset {offset} because it is \
                 not the last file."
            ));
            return self.stop(
                "If you insist, please delete all files after this file according to the manifest \
                 file and delete the corresponding records in manifest file manually. Then re-run \
                 weft-server --check-aof.",
            );
        }
        Ok(true)
    }

    fn cut(&mut self, target: &Target<'_>, length: u64) -> Result<(), Stopped> {
        let cut = || {
            self.renew_manifests(target)?;
            let file = self.storage.append(&target.path)?;
            file.truncate(length)?;
            file.sync()
        };
        match cut() {
            Ok(()) => Ok(()),
            Err(_) => self.stop(format!("Failed to truncate AOF {}", target.name)),
        }
    }

    /// Ends the mark of the manifest that may name this file: it counts in its own file only.
    fn renew_manifests(&self, target: &Target<'_>) -> io::Result<()> {
        let folder = match target.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            Some(_) | None => Path::new("."),
        };
        for name in self.storage.list(folder)?.iter().filter(|name| name.ends_with(".manifest")) {
            let mut text = Vec::new();
            self.storage.read(&folder.join(name))?.read_to_end(&mut text)?;
            self.storage.replace(folder, &format!("temp-{name}"), name, &text)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Disk;

    #[derive(Default)]
    struct Recorder {
        lines: Vec<String>,
        agrees: bool,
    }

    impl Operator for Recorder {
        fn line(&mut self, line: String) {
            self.lines.push(line);
        }

        fn agrees(&mut self) -> bool {
            self.agrees
        }

        fn snapshot(
            &mut self,
            mut file: Box<dyn Read + Send>,
        ) -> Option<(u64, Box<dyn Read + Send>)> {
            let mut head = [0; 10];
            file.read_exact(&mut head).ok()?;
            (&head == b"VALKEY-fit").then_some((10, file))
        }
    }

    const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n";

    /// Returns the report on a file of these bytes, whether it was valid, and the bytes left.
    fn single(bytes: &[u8], repair: Repair, agrees: bool) -> (Vec<String>, bool, Vec<u8>) {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("a.aof");
        std::fs::write(&path, bytes).expect("room");
        let mut recorder = Recorder { agrees, ..Recorder::default() };
        let right = check(&Disk, &path, repair, &mut recorder).is_ok();
        let shown = path.display().to_string();
        let lines = recorder.lines.iter().map(|line| line.replace(&shown, "a.aof")).collect();
        (lines, right, std::fs::read(&path).expect("there"))
    }

    #[test]
    fn report_on_single_files_matches_the_reference() {
        let torn = [SET, SET, b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\nb"].concat();
        let (lines, right, _) = single(&torn, Repair::Nothing, true);
        assert_eq!(
            lines,
            [
                "Start checking Old-Style AOF",
                "0x              4e: Expected to read 7 bytes, got 1 bytes",
                "AOF analyzed: filename=a.aof, size=79, ok_up_to=54, ok_up_to_line=21, diff=25",
                "AOF a.aof is not valid. Use the --fix option to try fixing it.",
            ]
        );
        assert!(!right);
        let (lines, right, left) = single(&torn, Repair::Cut, true);
        assert_eq!(
            lines[3..],
            [
                "This will shrink the AOF a.aof from 79 bytes, with 25 bytes, to 54 bytes",
                "Successfully truncated AOF a.aof",
            ]
        );
        assert!(right && left.len() == 54);
        let (lines, right, left) = single(&torn, Repair::Cut, false);
        assert_eq!(lines.last().map(String::as_str), Some("Aborting..."));
        assert!(!right && left == torn);
        let bad = [SET, b"*x\r\n*1\r\n$4\r\nPING\r\n"].concat();
        let (lines, ..) = single(&bad, Repair::Nothing, true);
        assert_eq!(lines[1], "0x              1b: Expected \\r\\n, got: 780d");
        let (lines, right, _) = single(SET, Repair::Nothing, true);
        assert_eq!(lines.last().map(String::as_str), Some("AOF a.aof is valid"));
        assert!(right);
        let (lines, right, _) = single(b"", Repair::Nothing, true);
        assert_eq!(lines[1], "AOF a.aof is empty");
        assert!(right);
    }

    #[test]
    fn transactions_must_be_complete() {
        let open = [b"*1\r\n$5\r\nMULTI\r\n", SET].concat();
        let (lines, right, _) = single(&open, Repair::Nothing, true);
        assert_eq!(
            lines[1..3],
            [
                "0x              2a: Reached EOF before reading EXEC for MULTI",
                "AOF analyzed: filename=a.aof, size=42, ok_up_to=0, ok_up_to_line=11, diff=42",
            ]
        );
        assert!(!right);
        let (lines, ..) = single(b"*1\r\n$4\r\nEXEC\r\n", Repair::Nothing, true);
        assert!(lines[1].ends_with("Unexpected EXEC in AOF a.aof"));
        let bytes = [SET, b"*1\r\n$4\r\nEXEC\r\n", SET].concat();
        let (lines, right, left) = single(&bytes, Repair::Cut, true);
        assert!(right && left == SET, "{lines:?}");
    }

    #[test]
    fn repair_truncates_at_a_time_stamp() {
        let bytes = [b"#TS:1000\r\n", SET, b"#TS:1010\r\n", SET].concat();
        let (lines, right, left) = single(&bytes, Repair::CutAfter(1005), true);
        assert_eq!(lines[1], "Successfully truncated AOF a.aof to timestamp 1005");
        assert!(right && left == [b"#TS:1000\r\n", SET].concat());
        let (lines, right, left) = single(&bytes, Repair::CutAfter(500), true);
        assert_eq!(lines[1], "AOF a.aof has nothing before timestamp 500, aborting...");
        assert!(!right && left == bytes);
        let (lines, right, _) = single(&bytes, Repair::CutAfter(2000), true);
        assert_eq!(lines[1], "Truncate nothing in AOF a.aof to timestamp 2000");
        assert!(right);
    }

    #[test]
    fn check_covers_all_files_of_a_manifest() {
        let folder = tempfile::tempdir().expect("a directory");
        let put = |name: &str, bytes: &[u8]| {
            std::fs::write(folder.path().join(name), bytes).expect("room");
        };
        put("x.manifest", b"file b seq 1 type b\nfile i seq 1 type i\nfile j seq 2 type i\n");
        put("b", &[b"VALKEY-fit", SET].concat());
        put("i", SET);
        put("j", &SET[..18]);
        let run = |repair| {
            let mut recorder = Recorder { agrees: true, ..Recorder::default() };
            let path = folder.path().join("x.manifest");
            (check(&Disk, &path, repair, &mut recorder).is_ok(), recorder.lines)
        };
        let (right, lines) = run(Repair::Nothing);
        assert!(!right);
        assert_eq!(
            lines,
            [
                "Start checking Multi Part AOF",
                "Start to check BASE AOF (RDB format).",
                "RDB preamble is OK, proceeding with AOF tail...",
                "AOF analyzed: filename=b, size=37, ok_up_to=37, ok_up_to_line=8, diff=0",
                "BASE AOF b is valid",
                "Start to check INCR files.",
                "AOF analyzed: filename=i, size=27, ok_up_to=27, ok_up_to_line=15, diff=0",
                "INCR AOF i is valid",
                "0x              11: Expected to read 3 bytes, got 1 bytes",
                "AOF analyzed: filename=j, size=18, ok_up_to=0, ok_up_to_line=19, diff=18",
                "AOF j is not valid. Use the --fix option to try fixing it.",
            ]
        );
        assert!(run(Repair::Cut).0);
        put("i", &SET[..20]);
        let (right, lines) = run(Repair::Cut);
        assert!(!right);
        let last = lines.last().map(String::as_str);
        assert_eq!(last, Some("Failed to truncate AOF i because it is not the last file"));
        put("b", b"VALKEY-bad");
        let last = run(Repair::Nothing).1.pop();
        assert_eq!(last.as_deref(), Some("RDB preamble of AOF file is not sane, aborting."));
        put("x.manifest", b"nonsense\n");
        assert!(run(Repair::Nothing).1[1].contains("Invalid AOF manifest file format"));
        std::fs::remove_file(folder.path().join("x.manifest")).expect("there");
        assert!(run(Repair::Nothing).1[1].ends_with("No such file or directory"));
    }
}
