//! The queues of the slow lane, and the state of its jobs that other threads read. Its threads:
//! `weft_executor::slow`.

use crate::acting::{Acting, ActionId};
use crate::args::ArgBuf;
use crate::attempt::Attempt;
use crate::clients::ClientShared;
use crate::command_table::Cmd;
use crate::conn::DeferredRequest;
use crate::session::Session;
use crate::waiting::Waiting;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread::Thread;
use weft_memory::holdings::Charge;
use weft_resp::Reply;

/// Threads for long commands. Most of the time they wait: for a shard, or to stop the world.
pub const LONG: usize = 4;
/// More threads, for commands that wait for another server.
pub const OUTSIDE: usize = 4;
/// One more thread, started with those, for commands that stop the world: they may have to wait for the others.
pub const WORLD: usize = 1;
/// All threads.
pub const THREADS: usize = LONG + OUTSIDE + WORLD;

/// A command to be executed.
#[derive(Debug)]
pub struct Job {
    pub cmd: &'static Cmd,
    /// Shared with the wait of a client that retries.
    pub args: Arc<Vec<ArgBuf>>,
    /// The connection's session or a copy: see [`Cmd::takes_session`].
    pub session: Session,
    /// A client that retries keeps its position in the wait queues and its timeout meanwhile.
    pub attempt: Attempt,
    /// Set when the client has disconnected.
    pub cancel: Arc<AtomicBool>,
    /// The charge of the arguments' memory to the client.
    pub charge: Charge,
    /// When it was queued ([`Server::mono_ms`](crate::server::Server::mono_ms)).
    pub queued_ms: i64,
}

/// The result of a job, for the thread of its client.
#[derive(Debug)]
pub enum SlowMessage {
    /// The command is done, with this reply, and with the session if the command took it. Its effects are in
    /// `unit` of the effect log; 0: nothing is logged.
    Done { client: u64, reply: Reply, session: Option<Box<Session>>, unit: u64 },
    /// The command waits for a key.
    Blocked { waiting: Arc<Waiting> },
    /// A pause holds back the command; it was not executed.
    Paused { client: u64, kept: DeferredRequest, session: Option<Box<Session>> },
}

/// Jobs that no thread has started, in the order of their arrival.
#[derive(Debug)]
pub struct Queue<T = Job> {
    jobs: Mutex<VecDeque<T>>,
    arrived: Condvar,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue { jobs: Mutex::default(), arrived: Condvar::new() }
    }
}

impl<T> Queue<T> {
    /// Queues a job.
    pub fn put(&self, job: T) {
        self.jobs().push_back(job);
        self.arrived.notify_one();
    }

    /// Queues a job before all others.
    pub fn put_first(&self, job: T) {
        self.jobs().push_front(job);
        self.arrived.notify_one();
    }

    /// The next job. Blocks until there is one.
    pub fn next(&self) -> T {
        let waited = self.arrived.wait_while(self.jobs(), |jobs| jobs.is_empty());
        let mut jobs = waited.unwrap_or_else(|p| p.into_inner());
        jobs.pop_front().expect("waited for a job")
    }

    fn jobs(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.jobs.lock().unwrap_or_else(|p| p.into_inner())
    }
}

/// DEBUG PAUSE-SLOW-LANE: no long command starts, so that a test can prepare the state that it will find.
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

    /// Blocks while the pause is on.
    pub fn wait(&self) {
        let is_on = self.is_on.lock().unwrap_or_else(|p| p.into_inner());
        drop(self.changed.wait_while(is_on, |is_on| *is_on));
    }
}

/// The slow lane, as other threads see it.
#[derive(Debug)]
pub struct SlowLane {
    pub acting: Acting<Job>,
    pub pause: Pause,
    pub long: Queue,
    pub outside: Queue,
    pub world: Queue,
    /// Whether the threads for commands that wait for another server exist; set by the first such command.
    pub has_outside: OnceLock<bool>,
    /// The threads, woken when a shard is released.
    pub threads: [OnceLock<Thread>; THREADS],
    pub jobs: AtomicUsize,
    /// The number of running jobs that write.
    writes: AtomicUsize,
}

/// A command counts as running until this is dropped.
pub struct Acts<'a> {
    lane: &'a SlowLane,
    command: ActionId,
}

impl Drop for Acts<'_> {
    fn drop(&mut self) {
        self.lane
            .acting
            .end(self.command)
            .into_iter()
            .for_each(|job| self.lane.long.put_first(job));
    }
}

/// A command that writes is running in the slow lane, until this is dropped.
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

    /// Pauses or resumes the threads for long commands. The other threads are not affected.
    pub fn pause(&self, is_on: bool) {
        self.pause.set(is_on);
    }

    /// Registers a running command, until the result is dropped: see [`Acting::begin`].
    pub fn acts(&self, client: &Arc<ClientShared>, delays_kill: bool) -> Acts<'_> {
        Acts { lane: self, command: self.acting.begin(client, delays_kill) }
    }

    /// Queues a job that completes the reply of a command which has taken effect, once these commands have ended. It precedes
    /// jobs that have done nothing yet: those may run for any time.
    pub fn put_after(&self, commands: Vec<ActionId>, job: Job) {
        if let Some(job) = self.acting.wait(commands, job) {
            self.long.put_first(job);
        }
    }

    /// Registers a running command that writes, until the result is dropped.
    pub fn writing(&self) -> Writing<'_> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        Writing(&self.writes)
    }

    /// The number of commands that write and are running or about to run.
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    /// Wakes thread `n`: a shard that it waits for is free.
    pub fn wake(&self, n: usize) {
        if let Some(thread) = self.threads.get(n).and_then(OnceLock::get) {
            thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_job_precedes_all_others() {
        let queue = Queue::default();
        queue.put("a");
        queue.put("b");
        queue.put_first("first");
        assert_eq!([queue.next(), queue.next(), queue.next()], ["first", "a", "b"]);
    }

    #[test]
    fn each_job_goes_to_one_thread() {
        let queue = Queue::default();
        let taken = std::thread::scope(|scope| {
            let takers: Vec<_> =
                (0..4).map(|_| scope.spawn(|| [queue.next(), queue.next()])).collect();
            (0..8).for_each(|n| if n % 2 == 0 { queue.put(n) } else { queue.put_first(n) });
            takers
                .into_iter()
                .flat_map(|taker| taker.join().expect("a thread"))
                .collect::<Vec<i32>>()
        });
        assert_eq!(taken.iter().sum::<i32>(), 28);
    }
}
