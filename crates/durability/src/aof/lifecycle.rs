//! The state machine of the append-only file.
//!
//! ```text
//!         ┌──── load ───► Loading ─┐
//!         │                        │ begin
//!  log   Off ─── begin ─────────► Opening ─── opened ───► On ─── end_log ───► Ending
//!         ▲                        │                                            │
//!         └────── end_log ─────────┴──────────────── ended ─────────────────────┘
//!
//!  rewrite   Idle ─ request ─► Scheduled ◄─► Starting ─ cut ─► Running ─► Concluding ─ over ─► Idle
//! ```
//!
//! | part of `On` | states | leave the second one by |
//! |---|---|---|
//! | [`Files`] | `Complete`, `AwaitBase`: switched on, or a new file after a doubtful one | `rebased` |
//! | [`Disk`] | `Well`, `WriteFailed` | `recovered`: a write has succeeded |
//! | | `SyncFailed`: written data may not be on disk, and no later sync can ensure it | `recovered` after `rebased` |
//! | [`Data`] | `Logged`, `Dropped` for a full sync that has not arrived | a new log |
//! | `is_stale` | set when the data was replaced without the log | `next_switch`: off and on again |
//!
//! A rewrite also runs while the log is off; then its cut is [`At::After`] the last log. It can end
//! in any state, so nothing needs an undo: until `rebased`, the previous files are in force.
//!
//! This file has no threads, files or clock. The drivers report events, and act on the return
//! values. One mutex protects the machine; its holders take no other lock. `R` is the reader of the
//! effect log, `H` the channel to the writing thread.

use crate::aof::order::{At, Cut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The log.
#[derive(Debug)]
enum Log<R, H> {
    Off,
    /// The start of the server reads the files. The log begins after them.
    Loading,
    /// Effects are logged. The writing thread is about to start.
    Opening(Begun<R>),
    On(Begun<R>, Writing<H>),
    /// No more effects are logged. The writing thread writes the rest.
    Ending(Writing<H>),
}

/// A log since its begin.
#[derive(Debug)]
struct Begun<R> {
    reader: R,
    data: Data,
    /// The keyspace no longer matches the log: it must end, and restart if it is still wanted.
    is_stale: bool,
}

/// The data of the keyspace, compared with the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Data {
    Logged,
    /// Dropped for a full sync that has not arrived. The files stay as they are, so that the server
    /// can load them if it restarts.
    Dropped,
}

/// A log with its writing thread.
#[derive(Debug)]
struct Writing<H> {
    to: H,
    files: Files,
    disk: Disk,
    /// A thread syncs the file.
    is_syncing: bool,
}

/// The files of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// A start would load all of the log.
    Complete,
    /// The last file is in no manifest, and takes effect with the next base. Until then a start
    /// loads the files before it.
    AwaitBase,
}

/// The last results of the disk. While there is an error, writes are refused.
#[derive(Debug, PartialEq, Eq)]
enum Disk {
    Well,
    WriteFailed(String),
    /// Only a rewrite helps.
    SyncFailed(String),
}

/// The rewrite.
#[derive(Debug)]
enum Rewrite {
    Idle,
    /// Waits for the end of a snapshot or transaction.
    Scheduled(Arc<AtomicBool>),
    /// Its thread takes the snapshot next.
    Starting(Arc<AtomicBool>),
    Running(Running),
    /// Its result is known. A failure is counted before the next one may begin.
    Concluding,
}

/// A rewrite that has taken its cut.
#[derive(Debug)]
struct Running {
    cancel: Arc<AtomicBool>,
    at: At,
    began_s: i64,
    /// The result of creating the file for units after the cut; `None` until it exists.
    next_file: Option<Result<(), String>>,
}

/// The reason why a rewrite has not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A rewrite is already running.
    Busy,
    /// The thread can't be created.
    Failed,
}

/// The reply to a request for a rewrite.
#[derive(Debug)]
pub enum Requested {
    /// A new rewrite, with its cancel flag.
    New { cancel: Arc<AtomicBool>, is_scheduled: bool },
    /// A scheduled rewrite serves this request, too.
    Served,
}

/// How a rewrite ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Succeeded,
    /// Its log has ended, or the server stops. This does not mean that the disk has failed.
    Cancelled,
    Failed,
}

/// The next step towards the configured state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switching {
    TurnOn,
    TurnOff,
    Done,
}

/// The fields of INFO that follow from the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    pub enabled: bool,
    /// From the reply to BGREWRITEAOF on, even if the rewrite starts a little later.
    pub rewriting: bool,
    pub scheduled: bool,
    /// The Unix time at which the running rewrite began; 0: it has not begun, or has ended.
    pub rewrite_began_s: i64,
    pub last_rewrite_failed: bool,
    /// The duration of the last rewrite; -1: none has ended.
    pub last_rewrite_s: i64,
    pub write_failed: bool,
    pub syncing: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Lifecycle<R, H> {
    log: Log<R, H>,
    /// The number of logs begun.
    logs: u64,
    rewrite: Rewrite,
    /// The value of `appendonly`.
    wanted: bool,
    last_rewrite_failed: bool,
    last_rewrite_s: i64,
}

