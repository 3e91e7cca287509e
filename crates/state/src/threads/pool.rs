//! The places of I/O threads: what others need to reach one and to read its counters.
//!
//! A place is filled when its thread is started and stays so: a thread that is not wanted any more
//! sleeps until it is, and still answers its mail. So a message to a thread is never lost, whatever
//! `io-threads` becomes between looking up a client's thread and writing to it.

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

/// What all threads may know of one of them.
#[derive(Debug)]
pub struct IoThread {
    pub stats: ThreadStats,
    pub mailbox: Mailbox,
    /// What was published and lies there.
    pub crowd: Crowd,
    /// It was told that there is more to be sent to replicas, and has not looked yet.
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

    /// The CPUs that the thread may run on, as the kernel told it.
    pub fn cpus(&self) -> CpuSet {
        self.cpus.lock().unwrap_or_else(|p| p.into_inner()).clone()
    }

    pub fn note_cpus(&self, cpus: CpuSet) {
        *self.cpus.lock().unwrap_or_else(|p| p.into_inner()) = cpus;
    }

    pub fn set_handle(&self, handle: JoinHandle<()>) {
        *self.handle() = Some(handle);
    }

    /// What to join; once.
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
    /// How many are to be active whatever the load is; 0: the load decides.
    forced: AtomicUsize,
    /// How many commands a thread counts.
    commands: usize,
}

impl Pool {
    /// Places for all threads that there may be, with nobody in them.
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

    /// Fills the places below `count`. The threads are for the caller to start. Callers take turns
    /// (the configuration's mutex sees to that).
    ///
    /// # Errors
    /// The kernel's, for want of descriptors; the places filled before it stay.
    pub fn fill(&self, count: usize) -> std::io::Result<()> {
        for place in &self.places[self.started()..count.max(self.started())] {
            if place.get().is_none() {
                let _ = place.set(IoThread::new(self.commands)?);
            }
        }
        Ok(())
    }

    /// The threads below `count` have been started.
    pub fn note_started(&self, count: usize) {
        self.started.fetch_max(count, Ordering::Release);
    }

    /// How many threads exist.
    pub fn started(&self) -> usize {
        self.started.load(Ordering::Acquire)
    }

    /// How many may be used.
    pub fn configured(&self) -> usize {
        self.configured.load(Ordering::Relaxed)
    }

    pub fn set_configured(&self, count: usize) {
        self.configured.store(count, Ordering::Relaxed);
    }

    /// How many own connections: those with the lowest numbers.
    #[inline]
    pub fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    pub fn set_active(&self, count: usize) {
        self.active.store(count, Ordering::Relaxed);
    }

    /// How many threads DEBUG ACTIVE-THREADS has asked for, if it has.
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

    /// Tells the thread of `waiter` that what it was parked on is free.
    pub fn unpark(&self, waiter: Waiter) {
        self[waiter.thread as usize].mailbox.send(Message::Unpark { token: waiter.token });
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
    /// If there has never been such a thread.
    fn index(&self, thread: usize) -> &IoThread {
        self.get(thread).expect("a thread that was started")
    }
}
