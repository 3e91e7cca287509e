//! Decides how many I/O threads are active and on which CPUs threads run. No sockets and no
//! commands.
//!
//! * [`load`] - how busy the calling thread is, from the kernel's counters
//! * [`balance`] - from the loads of all threads to the number of active threads and moves of
//!   connections: a state machine without threads, clocks or sockets
//! * [`reason`] - why that number changes
//! * [`trial`] - measures whether another number of threads serves more
//! * [`placement`] - from CPU lists to affinity masks
//! * [`yielding`] - how background threads yield to threads that serve clients
//!
//! See `docs/design/active-threads.md`.

pub mod balance;
pub mod load;
pub mod placement;
pub mod reason;
pub mod trial;
pub mod yielding;
