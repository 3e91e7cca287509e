//! The hash table of Weft, and the records in it.
//!
//! A key with its metadata and a small value is one heap block, a [`Record`]. A [`Table`] finds it
//! through one 8-byte slot. This crate contains the keyspace's unsafe code; everything above it is
//! safe.
//!
//! ```text
//!  Table (one cache line)
//!  ┌──────┬─────┬──────────┐
//!  │ root │ len │ expiring │ ...
//!  └──┬───┴─────┴──────────┘
//!     │  top bits of the hash
//!     ▼
//!  directory: words of 8 bytes, one per prefix
//!  ┌──────┬──────┬──────┬──────┐
//!  │  ●   │  ●   │  ●───┼─ ●   │        two prefixes may share a segment
//!  └──┬───┴──┬───┴──┬───┴──────┘
//!     ▼      ▼      ▼
//!  segments: 1 header line and 1 to 47 buckets
//!  ┌──────────────────────────┐
//!  │ header                   │
//!  │ slot slot slot ... slot  │  bucket 0     low 16 bits of the hash
//!  │ slot slot  ●   ... slot  │  bucket 1  ◄─ choose the home bucket
//!  └────────────┼─────────────┘
//!               │ h16, address, "has expiry"
//!               ▼
//!  record: ┌────────┬────────┬─────┬─────────┐
//!          │ header │ expiry │ key │ payload │
//!          └────────┴────────┴─────┴─────────┘
//! ```
//!
//! # Extendible hashing
//!
//! The directory and its splits are those of extendible hashing (Fagin, Nievergelt, Pippenger,
//! Strong: "Extendible hashing, a fast access method for dynamic files", ACM TODS 1979). Segments
//! of cache-line buckets with displacement into neighbours, and hash bits in the slots, follow Dash
//! (Lu, Hao, Wang, Lo: "Dash: scalable hashing on persistent memory", VLDB 2020). The difference: a
//! segment's number of buckets is not fixed but takes eleven steps from 1 to 47, so that tables of
//! a few keys are tiny, and the fill of a large table moves between about 72 and 80 percent instead
//! of dropping to a half whenever all its segments split at about the same time, which a good hash
//! makes them do.
//!
//! Its properties, at any size:
//!
//! - A lookup reads one directory word (usually cached: there is one for every 120 records), one
//!   bucket, one record. Of a hundred records about 93 are in their home bucket.
//! - The table adds 10.3 to 11.4 bytes per key, eight of which are the pointer (measured with 100
//!   thousand to 5 million keys).
//! - Growth and shrinkage happen in steps of a few hundred entries, completed at once. There is
//!   never a second table, nor a migration that lookups must consider.
//! - An empty table has no memory but itself.
//!
//! # Why not chained buckets
//!
//! Valkey's table is one array of 64-byte buckets of 7 pointers and 7 bytes of hash, chained to
//! further buckets when full. That too usually costs one miss for the bucket. But it grows by a
//! second array of twice the size, allocated at once, to which the entries move gradually.
//! Meanwhile both take memory, a lookup may have to search both, every operation moves some
//! entries, and each moved entry is read and hashed. Here only a split reads records, once for each
//! doubling, and prefetches all records of the step together. Following a chain of buckets costs
//! one miss after the other, while the next bucket of a segment is the next line. And 16 bits of
//! hash in the slot instead of 8 make reads of a wrong record 256 times rarer.
//!
//! # Threads
//!
//! A table has one user at a time, the holder of its shard's lock: see [`Table::exclusive`]. Other
//! threads may *plan* meanwhile, that is, prefetch the memory that they will need:
//! [`Table::plan_bucket`] and [`Table::plan_record`]. `table.rs` explains why that is sound.

mod borrow;
mod counter;
mod detached;
mod directory;
mod draft;
pub mod epoch;
mod groups;
mod layout;
mod ops;
mod prefetch;
mod random;
mod record;
mod resize;
mod scan;
mod segment;
mod slot;
mod stats;
mod table;
#[cfg(test)]
mod tests;
mod walk;

pub use borrow::{RecordMut, RecordRef};
pub use detached::Detached;
pub use groups::{GROUP_BITS, GROUPS, grouped};
pub use layout::{allocation_len, size_class};
pub use ops::{SlotMut, TableMut};
pub use prefetch::prefetch_read;
pub use record::{CLOCK_MAX, MARK, Owner, Record};
pub use scan::{CURSOR_END, Verdict, Which};
pub use stats::{DISPLACEMENTS, Stats};
pub use table::{KeyHasher, LINES, Table};
pub use walk::{POSITIONS, position};
