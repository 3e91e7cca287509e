//! The payload of FUNCTION DUMP and RESTORE, for the crates that know no format of files.

pub use weft_persist::rdb::file::{dump_functions as dump, restore_functions as restore};
