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
//! * this file: the data that all threads share, and the channel to the writing thread
//! * [`lifecycle`] - the state machine of the log and its rewrites
//! * [`writer`] - the thread that writes; `weft_state::aof_policy`: the configuration
//! * [`gather`] - how long it lets units gather before it writes
//! * [`rewrite`] - the thread of a rewrite; [`base`]: the file that it writes
//! * [`load`] - loading at the start, and DEBUG LOADAOF
//! * [`mark`] - the primary of a cluster's shard that the manifest names
//! * [`check`] - `--check-aof`; [`lock`]: one process writes a set of files
//! * [`status`] - the numbers of INFO
//!
//! A reply is withheld while its units of the log are above the bound ([`Bound::Disk`]). Under
//! `always`, the bound is the last synced unit. Under the other policies there is no bound, unless
//! so much data waits to be written that writing clients must wait for the disk.

pub mod base;
pub mod check;
pub mod gather;
pub mod lifecycle;
pub mod load;
pub mod lock;
pub mod mark;
pub mod order;
pub mod rewrite;
pub mod start;
pub mod status;
pub mod writer;

use crate::aof::lifecycle::{Info, Lifecycle};
use crate::aof::lock::Locks;
use crate::aof::mark::Mark;
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
use weft_state::authority::NO_TERM;
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
    lifecycle: Mutex<Lifecycle<ReaderId, Handle>>,
    progress: Progress,
    waits: DiskWaits,
    /// Held by the thread that begins or ends the log: see [`Aof::switch`].
    switch: Mutex<()>,
    pub status: Status,
    pub locks: Locks,
    pub mark: Mark,
}

/// How far the writing thread has come, in units of the log.
struct Progress {
    /// All units up to here are in the file.
    written: AtomicU64,
    /// All units up to here are on disk.
    durable: AtomicU64,
    /// Units above this number belong to the next file. Written while the world is stopped.
    cut: AtomicU64,
}

/// Clients that wait until a unit is on disk, and whether there are any.
#[derive(Default)]
struct DiskWaits {
    clients: Mutex<Vec<(u64, Arc<Waiting>)>>,
    exist: AtomicBool,
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
            lifecycle: Mutex::default(),
            progress: Progress {
                written: AtomicU64::new(0),
                durable: AtomicU64::new(0),
                cut: AtomicU64::new(u64::MAX),
            },
            waits: DiskWaits::default(),
            switch: Mutex::default(),
            status: Status::default(),
            locks: Locks::default(),
            mark: Mark::default(),
        }
    }
}

impl Aof {
    /// The state machine. The holder takes no other lock.
    fn lifecycle(&self) -> MutexGuard<'_, Lifecycle<ReaderId, Handle>> {
        self.lifecycle.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Locks the switching of the log: only the holder begins and ends it. The holder waits for the
    /// disk, so take this lock before the configuration. I/O threads and threads that hold shards
    /// must not take it.
    pub fn switch(&self) -> Switch<'_> {
        self.switch.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// This process leads its shard of a cluster, or doesn't any more: see [`mark`].
    pub fn mark_for(&self, led: Option<mark::Led>) {
        self.mark.want(led);
        self.order(Order::Look);
    }

    /// Cancels the running rewrite.
    pub fn cancel_rewrite(&self) {
        self.lifecycle().cancel_rewrite();
    }

    /// Begins a log, with the world stopped. A cut of the previous log does not apply to it.
    fn begin_log(&self, reader: ReaderId) {
        self.progress.cut.store(u64::MAX, Ordering::Relaxed);
        self.lifecycle().begin(reader);
    }

    /// The reader of the log until the log ends.
    fn reader(&self) -> Option<ReaderId> {
        self.lifecycle().reader()
    }

    /// The data was dropped for a full sync that has not arrived. The files stay as they are, so
    /// that the server can load them if it restarts. Until then, nothing may be logged after them,
    /// except the stream of a primary, which a full sync precedes.
    pub fn outlives_data(&self) {
        self.lifecycle().drop_data();
    }

    /// Whether [`Aof::outlives_data`] was called for this log.
    pub fn is_of_gone_data(&self) -> bool {
        self.lifecycle().is_data_dropped()
    }

