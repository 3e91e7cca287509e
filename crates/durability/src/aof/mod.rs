//! The append-only file: the server's part of [`weft_persist::aof`].
//!
//! ```text
//!  I/O threads ─► effect log ─► weft-aof: write ─┬─ always: sync ─► replies are released
//!      ▲                              ▲          └─ everysec ─► weft-aof-sync
//!      └── withheld replies ──────────┘ rotate at the cut
//!                                     ▲
//!  BGREWRITEAOF ─► weft-aof-rewrite: snapshot ─► base
//! ```
//!
//! * this file: the state that all threads share, and the channel to the writing thread
//! * [`writer`] - the thread that writes; `weft_state::aof_policy`: the configuration
//! * [`gather`] - how long it lets units gather before it writes
//! * [`rewrite`] - the thread of a rewrite; [`base`]: the file that it writes
//! * [`load`] - loading at the start, and DEBUG LOADAOF
//! * [`check`] - `--check-aof`; [`lock`]: one process writes a set of files
//! * [`status`] - the fields of INFO
//!
//! A reply is withheld while its units of the log are above the bound ([`Bound::Disk`]). Under
//! `always`, the bound is the last synced unit. Under the other policies there is no bound, unless
//! so much data waits to be written that writing clients must wait for the disk.

pub mod base;
pub mod check;
pub mod gather;
pub mod load;
pub mod lock;
pub mod order;
pub mod rewrite;
pub mod start;
pub mod status;
pub mod writer;

use crate::aof::lock::Locks;
use crate::aof::order::Order;
use crate::aof::status::Status;
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::Thread;
use weft_config::{Config, Id};
use weft_executor::blocking;
use weft_keyspace::ReaderId;
use weft_persist::aof::Directory;
use weft_persist::storage::Disk;
use weft_resp::Reply;
use weft_state::answers::{Bound, NONE};
use weft_state::aof_policy;
use weft_state::mailbox::Message;
use weft_state::server::{Journal, Server};
use weft_state::waiting::WaitMessage;
use weft_state::waiting::Waiting;

/// Bytes that may wait to be written before replies are withheld.
pub const CROWDED: u64 = 64 << 20;

/// The append-only file of `srv`.
///
/// # Panics
/// If the server was built without one.
pub fn aof(srv: &Server) -> &Aof {
    let any: &dyn Any = &*srv.links.journal;
    any.downcast_ref().expect("the append-only file")
}

/// Sets `appendonly` to no in the configuration. Called when the log can't begin and no client
/// waits for the result.
pub type StayOff = fn(&'static Server, &Switch<'_>);

/// See the module.
pub struct Aof {
    pub stay_off: StayOff,
    /// All units up to here are in the file.
    written: AtomicU64,
    /// All units up to here are on disk.
    durable: AtomicU64,
    /// Units above this number belong to the next file. Written while the world is stopped.
    cut: AtomicU64,
    /// The number of logs begun, and the reader of the last log until it ends. Written while the
    /// world is stopped.
    logs: AtomicU64,
    reader: Mutex<Option<ReaderId>>,
    writer: Mutex<Option<Handle>>,
    /// Clients that wait until a unit is on disk, and whether there are any.
    waits: Mutex<Vec<(u64, Arc<Waiting>)>>,
    has_waits: AtomicBool,
    /// The configured state, and the lock of the thread that applies it: see [`Aof::switch`].
    wanted: AtomicBool,
    switch: Mutex<()>,
    /// The log must end, and restart if it is still wanted.
    is_stale: AtomicBool,
    /// The data of the files was dropped for a full sync that has not arrived.
    is_of_gone: AtomicBool,
    /// A rewrite is under way.
    rewriting: AtomicBool,
    /// Cancels the rewrite.
    cancel: Mutex<Option<Arc<AtomicBool>>>,
    pub status: Status,
    pub locks: Locks,
}

/// See [`Aof::switch`].
pub type Switch<'a> = MutexGuard<'a, ()>;

/// The channel to the writing thread.
#[derive(Clone)]
struct Handle {
    to: Sender<Order>,
    thread: Thread,
}

impl Handle {
    fn order(&self, order: Order) -> bool {
        let told = self.to.send(order).is_ok();
        self.thread.unpark();
        told
    }

    fn ask<T>(&self, order: impl FnOnce(SyncSender<T>) -> Order) -> Option<T> {
        let (to, from) = sync_channel(1);
        if self.order(order(to)) { from.recv().ok() } else { None }
    }
}

impl Aof {
    /// A log that has not begun.
    pub fn new(stay_off: StayOff) -> Self {
        Aof {
            stay_off,
            written: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            cut: AtomicU64::new(u64::MAX),
            logs: AtomicU64::new(0),
            reader: Mutex::default(),
            writer: Mutex::default(),
            waits: Mutex::default(),
            has_waits: AtomicBool::new(false),
            wanted: AtomicBool::new(false),
            switch: Mutex::default(),
            is_stale: AtomicBool::new(false),
            is_of_gone: AtomicBool::new(false),
            rewriting: AtomicBool::new(false),
            cancel: Mutex::default(),
            status: Status::default(),
            locks: Locks::default(),
        }
    }
}

