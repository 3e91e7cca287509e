//! From a readable socket to a written reply: the I/O threads.
//!
//! * [`worker`] - the event loop of one thread
//! * [`read`] - bytes to planned requests; [`write`]: replies to the socket
//! * [`look`] - whether a thread polls once more before it sleeps; [`cron`]: regular work of a thread
//! * [`threads`] - the life of a thread

pub mod cron;
pub mod look;
pub mod read;
pub mod threads;
pub mod worker;
pub mod write;
