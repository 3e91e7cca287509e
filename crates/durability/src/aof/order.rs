//! What the thread that writes the append-only file is told, and by what a rewrite hands its result over.

use std::io;
use std::sync::mpsc::SyncSender;
use weft_persist::aof::{self, SyncJob};

/// What the thread is told.
pub enum Order {
    /// A sync has ended.
    Synced(SyncJob, io::Result<()>),
    /// Superfluous files were removed.
    Removed(Vec<aof::Entry>),
    /// A cut was made: what comes behind it goes to a new file. The answer comes when that is so.
    Rotate { cut: Cut, done: SyncSender<Result<(), String>> },
    /// The image of that cut is in this file of the folder; or there is none.
    Rebase { cut: Cut, base: Result<Base, String>, done: SyncSender<Result<(), String>> },
    /// A rewrite has failed, wherever that was: the next one waits longer.
    Failed(SyncSender<()>),
    /// Write and sync all that was logged before this.
    Flush(SyncSender<()>),
    /// The log has ended: write and sync the rest, and end.
    End(SyncSender<()>),
    /// Look at the configuration.
    Look,
}

/// Where a snapshot is in the order of what is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Which of the logs of this process: see [`crate::aof::Aof::begin_log`].
    pub log: u64,
    /// The last unit in front of it.
    pub unit: u64,
}

/// The image of a cut.
#[derive(Debug)]
pub struct Base {
    pub name: String,
    /// It begins with a snapshot.
    pub snapshot: bool,
}
