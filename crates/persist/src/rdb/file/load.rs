//! Loads the records of a file with several threads.
//!
//! [`Loader::take`] is the only serial step, under the caller's lock. It finds the ends of entries,
//! updates the checksum and copies a block of complete entries. [`Piece::each`] then decodes them,
//! on the thread that took the block. A value too large for a block is decoded while it is read.
//!
//! Keys arrive in no particular order, which does not matter: a valid file has each key once, and a
//! duplicate is found when its second record is inserted.

use super::header::{Header, Refusal, VersionCheck};
use super::input::Input;
use super::item::{Head, Item, Items, Stage};
use super::{SUMMED_FROM, opcode, skip};
use crate::rdb::{Dialect, Fault, Slice, Source, Target, decode_body};
use std::fmt;
use std::io::Read;
use weft_types::{Limits, Record};

/// Approximate size of a block in bytes.
const BLOCK: usize = 1 << 20;

/// An entry of more bytes than this is decoded in place, under the lock.
const LARGE: usize = 4 * BLOCK;

/// How to decode records.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    /// Limits that choose encodings.
    pub limits: &'a Limits,
    /// Computes a key's clock from its idle seconds or its frequency.
    pub clock: &'a (dyn Fn(Option<u64>, Option<u8>) -> u32 + Sync),
    /// Keys that expire at or before this time are skipped. `None`: load them, too, because a log
    /// after the file may still name them.
    pub over: Option<i64>,
}

/// Counts of entries by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub loaded: u64,
    /// Skipped, because they have expired.
    pub expired: u64,
    /// Skipped, because they are empty.
    pub empty: u64,
}

impl Counts {
    pub fn add(&mut self, more: Counts) {
        self.loaded += more.loaded;
        self.expired += more.expired;
        self.empty += more.empty;
    }
}

/// Auxiliary fields of the writer that have a use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// `Redis`, `Valkey` or `Weft`, and its version.
    pub program: Option<(&'static str, String)>,
    /// Creation time of the file in Unix seconds.
    pub made_s: Option<i64>,
    /// Memory that the data took in the writer, in bytes.
    pub memory: Option<u64>,
    /// The file is the base of an append-only file.
    pub is_base: bool,
    /// The replication history of the data (`repl-id`), and the offset in its stream that the data
    /// include (`repl-offset`).
    pub history: Option<String>,
    pub offset: Option<u64>,
    /// The database that the stream has selected at that offset (`repl-stream-db`).
    pub stream_db: Option<u32>,
}

/// The result of the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The checksum is correct.
    Right,
    /// The file was written without one.
    Unsummed,
    /// The version has no checksum, or the check is disabled.
    Unchecked,
}

/// An error of a file.
#[derive(Debug)]
pub enum Wrong {
    /// The file was refused.
    Refused(Refusal),
    Value(Fault),
    /// A database number beyond the configured number of databases.
    Database(u64),
    Sum {
        expected: u64,
        found: u64,
    },
    /// A duplicate key.
    Twice,
    /// A library of functions can't be loaded, for this reason.
    Library(Vec<u8>),
}