    /// Whether effects are logged for it.
    pub fn is_logging(&self) -> bool {
        self.reader().is_some()
    }

    /// Wakes the writing thread to check for work, if all units up to `unit` are written.
    pub fn look_behind(&self, unit: u64) {
        if self.progress.written.load(Ordering::SeqCst) >= unit {
            self.order(Order::Look);
        }
    }

    /// Whether a rewrite is running and has taken its cut, instead of being scheduled.
    pub fn has_cut(&self) -> bool {
        self.lifecycle().has_cut()
    }

    /// Whether a rewrite is running or waits for a snapshot.
    pub fn is_rewriting(&self) -> bool {
        self.lifecycle().is_rewriting()
    }

    /// Whether the last rewrite has failed, and none is running.
    pub fn has_rewrite_failed(&self) -> bool {
        self.lifecycle().has_rewrite_failed()
    }

    /// Whether the log has no base yet: the next start ignores it until the first rewrite succeeds.
    pub fn waits_for_base(&self) -> bool {
        self.lifecycle().waits_for_base()
    }

    /// Whether the log is written.
    pub fn is_on(&self) -> bool {
        self.lifecycle().is_on()
    }

    /// Whether the log's state matches the configuration.
    pub fn is_switched(&self) -> bool {
        self.lifecycle().is_switched()
    }

    /// The fields of INFO that follow from the state.
    pub fn info(&self) -> Info {
        self.lifecycle().info()
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
        let handle = self.lifecycle().writer().cloned();
        handle.is_some_and(|handle| handle.order(order))
    }

    /// Like [`Aof::order`], and waits for the result; `None` when there is no writing thread.
    fn ask<T>(&self, order: impl FnOnce(SyncSender<T>) -> Order) -> Option<T> {
        let handle = self.lifecycle().writer().cloned();
        handle?.ask(order)
    }

    /// All units up to this number are on disk.
    pub fn durable(&self) -> u64 {
        self.progress.durable.load(Ordering::SeqCst)
    }

    fn waits(&self) -> MutexGuard<'_, Vec<(u64, Arc<Waiting>)>> {
        self.waits.clients.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Registers a client that waits until `unit` is on disk. Returns whether it must wait. Its
    /// thread is notified.
    pub fn has_wait(&self, unit: u64, waiting: &Arc<Waiting>) -> bool {
        let mut waits = self.waits();
        waits.retain(|(_, other)| !other.state.is_over());
        waits.push((unit, waiting.clone()));
        self.waits.exist.store(true, Ordering::SeqCst);
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
                let message = Message::Wait(WaitMessage::Served {
                    waiting: waiting.clone(),
                    reply,
                    unit: 0,
                    term: NO_TERM,
                });
                srv.threads[waiting.thread].mailbox.send(message);
            }
        }
    }

    /// Unblocks the clients whose units are on disk now.
    fn end_waits(&self, srv: &'static Server) {
        srv.links.replicator.is_durable(srv);
        if !self.waits.exist.load(Ordering::SeqCst) {
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
                let message = Message::Wait(WaitMessage::Served {
                    waiting: waiting.clone(),
                    reply,
                    unit: 0,
                    term: NO_TERM,
                });
                srv.threads[waiting.thread].mailbox.send(message);
            }
            false
        });
        self.waits.exist.store(!waits.is_empty(), Ordering::SeqCst);
    }

    /// Bytes of logged commands that the writing thread has not taken yet. Other readers of the log
    /// may lag further.
    pub fn pending_bytes(&self, srv: &Server) -> u64 {
        self.reader().map_or(0, |reader| srv.ks.log().pending_bytes_of(&reader))
    }

    /// Makes writing clients wait when the disk is so slow that too much data is pending. The
    /// writing thread may be stuck in a write; it lifts the restriction later.
    pub fn watch_pressure(&self, srv: &Server) {
        if self.is_crowded(srv) {
            self.restrict(srv, self.progress.written.load(Ordering::SeqCst));
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
        let lifecycle = self.lifecycle();
        lifecycle.error().map(|error| format!("MISCONF Errors writing to the AOF file: {error}"))
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
