//! The keyspace: keys divided into shards by hash slot, and the rules for accessing them.
//!
//! ```text
//! key ──CRC16──► hash slot ──mod SHARDS──► shard ── one lock, one table per logical database
//!  └──foldhash─► 64-bit hash ───────────────────► place in the table
//! ```
//!
//! * [`lock`] - one shard's lock; a busy shard parks the connection, never the thread
//! * [`safepoint`] - safepoints: stopping the world between commands
//! * [`wake_flag`] - a wake flag: waking a mailbox's reader once
//! * [`hold`] - what a thread holds, as a type; [`guard`]: several shards in ascending order, or
//!   all
//! * [`db`] - a logical database seen through a guard: find, set, remove, expire
//! * [`wait`], [`wait_queue`] - blocked clients: the state of one wait, and the wait queues by key
//! * [`effect`], [`commit`] - the changes of keys, and the one point that publishes them
//! * [`invalidation`] - invalidation messages for clients that cache keys
//! * [`notice`] - keyspace notifications
//! * [`log`] - one order of all changes, for persistence and replication
//! * [`access`] - the 24-bit access clock of a record, for LRU and LFU
//! * [`expiry`], [`evict`]: removal of expired and least useful keys in bounded steps
//! * [`snapshot`] - all keys of one moment, read while commands run
//! * `staged_data` - a data set that is loaded while another is served, and then replaces it
//! * `undo` - the changes of a script that must start over
//! * [`defrag`] - moves records together, in bounded steps
//! * [`context`] - the state that a thread executes commands with
//!
//! A record may only be accessed through a guard that holds its shard. This crate checks that on
//! every access, so that code above it can't break atomicity by mistake.

pub mod access;
mod background_threads;
pub mod commit;
pub mod context;
mod cut;
pub mod db;
pub mod defrag;
pub mod effect;
pub mod evict;
pub mod expiry;
pub mod generation;
pub mod guard;
pub mod hold;
pub mod interest;
pub mod invalidation;
pub mod keyspace;
mod lane_lock;
pub mod lock;
pub mod log;
pub mod moving;
pub mod moving_slots;
pub mod notice;
mod occupied;
mod old_records;
pub mod planted;
mod replica_expiry;
mod running;
pub mod safepoint;
pub mod snapshot;
mod staged_data;
mod sync;
mod tables;
mod undo;
pub mod wait;
pub mod wait_queue;
pub mod wake_flag;

pub use access::{Access, Policy};
pub use context::{Deletion, Deletions, ExecContext, Expired, Import, Rng, Tally};
pub use db::{Change, Db};
pub use guard::{Busy, Guard, ShardSet};
pub use hold::{GaveUp, Inside, Outside, SlowLaneThread, Stop};
pub use interest::Watch;
pub use keyspace::{Hasher, Key, Keyspace, SHARDS, Sums, shard_of};
pub use lock::Waiter;
pub use log::{Log, LogReader, ReaderId};
pub use moving_slots::CopyNumber;
pub use notice::Classes;
pub use staged_data::StagedData;
pub use undo::is_long_to_copy;
pub use weft_types::{Record, RecordRef};

/// The table of one shard and one logical database.
pub type Table = weft_table::Table<weft_types::Values, Hasher>;