/// An error and its place.
#[derive(Debug)]
pub struct Trouble {
    pub wrong: Wrong,
    /// Approximate offset in the file.
    pub offset: u64,
    pub key: Option<Vec<u8>>,
    /// The part that was being read.
    pub doing: &'static str,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Refused(refusal) => refusal.fmt(f),
            Wrong::Value(Fault::Short) => f.write_str("Unexpected EOF reading RDB file"),
            Wrong::Value(Fault::Code(code)) => write!(f, "Invalid object type: {code}"),
            Wrong::Value(fault) => fault.fmt(f),
            Wrong::Database(db) => write!(f, "database {db} exceeds the number of databases"),
            Wrong::Sum { .. } => f.write_str("RDB CRC error"),
            Wrong::Twice => f.write_str("a duplicate key"),
            Wrong::Library(why) => write!(f, "Failed loading library, {}", why.escape_ascii()),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {}, {}: {}", self.offset, self.doing, self.wrong)?;
        match &self.key {
            Some(key) => write!(f, " (key '{}')", key.escape_ascii()),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Trouble {}

/// Loads a file.
pub struct Loader<R> {
    input: Input<R>,
    header: Header,
    dialect: Dialect,
    items: Items,
    databases: usize,
    db: usize,
    origin: Origin,
    functions: Vec<Vec<u8>>,
    /// The number of keys according to the file.
    announced: u64,
    ended: Option<Ended>,
}

/// A part of a file for one thread to decode.
pub enum Piece {
    Block(Block),
    /// A large value.
    Decoded {
        db: usize,
        made: Box<Decoded>,
    },
}

/// Complete entries of one database.
pub struct Block {
    bytes: Vec<u8>,
    db: usize,
    dialect: Dialect,
    /// Offset in the file.
    offset: u64,
}

/// The result of an entry.
pub enum Decoded {
    Record(Record),
    Expired,
    Empty,
}

/// Decodes an entry whose body is next, or skips it.
fn decode_entry<S: Source>(
    head: Head,
    key: &[u8],
    from: &mut S,
    terms: &Terms<'_>,
) -> Result<Decoded, Fault> {
    if let (Some(at), Some(over)) = (head.expiry, terms.over)
        && at <= over
    {
        return skip::body(head.code, from).map(|()| Decoded::Expired);
    }
    let target = Target {
        key,
        expiry: head.expiry,
        clock: (terms.clock)(head.idle, head.frequency),
        limits: terms.limits,
        plain_most: usize::MAX,
    };
    match decode_body(head.code, from, &target) {
        Ok(record) => Ok(Decoded::Record(record)),
        Err(Fault::Empty) => Ok(Decoded::Empty),
        Err(fault) => Err(fault),
    }
}

impl Piece {
    /// Decodes the records of this piece and passes them, with their database, to `seen`, which
    /// returns whether the key is new.
    ///
    /// # Errors
    ///
    /// A body is invalid, or a key is a duplicate.
    pub fn each(
        self,
        terms: &Terms<'_>,
        counts: &mut Counts,
        mut seen: impl FnMut(usize, Record) -> bool,
    ) -> Result<(), Trouble> {
        let mut put = |db, made| {
            match made {
                Decoded::Record(record) => {
                    counts.loaded += 1;
                    return seen(db, record);
                }
                Decoded::Expired => counts.expired += 1,
                Decoded::Empty => counts.empty += 1,
            }
            true
        };
        match self {
            Piece::Decoded { db, made } => match put(db, *made) {
                true => Ok(()),
                false => Err(Trouble {
                    wrong: Wrong::Twice,
                    offset: 0,
                    key: None,
                    doing: Stage::Value.name(),
                }),
            },
            Piece::Block(block) => block.each(terms, &mut put),
        }
    }
}

impl Block {
    fn each(
        &self,
        terms: &Terms<'_>,
        put: &mut impl FnMut(usize, Decoded) -> bool,
    ) -> Result<(), Trouble> {
        let mut items = Items::new(self.dialect);
        let mut from = Slice(&self.bytes);
        while !from.0.is_empty() {
            let made = match items.next(&mut from) {
                Ok(Item::Key(head)) => decode_entry(head, &items.key, &mut from, terms),
                Ok(_) => unreachable!("a block has keys and nothing else"),
                Err(fault) => Err(fault),
            };
            let wrong = match made.map(|made| put(self.db, made)) {
                Ok(true) => continue,
                Ok(false) => Wrong::Twice,
                Err(fault) => Wrong::Value(fault),
            };
            return Err(Trouble {
                wrong,
                offset: self.offset + (self.bytes.len() - from.0.len()) as u64,
                key: Some(items.key),
                doing: items.stage.name(),
            });
        }
        Ok(())
    }
}

impl<R: Read> Loader<R> {
    /// Reads only the header. `databases`: the number of databases.
    ///
    /// # Errors
    ///
    /// The file was refused.
    pub fn open(from: R, check: VersionCheck, databases: usize) -> Result<Loader<R>, Trouble> {
        let mut input = Input::new(from);
        let found =
            |wrong, offset| Trouble { wrong, offset, key: None, doing: Stage::Start.name() };
        let bytes = input.array().map_err(|fault| found(Wrong::Value(fault), 0))?;
        let refused = |refusal| found(Wrong::Refused(refusal), Header::LEN as u64);
        let header = Header::parse(bytes).map_err(refused)?;
        let dialect = header.dialect(check).map_err(refused)?;
        Ok(Loader {
            input,
            header,
            dialect,
            items: Items::new(dialect),
            databases,
            db: 0,
            origin: Origin::default(),
            functions: Vec::new(),
            announced: 0,
            ended: None,
        })
    }

    /// Disables the checksum.
    pub fn ignore_sum(&mut self) {
        self.input.forget_sum();
    }

    pub fn header(&self) -> Header {
        self.header
    }

    /// The auxiliary fields read so far.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The libraries of functions read so far, as source text.
    pub fn functions(&self) -> &[Vec<u8>] {
        &self.functions
    }

    /// The number of keys according to the file.
    pub fn announced(&self) -> u64 {
        self.announced
    }

    /// Number of bytes consumed.
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// The result of the checksum, after the end of the file.
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// The bytes after the end of the file: those read ahead, and the reader of the rest.
    pub fn into_rest(self) -> (Vec<u8>, R) {
        self.input.into_rest()
    }

    fn trouble(&self, wrong: Wrong) -> Trouble {
        let of_key = matches!(self.items.stage, Stage::Value) && !self.items.key.is_empty();
        Trouble {
            wrong,
            offset: self.input.offset(),
            key: of_key.then(|| self.items.key.clone()),
            doing: self.items.stage.name(),
        }
    }

    /// Returns the next piece, or `None` at the end, after the checksum was verified. O(entries of
    /// the piece).
    ///
    /// # Errors
    ///
    /// The next item is invalid. Loading can't continue.
    pub fn take(&mut self, terms: &Terms<'_>) -> Result<Option<Piece>, Trouble> {
        while self.ended.is_none() {
            match self.step(terms) {
                Ok(None) => {}
                Ok(piece) => return Ok(piece),
                Err(wrong) => return Err(self.trouble(wrong)),
            }
        }
        Ok(None)
    }

    /// Returns a block, or handles one item that can't be in a block.
    fn step(&mut self, terms: &Terms<'_>) -> Result<Option<Piece>, Wrong> {
        if self.input.ahead().len() < BLOCK {
            self.input.want(BLOCK).map_err(Wrong::Value)?;
        }
        loop {
            let offset = self.input.offset();
            let (entries, goes_on) = whole_entries(&mut self.items, self.input.ahead());
            if entries > 0 {
                let bytes = self.input.ahead()[..entries].to_vec();
                self.input.take(entries);
                let (db, dialect) = (self.db, self.dialect);
                return Ok(Some(Piece::Block(Block { bytes, db, dialect, offset })));
            }
            let there = self.input.ahead().len();
            if !goes_on || there >= LARGE || self.input.has_ended() {
                return self.item(terms);
            }
            self.input.want(2 * there).map_err(Wrong::Value)?;
        }
    }

    fn item(&mut self, terms: &Terms<'_>) -> Result<Option<Piece>, Wrong> {
        match self.items.next(&mut self.input).map_err(Wrong::Value)? {
            Item::Key(head) => {
                let made = decode_entry(head, &self.items.key, &mut self.input, terms);
                let made = Box::new(made.map_err(Wrong::Value)?);
                return Ok(Some(Piece::Decoded { db: self.db, made }));
            }
            Item::Aux { name, value } => self.origin.take_aux(&name, &value),
            Item::Function(text) => self.functions.push(text),
            Item::Database(db) => {
                let known = usize::try_from(db).ok().filter(|db| *db < self.databases);
                self.db = known.ok_or(Wrong::Database(db))?;
            }
            Item::Sizes(keys) => self.announced = self.announced.saturating_add(keys),
            Item::Cluster => {}
            Item::End => self.ended = Some(self.end()?),
        }
        Ok(None)
    }

    fn end(&mut self) -> Result<Ended, Wrong> {
        self.items.stage = Stage::Sum;
        if self.header.version < SUMMED_FROM {
            return Ok(Ended::Unchecked);
        }
        let found = self.input.end_sum();
        let expected = u64::from_le_bytes(self.input.array().map_err(Wrong::Value)?);
        match found {
            None => Ok(Ended::Unchecked),
            Some(_) if expected == 0 => Ok(Ended::Unsummed),
            Some(found) if found == expected => Ok(Ended::Right),
            Some(found) => Err(Wrong::Sum { expected, found }),
        }
    }
}

/// Returns the size of the complete entries at the start, and, if there are none, whether an
/// incomplete entry is at the start.
fn whole_entries(items: &mut Items, bytes: &[u8]) -> (usize, bool) {
    let mut from = Slice(bytes);
    let mut whole = 0;
    while let Some(byte) = from.0.first() {
        let is_key = !(opcode::SLOT_IMPORT..=opcode::MODULE).contains(byte)
            && !matches!(*byte, opcode::AUX | opcode::SIZES | opcode::DATABASE | opcode::END);
        let item = if is_key { items.next(&mut from) } else { return (whole, false) };
        let body = match item {
            Ok(Item::Key(head)) => skip::body(head.code, &mut from),
            // An expiry before another item.
            Ok(_) => return (whole, false),
            Err(fault) => Err(fault),
        };
        match body {
            Ok(()) => whole = bytes.len() - from.0.len(),
            Err(Fault::Short) => return (whole, true),
            // The error is reported once the entry is the first one.
            Err(_) => return (whole, false),
        }
    }
    (whole, true)
}

impl Origin {
    /// Takes an auxiliary field. Unknown fields are ignored.
    fn take_aux(&mut self, name: &[u8], value: &[u8]) {
        let number = || weft_base::num::parse_i64(value);
        let mut program = |name| {
            self.program = Some((name, String::from_utf8_lossy(value).into_owned()));
        };
        match name {
            b"redis-ver" => program("Redis"),
            b"valkey-ver" => program("Valkey"),
            b"weft-ver" => program("Weft"),
            b"ctime" => self.made_s = number(),
            b"used-mem" => self.memory = number().and_then(|n| u64::try_from(n).ok()),
            b"repl-id" => self.history = Some(String::from_utf8_lossy(value).into_owned()),
            b"repl-offset" => self.offset = number().and_then(|n| u64::try_from(n).ok()),
            b"repl-stream-db" => self.stream_db = number().and_then(|n| u32::try_from(n).ok()),
            b"aof-base" | b"aof-preamble" => self.is_base = number().is_some_and(|n| n != 0),
            _ => {}
        }
    }
}
