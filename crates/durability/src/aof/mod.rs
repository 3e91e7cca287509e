//! The append-only file: what the server does with [`weft_persist::aof`].
//!
//! ```text
//!  I/O threads ─► log of effects ─► weft-aof: write ─┬─ always: sync ─► answers are let go
//!      ▲                              ▲              └─ everysec ─► weft-aof-sync
//!      └── answers withheld ──────────┘ rotate at the cut
//!                                     ▲
//!  BGREWRITEAOF ─► weft-aof-rewrite: snapshot ─► base
//! ```
//!
//! * this file: what all threads see of it, and how they reach the one that writes
//! * [`writer`] - the thread that writes; [`policy`]: what the configuration says
//! * [`gather`] - how much it waits for before it writes
//! * [`rewrite`] - the thread of a rewrite; [`base`]: what it writes
//! * [`load`] - loading at the start, and DEBUG LOADAOF
//! * [`check`] - `--check-aof`; [`lock`]: one process writes a set of files
//! * [`status`] - what INFO tells
//!
//! An answer is withheld while the units of the log that belong to it are above the bound that this sets
//! ([`Bound::Disk`]). Under `always` that is what was synced; else there is no such limit, unless
//! so much waits to be written that whoever writes must wait for the disk.

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
use weft_state::waiting::Waiting;

/// Bytes that may wait to be written before answers do, too.
pub const CROWDED: u64 = 64 << 20;

/// The append-only file of `srv`.
///
/// # Panics
/// If the server was put together without one.
pub fn aof(srv: &Server) -> &Aof {
    let any: &dyn Any = &*srv.journal;
    any.downcast_ref().expect("the append-only file")
}

/// Sets `appendonly` to no in the configuration: called when the log can't begin and nobody waits for the answer.
pub type StayOff = fn(&'static Server, &Switch<'_>);

/// See the module.
pub struct Aof {
    pub stay_off: StayOff,
    /// All units up to here are in the file.
    written: AtomicU64,
    /// All units up to here are safe.
    durable: AtomicU64,
    /// Units above this number belong to the next file. Written while the world is stopped.
    cut: AtomicU64,
    /// Logs that were begun, and who reads the last of them while it goes on. Written while the world is
    /// stopped.
    logs: AtomicU64,
    reader: Mutex<Option<ReaderId>>,
    writer: Mutex<Option<Handle>>,
    /// Clients that wait for a unit to be safe, and whether there are any.
    waits: Mutex<Vec<(u64, Arc<Waiting>)>>,
    has_waits: AtomicBool,
    /// What the configuration says, and who is about to do it: see [`Aof::switch`].
    wanted: AtomicBool,
    switch: Mutex<()>,
    /// The log is to end, and to begin anew if it is still wanted.
    is_stale: AtomicBool,
    /// The data that the files have were dropped for a copy of a primary's that has not come.
    is_of_gone: AtomicBool,
    /// A rewrite is under way.
    rewriting: AtomicBool,
    /// By which it is given up.
    cancel: Mutex<Option<Arc<AtomicBool>>>,
    pub status: Status,
    pub locks: Locks,
}

/// See [`Aof::switch`].
pub type Switch<'a> = MutexGuard<'a, ()>;

