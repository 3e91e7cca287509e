//! Loading: the commands of all files that a manifest names, in order.
//!
//! Only the last file may be truncated, as it is after the server died during a write. The loader
//! truncates it to its valid part: after the last command, before an unfinished transaction, before
//! a batch with a wrong checksum. Zeros written ahead are not part of the file, and an incomplete
//! write over them is not damage (see `tail`). Earlier files were synced as a whole before the next
//! one began. An incomplete one has other damage, and nothing is loaded.

use super::directory::{Directory, OpenFault};
use super::encode::Position;
use super::manifest::{Entry, Manifest, Role};
use super::parse::{Item, ParseFault, Parser, Wrong};
use super::tail::{Examined, Tail, examine};
use std::cell::Cell;
use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;

/// The rest of a file after a snapshot at its start.
pub struct Rest {
    /// Length of the snapshot in bytes.
    pub taken: u64,
    /// The bytes after it.
    pub input: Box<dyn Read + Send>,
}

/// Receives the loaded data.
pub trait Sink {
    /// The file begins with a snapshot: loads it.
    ///
    /// # Errors
    /// Why the snapshot can't be loaded: a line for the operator.
    fn snapshot(&mut self, input: Box<dyn Read + Send>) -> Result<Rest, String>;

    /// Takes a command. Commands between MULTI and EXEC are passed, too; the sink executes them at
    /// EXEC.
    ///
    /// # Errors
    /// Why the command was refused: a line for the operator.
    fn command(&mut self, args: &mut dyn ExactSizeIterator<Item = &[u8]>) -> Result<(), String>;

    /// Returns after all commands so far are executed. The file is about to be truncated after
    /// them, which must not happen if a command is refused.
    ///
    /// # Errors
    /// Why a command was refused: a line for the operator.
    fn settle(&mut self) -> Result<(), String>;

    /// The file is at its end. The sink drops commands after a MULTI without EXEC.
    ///
    /// # Errors
    /// Why a command was refused: a line for the operator.
    fn end_file(&mut self, role: Role, name: &str) -> Result<(), String>;

    /// Reports the number of bytes of all files read so far.
    fn progress(&mut self, bytes: u64);

    /// A log line of level notice.
    fn note(&mut self, line: String);

    /// A log line of level warning.
    fn warn(&mut self, line: String);
}

/// How to treat the end of the last file.
#[derive(Clone, Copy, Debug)]
pub struct EndPolicy {
    /// `aof-load-truncated`
    pub truncated: bool,
    /// Up to this many damaged bytes at the end are accepted and truncated.
    pub corrupt: u64,
    /// Compare batches with their checksums.
    pub checks: bool,
    /// Truncate the file after its valid part. Must be off while another server writes the file:
    /// that server knows its end and would leave a hole after the truncation.
    pub cuts: bool,
}

/// Why loading failed.
#[derive(Debug)]
pub enum LoadFault {
    Open(OpenFault),
    /// A line for the operator.
    Failed(String),
}

impl fmt::Display for LoadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadFault::Open(fault) => fault.fmt(f),
            LoadFault::Failed(line) => f.write_str(line),
        }
    }
}

fn failed<T>(line: String) -> Result<T, LoadFault> {
    Err(LoadFault::Failed(line))
}

/// The end of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The position in a replication history, if the files end with one.
    pub position: Option<Position>,
    /// The end was damaged, or it can't be said that it was never durable: confirmed writes may be missing. The mark of the
    /// manifest was removed before the damage.
    pub lacks_end: bool,
}

/// Passes all data that `manifest` names to `sink`. O(bytes).
///
/// # Errors
/// The damage and its file. Earlier data was passed to the sink.
pub fn load(
    dir: &Directory,
    manifest: &Manifest,
    lenient: EndPolicy,
    sink: &mut dyn Sink,
) -> Result<Loaded, LoadFault> {
    // Checks that all files exist before loading any.
    dir.sizes(manifest).map_err(LoadFault::Open)?;
    let (mut before, mut position) = (0, None);
    let lacks_end = Cell::new(false);
    let mut files = manifest.files().peekable();
    while let Some((role, entry)) = files.next() {
        let is_last = files.peek().is_none();
        let file = File { dir, manifest, entry, lenient, is_last, before, lacks_end: &lacks_end };
        before += file.load(role, sink, &mut position)?;
        sink.end_file(role, &entry.name).map_err(LoadFault::Failed)?;
        sink.progress(before);
    }
    Ok(Loaded { position, lacks_end: lacks_end.get() })
}

/// Bytes between two reports of progress.
const REPORT: u64 = 1 << 20;

