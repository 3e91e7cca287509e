//! Persistence: saves snapshots into files, and loads them.
//!
//! ```text
//!  BGSAVE, save points ─► begin: the cut, on the caller's thread ─► weft-save: walkers, writer
//!  SAVE, SHUTDOWN      ─► the same, and the caller waits for the end
//!  DEBUG RELOAD        ─► everything while the world is stopped
//!  the start           ─► weft-load: several threads; clients get LOADING errors
//! ```
//!
//! A save blocks no other client: it writes a snapshot of one moment ([`weft_keyspace::snapshot`])
//! with threads that hold a shard for microseconds at a time. There is one snapshot at a time.
//!
//! * [`save`] - writes a snapshot into a file; [`background`]: BGSAVE and SAVE
//! * [`points`] - save points
//! * [`load`] - loads a file into the keyspace; [`reload`]: DEBUG RELOAD
//! * [`check`] - `--check-rdb`

pub mod background;
pub mod check;
pub mod load;
pub mod points;
pub mod reload;
pub mod save;
