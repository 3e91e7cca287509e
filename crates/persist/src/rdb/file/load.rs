//! A file as records, made by several threads.
//!
//! [`Loader::take`] is the only step that must be done by one thread at a time, under a lock of the
//! caller's. It looks where entries end, adds to the checksum and copies a block of whole entries;
//! [`Piece::each`] then makes records of them, on the thread that took the block. A value too large
//! for that is made while it is read.
//!
//! Keys come in no particular order to who puts them together, which does not matter: no key stands
//! twice in a file, and one that does is found when its second record is put in.

use super::header::{Header, Refusal, VersionCheck};
use super::input::Input;
use super::item::{Head, Item, Items, Stage};
use super::{SUMMED_FROM, opcode, skip};
use crate::rdb::{Dialect, Fault, Slice, Source, Target, decode_body};
use std::fmt;
use std::io::Read;
use weft_types::{Limits, Record};

/// Bytes of a block, about.
const BLOCK: usize = 1 << 20;

/// An entry of more bytes than this is read where it is, while nobody else takes a block.
const LARGE: usize = 4 * BLOCK;

/// How records are to be made.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    /// By which encodings are chosen.
    pub limits: &'a Limits,
    /// The clock of a key by its seconds of idleness, or its frequency.
    pub clock: &'a (dyn Fn(Option<u64>, Option<u8>) -> u32 + Sync),
    /// Keys whose time is at or before this are left out; `None`: they are loaded, too, since a log
    /// that follows may still name them.
    pub over: Option<i64>,
}

/// What has become of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub loaded: u64,
    /// Left out, since their time is over.
    pub expired: u64,
    /// Left out, since there was nothing in them.
    pub empty: u64,
}

impl Counts {
    pub fn add(&mut self, more: Counts) {
        self.loaded += more.loaded;
        self.expired += more.expired;
        self.empty += more.empty;
    }
}

/// What the writer tells of itself, as far as anybody wants to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// `Redis`, `Valkey` or `Weft`, and its version.
    pub program: Option<(&'static str, String)>,
    /// Unix seconds of the file's making.
    pub made_s: Option<i64>,
    /// Bytes of memory that the data took there.
    pub memory: Option<u64>,
    /// It is the base of an append-only file.
    pub is_base: bool,
    /// Which history of a replicated data set this is (`repl-id`), and how many bytes of its stream the
    /// data contain (`repl-offset`).
    pub history: Option<String>,
    pub offset: Option<u64>,
    /// The database that the stream has selected there (`repl-stream-db`).
    pub stream_db: Option<u32>,
}

/// How a file has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its checksum is right.
    Right,
    /// It was written without one.
    Unsummed,
    /// It has none in its version, or nobody wanted to know.
    Unchecked,
}

/// What is wrong with a file.
#[derive(Debug)]
pub enum Wrong {
    /// It is not read at all.
    Refused(Refusal),
    Value(Fault),
    /// A number of a database, and there are not so many.
    Database(u64),
    Sum {
        expected: u64,
        found: u64,
    },
    /// A key that was there before.
    Twice,
}

