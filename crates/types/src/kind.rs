//! The one-byte kinds of a record: type and encoding together.

use crate::string::blob;
use weft_table::Owner;

/// What TYPE answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    String,
}

impl Type {
    /// The name that TYPE answers and that SCAN's TYPE option takes.
    pub fn name(self) -> &'static str {
        match self {
            Type::String => "string",
        }
    }

    /// The type of that name, in any case.
    pub fn by_name(name: &[u8]) -> Option<Type> {
        [Type::String].into_iter().find(|t| t.name().as_bytes().eq_ignore_ascii_case(name))
    }
}

/// Type and encoding of a record's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A string whose bytes are the payload, as it was first written.
    StrEmbedded = 0,
    /// A string whose bytes are the payload and that was modified since, or is not short:
    /// stored as the former, but the encoding that clients see is `raw`.
    StrRaw = 1,
    /// A string that is the decimal form of an `i64`; the payload is its 8 bytes.
    StrInt = 2,
    /// A long string; the payload is a pointer to a [`Blob`](crate::string::Blob).
    StrBlob = 3,
}

impl Kind {
    /// The kind of a record's kind byte. Panics on a byte that no kind has: records are only
    /// made by this crate.
    #[inline]
    pub fn of(byte: u8) -> Kind {
        match byte {
            0 => Kind::StrEmbedded,
            1 => Kind::StrRaw,
            2 => Kind::StrInt,
            3 => Kind::StrBlob,
            other => unreachable!("kind {other}"),
        }
    }

    #[inline]
    pub fn type_of(self) -> Type {
        match self {
            Kind::StrEmbedded | Kind::StrRaw | Kind::StrInt | Kind::StrBlob => Type::String,
        }
    }

    /// What OBJECT ENCODING answers.
    pub fn encoding_name(self) -> &'static str {
        match self {
            Kind::StrEmbedded => "embstr",
            Kind::StrRaw | Kind::StrBlob => "raw",
            Kind::StrInt => "int",
        }
    }
}

/// Frees what payloads point to: the owner of all records of the keyspace.
#[derive(Debug)]
pub struct Values;

impl Owner for Values {
    #[inline]
    unsafe fn drop_payload(kind: u8, payload: &mut [u8]) {
        match Kind::of(kind) {
            Kind::StrEmbedded | Kind::StrRaw | Kind::StrInt => {}
            // SAFETY: a StrBlob payload holds the one reference that `blob::store` leaked into
            // it, and the table calls this once, when the record dies.
            Kind::StrBlob => unsafe { blob::release(payload) },
        }
    }
}
