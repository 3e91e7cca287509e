//! Why bytes are no value.

use std::fmt;

/// See the module's description.
#[derive(Debug)]
pub enum Fault {
    /// They end in the middle.
    Short,
    /// They contradict the format, or what must hold of a value.
    Corrupt(&'static str),
    /// They are a collection of nothing, as old servers have saved some.
    Empty,
    /// They are of a type that is not known here, or not from whom they come.
    Code(u8),
    /// Strings in them are longer than they may be together; they may be fine otherwise.
    Long,
    /// They could not be read.
    Io(std::io::Error),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Short => f.write_str("it ends in the middle"),
            Fault::Corrupt(what) => f.write_str(what),
            Fault::Empty => f.write_str("a collection of nothing"),
            Fault::Code(code) => write!(f, "values of type {code} can't be read"),
            Fault::Long => f.write_str("its strings are too long"),
            Fault::Io(e) => write!(f, "it can't be read: {e}"),
        }
    }
}

impl std::error::Error for Fault {}
