//! The server: I/O threads, connections, dispatch, configuration, INFO.
//!
//! * [`io`] - from a readable socket to a written reply
//! * [`dispatch`] - from a request to its function
//! * [`commands`] - the commands that need the server rather than a key
//! * [`server`] - what all threads share; [`settings`]: the configuration as the fast path wants it
//! * [`mallctl`] - the allocator's switches; `counted`: another one, where a sanitizer watches
//! * [`memory`], [`eviction`], [`bio`]: the account of memory, keeping its limit, freeing
//! * [`tracking`]: clients that keep what they read; [`transaction`]: what MULTI queues; [`blocking`]: clients that wait for keys; [`slow`]: threads for long commands
//! * [`pubsub`] - channels, who listens to them, and how messages reach them
//! * [`holdings`] - what clients make the server hold; [`client_eviction`]: keeping them within `maxmemory-clients`
//! * [`clients`], [`monitor`], [`pause`], [`commandlog`], [`latency`], [`stats`]: what INFO,
//!   CLIENT, SLOWLOG and their like are about
//! * [`aof`] - the append-only file
//! * [`persistence`] - snapshots in files, and loading them
//! * [`replication`] - replicas of ours, and our primary
//! * [`info`] - INFO, and what CONFIG RESETSTAT sets back
//! * [`defrag`] - `activedefrag`
//! * [`watchdog`] - where threads are that take too long
//! * [`announce`] - banner, title and listeners, for those who look from outside
//! * [`listening`] - opening and changing the sockets that clients connect to
//! * [`restart`] - the program in its own place: DEBUG RESTART
//! * `stopping` - who has asked the server to end, and how far that is
//! * [`start`] - from the command line to running threads; `failure`: where it is told that there are none

/// Of the server, as its users see it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The first eight digits of the commit that this was built from; zeros if the build did not know it.
pub const COMMIT: &str = env!("WEFT_COMMIT");

pub mod announce;
pub mod answers;
pub mod aof;
pub mod bio;
pub mod blocking;
pub mod client_eviction;
pub mod clients;
pub mod commandlog;
pub mod commands;
pub mod defrag;
pub mod defrag_state;
pub mod dispatch;
pub mod eviction;
mod failure;
pub mod holdings;
pub mod info;
pub mod io;
pub mod latency;
pub mod listening;
pub mod monitor;
pub mod notify;
pub mod pause;
pub mod persistence;
pub mod pubsub;
pub mod redact;
pub mod replication;
pub mod restart;
pub mod server;
pub mod settings;
pub mod slow;
pub mod start;
pub mod stats;
mod stopping;
pub mod texts;
pub mod threads;
pub mod tracking;
pub mod transaction;
pub mod watchdog;
pub mod work;
