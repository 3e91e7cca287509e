//! The value types and their encodings.
//!
//! A [`Record`] (see `weft-table`) has a one-byte kind and an opaque payload. This crate defines
//! the kinds, frees the objects that payloads point to, and implements the operations of each type.
//! The kind names both type and encoding, so an exhaustive match over [`Kind`] covers every
//! possible value. No other crate reads payloads.
//!
//! A small collection is *packed* in its key's record ([`packed`]). A large one is a separate
//! structure that the record points to, made of chunks of bounded size. So no step of its growth or
//! of a snapshot is proportional to its size. [`Limits`] decide when a collection changes from one
//! to the other.

mod boxed;
mod counted;
pub mod dict;
pub mod hash;
pub mod hyperloglog;
pub mod kind;
mod limits;
pub mod list;
pub mod packed;
pub mod set;
mod shared;
pub mod stream;
pub mod string;
pub mod value;
pub mod zset;

pub use counted::{AllocateCopy, allocate_copies_by};
pub use kind::{Kind, Type, Values};
pub use limits::{Limits, TEXT_MAX};
pub use shared::Shared;

/// A key with its value, as the keyspace stores it.
pub type Record = weft_table::Record<Values>;

/// A shared borrow of a record in a table.
pub type RecordRef<'a> = weft_table::RecordRef<'a, Values>;

/// An exclusive borrow of a record in a table.
pub type RecordMut<'a> = weft_table::RecordMut<'a, Values>;
