//! Snapshots in RDB files, and loading them.
//!
//! ```text
//!  BGSAVE, save points ─► begin: the cut, on the caller's thread ─► weft-save: walkers, writer
//!  SAVE, SHUTDOWN      ─► the same, and the caller waits for the end
//!  DEBUG RELOAD        ─► everything while the world is stopped
//!  the start           ─► weft-load: several threads; clients are told that the server is LOADING
//! ```
//!
//! A save delays no client: it is a snapshot of one moment ([`weft_keyspace::snapshot`]), written by threads
//! that hold a shard for microseconds at a time. There is one at a time.
//!
//! * [`save`] - from a snapshot to a file; [`background`]: BGSAVE and its like
//! * [`points`] - save points
//! * [`load`] - from a file to the keyspace; [`reload`]: DEBUG RELOAD
//! * [`check`] - `--check-rdb`

pub mod background;
pub mod check;
pub mod load;
pub mod points;
pub mod reload;
pub mod save;
