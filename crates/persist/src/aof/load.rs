//! Loading: the commands of all files that a manifest names, in order.
//!
//! Only the last file may end too early, as it does when the server has died while it wrote. It is cut
//! to where it is whole: behind the last command, in front of a transaction that has no end, in front of a
//! batch that is not as it was written. Where zeros were written ahead, they are no part of it, and what has not
//! reached the disk as a whole over them is no damage (`tail`). A file before it was made safe as a whole when the next one was
//! begun, so if it is not whole, something else has happened to it, and nothing is loaded.

use super::directory::{Directory, OpenFault};
use super::encode::Position;
use super::manifest::{Entry, Manifest, Role};
use super::parse::{Item, ParseFault, Parser, Wrong};
use super::tail::{Examined, Tail, examine};
use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;

/// What remains of a file behind a snapshot at its front.
pub struct Rest {
    /// Bytes that were taken.
    pub taken: u64,
    /// What follows.
    pub input: Box<dyn Read + Send>,
}

/// Who takes what is loaded.
pub trait Sink {
    /// The file begins with a snapshot: takes it.
    ///
    /// # Errors
    /// Why it can't be loaded: a line for the operator.
    fn snapshot(&mut self, input: Box<dyn Read + Send>) -> Result<Rest, String>;

    /// Takes a command. Those between MULTI and EXEC come, too; they are to be executed when EXEC comes.
    ///
    /// # Errors
    /// Why that can't be: a line for the operator.
    fn command(&mut self, args: &mut dyn ExactSizeIterator<Item = &[u8]>) -> Result<(), String>;

    /// Answers when all commands that came have been looked at: the file is about to be cut behind them, which
    /// must not happen to one that is refused.
    ///
    /// # Errors
    /// Why one of them can't be: a line for the operator.
    fn settle(&mut self) -> Result<(), String>;

    /// The file is at its end. What comes after a MULTI without EXEC is void.
    ///
    /// # Errors
    /// Why what came can't be: a line for the operator.
    fn end_file(&mut self, role: Role, name: &str) -> Result<(), String>;

    /// So many bytes of all files have been looked at.
    fn progress(&mut self, bytes: u64);

    /// Something that the operator may want to know.
    fn note(&mut self, line: String);

    /// Something that the operator should read.
    fn warn(&mut self, line: String);
}

/// What is done about the end of the last file.
#[derive(Clone, Copy, Debug)]
pub struct Leniency {
    /// `aof-load-truncated`
    pub truncated: bool,
    /// Bytes at the end that may be wrong in any way, and are cut.
    pub corrupt: u64,
    /// Batches are compared with their checksums.
    pub checks: bool,
    /// What is not loaded is cut off. Not where the file is being written: who does that knows where it ends, and
    /// would go on behind what is missing then.
    pub cuts: bool,
}

/// Why nothing, or not all, was loaded.
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

/// Gives all that `manifest` names to `sink`. O(bytes). Answers where the data are in a history of replication,
/// if that is the last thing that the files say.
///
/// # Errors
/// What is wrong with which file; what came before it was given to the sink.
pub fn load(
    dir: &Directory,
    manifest: &Manifest,
    lenient: Leniency,
    sink: &mut dyn Sink,
) -> Result<Option<Position>, LoadFault> {
    // Nothing is taken before all files are there.
    dir.sizes(manifest).map_err(LoadFault::Open)?;
    let (mut before, mut position) = (0, None);
    let mut files = manifest.files().peekable();
    while let Some((role, entry)) = files.next() {
        let is_last = files.peek().is_none();
        let file = File { dir, entry, lenient, is_last, before };
        before += file.load(role, sink, &mut position)?;
        sink.end_file(role, &entry.name).map_err(LoadFault::Failed)?;
        sink.progress(before);
    }
    Ok(position)
}

/// Bytes from one report of progress to the next.
const REPORT: u64 = 1 << 20;

/// One of them.
struct File<'a> {
    dir: &'a Directory,
    entry: &'a Entry,
    lenient: Leniency,
    is_last: bool,
    /// Bytes of the files before it.
    before: u64,
}

