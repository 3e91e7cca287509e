//! Decides how many I/O threads are active and on which CPUs threads run. No sockets and no commands.
//!
//! * [`load`] - how busy the calling thread is, from the kernel's counters
//! * [`balance`] - from the load of all threads to a number of active threads and moves of connections: a
//!   state machine without threads, clocks or sockets; [`trial`]: measures whether another number pays
//! * [`placement`] - from CPU lists to affinity masks
//! * [`way`] - how background threads yield to threads that serve clients
//!
//! See `docs/design/active-threads.md`.

pub mod balance;
pub mod load;
pub mod placement;
pub mod trial;
pub mod way;