impl<R, H> Default for Lifecycle<R, H> {
    fn default() -> Self {
        Lifecycle {
            log: Log::Off,
            logs: 0,
            rewrite: Rewrite::Idle,
            wanted: false,
            last_rewrite_failed: false,
            last_rewrite_s: -1,
        }
    }
}

/// The log begins and ends.
impl<R: Copy, H> Lifecycle<R, H> {
    /// The server starts with a log.
    pub fn load(&mut self) {
        debug_assert!(matches!(self.log, Log::Off), "before anything else");
        self.wanted = true;
        self.log = Log::Loading;
    }

    /// Records the value of `appendonly`. [`Lifecycle::next_switch`] applies it.
    pub fn want(&mut self, wanted: bool) {
        self.wanted = wanted;
    }

    /// The step that the thread that switches the log must take now.
    pub fn next_switch(&self) -> Switching {
        match &self.log {
            Log::Off if self.wanted => Switching::TurnOn,
            Log::On(begun, _) if begun.is_stale || !self.wanted => Switching::TurnOff,
            Log::Off | Log::Loading | Log::Opening(_) | Log::On(..) | Log::Ending(_) => {
                Switching::Done
            }
        }
    }

    /// The log is about to be switched on.
    pub fn turn_on(&mut self) {
        // An earlier failure does not apply to this log.
        self.last_rewrite_failed = false;
    }

    /// Effects are logged from here on; the world is stopped. A cut of an earlier log does not
    /// apply to this one.
    pub fn begin(&mut self, reader: R) {
        debug_assert!(matches!(self.log, Log::Off | Log::Loading), "one log at a time");
        self.logs += 1;
        self.log = Log::Opening(Begun { reader, data: Data::Logged, is_stale: false });
        self.cancel_useless();
    }

    /// The writing thread has started.
    pub fn opened(&mut self, to: H, files: Files) {
        let Log::Opening(begun) = std::mem::replace(&mut self.log, Log::Off) else {
            debug_assert!(false, "the log has begun");
            return;
        };
        let writing = Writing { to, files, disk: Disk::Well, is_syncing: false };
        self.log = Log::On(begun, writing);
    }

    /// No more effects are logged; the world is stopped. Returns the reader, which the caller must
    /// end. A rewrite with a cut in this log is cancelled.
    pub fn end_log(&mut self) -> Option<R> {
        let (log, reader) = match std::mem::replace(&mut self.log, Log::Off) {
            // The writing thread could not start.
            Log::Opening(begun) => (Log::Off, Some(begun.reader)),
            Log::On(begun, writing) => (Log::Ending(writing), Some(begun.reader)),
            log @ (Log::Off | Log::Loading | Log::Ending(_)) => (log, None),
        };
        self.log = log;
        if reader.is_some() {
            self.cancel_useless();
        }
        reader
    }

    /// The writing thread has ended.
    pub fn ended(&mut self) {
        debug_assert!(matches!(self.log, Log::Ending(_)), "the log has ended before");
        self.log = Log::Off;
    }

    /// The keyspace no longer matches the log. A log that begins later does.
    pub fn replace_data(&mut self) {
        if let Log::Opening(begun) | Log::On(begun, _) = &mut self.log {
            begun.is_stale = true;
        }
    }

    /// See [`Data::Dropped`]. Nothing may be logged after the files, except the stream of a
    /// primary, which a full sync precedes.
    pub fn drop_data(&mut self) {
        if let Log::Opening(begun) | Log::On(begun, _) = &mut self.log {
            begun.data = Data::Dropped;
        }
    }

    /// Whether the files have more data than the keyspace.
    pub fn is_data_dropped(&self) -> bool {
        self.begun().is_some_and(|begun| begun.data == Data::Dropped)
    }

    fn begun(&self) -> Option<&Begun<R>> {
        match &self.log {
            Log::Opening(begun) | Log::On(begun, _) => Some(begun),
            Log::Off | Log::Loading | Log::Ending(_) => None,
        }
    }

    fn writing(&self) -> Option<&Writing<H>> {
        match &self.log {
            Log::On(_, writing) | Log::Ending(writing) => Some(writing),
            Log::Off | Log::Loading | Log::Opening(_) => None,
        }
    }

    fn writing_mut(&mut self) -> Option<&mut Writing<H>> {
        match &mut self.log {
            Log::On(_, writing) | Log::Ending(writing) => Some(writing),
            Log::Off | Log::Loading | Log::Opening(_) => None,
        }
    }

