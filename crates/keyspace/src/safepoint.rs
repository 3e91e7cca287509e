//! Safepoints: how the world stops between commands.
//!
//! Every thread that executes commands owns one [`Safepoint`] (a safepoint) and is inside it while it
//! runs a batch. A thread that needs the whole keyspace (FLUSHALL, SWAPDB, KEYS, the cut of a
//! snapshot) closes all safepoints and waits until no thread is inside. Entering and leaving
//! write only the thread's own cache line, so the fast path shares nothing; stopping costs a scan
//! of the safepoints.
//!
//! The protocol is Dekker's. A thread announces itself and then reads `closed`; the closer sets
//! `closed` and then reads the announcements. Each has a sequentially consistent fence in
//! between, so at least one sees the other. A thread that finds the safepoints closed leaves
//! again and sleeps until they open: that takes microseconds, and no command could run in that
//! time.
//!
//! Threads may be started while others run. A safepoint is taken into use ([`Safepoints::use_up_to`])
//! before its thread exists. That is one more announcement of the same protocol: if a closer has
//! not seen the safepoint in use, then the new thread sees that the safepoints are closed.
//!
//! Model-tested with loom (`tests/loom_safepoint.rs`).

use crate::sync::{
    AtomicBool, AtomicU32, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, fence, lock,
    spin_loop,
};

const OUT: u32 = 0;
const IN: u32 = 1;

/// Bit in the number of safepoints in use: the spare one is in use, too.
const SPARE: usize = 1 << (usize::BITS - 1);

/// Spins on a busy safepoint before the closer sleeps until a thread leaves.
const SPINS: u32 = if cfg!(loom) { 0 } else { 200 };

/// The safepoint of one thread, on its own cache line.
#[repr(align(128))]
#[derive(Debug)]
struct Safepoint(AtomicU32);

/// All safepoints, indexed by the number of the owning thread.
#[derive(Debug)]
pub struct Safepoints {
    /// The last one is the spare one.
    safepoints: Box<[Safepoint]>,
    /// How many have a thread, never decreasing; and [`SPARE`].
    in_use: AtomicUsize,
    closed: AtomicBool,
    /// Held by the closer while the safepoints are closed.
    closer: Mutex<()>,
    /// Guards only the sleepers of the two condition variables.
    sleep: Mutex<()>,
    opened: Condvar,
    left: Condvar,
}

/// Proof that the world is stopped; dropping it opens the safepoints.
#[derive(Debug)]
pub struct Closed<'a> {
    safepoints: &'a Safepoints,
    _closer: MutexGuard<'a, ()>,
}

impl Safepoints {
    /// Creates `most` safepoints and a spare one, all empty and open. The first `in_use` of them
    /// have threads.
    pub fn new(most: usize, in_use: usize) -> Self {
        Safepoints {
            safepoints: (0..=most).map(|_| Safepoint(AtomicU32::new(OUT))).collect(),
            in_use: AtomicUsize::new(in_use),
            closed: AtomicBool::new(false),
            closer: Mutex::new(()),
            sleep: Mutex::new(()),
            opened: Condvar::new(),
            left: Condvar::new(),
        }
    }

    /// Takes the safepoints below `count` into use, for threads that are started after this call.
    pub fn use_up_to(&self, count: usize) {
        assert!(count < self.safepoints.len(), "there is no room for {count} safepoints");
        self.use_more(|in_use| (in_use & SPARE) | (in_use & !SPARE).max(count));
    }

    /// Takes the spare safepoint into use, for an extra thread in addition to the numbered ones.
    /// Returns its number.
    pub fn use_spare(&self) -> usize {
        self.use_more(|in_use| in_use | SPARE);
        self.safepoints.len() - 1
    }

    fn use_more(&self, more: impl Fn(usize) -> usize) {
        let mut in_use = self.in_use.load(Ordering::Acquire);
        while let Err(now) =
            self.in_use.compare_exchange(in_use, more(in_use), Ordering::AcqRel, Ordering::Acquire)
        {
            in_use = now;
        }
        fence(Ordering::SeqCst);
    }

    /// Enters safepoint `own`; waits while the safepoints are closed. Only the owner may call
    /// this, and not while it is inside.
    #[inline]
    pub fn enter(&self, own: usize) {
        if !self.announce(own) {
            self.enter_slow(own);
        }
    }

    /// Announces that this thread is inside. Returns whether the safepoints are open.
    #[inline]
    fn announce(&self, own: usize) -> bool {
        self.safepoints[own].0.store(IN, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        !self.closed.load(Ordering::Acquire)
    }

    #[cold]
    fn enter_slow(&self, own: usize) {
        loop {
            self.leave(own);
            let mut sleep = lock(&self.sleep);
            while self.closed.load(Ordering::Acquire) {
                sleep = self.opened.wait(sleep).unwrap_or_else(|p| p.into_inner());
            }
            drop(sleep);
            if self.announce(own) {
                return;
            }
        }
    }

    /// Leaves safepoint `own`. Only the owner may call this.
    #[inline]
    pub fn leave(&self, own: usize) {
        self.safepoints[own].0.store(OUT, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.closed.load(Ordering::Acquire) {
            self.wake_closer();
        }
    }

    #[cold]
    fn wake_closer(&self) {
        // The closer checks the safepoints under this mutex before it sleeps: it either sees that
        // this thread has left, or receives the notification.
        drop(lock(&self.sleep));
        self.left.notify_all();
    }

    /// Stops the world. The caller must be outside its own safepoint. Waits for another closer,
    /// and for every thread to reach the end of its batch or a command boundary.
    pub fn close(&self) -> Closed<'_> {
        let closer = lock(&self.closer);
        self.closed.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        let in_use = self.in_use.load(Ordering::Acquire);
        for safepoint in &self.safepoints[..in_use & !SPARE] {
            self.wait_left(safepoint);
        }
        if let (true, Some(spare)) = (in_use & SPARE != 0, self.safepoints.last()) {
            self.wait_left(spare);
        }
        Closed { safepoints: self, _closer: closer }
    }

    fn wait_left(&self, safepoint: &Safepoint) {
        for _ in 0..SPINS {
            if safepoint.0.load(Ordering::Acquire) == OUT {
                return;
            }
            spin_loop();
        }
        let mut sleep = lock(&self.sleep);
        while safepoint.0.load(Ordering::Acquire) != OUT {
            sleep = self.left.wait(sleep).unwrap_or_else(|p| p.into_inner());
        }
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.safepoints.closed.store(false, Ordering::Release);
        drop(lock(&self.safepoints.sleep));
        self.safepoints.opened.notify_all();
    }
}
