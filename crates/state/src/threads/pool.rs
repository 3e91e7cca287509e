//! The slots of I/O threads: the mailbox and the counters of each.
//!
//! A slot is filled when its thread is started, and stays filled: a thread that is no longer needed sleeps, but
//! still handles its messages. So a message is never lost, even if `io-threads` changes between the lookup of a
//! client's thread and the send.

use crate::conn::ResumeMessage;
use crate::crowd::Crowd;
use crate::mailbox::{Mailbox, Message};
use crate::stats::ThreadStats;
use std::ops::Index;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;
use weft_base::cpulist::CpuSet;
use weft_keyspace::Waiter;

/// The most I/O threads that can be configured.
pub const MAX_IO_THREADS: usize = 1024;

/// The state of one I/O thread that all threads may access.
#[derive(Debug)]
pub struct IoThread {
    pub stats: ThreadStats,
    pub mailbox: Mailbox,
    /// The published messages in the mailbox.
    pub crowd: Crowd,
    /// The thread was notified that the replication stream has grown, and has not handled that yet.
    pub stream_has_grown: AtomicBool,
    handle: Mutex<Option<JoinHandle<()>>>,
    cpus: Mutex<CpuSet>,
}

impl IoThread {
    fn new(commands: usize) -> std::io::Result<Self> {
        let stats = ThreadStats::new(commands);
        let mailbox = Mailbox::new()?;
        let (handle, cpus) = (Mutex::default(), Mutex::default());
        let (crowd, stream_has_grown) = (Crowd::default(), AtomicBool::default());
        Ok(IoThread { stats, mailbox, crowd, stream_has_grown, handle, cpus })
    }

    fn handle(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.handle.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// The CPUs that the thread may run on, as the kernel reported them.
    pub fn cpus(&self) -> CpuSet {
        self.cpus.lock().unwrap_or_else(|p| p.into_inner()).clone()
    }

    pub fn note_cpus(&self, cpus: CpuSet) {
        *self.cpus.lock().unwrap_or_else(|p| p.into_inner()) = cpus;
    }

    pub fn set_handle(&self, handle: JoinHandle<()>) {
        *self.handle() = Some(handle);
    }

    /// The handle to join the thread; `None` after the first call.
    pub fn take_handle(&self) -> Option<JoinHandle<()>> {
        self.handle().take()
    }
}

/// The I/O threads, by number. The first accepts connections and is always active.
#[derive(Debug)]
pub struct Pool {
    places: Box<[OnceLock<IoThread>]>,
    started: AtomicUsize,
    configured: AtomicUsize,
    active: AtomicUsize,
    /// The number of active threads that DEBUG ACTIVE-THREADS has set; 0: the load decides.
    forced: AtomicUsize,
    /// The number of commands that a thread counts.
    commands: usize,
}

impl Pool {
    /// A pool with empty slots for the most threads that can be configured.
    pub fn new(commands: usize) -> Self {
        Pool {
            places: (0..MAX_IO_THREADS).map(|_| OnceLock::new()).collect(),
            started: AtomicUsize::new(0),
            configured: AtomicUsize::new(1),
            active: AtomicUsize::new(1),
            forced: AtomicUsize::new(0),
            commands,
        }
    }

    /// Fills the slots below `count`. The caller then starts the threads. Calls are serialized by the
    /// configuration's mutex.
    ///
    /// # Errors
    /// The kernel's error, if it has no descriptor left; the slots filled before it stay filled.
    pub fn fill(&self, count: usize) -> std::io::Result<()> {
        for place in &self.places[self.started()..count.max(self.started())] {
            if place.get().is_none() {
                let _ = place.set(IoThread::new(self.commands)?);
            }
        }
        Ok(())
    }

    /// Records that the threads below `count` have been started.
    pub fn note_started(&self, count: usize) {
        self.started.fetch_max(count, Ordering::Release);
    }

    /// The number of threads that exist.
    pub fn started(&self) -> usize {
        self.started.load(Ordering::Acquire)
    }

    /// The number of threads that may be used.
    pub fn configured(&self) -> usize {
        self.configured.load(Ordering::Relaxed)
    }

    pub fn set_configured(&self, count: usize) {
        self.configured.store(count, Ordering::Relaxed);
    }

    /// The number of threads that own connections: those with the lowest numbers.
    #[inline]
    pub fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    pub fn set_active(&self, count: usize) {
        self.active.store(count, Ordering::Relaxed);
    }

    /// The number of threads that DEBUG ACTIVE-THREADS has set, if any.
    pub fn forced(&self) -> Option<usize> {
        Some(self.forced.load(Ordering::Relaxed)).filter(|count| *count > 0)
    }

    /// Sets that number; `None` leaves it to the load.
    pub fn set_forced(&self, count: Option<usize>) {
        self.forced.store(count.unwrap_or(0), Ordering::Relaxed);
    }

    /// The active thread with the fewest connections.
    pub fn emptiest(&self) -> usize {
        let active = self.iter().take(self.active()).enumerate();
        active.min_by_key(|(_, t)| t.stats.network.connections.get()).map_or(0, |(n, _)| n)
    }

    /// Notifies the thread of `waiter` that the shard or thread that it waits for is free.
    pub fn unpark(&self, waiter: Waiter) {
        self[waiter.thread as usize]
            .mailbox
            .send(Message::Resume(ResumeMessage::Unpark { token: waiter.token }));
    }

    /// All threads that exist.
    pub fn iter(&self) -> impl Iterator<Item = &IoThread> + Clone {
        self.places.iter().take(self.started()).filter_map(OnceLock::get)
    }

    /// The thread, if it exists.
    pub fn get(&self, thread: usize) -> Option<&IoThread> {
        self.places.get(thread)?.get()
    }
}

impl Index<usize> for Pool {
    type Output = IoThread;

    /// # Panics
    /// If this thread was never started.
    fn index(&self, thread: usize) -> &IoThread {
        self.get(thread).expect("the thread was started")
    }
}
