//! Why bytes are not a valid value.

use std::fmt;

/// A decoding error.
#[derive(Debug)]
pub enum Fault {
    /// The bytes end in the middle of a value.
    Short,
    /// The bytes violate the format, or an invariant of the type.
    Corrupt(&'static str),
    /// An empty collection. Old servers saved some.
    Empty,
    /// The type code is unknown, or invalid for the server that wrote it.
    Code(u8),
    /// The total length of the strings exceeds the limit. The value may be valid otherwise.
    Long,
    /// The source failed.
    Io(std::io::Error),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Short => f.write_str("it ends in the middle"),
            Fault::Corrupt(what) => f.write_str(what),
            Fault::Empty => f.write_str("an empty collection"),
            Fault::Code(code) => write!(f, "values of type {code} can't be read"),
            Fault::Long => f.write_str("its strings are too long"),
            Fault::Io(e) => write!(f, "it can't be read: {e}"),
        }
    }
}

impl std::error::Error for Fault {}
