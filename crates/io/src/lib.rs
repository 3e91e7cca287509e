//! The I/O threads: from a readable socket to a written reply.
//!
//! * [`worker`] - the event loop of one thread
//! * [`read`] - bytes to planned requests; `write`: replies to the socket
//! * [`look`] - polling once more before sleeping; [`cron`]: periodic work of a thread
//! * [`threads`] - running a thread

pub mod cron;
pub mod look;
pub mod read;
pub mod threads;
pub mod worker;
pub mod write;
