//! Commands for the server and for connections, INFO, and rare operations such as shutdown.
//!
//! * [`commands`] - CONFIG, CLIENT, DEBUG, COMMAND and all others that don't access keys; the
//!   command table
//! * [`info`] - INFO
//! * [`announce`] - banner, process title, listeners
//! * [`client_eviction`] - `maxmemory-clients`
//! * [`stopping`], [`stop`], [`restart`] - SHUTDOWN, signals, DEBUG RESTART
//! * [`tls`] - certificates and keys
//! * [`threads`] - starting I/O threads, and changing their number; [`active_threads`]: the number
//!   of active threads; [`watchdog`]: detecting threads that stall

pub mod active_threads;
pub mod announce;
pub mod client_eviction;
pub mod cluster;
pub mod commands;
pub mod info;
pub mod restart;
pub mod stop;
pub mod stopping;
pub mod threads;
pub mod tls;
pub mod watchdog;