impl File<'_> {
    fn path(&self) -> PathBuf {
        self.dir.path(&self.entry.name)
    }

    fn open_fault(&self, e: io::Error) -> LoadFault {
        let what = "Fatal error: can't open the append log file for reading:";
        LoadFault::Open(OpenFault::Io(what, self.path(), e))
    }

    /// Loads it; answers its length. `position`: where the data are, before and behind it.
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
        // Where the transaction begins that is open.
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
                    // What is in a transaction that does not end never happens.
                    if transaction.is_none() {
                        *position = None;
                    }
                    sink.command(&mut parser.args()).map_err(LoadFault::Failed)?;
                }
                Ok(Item::Position(here)) => {
                    // Nobody writes one in the middle of a unit.
                    *position = Some(here).filter(|_| transaction.is_none());
                }
                Ok(Item::Time(_) | Item::Note) => {}
                Ok(Item::End) => match transaction {
                    None => return Ok(offset),
                    Some(at) => return self.torn(at, true, &Wrong::default(), sink),
                },
                Err(ParseFault::Io(e)) => return Err(self.unreadable(&e)),
                Err(ParseFault::Torn(wrong)) => {
                    let at = transaction.unwrap_or(offset);
                    if parser.over_zeros() == Some(at) && self.tail(at, at)?.tail == Tail::Zeros {
                        return self.unused(at, length, sink);
                    }
                    return self.torn(at, transaction.is_some(), &wrong, sink);
                }
                Err(ParseFault::Corrupt(wrong)) => {
                    let at = transaction.unwrap_or(offset);
                    let over_zeros = parser.over_zeros().filter(|_| self.is_last);
                    let found = over_zeros.map(|end| self.tail(at, end)).transpose()?;
                    if found.is_some_and(|found| found.tail != Tail::Damaged) {
                        return self.torn(at, transaction.is_some(), &wrong, sink);
                    }
                    // Zeros that were written ahead are nothing that is lost.
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

    /// What is behind `offset`, up to which it is right.
    fn tail(&self, offset: u64, over_zeros: u64) -> Result<Examined, LoadFault> {
        let open = || self.dir.storage.read(&self.path());
        examine(open, offset, over_zeros).map_err(|e| self.unreadable(&e))
    }

    /// Behind `offset` there are only zeros that were written ahead.
    fn unused(&self, offset: u64, length: u64, sink: &mut dyn Sink) -> Result<u64, LoadFault> {
        let name = &self.entry.name;
        if !self.is_last {
            let wrong = Wrong { at: offset, words: "Zeros up to the end of the file".into() };
            return self.torn(offset, false, &wrong, sink);
        }
        let bytes = length - offset;
        sink.note(format!(
            "The AOF file {name} ends in {bytes} bytes that were written ahead and not used"
        ));
        sink.settle().map_err(LoadFault::Failed)?;
        self.truncate(offset)
    }

    /// The file ends too early; it is whole up to `offset`.
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
                told(wrong)
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

    /// The file, of which `length` bytes are to be told of, is not what a server writes, from `offset` on.
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
            sink.warn(format!(
                "!!! Warning: the last {bytes} bytes of the AOF file {name} are damaged ({})!!!",
                told(wrong)
            ));
            sink.warn(format!(
                "AOF {name} loaded anyway because they are not more than \
                 aof-load-corrupt-tail-max-size"
            ));
            return self.cut(offset, sink);
        }
        failed(format!(
            "Bad file format reading the append only file {name}: {}. Make a backup of your AOF \
             file, then use weft-server --check-aof --fix <filename.manifest>. What comes behind \
             offset {offset} is lost then, {bytes} bytes.",
            told(wrong)
        ))
    }

    /// Cuts the file behind what is whole.
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

/// What is wrong, and where.
fn told(wrong: &Wrong) -> String {
    match &*wrong.words {
        "" => "it ends in the middle of a command".into(),
        words => format!("at offset {}: {words}", wrong.at),
    }
}
