//! The value types and their encodings.
//!
//! A [`Record`] (see `weft-table`) carries a one-byte kind and an opaque payload; this crate
//! says what the kinds mean, frees what a payload points to, and gives each type its
//! operations. The kind names both the type and the encoding, so one exhaustive match over
//! [`Kind`] is the complete list of what a value can be; no other crate looks at payloads.

pub mod kind;
pub mod string;

pub use kind::{Kind, Type, Values};

/// A key with its value, as the keyspace stores it.
pub type Record = weft_table::Record<Values>;

/// A shared borrow of a record in a table.
pub type RecordRef<'a> = weft_table::RecordRef<'a, Values>;

/// An exclusive borrow of a record in a table.
pub type RecordMut<'a> = weft_table::RecordMut<'a, Values>;
