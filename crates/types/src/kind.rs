//! The one-byte kinds of a record: type and encoding together.

use crate::string::blob;
use crate::{boxed, hash, list, set, stream, string, zset};
use weft_table::Owner;

/// A type, as TYPE reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    String,
    List,
    Set,
    Zset,
    Hash,
    Stream,
}

impl Type {
    pub const ALL: [Type; 6] =
        [Type::String, Type::List, Type::Set, Type::Zset, Type::Hash, Type::Stream];

    /// The name in replies of TYPE and in SCAN's TYPE option.
    pub fn name(self) -> &'static str {
        match self {
            Type::String => "string",
            Type::List => "list",
            Type::Set => "set",
            Type::Zset => "zset",
            Type::Hash => "hash",
            Type::Stream => "stream",
        }
    }

    /// The type with that name, ignoring case.
    pub fn by_name(name: &[u8]) -> Option<Type> {
        Type::ALL.into_iter().find(|t| t.name().as_bytes().eq_ignore_ascii_case(name))
    }
}

/// Type and encoding of a record's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A string whose bytes are the payload, as it was first written.
    StrEmbedded = 0,
    /// A string whose bytes are the payload and that was modified since or is not short. Stored
    /// like `StrEmbedded`, but clients see the encoding `raw`.
    StrRaw = 1,
    /// A string that is the decimal form of an `i64`; the payload is its 8 bytes.
    StrInt = 2,
    /// A long string; the payload is a pointer to a [`Blob`](crate::string::Blob).
    StrBlob = 3,
    /// A list of few elements, [packed](crate::packed).
    ListPacked = 4,
    /// A longer list, packed with [backward lengths](crate::packed::TwoWay).
    ListTwoWay = 5,
    /// A long list; the payload is a pointer to [`list::Chunks`].
    ListChunks = 6,
    /// A small set of integers, sorted.
    SetInts = 7,
    /// A small set, packed.
    SetPacked = 8,
    /// A large set; the payload is a pointer to [`set::Table`].
    SetTable = 9,
    /// A small sorted set, packed in order.
    ZsetPacked = 10,
    /// A large sorted set; the payload is a pointer to [`zset::Tree`].
    ZsetTree = 11,
    /// A small hash, packed.
    HashPacked = 12,
    /// A large hash, or one with expiring fields; the payload is a pointer to [`hash::Table`].
    HashTable = 13,
    /// A stream; the payload is a pointer to a [`stream::Stream`].
    Stream = 14,
    /// A large string that was edited; the payload is a pointer to [`string::Pieces`].
    StrPieces = 15,
}

impl Kind {
    /// Every kind, at the index of its byte.
    pub const ALL: [Kind; 16] = [
        Kind::StrEmbedded,
        Kind::StrRaw,
        Kind::StrInt,
        Kind::StrBlob,
        Kind::ListPacked,
        Kind::ListTwoWay,
        Kind::ListChunks,
        Kind::SetInts,
        Kind::SetPacked,
        Kind::SetTable,
        Kind::ZsetPacked,
        Kind::ZsetTree,
        Kind::HashPacked,
        Kind::HashTable,
        Kind::Stream,
        Kind::StrPieces,
    ];

    /// The kind of a record's kind byte. Panics on an unknown byte: only this crate makes records.
    #[inline]
    pub fn of(byte: u8) -> Kind {
        Kind::ALL[usize::from(byte)]
    }

    #[inline]
    pub fn type_of(self) -> Type {
        match self {
            Kind::StrEmbedded | Kind::StrRaw | Kind::StrInt => Type::String,
            Kind::StrBlob | Kind::StrPieces => Type::String,
            Kind::ListPacked | Kind::ListTwoWay | Kind::ListChunks => Type::List,
            Kind::SetInts | Kind::SetPacked | Kind::SetTable => Type::Set,
            Kind::ZsetPacked | Kind::ZsetTree => Type::Zset,
            Kind::HashPacked | Kind::HashTable => Type::Hash,
            Kind::Stream => Type::Stream,
        }
    }

    /// The encoding that OBJECT ENCODING reports.
    pub fn encoding_name(self) -> &'static str {
        match self {
            Kind::StrEmbedded => "embstr",
            Kind::StrRaw | Kind::StrBlob | Kind::StrPieces => "raw",
            Kind::StrInt => "int",
            Kind::ListPacked | Kind::ListTwoWay | Kind::SetPacked => "listpack",
            Kind::ZsetPacked | Kind::HashPacked => "listpack",
            Kind::ListChunks => "quicklist",
            Kind::SetInts => "intset",
            Kind::SetTable | Kind::HashTable => "hashtable",
            Kind::ZsetTree => "skiplist",
            Kind::Stream => "stream",
        }
    }
}

const _: () = {
    let mut n = 0;
    while n < Kind::ALL.len() {
        assert!(Kind::ALL[n] as usize == n);
        n += 1;
    }
};

/// Owner of all records of the keyspace: frees the objects that payloads point to.
#[derive(Debug)]
pub struct Values;

impl Owner for Values {
    #[inline]
    unsafe fn drop_payload(kind: u8, payload: &mut [u8]) {
        match Kind::of(kind) {
            Kind::StrEmbedded | Kind::StrRaw | Kind::StrInt => {}
            Kind::ListPacked | Kind::ListTwoWay | Kind::SetInts | Kind::SetPacked => {}
            Kind::ZsetPacked | Kind::HashPacked => {}
            // SAFETY: a StrBlob payload holds the one reference that `blob::store` leaked into it,
            // and the table calls this once, when it drops the record.
            Kind::StrBlob => unsafe { blob::release(payload) },
            // SAFETY: a ListChunks payload was made by `boxed::store` from a box of that type, and
            // the table calls this once, when it drops the record. The same holds for the others.
            Kind::ListChunks => drop(unsafe { boxed::take::<list::Chunks>(payload) }),
            // SAFETY: see above.
            Kind::SetTable => drop(unsafe { boxed::take::<set::Table>(payload) }),
            // SAFETY: see above.
            Kind::ZsetTree => drop(unsafe { boxed::take::<zset::Tree>(payload) }),
            // SAFETY: see above.
            Kind::HashTable => drop(unsafe { boxed::take::<hash::Table>(payload) }),
            // SAFETY: see above.
            Kind::Stream => drop(unsafe { boxed::take::<stream::Stream>(payload) }),
            // SAFETY: see above.
            Kind::StrPieces => drop(unsafe { boxed::take::<string::Pieces>(payload) }),
        }
    }
}
