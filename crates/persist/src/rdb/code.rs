//! Type codes and versions.
//!
//! Redis and Valkey diverge after the common version 11, and assign later type codes to different
//! types. So the meaning of a code depends on the server that wrote it.

/// The highest version that this crate writes: that of Valkey 9.
pub const VERSION: u16 = 80;

/// The encoding of a value's body.
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
    /// With deleted and read counts.
    Stream2 = 19,
    SetListpack = 20,
    /// With the times at which consumers were last active.
    Stream3 = 21,
    /// With expiring fields, of Valkey 9.
    HashExpiring = 22,
    /// With expiring fields, of Redis 7.4.
    HashMetadata = 24,
    /// With expiring fields, of Redis 7.4.
    HashListpackEx = 25,
}

/// The server family that wrote a value, according to its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Redis or Valkey up to version 11, which are identical.
    Common,
    /// Redis from 7.4 on.
    Redis,
    /// Valkey from 9.0 on.
    Valkey,
}

impl Dialect {
    /// The dialect of a version; `None` if the version can't be read.
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
    /// Decodes a type byte in this dialect.
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
            // Versions before Valkey 9 don't have this code, but Valkey 9 accepts it under their
            // versions, too.
            22 if dialect != Dialect::Redis => Code::HashExpiring,
            24 if dialect == Dialect::Redis => Code::HashMetadata,
            25 if dialect == Dialect::Redis => Code::HashListpackEx,
            // Module types (6, 7), and unused codes.
            _ => return None,
        })
    }

    /// The first version whose readers support the code; 9 is that of Redis 5 to 6.2.
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