impl Aof {
    fn handle(&self) -> MutexGuard<'_, Option<Handle>> {
        self.writer.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Locks the switching of the log: only the holder begins and ends it. The holder waits for the
    /// disk, so take this lock before the configuration. I/O threads and threads that hold shards
    /// must not take it.
    pub fn switch(&self) -> Switch<'_> {
        self.switch.lock().unwrap_or_else(|p| p.into_inner())
    }

    fn cancel(&self) -> MutexGuard<'_, Option<Arc<AtomicBool>>> {
        self.cancel.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Cancels the running rewrite.
    pub fn cancel_rewrite(&self) {
        if let Some(cancel) = &*self.cancel() {
            cancel.store(true, Ordering::Relaxed);
        }
    }

    /// Begins a log, with the world stopped. A cut of the previous log does not apply to it.
    fn begin_log(&self, reader: ReaderId) {
        self.cut.store(u64::MAX, Ordering::Relaxed);
        self.is_of_gone.store(false, Ordering::SeqCst);
        self.logs.fetch_add(1, Ordering::SeqCst);
        *self.reader() = Some(reader);
    }

    /// Ends the log, with the world stopped. Returns the reader, which the caller must end.
    fn end_log(&self) -> Option<ReaderId> {
        self.reader().take()
    }

    /// The reader of the log until the log ends.
    fn reader(&self) -> MutexGuard<'_, Option<ReaderId>> {
        self.reader.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// The data was dropped for a full sync that has not arrived. The files stay as they are, so
    /// that the server can load them if it restarts. Until then, nothing may be logged after them,
    /// except the stream of a primary, which a full sync precedes.
    pub fn outlives_data(&self) {
        self.is_of_gone.store(true, Ordering::SeqCst);
    }

    /// Whether [`Aof::outlives_data`] was called for this log.
    pub fn is_of_gone_data(&self) -> bool {
        self.is_of_gone.load(Ordering::SeqCst) && self.is_logging()
    }

    /// Whether effects are logged for it.
    pub fn is_logging(&self) -> bool {
        self.reader().is_some()
    }

    /// Wakes the writing thread to check for work, if all units up to `unit` are written.
    pub fn look_behind(&self, unit: u64) {
        if self.written.load(Ordering::SeqCst) >= unit {
            self.order(Order::Look);
        }
    }

    /// Whether the log of that number is still running.
    fn is_log(&self, number: u64) -> bool {
        self.reader().is_some() && self.log_number() == number
    }

    /// The number of the last log begun.
    fn log_number(&self) -> u64 {
        self.logs.load(Ordering::SeqCst)
    }

    /// Whether a rewrite is running and has taken its cut, instead of being scheduled.
    pub fn has_cut(&self) -> bool {
        self.is_rewriting() && !self.status.scheduled.load(Ordering::SeqCst)
    }

    /// Whether a rewrite is running or waits for a snapshot.
    pub fn is_rewriting(&self) -> bool {
        self.rewriting.load(Ordering::SeqCst)
    }

    /// Whether the log is written.
    pub fn is_on(&self) -> bool {
        self.handle().is_some()
    }

    /// Whether the log's state matches the configuration.
    pub fn is_switched(&self) -> bool {
        self.is_on() == self.wanted.load(Ordering::SeqCst)
    }

    /// Applies a changed policy: from here on, no reply is sent that the new policy would withhold.
    /// The writing thread reads the policy soon.
    pub fn renew(&self, srv: &Server, sync: aof_policy::Sync) {
        if sync == aof_policy::Sync::Always && self.is_on() {
            self.restrict(srv, self.durable());
        } else {
            self.order(Order::Look);
        }
    }

    /// Sends an order to the writing thread. Returns whether there is one.
    fn order(&self, order: Order) -> bool {
        let handle = self.handle().clone();
        handle.is_some_and(|handle| handle.order(order))
    }

    /// Like [`Aof::order`], and waits for the result; `None` when there is no writing thread.
    fn ask<T>(&self, order: impl FnOnce(SyncSender<T>) -> Order) -> Option<T> {
        let handle = self.handle().clone();
        handle?.ask(order)
    }

    /// All units up to this number are on disk.
    pub fn durable(&self) -> u64 {
        self.durable.load(Ordering::SeqCst)
    }

    fn waits(&self) -> MutexGuard<'_, Vec<(u64, Arc<Waiting>)>> {
        self.waits.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Registers a client that waits until `unit` is on disk. Returns whether it must wait. Its
    /// thread is notified.
    pub fn has_wait(&self, unit: u64, waiting: &Arc<Waiting>) -> bool {
        let mut waits = self.waits();
        waits.retain(|(_, other)| !other.state.is_over());
        waits.push((unit, waiting.clone()));
        self.has_waits.store(true, Ordering::SeqCst);
        drop(waits);
        // Either this thread sees that the unit is on disk, or the writing thread sees the waiting
        // client.
        self.durable() < unit || !waiting.state.give_up()
    }

    /// Unblocks the clients that wait for the disk, with an error: nothing is written any more.
    fn refuse_waits(&self, srv: &'static Server) {
        srv.links.replicator.refuse_local(srv, OFF);
        for (_, waiting) in std::mem::take(&mut *self.waits()) {
            if waiting.state.give_up() {
                let mut reply = Reply::new(waiting.context.proto);
                reply.error(OFF.as_bytes());
                blocking::leave(srv, &waiting);
                let message =
                    Message::Wait(WaitMessage::Served { waiting: waiting.clone(), reply, unit: 0 });
                srv.threads[waiting.thread].mailbox.send(message);
            }
        }
    }

    /// Unblocks the clients whose units are on disk now.
    fn end_waits(&self, srv: &'static Server) {
        srv.links.replicator.is_durable(srv);
        if !self.has_waits.load(Ordering::SeqCst) {
            return;
        }
        let durable = self.durable();
        let mut waits = self.waits();
        waits.retain(|(unit, waiting)| {
            if *unit > durable {
                return !waiting.state.is_over();
            }
            if waiting.state.give_up() {
                let mut reply = Reply::new(waiting.context.proto);
                let on_replicas = srv.links.replicator.replicas_on_disk(srv, *unit);
                answer_wait(&mut reply, 1, on_replicas);
                blocking::leave(srv, waiting);
                let message =
                    Message::Wait(WaitMessage::Served { waiting: waiting.clone(), reply, unit: 0 });
                srv.threads[waiting.thread].mailbox.send(message);
            }
            false
        });
        self.has_waits.store(!waits.is_empty(), Ordering::SeqCst);
    }

    /// Bytes of logged commands that the writing thread has not taken yet. Other readers of the log
    /// may lag further.
    pub fn pending_bytes(&self, srv: &Server) -> u64 {
        let reader = *self.reader();
        reader.map_or(0, |reader| srv.ks.log().pending_bytes_of(&reader))
    }

    /// Makes writing clients wait when the disk is so slow that too much data is pending. The
    /// writing thread may be stuck in a write; it lifts the restriction later.
    pub fn watch_pressure(&self, srv: &Server) {
        if self.is_crowded(srv) {
            self.restrict(srv, self.written.load(Ordering::SeqCst));
        }
    }

    /// Withholds replies to units above `upto` until the writing thread lifts the bound, if they
    /// are not withheld already.
    fn restrict(&self, srv: &Server, upto: u64) {
        srv.links.answers.restrict(Bound::Disk, upto);
        // The log may have ended, or all units may have been written, before the writing thread
        // could see the bound.
        match self.is_logging() {
            true => {
                self.order(Order::Look);
            }
            false => srv.links.answers.set(&srv.threads, Bound::Disk, NONE),
        }
    }

    /// Whether so much data is pending that clients that log more should wait. O(threads).
    pub fn is_crowded(&self, srv: &Server) -> bool {
        self.pending_bytes(srv) > CROWDED
    }

    /// The error for writes, if they can't be persisted now.
    pub fn refusal(&self) -> Option<String> {
        let error = self.status.last_error();
        error.map(|error| format!("MISCONF Errors writing to the AOF file: {error}"))
    }

    /// Makes the writing thread write and sync all logged units. Call it when no thread executes
    /// commands any more.
    pub fn finish(&self) {
        if self.is_on() {
            weft_process::log_notice!("Calling fsync() on the AOF file.");
            self.ask(Order::Flush);
        }
    }
}

impl Journal for Aof {
    fn refusal(&self) -> Option<String> {
        Aof::refusal(self)
    }

    fn watch_pressure(&self, srv: &Server) {
        Aof::watch_pressure(self, srv);
    }
}

/// The files' place according to the configuration.
pub fn directory(srv: &Server) -> Directory {
    // The data directory is the working directory.
    directory_in(std::path::Path::new("."), &srv.config())
}

/// The files' place if `dir` was the data directory.
pub fn directory_in(dir: &std::path::Path, config: &Config) -> Directory {
    let folder = config.str(Id::APPENDDIRNAME).into_owned();
    let stem = config.str(Id::APPENDFILENAME).into_owned();
    Directory::new(Arc::new(Disk), dir, &folder, &stem)
}

/// The error of WAITAOF when there is no log to wait for.
pub const OFF: &str = "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";

/// The reply of WAITAOF: whether the local disk has the writes, and the number of replicas that do.
pub fn answer_wait(reply: &mut Reply, local: i64, on_replicas: i64) {
    reply.array(2);
    reply.int(local);
    reply.int(on_replicas);
}
