//! The slow lane: threads that run long commands while the I/O threads serve everybody else.
//!
//! A command that finds out that it has much to do (see [`Ctx::weigh`](weft_commands::Ctx::weigh))
//! returns without having done anything, and is run again here, with its arguments copied. Its
//! connection is suspended meanwhile, so the order of replies is kept. It holds its shards for as
//! long as it takes, as any command does: who needs one of them waits, parked, and nobody else.
//!
//! These threads have no gate, and may sleep for a shard; what they hold is the business of
//! [`weft_keyspace::hold::SlowHand`]. Commands that need the world while another is at work here
//! come here, too: an I/O thread never waits for a long command.
//!
//! Commands that wait for another server (MIGRATE) have threads of their own, which are started with
//! the first of them: whoever they wait for may never answer, and a long command has nothing to do
//! with that. From then on what stops the world has a thread of its own, too: it may have to wait for them.

use crate::blocking::{Waiting, serve};
use crate::clients::ClientShared;
use crate::dispatch::hold::{Need, hold_slow, needs_world};
use crate::dispatch::request::{Flow, Request, Task};
use crate::dispatch::table::Run;
use crate::dispatch::{Cmd, Core};
use crate::holdings::Charge;
use crate::io::args::ArgBuf;
use crate::io::conn::Kept;
use crate::io::later::Later;
use crate::io::{Message, Session};
use crate::server::Server;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread::Thread;
use weft_commands::Lane;
use weft_keyspace::{SlowHand, Waiter};
use weft_process::log_warning;
use weft_resp::{Blob, Reply};
use weft_transfer as transfer;

/// How many threads. Most wait: for a shard, or to stop the world.
const LONG: usize = 4;
/// How many more there are for what waits for another server.
const OUTSIDE: usize = 4;
/// And one, started with those, for what stops the world and may have to wait for them.
const WORLD: usize = 1;
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
    /// The command has been run until it saw how much it has to do.
    pub looked: bool,
    /// The client stands in line with it, and keeps its place and its time while it is tried.
    pub retry: Option<Arc<Waiting>>,
    /// Set when the client is gone.
    pub cancel: Arc<AtomicBool>,
    /// Of the arguments, to the client.
    pub charge: Charge,
}

impl Job {
    /// Whether it may wait for another server.
    fn waits_outside(&self) -> bool {
        let transaction = self.session.transaction.as_ref();
        transfer::waits_outside(self.cmd.spec.name)
            || transaction.is_some_and(|transaction| transaction.waits_outside())
    }
}

/// Jobs that no thread has begun.
#[derive(Debug)]
struct Queue {
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
    fn put(&self, job: Job) {
        // The receiver lives as long as the server.
        let _ = self.to.send(job);
    }

    fn next(&self) -> Option<Job> {
        self.from.lock().unwrap_or_else(|p| p.into_inner()).recv().ok()
    }
}

/// DEBUG PAUSE-SLOW-LANE: long commands are not begun, so that a test can set what they meet.
#[derive(Debug, Default)]
struct Pause {
    is_on: Mutex<bool>,
    changed: Condvar,
}

impl Pause {
    fn set(&self, is_on: bool) {
        *self.is_on.lock().unwrap_or_else(|p| p.into_inner()) = is_on;
        self.changed.notify_all();
    }

