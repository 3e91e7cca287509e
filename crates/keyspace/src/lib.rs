//! The keyspace: keys cut into shards by hash slot, and the rules for touching them.
//!
//! ```text
//! key ──CRC16──► hash slot ──mod SHARDS──► shard ── one lock, one table per logical database
//!  └──foldhash─► 64-bit hash ───────────────────► place in the table
//! ```
//!
//! * [`lock`] - one shard's lock; a busy shard parks the connection, never the thread
//! * [`gate`] - stopping the world between commands; [`bell`]: waking a mailbox's reader once
//! * [`hold`] - what a thread holds, as a type; [`guard`]: several shards in ascending order, or all
//! * [`db`] - a logical database seen through a guard: find, set, remove, expire
//! * [`wait`], [`lines`] - clients that wait for keys: whose turn it is to act, and who is next
//! * [`effect`], [`commit`] - what became of keys, and the one point where others are told
//! * [`stale`] - who is told that values which clients have read are no longer so
//! * [`notice`] - what is said of it to those who listen to keyspace notifications
//! * [`log`] - one order of all changes, for those who write them down
//! * [`access`] - the 24-bit access clock of a record, for LRU and LFU
//! * [`expiry`], [`evict`]: removal of expired and least useful keys in bounded steps
//! * [`snapshot`] - all keys of one moment, read while commands go on
//! * `beside` - data that are loaded while others are served, and take their place
//! * [`defrag`] - moving records together, in bounded steps
//! * [`turn`] - what one thread carries along while it executes commands
//!
//! A record may only be reached through a guard that holds its shard; this crate checks that on
//! every access, so that code above it can't break atomicity by mistake.

pub mod access;
pub mod bell;
mod beside;
pub mod commit;
mod cut;
pub mod db;
pub mod defrag;
pub mod effect;
pub mod evict;
pub mod expiry;
pub mod gate;
pub mod guard;
pub mod hold;
pub mod interest;
pub mod keyspace;
pub mod lines;
pub mod lock;
pub mod log;
pub mod notice;
mod occupied;
mod replica_expiry;
mod running;
mod sleepers;
pub mod snapshot;
pub mod stale;
mod sync;
mod tables;
pub mod turn;
pub mod wait;

pub use access::{Access, Policy};
pub use beside::Beside;
pub use db::{Change, Db};
pub use guard::{Busy, Guard, ShardSet};
pub use hold::{Inside, Outside, SlowHand, Stop};
pub use interest::Watch;
pub use keyspace::{Hasher, Key, Keyspace, SHARDS, Sums};
pub use lock::Waiter;
pub use log::{Log, LogReader, ReaderId};
pub use notice::Classes;
pub use turn::{Deletion, Deletions, Expired, Import, Rng, Tally, Turn};
pub use weft_types::{Record, RecordRef};

/// The table of one shard and one logical database.
pub type Table = weft_table::Table<weft_types::Values, Hasher>;