/// What is wrong, and where.
#[derive(Debug)]
pub struct Trouble {
    pub wrong: Wrong,
    /// Bytes of the file that were read, about.
    pub offset: u64,
    pub key: Option<Vec<u8>>,
    /// What was being read.
    pub doing: &'static str,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Refused(refusal) => refusal.fmt(f),
            Wrong::Value(Fault::Short) => f.write_str("Unexpected EOF reading RDB file"),
            Wrong::Value(Fault::Code(code)) => write!(f, "Invalid object type: {code}"),
            Wrong::Value(fault) => fault.fmt(f),
            Wrong::Database(db) => write!(f, "database {db}, and there are not so many"),
            Wrong::Sum { .. } => f.write_str("RDB CRC error"),
            Wrong::Twice => f.write_str("a key that was there before"),
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

/// A file that is being loaded.
pub struct Loader<R> {
    input: Input<R>,
    header: Header,
    dialect: Dialect,
    items: Items,
    databases: usize,
    db: usize,
    origin: Origin,
    functions: Vec<Vec<u8>>,
    /// Keys that were announced.
    announced: u64,
    ended: Option<Ended>,
}

/// A part of a file that one thread makes records of.
pub enum Piece {
    Block(Block),
    /// A large value.
    Made {
        db: usize,
        made: Box<Made>,
    },
}

/// Whole entries of one database.
pub struct Block {
    bytes: Vec<u8>,
    db: usize,
    dialect: Dialect,
    /// Where it begins in the file.
    offset: u64,
}

/// What came of an entry.
pub enum Made {
    Record(Record),
    Expired,
    Empty,
}

/// Makes what is to be made of an entry whose body is next.
fn make<S: Source>(head: Head, key: &[u8], from: &mut S, terms: &Terms<'_>) -> Result<Made, Fault> {
    if let (Some(at), Some(over)) = (head.expiry, terms.over)
        && at <= over
    {
        return skip::body(head.code, from).map(|()| Made::Expired);
    }
    let target = Target {
        key,
        expiry: head.expiry,
        clock: (terms.clock)(head.idle, head.frequency),
        limits: terms.limits,
        plain_most: usize::MAX,
    };
    match decode_body(head.code, from, &target) {
        Ok(record) => Ok(Made::Record(record)),
        Err(Fault::Empty) => Ok(Made::Empty),
        Err(fault) => Err(fault),
    }
}

impl Piece {
    /// Makes the records of this piece and shows them with the number of their database; `seen`
    /// says whether a key is new.
    ///
    /// # Errors
    ///
    /// A body is no value, or a key is not new.
    pub fn each(
        self,
        terms: &Terms<'_>,
        counts: &mut Counts,
        mut seen: impl FnMut(usize, Record) -> bool,
    ) -> Result<(), Trouble> {
        let mut put = |db, made| {
            match made {
                Made::Record(record) => {
                    counts.loaded += 1;
                    return seen(db, record);
                }
                Made::Expired => counts.expired += 1,
                Made::Empty => counts.empty += 1,
            }
            true
        };
        match self {
            Piece::Made { db, made } => match put(db, *made) {
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
        put: &mut impl FnMut(usize, Made) -> bool,
    ) -> Result<(), Trouble> {
        let mut items = Items::new(self.dialect);
        let mut from = Slice(&self.bytes);
        while !from.0.is_empty() {
            let made = match items.next(&mut from) {
                Ok(Item::Key(head)) => make(head, &items.key, &mut from, terms),
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
    /// Reads the header, and nothing behind it. `databases`: how many there may be.
    ///
    /// # Errors
    ///
    /// The file is not one that is read: nothing must be done for it.
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

    /// Does not check the checksum.
    pub fn ignore_sum(&mut self) {
        self.input.forget_sum();
    }

    pub fn header(&self) -> Header {
        self.header
    }

    /// What the writer has told so far.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Libraries of functions that were found so far, each as its text.
    pub fn functions(&self) -> &[Vec<u8>] {
        &self.functions
    }

    /// Keys that the file has said will come.
    pub fn announced(&self) -> u64 {
        self.announced
    }

    /// Bytes that were taken.
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// How the file has ended, when it has.
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// What follows the end of the file: bytes that were read ahead, and the reader.
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

    /// The next piece; `None` at the end, when the checksum has been seen to. O(entries of it).
    ///
    /// # Errors
    ///
    /// What stands next is wrong. There is no going on after that.
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

    /// A block, or one item that is none of a block.
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
                let made = make(head, &self.items.key, &mut self.input, terms);
                let made = Box::new(made.map_err(Wrong::Value)?);
                return Ok(Some(Piece::Made { db: self.db, made }));
            }
            Item::Told { name, value } => self.origin.hear(&name, &value),
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

/// The bytes of the whole entries at the front; and, if there is none, whether there is the
/// beginning of one.
fn whole_entries(items: &mut Items, bytes: &[u8]) -> (usize, bool) {
    let mut from = Slice(bytes);
    let mut whole = 0;
    while let Some(byte) = from.0.first() {
        let is_key = !(opcode::SLOT_IMPORT..=opcode::MODULE).contains(byte)
            && !matches!(*byte, opcode::TOLD | opcode::SIZES | opcode::DATABASE | opcode::END);
        let item = if is_key { items.next(&mut from) } else { return (whole, false) };
        let body = match item {
            Ok(Item::Key(head)) => skip::body(head.code, &mut from),
            // An expiry in front of something else.
            Ok(_) => return (whole, false),
            Err(fault) => Err(fault),
        };
        match body {
            Ok(()) => whole = bytes.len() - from.0.len(),
            Err(Fault::Short) => return (whole, true),
            // Told when nothing is in front of it any more.
            Err(_) => return (whole, false),
        }
    }
    (whole, true)
}

impl Origin {
    /// Hears what a writer tells. What is not known is of no concern.
    fn hear(&mut self, name: &[u8], value: &[u8]) {
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
