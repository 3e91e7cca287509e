//! Values outside of memory.
//!
//! [`rdb`] writes and reads values as Valkey and Redis do: what DUMP and RESTORE exchange, and what
//! files and replication will consist of. [`storage`] is what saving and loading ask of a file
//! system. Nothing here knows of sockets or keyspaces: bytes become a record, and a record bytes.

pub mod aof;
pub mod rdb;
pub mod storage;