/// The way to the thread that writes.
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

    /// Who holds this begins and ends the log, and nobody else does. The disk is waited for meanwhile, so it is
    /// taken before the configuration, and never by an I/O thread or anybody who holds shards.
    pub fn switch(&self) -> Switch<'_> {
        self.switch.lock().unwrap_or_else(|p| p.into_inner())
    }

    fn cancel(&self) -> MutexGuard<'_, Option<Arc<AtomicBool>>> {
        self.cancel.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Has the rewrite that is under way end without a result.
    pub fn cancel_rewrite(&self) {
        if let Some(cancel) = &*self.cancel() {
            cancel.store(true, Ordering::Relaxed);
        }
    }

    /// A log begins, with the world stopped: a cut of the one before has no meaning for it.
    fn begin_log(&self, reader: ReaderId) {
        self.cut.store(u64::MAX, Ordering::Relaxed);
        self.is_of_gone.store(false, Ordering::SeqCst);
        self.logs.fetch_add(1, Ordering::SeqCst);
        *self.reader() = Some(reader);
    }

    /// It ends, with the world stopped: who reads it, and is to be ended.
    fn end_log(&self) -> Option<ReaderId> {
        self.reader().take()
    }

    /// Who reads the log, for as long as it goes on.
    fn reader(&self) -> MutexGuard<'_, Option<ReaderId>> {
        self.reader.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// The data were dropped for a copy that has not come, and the files stay as they are: from them this
    /// server may go on, if it is started again. Nothing may be logged behind them but what comes from a
    /// primary that has gone on with us, which a copy precedes.
    pub fn outlives_data(&self) {
        self.is_of_gone.store(true, Ordering::SeqCst);
    }

    /// Whether [`Aof::outlives_data`] was called for this log.
    pub fn is_of_gone_data(&self) -> bool {
        self.is_of_gone.load(Ordering::SeqCst) && self.is_logging()
    }

    /// Whether what is done is logged for it.
    pub fn is_logging(&self) -> bool {
        self.reader().is_some()
    }

    /// Has the thread that writes look whether there is something for it, if all up to `unit` is written.
    pub fn look_behind(&self, unit: u64) {
        if self.written.load(Ordering::SeqCst) >= unit {
            self.order(Order::Look);
        }
    }

    /// Whether the log of that number goes on.
    fn is_log(&self, number: u64) -> bool {
        self.reader().is_some() && self.log_number() == number
    }

    /// The number of the log that has begun last.
    fn log_number(&self) -> u64 {
        self.logs.load(Ordering::SeqCst)
    }

    /// Whether a rewrite is under way, and is not only waiting for its turn.
    pub fn has_cut(&self) -> bool {
        self.is_rewriting() && !self.status.scheduled.load(Ordering::SeqCst)
    }

    /// Whether a rewrite is under way, or waits for a snapshot.
    pub fn is_rewriting(&self) -> bool {
        self.rewriting.load(Ordering::SeqCst)
    }

    /// Whether the log is written.
    pub fn is_on(&self) -> bool {
        self.handle().is_some()
    }

    /// Whether it is as the configuration wants it.
    pub fn is_switched(&self) -> bool {
        self.is_on() == self.wanted.load(Ordering::SeqCst)
    }

    /// The policy has changed: from here on nothing is answered that would not be under the new one. Who
    /// writes looks at it soon.
    pub fn renew(&self, srv: &Server, sync: aof_policy::Sync) {
        if sync == aof_policy::Sync::Always && self.is_on() {
            self.restrict(srv, self.durable());
        } else {
            self.order(Order::Look);
        }
    }

    /// Tells the thread that writes; whether there is one.
    fn order(&self, order: Order) -> bool {
        let handle = self.handle().clone();
        handle.is_some_and(|handle| handle.order(order))
    }

    /// The same, and waits for the answer; `None` when there is nobody to give one.
    fn ask<T>(&self, order: impl FnOnce(SyncSender<T>) -> Order) -> Option<T> {
        let handle = self.handle().clone();
        handle?.ask(order)
    }

    /// All units up to this number are safe.
    pub fn durable(&self) -> u64 {
        self.durable.load(Ordering::SeqCst)
    }

    fn waits(&self) -> MutexGuard<'_, Vec<(u64, Arc<Waiting>)>> {
        self.waits.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// The client waits until `unit` is safe: whether it has to. Its thread is told when it is.
    pub fn has_wait(&self, unit: u64, waiting: &Arc<Waiting>) -> bool {
        let mut waits = self.waits();
        waits.retain(|(_, other)| !other.state.is_over());
        waits.push((unit, waiting.clone()));
        self.has_waits.store(true, Ordering::SeqCst);
        drop(waits);
        // Either this sees that it is safe, or who makes it so sees that somebody waits.
        self.durable() < unit || !waiting.state.give_up()
    }

    /// Tells those who wait for the disk that nothing is written any more.
    fn refuse_waits(&self, srv: &'static Server) {
        srv.replicator.refuse_local(srv, OFF);
        for (_, waiting) in std::mem::take(&mut *self.waits()) {
            if waiting.state.give_up() {
                let mut reply = Reply::new(waiting.proto);
                reply.error(OFF.as_bytes());
                blocking::leave(srv, &waiting);
                let message = Message::Served { waiting: waiting.clone(), reply, unit: 0 };
                srv.threads[waiting.thread].mailbox.send(message);
            }
        }
    }

    /// Answers those who wait for what is safe now.
    fn end_waits(&self, srv: &'static Server) {
        srv.replicator.is_durable(srv);
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
                let mut reply = Reply::new(waiting.proto);
                let on_replicas = srv.replicator.replicas_on_disk(srv, *unit);
                answer_wait(&mut reply, 1, on_replicas);
                blocking::leave(srv, waiting);
                let message = Message::Served { waiting: waiting.clone(), reply, unit: 0 };
                srv.threads[waiting.thread].mailbox.send(message);
            }
            false
        });
        self.has_waits.store(!waits.is_empty(), Ordering::SeqCst);
    }

    /// Bytes of commands that were logged and have not been taken yet to be written; others who read the log
    /// may be late by more.
    pub fn pending_bytes(&self, srv: &Server) -> u64 {
        let reader = *self.reader();
        reader.map_or(0, |reader| srv.ks.log().pending_bytes_of(&reader))
    }

    /// Has those who write wait when the disk is so slow that too much waits for it. The thread that writes
    /// may be stuck, and says when that is over.
    pub fn watch_pressure(&self, srv: &Server) {
        if self.is_crowded(srv) {
            self.restrict(srv, self.written.load(Ordering::SeqCst));
        }
    }

    /// Has answers to units above `upto` wait until who writes says otherwise, if they do not wait already.
    fn restrict(&self, srv: &Server, upto: u64) {
        srv.answers.restrict(Bound::Disk, upto);
        // The log may have ended, or all been written, before whoever writes could see that.
        match self.is_logging() {
            true => {
                self.order(Order::Look);
            }
            false => srv.answers.set(&srv.threads, Bound::Disk, NONE),
        }
    }

    /// Whether so much waits to be written that who logs more should wait. O(threads).
    pub fn is_crowded(&self, srv: &Server) -> bool {
        self.pending_bytes(srv) > CROWDED
    }

    /// Whether nothing may be written now, since it could not be kept.
    pub fn refusal(&self) -> Option<String> {
        let error = self.status.last_error();
        error.map(|error| format!("MISCONF Errors writing to the AOF file: {error}"))
    }

    /// Has all that was logged be written and synced; to be called when nobody executes any more.
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

/// Where the files are, by the configuration.
pub fn directory(srv: &Server) -> Directory {
    // The directory of the data is the working directory.
    directory_in(std::path::Path::new("."), &srv.config())
}

/// Where the files would be if the directory of the data was `dir`.
pub fn directory_in(dir: &std::path::Path, config: &Config) -> Directory {
    let folder = config.str(Id::APPENDDIRNAME).into_owned();
    let stem = config.str(Id::APPENDFILENAME).into_owned();
    Directory::new(Arc::new(Disk), dir, &folder, &stem)
}

/// What WAITAOF answers without a log to wait for.
pub const OFF: &str = "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";

/// What WAITAOF answers: whether it is safe here, and on how many replicas.
pub fn answer_wait(reply: &mut Reply, local: i64, on_replicas: i64) {
    reply.array(2);
    reply.int(local);
    reply.int(on_replicas);
}