    /// The reader of the log, while effects are logged.
    pub fn reader(&self) -> Option<R> {
        self.begun().map(|begun| begun.reader)
    }

    /// The channel to the writing thread, if there is one.
    pub fn writer(&self) -> Option<&H> {
        self.writing().map(|writing| &writing.to)
    }

    /// Whether there is a writing thread.
    pub fn is_on(&self) -> bool {
        self.writing().is_some()
    }

    /// Whether the log of that number waits for its writing thread.
    pub fn is_opening(&self, number: u64) -> bool {
        matches!(self.log, Log::Opening(_)) && self.logs == number
    }

    /// Whether the log's state matches the configuration.
    pub fn is_switched(&self) -> bool {
        self.is_on() == self.wanted
    }

    /// The number of the last log begun.
    pub fn number(&self) -> u64 {
        self.logs
    }
}

/// The disk.
impl<R: Copy, H> Lifecycle<R, H> {
    /// A write has failed. Returns whether this is the first failure.
    pub fn write_failed(&mut self, error: String) -> bool {
        let Some(writing) = self.writing_mut() else { return false };
        let (disk, is_first) = match &writing.disk {
            Disk::Well => (Disk::WriteFailed(error), true),
            Disk::WriteFailed(_) => (Disk::WriteFailed(error), false),
            Disk::SyncFailed(_) => (Disk::SyncFailed(error), false),
        };
        writing.disk = disk;
        is_first
    }

    /// A sync has failed. Returns whether this is the first failure.
    pub fn sync_failed(&mut self, error: String) -> bool {
        let Some(writing) = self.writing_mut() else { return false };
        std::mem::replace(&mut writing.disk, Disk::SyncFailed(error)) == Disk::Well
    }

    /// A write has succeeded, and no file is doubtful. Returns whether the disk was failing.
    pub fn recovered(&mut self) -> bool {
        let Some(writing) = self.writing_mut() else { return false };
        std::mem::replace(&mut writing.disk, Disk::Well) != Disk::Well
    }

    /// The error that prevents writes.
    pub fn error(&self) -> Option<&str> {
        match &self.writing()?.disk {
            Disk::Well => None,
            Disk::WriteFailed(error) | Disk::SyncFailed(error) => Some(error),
        }
    }

    /// A thread begins or ends a sync.
    pub fn set_syncing(&mut self, is_syncing: bool) {
        if let Some(writing) = self.writing_mut() {
            writing.is_syncing = is_syncing;
        }
    }

    /// Whether the log has no base yet: the next start ignores it until a rewrite succeeds.
    pub fn waits_for_base(&self) -> bool {
        matches!(&self.log, Log::On(_, writing) if writing.files == Files::AwaitBase)
    }
}

