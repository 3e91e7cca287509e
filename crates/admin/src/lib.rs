//! Commands on the server and on connections, INFO, and the rare events that operators cause.
//!
//! * [`commands`] - CONFIG, CLIENT, DEBUG, COMMAND and all others that are not about keys; the command table
//! * [`info`] - INFO
//! * [`announce`] - banner, process title, listeners
//! * [`client_eviction`] - `maxmemory-clients`
//! * [`stopping`], [`stop`], [`restart`] - SHUTDOWN, signals, DEBUG RESTART
//! * [`threads`] - starting I/O threads, and changing their number; [`active_threads`]: how many of them are
//!   active; [`watchdog`]: threads that do not respond

pub mod active_threads;
pub mod announce;
pub mod client_eviction;
pub mod commands;
pub mod info;
pub mod restart;
pub mod stop;
pub mod stopping;
pub mod threads;
pub mod watchdog;
