//! Type codes and versions.
//!
//! Redis and Valkey count versions on from a common 11, and give the numbers of types that came
//! later to different things. So what a code means depends on who wrote it.

/// The version of what this crate writes at most: that of Valkey 9.
pub const VERSION: u16 = 80;

/// What a value's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    String = 0,
    List = 1,
    Set = 2,
    /// Scores as text.
    ZsetText = 3,
    Hash = 4,
    /// Scores in binary form.
    Zset = 5,
    HashZipmap = 9,
    ListZiplist = 10,
    SetInts = 11,
    ZsetZiplist = 12,
    HashZiplist = 13,
    Quicklist = 14,
    Stream = 15,
    HashListpack = 16,
    ZsetListpack = 17,
    Quicklist2 = 18,
    /// With what was deleted and read.
    Stream2 = 19,
    SetListpack = 20,
    /// With the times at which consumers were active.
    Stream3 = 21,
    /// With expiring fields, of Valkey 9.
    HashExpiring = 22,
    /// With expiring fields, of Redis 7.4.
    HashMetadata = 24,
    /// With expiring fields, of Redis 7.4.
    HashListpackEx = 25,
}

/// Who wrote a value, as far as its version tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Redis or Valkey up to version 11, which are one.
    Common,
    /// Redis from 7.4 on.
    Redis,
    /// Valkey from 9.0 on.
    Valkey,
}

impl Dialect {
    /// Of a version; `None` if it is none that can be read.
    #[must_use]
    pub fn of(version: u16) -> Option<Dialect> {
        match version {
            1..=11 => Some(Dialect::Common),
            12 => Some(Dialect::Redis),
            80 => Some(Dialect::Valkey),
            0 | 13..=79 | 81..=u16::MAX => None,
        }
    }
}

impl Code {
    /// The type that `byte` stands for in that dialect.
    #[must_use]
    pub fn of(byte: u8, dialect: Dialect) -> Option<Code> {
        Some(match byte {
            0 => Code::String,
            1 => Code::List,
            2 => Code::Set,
            3 => Code::ZsetText,
            4 => Code::Hash,
            5 => Code::Zset,
            9 => Code::HashZipmap,
            10 => Code::ListZiplist,
            11 => Code::SetInts,
            12 => Code::ZsetZiplist,
            13 => Code::HashZiplist,
            14 => Code::Quicklist,
            15 => Code::Stream,
            16 => Code::HashListpack,
            17 => Code::ZsetListpack,
            18 => Code::Quicklist2,
            19 => Code::Stream2,
            20 => Code::SetListpack,
            21 => Code::Stream3,
            // Versions before Valkey 9 do not have it, but Valkey 9 reads it under theirs, too.
            22 if dialect != Dialect::Redis => Code::HashExpiring,
            24 if dialect == Dialect::Redis => Code::HashMetadata,
            25 if dialect == Dialect::Redis => Code::HashListpackEx,
            // Modules (6, 7), and what nobody has.
            _ => return None,
        })
    }

    /// The first version whose readers know the code; 9 is that of Redis 5 to 6.2.
    #[must_use]
    pub fn version(self) -> u16 {
        match self {
            Code::String | Code::List | Code::Set | Code::ZsetText | Code::Hash | Code::Zset => 9,
            Code::HashZipmap | Code::ListZiplist | Code::SetInts | Code::ZsetZiplist => 9,
            Code::HashZiplist | Code::Quicklist | Code::Stream => 9,
            Code::HashListpack | Code::ZsetListpack | Code::Quicklist2 | Code::Stream2 => 10,
            Code::SetListpack | Code::Stream3 => 11,
            Code::HashMetadata | Code::HashListpackEx => 12,
            Code::HashExpiring => 80,
        }
    }
}
