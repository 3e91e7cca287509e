//! Gates: how the world stops between commands.
//!
//! Every thread that executes commands owns one [`Gate`] and is inside it while it runs a
//! batch. Whoever needs the whole keyspace (FLUSHALL, SWAPDB, KEYS, the cut of a snapshot)
//! closes all gates and waits until nobody is inside. Entering and leaving write only the
//! thread's own line, so the fast path shares nothing; stopping costs a scan of the gates.
//!
//! The protocol is Dekker's: a thread announces itself and then looks at `closed`; the closer
//! sets `closed` and then looks at the announcements; each with a sequentially consistent fence
//! between, so at least one sees the other. A thread that finds the gates closed goes back out and sleeps
//! until they open: that takes microseconds, and nothing could be executed in that time.
//!
//! Threads may be started while others run. A gate is taken into use ([`Gates::use_up_to`]) before
//! its thread exists. That is one more announcement of the same protocol: a closer that has not
//! seen the gate taken into use is seen, by the thread that comes, to have closed it.
//!
//! Model-tested with loom (`tests/loom_gate.rs`).

use crate::sync::{
    AtomicBool, AtomicU32, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, fence, lock,
    spin_loop,
};

const OUT: u32 = 0;
const IN: u32 = 1;

/// In the number of gates in use: the spare one is, too.
const SPARE: usize = 1 << (usize::BITS - 1);

/// Looks at a busy gate before the closer sleeps until a thread leaves.
const SPINS: u32 = if cfg!(loom) { 0 } else { 200 };

/// One thread's gate, on a line of its own.
#[repr(align(128))]
#[derive(Debug)]
struct Gate(AtomicU32);

/// All gates. Numbered by the thread that owns them.
#[derive(Debug)]
pub struct Gates {
    /// The last of them is spare.
    gates: Box<[Gate]>,
    /// How many of them have a thread, never fewer than before; and [`SPARE`].
    in_use: AtomicUsize,
    closed: AtomicBool,
    /// Held by the closer from closing to opening.
    closer: Mutex<()>,
    /// Guards nothing but the two condition variables' sleepers.
    sleep: Mutex<()>,
    opened: Condvar,
    left: Condvar,
}

/// Proof that the world is stopped; opening happens on drop.
#[derive(Debug)]
pub struct Closed<'a> {
    gates: &'a Gates,
    _closer: MutexGuard<'a, ()>,
}

impl Gates {
    /// Room for `most` gates and a spare one, all empty and open; the first `in_use` of them have threads.
    pub fn new(most: usize, in_use: usize) -> Self {
        Gates {
            gates: (0..=most).map(|_| Gate(AtomicU32::new(OUT))).collect(),
            in_use: AtomicUsize::new(in_use),
            closed: AtomicBool::new(false),
            closer: Mutex::new(()),
            sleep: Mutex::new(()),
            opened: Condvar::new(),
            left: Condvar::new(),
        }
    }

    /// Takes the gates below `count` into use, for threads that are started after this.
    pub fn use_up_to(&self, count: usize) {
        assert!(count < self.gates.len(), "there is no room for {count} gates");
        self.use_more(|in_use| (in_use & SPARE) | (in_use & !SPARE).max(count));
    }

    /// Takes the spare gate into use, for a thread beside those that are numbered: its number.
    pub fn use_spare(&self) -> usize {
        self.use_more(|in_use| in_use | SPARE);
        self.gates.len() - 1
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

    /// Goes inside gate `own`; waits while the gates are closed. Only the owner calls this,
    /// and not while it is inside.
    #[inline]
    pub fn enter(&self, own: usize) {
        if !self.announce(own) {
            self.enter_slow(own);
        }
    }

    /// Says that this thread is inside; whether it may be.
    #[inline]
    fn announce(&self, own: usize) -> bool {
        self.gates[own].0.store(IN, Ordering::Relaxed);
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

    /// Leaves gate `own`. Only the owner calls this.
    #[inline]
    pub fn leave(&self, own: usize) {
        self.gates[own].0.store(OUT, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.closed.load(Ordering::Acquire) {
            self.wake_closer();
        }
    }

    #[cold]
    fn wake_closer(&self) {
        // The closer looks at the gates under this mutex before it sleeps: it either sees this
        // one left or hears the notification.
        drop(lock(&self.sleep));
        self.left.notify_all();
    }

    /// Stops the world. The caller must be outside its own gate. Waits for another closer, and
    /// for every thread to come to the end of its batch or to a command boundary.
    pub fn close(&self) -> Closed<'_> {
        let closer = lock(&self.closer);
        self.closed.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        let in_use = self.in_use.load(Ordering::Acquire);
        for gate in &self.gates[..in_use & !SPARE] {
            self.wait_left(gate);
        }
        if let (true, Some(spare)) = (in_use & SPARE != 0, self.gates.last()) {
            self.wait_left(spare);
        }
        Closed { gates: self, _closer: closer }
    }

    fn wait_left(&self, gate: &Gate) {
        for _ in 0..SPINS {
            if gate.0.load(Ordering::Acquire) == OUT {
                return;
            }
            spin_loop();
        }
        let mut sleep = lock(&self.sleep);
        while gate.0.load(Ordering::Acquire) != OUT {
            sleep = self.left.wait(sleep).unwrap_or_else(|p| p.into_inner());
        }
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.gates.closed.store(false, Ordering::Release);
        drop(lock(&self.gates.sleep));
        self.gates.opened.notify_all();
    }
}
