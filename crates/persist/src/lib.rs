//! Serialized data and its storage.
//!
//! [`rdb`] writes and reads values in the format of Valkey and Redis, for DUMP, RESTORE, files and
//! replication. [`storage`] is the file system interface for saving and loading. This crate has no
//! sockets or keyspaces: it converts between bytes and records.

pub mod aof;
pub mod rdb;
pub mod storage;
