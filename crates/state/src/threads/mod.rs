//! How many I/O threads there are, how many of them have connections, and where they run.
//!
//! ```text
//!  configured   io-threads: how many may be used; changes by CONFIG SET
//!  active       how many of those own connections now: 0..active; follows the load
//!  started      how many exist; those that are not active sleep in the kernel
//! ```
//!
//! * [`pool`] - the threads' places: counters and mailboxes, filled when a thread is started
//! * [`load`] - how busy the calling thread is, as the kernel counts it
//! * [`balance`] - from everybody's load to a number of active threads and moves between them; a
//!   state machine without threads, clocks or sockets; [`trial`]: whether another number pays
//! * [`control`] - the first thread's part: reads the loads, asks [`balance`], sends the messages
//! * [`placement`] - CPU lists to affinity masks
//! * [`run`] - starting threads, and changing their number
//! * [`way`] - how those that nobody waits for work beside them
//!
//! How a connection moves is in [`weft_io::worker`]. Why it is done so:
//! `docs/design/active-threads.md`.

pub mod pool;

pub use pool::{MAX_IO_THREADS, Pool};