/// Rewrites.
impl<R: Copy, H> Lifecycle<R, H> {
    /// Requests a rewrite. `waits`: a snapshot or transaction must end first. `is_ending`: the last
    /// save needs the only snapshot.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn request(&mut self, waits: bool, is_ending: bool) -> Result<Requested, Refusal> {
        match &self.rewrite {
            Rewrite::Idle if is_ending => Err(Refusal::Busy),
            Rewrite::Idle => {
                let cancel = Arc::new(AtomicBool::new(false));
                let state = if waits { Rewrite::Scheduled } else { Rewrite::Starting };
                self.rewrite = state(cancel.clone());
                Ok(Requested::New { cancel, is_scheduled: waits })
            }
            Rewrite::Scheduled(_) => Ok(Requested::Served),
            Rewrite::Starting(_) | Rewrite::Running(_) | Rewrite::Concluding => Err(Refusal::Busy),
        }
    }

    /// The rewrite waits for a running snapshot, or no longer does.
    pub fn set_scheduled(&mut self, is_scheduled: bool) {
        if let Rewrite::Scheduled(cancel) | Rewrite::Starting(cancel) = &self.rewrite {
            let state = if is_scheduled { Rewrite::Scheduled } else { Rewrite::Starting };
            self.rewrite = state(cancel.clone());
        }
    }

    /// The rewrite takes its cut after `unit`; the world is stopped. Returns its position.
    pub fn cut(&mut self, unit: u64, now_s: i64) -> At {
        let at = match self.begun() {
            Some(_) => At::Log(Cut { log: self.logs, unit }),
            None => At::After(self.logs),
        };
        if let Rewrite::Scheduled(cancel) | Rewrite::Starting(cancel) = &self.rewrite {
            let cancel = cancel.clone();
            let began_s = now_s.max(1);
            self.rewrite = Rewrite::Running(Running { cancel, at, began_s, next_file: None });
        } else {
            debug_assert!(false, "one cut for each rewrite");
        }
        at
    }

    /// The writing thread has created the file for units after `unit`, or has failed to. No rewrite
    /// needs it if the one with that cut has ended.
    pub fn rotated(&mut self, unit: u64, came: Result<(), String>, files: Files) {
        if let Some(writing) = self.writing_mut() {
            writing.files = files;
        }
        let log = self.logs;
        if let Rewrite::Running(running) = &mut self.rewrite
            && running.at == At::Log(Cut { log, unit })
        {
            running.next_file = Some(came);
        }
    }

    /// Whether [`Lifecycle::rotated`] was called for the running rewrite's cut after `unit`.
    pub fn is_rotated(&self, unit: u64) -> bool {
        let at = At::Log(Cut { log: self.logs, unit });
        matches!(&self.rewrite, Rewrite::Running(running)
            if running.at == at && running.next_file.is_some())
    }

    /// The result for the rewrite whose cut is after `unit`.
    pub fn take_rotated(&mut self, unit: u64) -> Option<Result<(), String>> {
        let log = self.logs;
        match &mut self.rewrite {
            Rewrite::Running(running) if running.at == At::Log(Cut { log, unit }) => {
                running.next_file.take()
            }
            Rewrite::Idle
            | Rewrite::Scheduled(_)
            | Rewrite::Starting(_)
            | Rewrite::Running(_)
            | Rewrite::Concluding => None,
        }
    }

    /// A base was put into force.
    pub fn rebased(&mut self, files: Files) {
        if let Some(writing) = self.writing_mut() {
            writing.files = files;
        }
    }

    /// Whether a base with a cut at that position may be put into force while the log is off. A log
    /// that has begun meanwhile has read the manifest already.
    pub fn is_still_after(&self, at: At) -> bool {
        at == At::After(self.logs)
    }

    /// The rewrite has ended so, after that time in seconds.
    pub fn conclude(&mut self, outcome: Outcome, seconds: i64) {
        debug_assert!(self.is_rewriting(), "a rewrite has begun");
        self.last_rewrite_s = seconds;
        match outcome {
            Outcome::Succeeded => self.last_rewrite_failed = false,
            Outcome::Cancelled => {}
            Outcome::Failed => self.last_rewrite_failed = true,
        }
        self.rewrite = Rewrite::Concluding;
    }

    /// The rewrite's thread ends.
    pub fn over(&mut self) {
        debug_assert!(matches!(self.rewrite, Rewrite::Concluding), "its result is known");
        self.rewrite = Rewrite::Idle;
    }

    /// The rewrite's thread could not start.
    pub fn not_started(&mut self) {
        self.last_rewrite_failed = true;
        self.rewrite = Rewrite::Idle;
    }

    /// Cancels the rewrite.
    pub fn cancel_rewrite(&self) {
        match &self.rewrite {
            Rewrite::Scheduled(cancel)
            | Rewrite::Starting(cancel)
            | Rewrite::Running(Running { cancel, .. }) => cancel.store(true, Ordering::Relaxed),
            Rewrite::Idle | Rewrite::Concluding => {}
        }
    }

    /// Cancels a rewrite whose base can't be put into force any more.
    fn cancel_useless(&self) {
        if let Rewrite::Running(running) = &self.rewrite {
            let is_useful = match running.at {
                At::Log(cut) => self.begun().is_some() && cut.log == self.logs,
                at @ At::After(_) => self.is_still_after(at),
            };
            if !is_useful {
                self.cancel_rewrite();
            }
        }
    }

    /// Whether a rewrite has begun, even if it waits for a snapshot.
    pub fn is_rewriting(&self) -> bool {
        !matches!(self.rewrite, Rewrite::Idle)
    }

    /// Whether a rewrite has begun and does not wait for a snapshot.
    pub fn has_cut(&self) -> bool {
        self.is_rewriting() && !matches!(self.rewrite, Rewrite::Scheduled(_))
    }

    /// Whether the last rewrite has failed, and none is running.
    pub fn has_rewrite_failed(&self) -> bool {
        !self.is_rewriting() && self.last_rewrite_failed
    }

    pub fn info(&self) -> Info {
        Info {
            enabled: self.is_on(),
            rewriting: self.has_cut(),
            scheduled: matches!(self.rewrite, Rewrite::Scheduled(_)),
            rewrite_began_s: match &self.rewrite {
                Rewrite::Running(running) => running.began_s,
                Rewrite::Idle
                | Rewrite::Scheduled(_)
                | Rewrite::Starting(_)
                | Rewrite::Concluding => 0,
            },
            last_rewrite_failed: self.last_rewrite_failed,
            last_rewrite_s: self.last_rewrite_s,
            write_failed: self.error().is_some(),
            syncing: self.writing().is_some_and(|writing| writing.is_syncing),
        }
    }
}

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
mod tests;
