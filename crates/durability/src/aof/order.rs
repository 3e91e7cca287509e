//! Orders to the thread that writes the append-only file, and the result of a rewrite.

use std::io;
use std::sync::mpsc::SyncSender;
use weft_persist::aof::{self, SyncJob};

/// Orders to the writing thread.
pub enum Order {
    /// A sync has ended.
    Synced(SyncJob, io::Result<()>),
    /// Superfluous files were removed.
    Removed(Vec<aof::Entry>),
    /// A cut was made: units after it go to a new file. The reply comes when the file exists.
    Rotate { cut: Cut, done: SyncSender<Result<(), String>> },
    /// The result of that cut's rewrite: a file in the folder, or an error.
    Rebase { cut: Cut, base: Result<Base, String>, done: SyncSender<Result<(), String>> },
    /// A rewrite has failed at any step, so the next attempt waits longer.
    Failed(SyncSender<()>),
    /// The log is about to end: remove the mark of this process from the manifest, for good.
    Unmark(SyncSender<()>),
    /// Write and sync all units logged before this.
    Flush(SyncSender<()>),
    /// The log has ended: write and sync the rest, then exit.
    End(SyncSender<()>),
    /// Read the configuration.
    Look,
}

/// The position of a snapshot in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The number of its log in this process.
    pub log: u64,
    /// The last unit before it.
    pub unit: u64,
}

/// The position of a rewrite's cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    Log(Cut),
    /// After the end of the log of that number.
    After(u64),
}

/// The base that was written for a cut.
#[derive(Debug)]
pub struct Base {
    pub name: String,
    /// The file begins with a snapshot.
    pub snapshot: bool,
}
