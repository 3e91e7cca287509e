//! The grammar of a file: reads one item after another, from any source.
//!
//! The caller decides whether to decode a body or to skip it. So one grammar serves the thread that
//! finds the ends of entries, the threads that load them, and the check.

use super::opcode;
use crate::rdb::{Code, Dialect, Fault, Source, read};

/// An item of a file.
#[derive(Debug)]
pub enum Item {
    /// An auxiliary field: a property of the writer or of the file.
    Aux { name: Vec<u8>, value: Vec<u8> },
    /// A library of functions, as source text.
    Function(Vec<u8>),
    /// The database of the following keys.
    Database(u64),
    /// The number of keys to come.
    Sizes(u64),
    /// Cluster metadata, which is ignored.
    Cluster,
    /// A key up to the start of its body. The name is in [`Items::key`].
    Key(Head),
    /// The end; the checksum follows.
    End,
}

/// The properties of a key before its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub code: Code,
    /// Unix milliseconds.
    pub expiry: Option<i64>,
    /// Seconds since the last access.
    pub idle: Option<u64>,
    /// The access frequency.
    pub frequency: Option<u8>,
}

/// The part of the file being read, for error reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    #[default]
    Start,
    Type,
    Expire,
    Key,
    Value,
    Sum,
    Len,
    Aux,
    Module,
    Functions,
}

impl Stage {
    /// Its name in the reference's check.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Stage::Start => "start",
            Stage::Type => "read-type",
            Stage::Expire => "read-expire",
            Stage::Key => "read-key",
            Stage::Value => "read-object-value",
            Stage::Sum => "check-sum",
            Stage::Len => "read-len",
            Stage::Aux => "read-aux",
            Stage::Module => "read-module-aux",
            Stage::Functions => "read-functions",
        }
    }
}

/// Reads items.
#[derive(Debug)]
pub struct Items {
    dialect: Dialect,
    /// The name of the last key.
    pub key: Vec<u8>,
    pub stage: Stage,
}

impl Items {
    pub fn new(dialect: Dialect) -> Items {
        Items { dialect, key: Vec::new(), stage: Stage::Start }
    }

    /// Reads the next item. After a key, the caller reads the body.
    ///
    /// # Errors
    ///
    /// The item is invalid or incomplete.
    pub fn next<S: Source>(&mut self, from: &mut S) -> Result<Item, Fault> {
        let (mut expiry, mut idle, mut frequency) = (None, None, None);
        loop {
            self.stage = Stage::Type;
            let [byte] = from.array()?;
            match byte {
                opcode::EXPIRY => {
                    self.stage = Stage::Expire;
                    expiry = Some(i64::from(i32::from_le_bytes(from.array()?)) * 1000);
                }
                opcode::EXPIRY_MS => {
                    self.stage = Stage::Expire;
                    expiry = Some(read::signed(from)?);
                }
                opcode::FREQUENCY => {
                    let [count] = from.array()?;
                    frequency = Some(count);
                }
                opcode::IDLE => idle = Some(read::len(from)?),
                opcode::AUX
                | opcode::SIZES
                | opcode::DATABASE
                | opcode::END
                | opcode::FUNCTION
                | opcode::OLD_FUNCTION
                | opcode::MODULE
                | opcode::SLOT_INFO
                | opcode::SLOT_IMPORT => return self.other(byte, from),
                _ => {
                    let code = Code::of(byte, self.dialect).ok_or(Fault::Code(byte))?;
                    self.stage = Stage::Key;
                    text(from, &mut self.key)?;
                    self.stage = Stage::Value;
                    return Ok(Item::Key(Head { code, expiry, idle, frequency }));
                }
            }
        }
    }

    /// Reads an item other than a key. An expiry or age before it is ignored.
    #[cold]
    fn other<S: Source>(&mut self, byte: u8, from: &mut S) -> Result<Item, Fault> {
        match byte {
            opcode::AUX => {
                self.stage = Stage::Aux;
                Ok(Item::Aux { name: string(from)?, value: string(from)? })
            }
            opcode::FUNCTION => {
                self.stage = Stage::Functions;
                Ok(Item::Function(string(from)?))
            }
            opcode::DATABASE => {
                self.stage = Stage::Len;
                Ok(Item::Database(read::len(from)?))
            }
            opcode::SIZES => {
                self.stage = Stage::Len;
                let keys = read::len(from)?;
                let _expiring = read::len(from)?;
                Ok(Item::Sizes(keys))
            }
            opcode::END => Ok(Item::End),
            opcode::SLOT_INFO => {
                self.stage = Stage::Len;
                (0..3).try_for_each(|_| read::len(from).map(|_| ()))?;
                Ok(Item::Cluster)
            }
            // In later files of Redis this number has another meaning.
            opcode::SLOT_IMPORT if self.dialect == Dialect::Valkey => {
                self.stage = Stage::Len;
                read::skip_string(from)?;
                for _ in 0..read::len(from)? {
                    read::len(from)?;
                    read::len(from)?;
                }
                Ok(Item::Cluster)
            }
            opcode::OLD_FUNCTION => {
                self.stage = Stage::Functions;
                Err(Fault::Corrupt("functions of a preview of Redis 7.0"))
            }
            opcode::MODULE => {
                self.stage = Stage::Module;
                Err(Fault::Corrupt("data of a module, and modules are not supported"))
            }
            _ => Err(Fault::Code(byte)),
        }
    }
}

pub(super) fn string<S: Source>(from: &mut S) -> Result<Vec<u8>, Fault> {
    let mut string = Vec::new();
    text(from, &mut string)?;
    Ok(string)
}

/// Reads a string and replaces the content of `to`.
fn text<S: Source>(from: &mut S, to: &mut Vec<u8>) -> Result<(), Fault> {
    let mut plain_left = usize::MAX;
    read::string(from, to, &mut plain_left)
}
