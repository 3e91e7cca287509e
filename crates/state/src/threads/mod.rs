//! The number of I/O threads, the number of those that own connections, and where they run.
//!
//! ```text
//!  configured   io-threads: the most that may be used; CONFIG SET changes it
//!  active       those that own connections now: 0..active; follows the load
//!  started      those that exist; threads that are not active sleep in the kernel
//! ```
//!
//! * [`pool`] - the slots of the threads: counters and mailboxes, filled when a thread is started
//! * [`changes`] - the latest changes of the number of active threads, with their reasons
//! * `weft_scheduler::load` - the load of the calling thread, as the kernel measures it
//! * `weft_scheduler::balance` - computes the number of active threads and the moves between them from the loads; a
//!   state machine without threads, clocks or sockets; `trial`: whether another number pays
//! * `weft_admin::active_threads` - runs on the first thread: reads the loads, asks `balance`, sends the messages
//! * `weft_scheduler::placement` - CPU lists to affinity masks
//! * `weft_admin::threads` - starts threads, and changes their number
//! * `weft_scheduler::yielding` - how background threads share the CPUs with them
//!
//! `weft_io::worker` moves connections. Reasons: `docs/design/active-threads.md`.

pub mod changes;
pub mod pool;

pub use pool::{MAX_IO_THREADS, Pool};