    /// Returns when there is none.
    fn wait(&self) {
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
    pause: Pause,
    long: Queue,
    outside: Queue,
    world: Queue,
    /// Whether there are threads for what waits outside, once somebody has wanted them.
    has_outside: OnceLock<bool>,
    /// The threads, to be woken when a shard is free.
    threads: [OnceLock<Thread>; THREADS],
    jobs: AtomicUsize,
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
    /// Starts the threads. They end with the process.
    pub fn start(srv: &'static Server) -> std::io::Result<()> {
        (0..LONG).try_for_each(|n| SlowLane::start_one(srv, n, &format!("weft-slow-{n}")))
    }

    fn start_one(srv: &'static Server, n: usize, name: &str) -> std::io::Result<()> {
        let thread = std::thread::Builder::new().name(name.into());
        let handle = thread.spawn(move || run(srv, n))?;
        let _ = srv.slow.threads[n].set(handle.thread().clone());
        Ok(())
    }

    /// Whether there are threads for what waits outside, which are started if need be.
    fn has_outside(srv: &'static Server) -> bool {
        let start = |n: usize| SlowLane::start_one(srv, n, &format!("weft-far-{}", n - LONG));
        *srv.slow.has_outside.get_or_init(|| match (LONG..THREADS).try_for_each(start) {
            Ok(()) => true,
            Err(e) => {
                log_warning!("Can't start threads for MIGRATE, which goes to the others: {e}");
                false
            }
        })
    }

    /// Queues a job. Its outcome reaches the client's thread as a message.
    pub fn send(srv: &'static Server, job: Job) {
        srv.slow.jobs.fetch_add(1, Ordering::Relaxed);
        let queue = if job.waits_outside() && SlowLane::has_outside(srv) {
            &srv.slow.outside
        } else if srv.slow.waits_for_outside(srv, &job) {
            &srv.slow.world
        } else {
            &srv.slow.long
        };
        queue.put(job);
    }

    /// Whether a job is to stop the world, and may have to wait for a job that waits outside: where many wait for
    /// that, long commands must have their threads still.
    fn waits_for_outside(&self, srv: &Server, job: &Job) -> bool {
        let args = || job.args.iter().map(ArgBuf::bytes).collect::<Vec<_>>();
        self.has_outside.get() == Some(&true)
            && needs_world(&srv.ks, job.cmd, &args(), &job.session)
    }

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

fn run(srv: &'static Server, n: usize) {
    let _stack = weft_process::crash::second_stack();
    weft_scheduler::placement::bind_to(&srv.placement().slow);
    let mut core = Core::slow(n, srv);
    let waiter = Waiter { thread: core.waiter(), token: 0 };
    let clock: &'static _ = Box::leak(Box::new(move || srv.now_ms()));
    let mut hand = SlowHand::new(&srv.ks, waiter, &std::thread::park, clock);
    let queue = match n {
        _ if n < LONG => &srv.slow.long,
        _ if n < LONG + OUTSIDE => &srv.slow.outside,
        _ => &srv.slow.world,
    };
    while let Some(job) = queue.next() {
        if n < LONG {
            srv.slow.pause.wait();
        }
        if !job.cancel.load(Ordering::Relaxed) || is_wanted_by_more(srv, &job) {
            run_job(&mut core, &mut hand, job);
        } else if let Some(waiting) = &job.retry {
            serve::abandon(srv, waiting);
        }
        srv.slow.jobs.fetch_sub(1, Ordering::Relaxed);
        core.publish();
        weft_table::epoch::collect();
    }
}

/// Whether a job is done though its client has gone: it was sent for what it does, not for its answer,
/// as a script does that says BGSAVE and hangs up.
fn is_wanted_by_more(srv: &Server, job: &Job) -> bool {
    let args: Vec<&[u8]> = job.args.iter().map(ArgBuf::bytes).collect();
    matches!(job.cmd.run, Run::Server(_)) && matches!(job.cmd.need(&srv.ks, &args), Need::Aside)
}

fn run_job(core: &mut Core, hand: &mut SlowHand<'static>, job: Job) {
    let Job { cmd, args, mut session, looked, retry, cancel, charge } = job;
    core.begin();
    let slices: Vec<&[u8]> = args.iter().map(ArgBuf::bytes).collect();
    let blobs: Vec<(usize, Blob)> = args
        .iter()
        .enumerate()
        .filter_map(|(at, arg)| match arg {
            ArgBuf::Blob(blob) => Some((at, blob.clone())),
            ArgBuf::Bytes(_) => None,
        })
        .collect();
    let retry = retry.as_ref();
    let request = Request { looked, retry, ..Request::new(Some(cmd), &slices, &blobs) };
    let mut reply = Reply::new(session.proto);
    let mark = reply.mark();
    // What has looked at its keys has touched them, too.
    let no_touch = session.no_touch;
    session.no_touch |= looked;
    // A transaction, once begun, runs to its end, whether its client is there or not.
    core.turn.cancel = (!cmd.takes_session()).then_some(cancel);
    let task = Task {
        core: &mut *core,
        session: &mut session,
        request: &request,
        cmd,
        reply: &mut reply,
        mark,
        lane: Lane::Slow,
    };
    let before = task.core.turn.last_unit();
    let flow = hold_slow(task, hand);
    let unit = Some(core.turn.last_unit()).filter(|unit| *unit != before).unwrap_or(0);
    core.turn.cancel = None;
    if looked {
        session.no_touch = no_touch;
    }
    // Before the reply: a client that has it finds the command, and its hits and misses, in INFO.
    core.stats().requests.add(1);
    core.publish();
    let (client, thread) = (session.shared.id, session.shared.thread());
    let session = cmd.takes_session().then(|| Box::new(session));
    let message = match flow {
        Flow::Done => Message::SlowDone { client, reply, session, unit },
        Flow::Paused => {
            let kept = Kept {
                looked,
                retry: retry.cloned(),
                ..Kept::new(Later::of(Arc::unwrap_or_clone(args)))
            };
            Message::SlowPaused { client, kept, session }
        }
        // Its thread was told while the shards were held.
        Flow::Blocked(_) => return,
        Flow::Busy(_) | Flow::Crowded(_) | Flow::Slow { .. } => {
            unreachable!("the slow lane takes its time")
        }
    };
    // Before the client is answered: what it asks next finds nothing of this.
    charge.release();
    core.srv.threads[thread].mailbox.send(message);
}
