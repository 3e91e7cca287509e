//! The slow lane: threads that run long commands while the I/O threads serve everybody else.
//!
//! A command that finds out that it has much to do (see [`Ctx::weigh`](weft_commands::Ctx::weigh))
//! returns without having done anything, and is run again here, with its arguments copied. Its
//! connection is suspended meanwhile, so the order of replies is kept. It holds its shards for as
//! long as it takes, as any command does: who needs one of them waits, parked, and nobody else.
//!
//! These threads have no gate. Each holds [`Keyspace::slow`](weft_keyspace::Keyspace::slow) while
//! it runs a command, which is what who stops the world waits for.

use crate::dispatch::guarded::{DataFn, Need, Ran, attempt, need};
use crate::dispatch::table::Run;
use crate::dispatch::{Core, execute, transaction};
use crate::io::conn::ArgBuf;
use crate::io::{Message, Session};
use crate::server::Server;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Thread;
use weft_commands::{Lane, spec::Lock};
use weft_keyspace::{Busy, Guard, Waiter};
use weft_resp::{Blob, Reply};

/// How many threads. A command that stops the world or walks all keys has to wait for the others
/// anyway.
pub const THREADS: usize = 2;

/// One command to be run.
#[derive(Debug)]
pub struct Job {
    pub cmd: &'static crate::dispatch::Cmd,
    pub args: Vec<ArgBuf>,
    /// A copy of the connection's; for EXEC, with its transaction.
    pub session: Session,
    /// Set when the client is gone.
    pub cancel: Arc<AtomicBool>,
}

/// The way to the slow lane.
#[derive(Debug)]
pub struct SlowLane {
    to: Sender<Job>,
    from: Mutex<Receiver<Job>>,
    /// The threads, to be woken when a shard is free.
    threads: [OnceLock<Thread>; THREADS],
    jobs: AtomicUsize,
}

impl Default for SlowLane {
    fn default() -> Self {
        let (to, from) = channel();
        let threads = std::array::from_fn(|_| OnceLock::new());
        SlowLane { to, from: Mutex::new(from), threads, jobs: AtomicUsize::new(0) }
    }
}

impl SlowLane {
    /// Starts the threads. They end with the process.
    pub fn start(srv: &'static Server) -> std::io::Result<()> {
        for n in 0..THREADS {
            let thread = std::thread::Builder::new().name(format!("weft-slow-{n}"));
            let handle = thread.spawn(move || run(srv, n))?;
            let _ = srv.slow.threads[n].set(handle.thread().clone());
        }
        Ok(())
    }

    /// Queues a job. Its outcome reaches the client's thread as a message.
    pub fn send(&self, job: Job) {
        self.jobs.fetch_add(1, Ordering::Relaxed);
        // The receiver lives as long as the server.
        let _ = self.to.send(job);
    }

    /// Jobs that are running or queued.
    pub fn jobs(&self) -> usize {
        self.jobs.load(Ordering::Relaxed)
    }

    /// A shard that thread `n` waits for is free.
    pub fn wake(&self, n: usize) {
        if let Some(thread) = self.threads.get(n).and_then(OnceLock::get) {
            thread.unpark();
        }
    }

    fn next(&self) -> Option<Job> {
        self.from.lock().unwrap_or_else(|p| p.into_inner()).recv().ok()
    }
}

fn run(srv: &'static Server, n: usize) {
    let _stack = crate::start::second_stack();
    crate::threads::bind_to(&srv.placement().slow);
    let mut core = Core::slow(n, srv);
    while let Some(job) = srv.slow.next() {
        if !job.cancel.load(Ordering::Relaxed) {
            run_job(&mut core, job);
        }
        srv.slow.jobs.fetch_sub(1, Ordering::Relaxed);
        core.publish();
        weft_table::epoch::collect();
    }
}

fn run_job(core: &mut Core, job: Job) {
    let Job { cmd, args, mut session, cancel } = job;
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
    let request = execute::Request { cmd: Some(cmd), args: &slices, blobs: &blobs, key: None };
    let mut reply = Reply::new(session.proto);
    let done = match cmd.run {
        Run::Data { lock, run } => {
            core.turn.cancel = Some(cancel);
            let ran = held(core, &mut session, cmd, (lock, run), &request, &mut reply);
            core.turn.cancel = None;
            if let Ran::Ended(result) = &ran {
                if let Err(e) = result {
                    reply.clear();
                    execute::refuse(core, &mut reply, e);
                }
                execute::account(core, &session, cmd, &request, &reply, result.is_err());
            }
            matches!(ran, Ran::Ended(_))
        }
        // Once begun it runs to its end, whether its client is there or not.
        Run::Exec => {
            transaction::exec_slow(core, &mut session, cmd, &request, &mut reply);
            true
        }
        Run::Server(_) | Run::Watch => unreachable!("only commands on keys weigh their work"),
    };
    core.free_trash();
    // Else the message was sent while the shards were held.
    if done {
        let message = Message::SlowDone { client: session.shared.id, reply };
        core.srv.threads[session.shared.thread()].mailbox.send(message);
    }
}

/// Gets hold of what the command needs, however long that takes, and runs it.
fn held(
    core: &mut Core,
    session: &mut Session,
    cmd: &'static crate::dispatch::Cmd,
    (lock, run): (Lock, DataFn),
    request: &execute::Request<'_>,
    reply: &mut Reply,
) -> Ran {
    let srv = core.srv;
    match need(&srv.ks, cmd, lock, request, session.db) {
        Need::World => core.world(|core, guard| {
            attempt(core, session, cmd, run, request, reply, guard, Lane::Slow)
        }),
        Need::Names => {
            let waiter = Waiter { thread: core.waiter(), token: 0 };
            let mut guard = srv.ks.cut(waiter, &std::thread::park, core.turn.now_ms);
            attempt(core, session, cmd, run, request, reply, &mut guard, Lane::Slow)
        }
        shards @ (Need::One(_) | Need::Shards(_)) => holding(core, &shards, |core, guard| {
            let ran = attempt(core, session, cmd, run, request, reply, guard, Lane::Slow);
            // Its thread must know what the client waits for before anybody serves it.
            if let Some(waiting) = session.waiting.take() {
                let message = Message::SlowBlocked { client: session.shared.id, waiting };
                srv.threads[session.shared.thread()].mailbox.send(message);
            }
            ran
        }),
    }
}

/// Runs `f` with these shards in hand, however long it takes to get them.
pub fn holding<T>(
    core: &mut Core,
    shards: &Need,
    f: impl FnOnce(&mut Core, &mut Guard<'_>) -> T,
) -> T {
    let srv = core.srv;
    let waiter = Waiter { thread: core.waiter(), token: 0 };
    loop {
        let lane = srv.ks.slow();
        let guard = match shards {
            Need::One(shard) => srv.ks.guard_one(*shard),
            Need::Shards(set) => srv.ks.guard(set.clone()),
            Need::World | Need::Names => unreachable!("these have ways of their own"),
        };
        match guard {
            Ok(mut guard) => return f(core, &mut guard),
            Err(busy) => {
                drop(lane);
                park(srv, busy, waiter);
            }
        }
    }
}

fn park(srv: &Server, busy: Busy, waiter: Waiter) {
    if srv.ks.park(busy, waiter) {
        std::thread::park();
    }
}
