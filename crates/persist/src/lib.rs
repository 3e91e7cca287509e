//! Values outside of memory.
//!
//! [`rdb`] writes and reads values as Valkey and Redis do: what DUMP and RESTORE exchange, and what
//! files and replication will consist of. Nothing here knows of files, sockets or keyspaces: bytes
//! become a record, and a record bytes.

pub mod rdb;
