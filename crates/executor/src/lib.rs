//! From a planned request to its reply, on any thread: I/O threads, the slow lane, log loading, a replica.
//!
//! * [`dispatch`] - admission, shards, the call, effects on other clients, the reply
//! * [`batch`] - the requests of one iteration of the event loop
//! * [`transaction`] - EXEC; [`work`]: estimates of how long a command takes; [`slow`]: threads for long commands
//! * [`blocking`] - clients that are blocked on keys; [`snapshot_waits`]: writes that wait for a snapshot
//! * [`pubsub`], [`tracking`], [`notify`], [`monitor`] - messages to other clients about a command
//! * [`end_client`] - CLIENT KILL and `maxmemory-clients`
//! * [`eviction`], [`defrag`] - the memory limit, and defragmentation

pub mod access;
pub mod authority;
pub mod batch;
pub mod blocking;
pub mod cluster;
pub mod defrag;
pub mod dispatch;
pub mod end_client;
pub mod eviction;
pub mod monitor;
pub mod notify;
pub mod pubsub;
pub mod script;
pub mod slow;
pub mod snapshot_waits;
pub mod tracking;
pub mod transaction;
pub mod work;