/// A file to load.
struct File<'a> {
    dir: &'a Directory,
    manifest: &'a Manifest,
    entry: &'a Entry,
    lenient: EndPolicy,
    is_last: bool,
    /// Bytes of the files before it.
    before: u64,
    lacks_end: &'a Cell<bool>,
}

impl File<'_> {
    fn path(&self) -> PathBuf {
        self.dir.path(&self.entry.name)
    }

    fn open_fault(&self, e: io::Error) -> LoadFault {
        let what = "Fatal error: can't open the append log file for reading:";
        LoadFault::Open(OpenFault::Io(what, self.path(), e))
    }

    /// Loads the file; returns its length. `position`: the position before the call, updated by it.
    fn load(
        &self,
        role: Role,
        sink: &mut dyn Sink,
        position: &mut Option<Position>,
    ) -> Result<u64, LoadFault> {
        let name = &self.entry.name;
        let storage = &self.dir.storage;
        let length = storage.length(&self.path()).map_err(|e| self.open_fault(e))?;
        let input = storage.read(&self.path()).map_err(|e| self.open_fault(e))?;
        let mut parser = Parser::new(input, length, self.lenient.checks);
        let start = parser.peek(6).map_err(|e| self.unreadable(&e))?;
        if role == Role::Base && (start.starts_with(b"REDIS") || start == b"VALKEY") {
            let rest = sink.snapshot(Box::new(parser.into_rest())).map_err(|why| {
                let text = "Error reading the RDB preamble of the AOF file";
                LoadFault::Failed(format!("{text} {name}, AOF loading aborted: {why}"))
            })?;
            parser = Parser::new(rest.input, length, self.lenient.checks).starting_at(rest.taken);
        }
        self.commands(parser, length, sink, position)
    }

    fn unreadable(&self, e: &io::Error) -> LoadFault {
        let name = &self.entry.name;
        let text = "Unrecoverable error reading the append only file";
        LoadFault::Failed(format!("{text} {name}: {e}"))
    }

    fn commands<R: Read>(
        &self,
        mut parser: Parser<R>,
        length: u64,
        sink: &mut dyn Sink,
        position: &mut Option<Position>,
    ) -> Result<u64, LoadFault> {
        let mut reported = 0;
        // Offset of the open transaction's MULTI.
        let mut transaction = None;
        loop {
            let offset = parser.offset();
            match parser.item() {
                Ok(Item::Command) => {
                    match parser.args().next() {
                        Some(name) if name.eq_ignore_ascii_case(b"multi") => {
                            transaction.get_or_insert(offset);
                        }
                        Some(name) if name.eq_ignore_ascii_case(b"exec") => transaction = None,
                        _ => {}
                    }
                    // An unfinished transaction is dropped, so it doesn't invalidate the position.
                    if transaction.is_none() {
                        *position = None;
                    }
                    sink.command(&mut parser.args()).map_err(LoadFault::Failed)?;
                }
                Ok(Item::Position(here)) => {
                    // No server writes a position inside a unit.
                    *position = Some(here).filter(|_| transaction.is_none());
                }
                Ok(Item::Time(_) | Item::Note) => {}
                Ok(Item::End) => match transaction {
                    None => return Ok(offset),
                    Some(at) => return self.lost(at, true, &Wrong::default(), sink),
                },
                Err(ParseFault::Io(e)) => return Err(self.unreadable(&e)),
                Err(ParseFault::Torn(wrong)) => {
                    let at = transaction.unwrap_or(offset);
                    if parser.over_zeros() == Some(at) && self.tail(at, at)?.tail == Tail::Zeros {
                        return self.unused(at, length, sink);
                    }
                    return self.lost(at, transaction.is_some(), &wrong, sink);
                }
                Err(ParseFault::Corrupt(wrong)) => {
                    let at = transaction.unwrap_or(offset);
                    let over_zeros = parser.over_zeros().filter(|_| self.is_last);
                    let found = over_zeros.map(|end| self.tail(at, end)).transpose()?;
                    if found.is_some_and(|found| found.tail != Tail::Damaged) {
                        return self.torn(at, transaction.is_some(), &wrong, sink);
                    }
                    // Zeros written ahead are not lost data.
                    let holds = found.and_then(|found| found.holds).unwrap_or(length);
                    return self.corrupt(at, holds, &wrong, sink);
                }
            }
            if offset - reported >= REPORT {
                reported = offset;
                sink.progress(self.before + offset);
            }
        }
    }

    /// Examines the file after `offset`, the end of its valid part.
    fn tail(&self, offset: u64, over_zeros: u64) -> Result<Examined, LoadFault> {
        let open = || self.dir.storage.read(&self.path());
        examine(open, offset, over_zeros).map_err(|e| self.unreadable(&e))
    }

    /// Only zeros written ahead follow `offset`.
    fn unused(&self, offset: u64, length: u64, sink: &mut dyn Sink) -> Result<u64, LoadFault> {
        let name = &self.entry.name;
        if !self.is_last {
            let wrong = Wrong { at: offset, words: "Zeros up to the end of the file".into() };
            return self.lost(offset, false, &wrong, sink);
        }
        let bytes = length - offset;
        sink.note(format!(
            "The AOF file {name} ends in {bytes} bytes that were written ahead and not used"
        ));
        sink.settle().map_err(LoadFault::Failed)?;
        self.truncate(offset)
    }

    /// As [`File::torn`], but the missing bytes may have been durable once.
    fn lost(
        &self,
        offset: u64,
        in_transaction: bool,
        wrong: &Wrong,
        sink: &mut dyn Sink,
    ) -> Result<u64, LoadFault> {
        self.unmark()?;
        self.torn(offset, in_transaction, wrong, sink)
    }

    /// The files may lack confirmed writes. Once the end is truncated, nothing would show that.
    fn unmark(&self) -> Result<(), LoadFault> {
        self.lacks_end.set(true);
        if self.manifest.led.is_none() || !self.lenient.cuts {
            return Ok(());
        }
        let mut manifest = self.manifest.clone();
        manifest.led = None;
        let put = self.dir.put(&manifest).and_then(|()| self.dir.sync());
        put.or_else(|e| failed(format!("Error writing the AOF manifest: {e}")))
    }

    /// The file is truncated; it is valid up to `offset`. The missing bytes were never durable.
    fn torn(
        &self,
        offset: u64,
        in_transaction: bool,
        wrong: &Wrong,
        sink: &mut dyn Sink,
    ) -> Result<u64, LoadFault> {
        let name = &self.entry.name;
        if in_transaction {
            sink.warn(format!("Revert incomplete MULTI/EXEC transaction in AOF file {name}"));
        }
        if !self.is_last {
            return failed(format!(
                "Fatal error: the truncated file {name} is not the last file ({})",
                describe(wrong)
            ));
        }
        if !self.lenient.truncated {
            return failed(format!(
                "Unexpected end of file reading the append only file {name}. You can: 1) Make a \
                 backup of your AOF file, then use weft-server --check-aof --fix \
                 <filename.manifest>. 2) Alternatively you can set the 'aof-load-truncated' \
                 configuration option to yes and restart the server."
            ));
        }
        sink.warn(format!("!!! Warning: short read while loading the AOF file {name}!!!"));
        sink.warn(format!("AOF {name} loaded anyway because aof-load-truncated is enabled"));
        self.cut(offset, sink)
    }

    /// The file is damaged from `offset` on. `length` is the number of its bytes to report.
    fn corrupt(
        &self,
        offset: u64,
        length: u64,
        wrong: &Wrong,
        sink: &mut dyn Sink,
    ) -> Result<u64, LoadFault> {
        let name = &self.entry.name;
        let (bytes, most) = (length - offset, self.lenient.corrupt);
        if self.is_last && bytes <= most {
            self.unmark()?;
            sink.warn(format!(
                "!!! Warning: the last {bytes} bytes of the AOF file {name} are damaged ({})!!!",
                describe(wrong)
            ));
            sink.warn(format!(
                "AOF {name} loaded anyway because they are not more than \
                 aof-load-corrupt-tail-max-size"
            ));
            return self.cut(offset, sink);
        }
        failed(format!(
            "Bad file format reading the append only file {name}: {}. Make a backup of your AOF \
             file, then use weft-server --check-aof --fix <filename.manifest>. This drops the \
             {bytes} bytes after offset {offset}.",
            describe(wrong)
        ))
    }

    /// Truncates the file after its valid part.
    fn cut(&self, offset: u64, sink: &mut dyn Sink) -> Result<u64, LoadFault> {
        let name = &self.entry.name;
        sink.settle().map_err(LoadFault::Failed)?;
        if self.lenient.cuts {
            sink.warn(format!("!!! Truncating the AOF {name} at offset {offset} !!!"));
        }
        self.truncate(offset)
    }

    fn truncate(&self, offset: u64) -> Result<u64, LoadFault> {
        if !self.lenient.cuts {
            return Ok(offset);
        }
        let name = &self.entry.name;
        let cut = || {
            let file = self.dir.storage.append(&self.path())?;
            file.truncate(offset)?;
            file.sync()
        };
        match cut() {
            Ok(()) => Ok(offset),
            Err(e) => failed(format!("Error truncating the AOF file {name}: {e}")),
        }
    }
}

/// Describes the damage and its offset.
fn describe(wrong: &Wrong) -> String {
    match &*wrong.words {
        "" => "it ends in the middle of a command".into(),
        words => format!("at offset {}: {words}", wrong.at),
    }
}
