//! The queues of the slow lane, and what other threads may know of its jobs. Its threads: [`weft_executor::slow`].

use crate::args::ArgBuf;
use crate::attempt::Attempt;
use crate::clients::ClientShared;
use crate::command_table::Cmd;
use crate::session::Session;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread::Thread;
use weft_memory::holdings::Charge;

/// How many threads. Most wait: for a shard, or to stop the world.
pub const LONG: usize = 4;
/// How many more there are for what waits for another server.
pub const OUTSIDE: usize = 4;
/// And one, started with those, for what stops the world and may have to wait for them.
pub const WORLD: usize = 1;
/// All of them.
pub const THREADS: usize = LONG + OUTSIDE + WORLD;

/// One command to be run.
#[derive(Debug)]
pub struct Job {
    pub cmd: &'static Cmd,
    /// Shared with the wait of a client that tries again.
    pub args: Arc<Vec<ArgBuf>>,
    /// A copy of the connection's, or itself: see [`Cmd::takes_session`].
    pub session: Session,
    /// A client that retries keeps its position and its timeout meanwhile.
    pub attempt: Attempt,
    /// Set when the client is gone.
    pub cancel: Arc<AtomicBool>,
    /// Of the arguments, to the client.
    pub charge: Charge,
}

/// Jobs that no thread has begun.
#[derive(Debug)]
pub struct Queue {
    to: Sender<Job>,
    from: Mutex<Receiver<Job>>,
}

impl Default for Queue {
    fn default() -> Self {
        let (to, from) = channel();
        Queue { to, from: Mutex::new(from) }
    }
}

impl Queue {
    /// Queues a job.
    pub fn put(&self, job: Job) {
        // The receiver lives as long as the server.
        let _ = self.to.send(job);
    }

    /// The next job; `None` at the end of the process.
    pub fn next(&self) -> Option<Job> {
        self.from.lock().unwrap_or_else(|p| p.into_inner()).recv().ok()
    }
}

/// DEBUG PAUSE-SLOW-LANE: long commands are not begun, so that a test can set what they meet.
#[derive(Debug, Default)]
pub struct Pause {
    is_on: Mutex<bool>,
    changed: Condvar,
}

impl Pause {
    fn set(&self, is_on: bool) {
        *self.is_on.lock().unwrap_or_else(|p| p.into_inner()) = is_on;
        self.changed.notify_all();
    }

    /// Returns when there is none.
    pub fn wait(&self) {
        let is_on = self.is_on.lock().unwrap_or_else(|p| p.into_inner());
        drop(self.changed.wait_while(is_on, |is_on| *is_on));
    }
}

/// Clients of which a command is running that takes the session along and may do more than change keys: whoever kills
/// one of them waits for the end of that.
#[derive(Debug, Default)]
struct Acting {
    clients: Mutex<Vec<Arc<ClientShared>>>,
    ended: Condvar,
}

impl Acting {
    fn clients(&self) -> MutexGuard<'_, Vec<Arc<ClientShared>>> {
        self.clients.lock().unwrap_or_else(|p| p.into_inner())
    }
}

/// A client's command acts until this is dropped.
pub struct Acts<'a>(&'a Acting, u64);

impl Drop for Acts<'_> {
    fn drop(&mut self) {
        self.0.clients().retain(|client| client.id != self.1);
        self.0.ended.notify_all();
    }
}

/// The way to the slow lane.
#[derive(Debug)]
pub struct SlowLane {
    acting: Acting,
    pub pause: Pause,
    pub long: Queue,
    pub outside: Queue,
    pub world: Queue,
    /// Whether there are threads for what waits outside, once somebody has wanted them.
    pub has_outside: OnceLock<bool>,
    /// The threads, to be woken when a shard is free.
    pub threads: [OnceLock<Thread>; THREADS],
    pub jobs: AtomicUsize,
    /// Of the running ones, those that write.
    writes: AtomicUsize,
}

/// A command that writes is running in the slow lane.
pub struct Writing<'a>(&'a AtomicUsize);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Default for SlowLane {
    fn default() -> Self {
        let threads = std::array::from_fn(|_| OnceLock::new());
        SlowLane {
            acting: Acting::default(),
            pause: Pause::default(),
            long: Queue::default(),
            outside: Queue::default(),
            world: Queue::default(),
            has_outside: OnceLock::new(),
            threads,
            jobs: AtomicUsize::new(0),
            writes: AtomicUsize::new(0),
        }
    }
}

impl SlowLane {
    /// Jobs that are running or queued.
    pub fn jobs(&self) -> usize {
        self.jobs.load(Ordering::Relaxed)
    }

    /// Has the threads for long commands begin none, or go on. Those for MIGRATE and the world do not care.
    pub fn pause(&self, is_on: bool) {
        self.pause.set(is_on);
    }

    /// Says that a command of the client acts, until the answer is dropped.
    pub fn acts(&self, client: &Arc<ClientShared>) -> Acts<'_> {
        self.acting.clients().push(client.clone());
        Acts(&self.acting, client.id)
    }

    /// The clients whose command acts and that satisfy `is`.
    pub fn acting(&self, is: impl Fn(&ClientShared) -> bool) -> Vec<u64> {
        self.acting.clients().iter().filter(|client| is(client)).map(|client| client.id).collect()
    }

    /// Sleeps until no command of these clients acts. They are to be killed, or gone, so that there is no other one.
    pub fn wait_for(&self, clients: &[u64]) {
        let acting = self.acting.clients();
        let one_acts =
            |all: &mut Vec<Arc<ClientShared>>| all.iter().any(|c| clients.contains(&c.id));
        drop(self.acting.ended.wait_while(acting, one_acts));
    }

    /// Says that a command that writes is running, until the answer is dropped.
    pub fn writing(&self) -> Writing<'_> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        Writing(&self.writes)
    }

    /// Commands that write and are running now, or about to.
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    /// A shard that thread `n` waits for is free.
    pub fn wake(&self, n: usize) {
        if let Some(thread) = self.threads.get(n).and_then(OnceLock::get) {
            thread.unpark();
        }
    }
}
