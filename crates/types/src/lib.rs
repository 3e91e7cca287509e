//! The value types and their encodings.
//!
//! A [`Record`] (see `weft-table`) carries a one-byte kind and an opaque payload; this crate
//! says what the kinds mean, frees what a payload points to, and gives each type its
//! operations. The kind names both the type and the encoding, so one exhaustive match over
//! [`Kind`] is the complete list of what a value can be; no other crate looks at payloads.
//!
//! A small collection is *packed* in its key's record ([`packed`]); a large one is a structure of
//! its own behind a pointer, made of chunks of bounded size, so that no step of its growth, and
//! no step of a snapshot, is proportional to the whole. When it moves from one to the other is
//! told by [`Limits`].

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
