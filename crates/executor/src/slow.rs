//! The slow lane: threads that run long commands while the I/O threads serve everybody else.
//!
//! A command that finds out that it has much to do (see [`Ctx::weigh`](weft_commands::Ctx::weigh))
//! returns without having done anything, and is run again here, with its arguments copied. Its
//! connection is suspended meanwhile, so the order of replies is kept. It holds its shards for as
//! long as it takes, as any command does: who needs one of them waits, parked, and nobody else.
//!
//! These threads have no gate, and may sleep for a shard; what they hold is the business of
//! [`weft_keyspace::hold::SlowLaneThread`]. Commands that need the world while another is at work here
//! come here, too: an I/O thread never waits for a long command.
//!
//! Commands that wait for another server (MIGRATE) have threads of their own, which are started with
//! the first of them: whoever they wait for may never answer, and a long command has nothing to do
//! with that. From then on what stops the world has a thread of its own, too: it may have to wait for them.

use crate::blocking;
use crate::dispatch::core::Core;
use crate::dispatch::hold::hold_slow;
use crate::dispatch::needs;
use crate::dispatch::needs::needs_world;
use crate::dispatch::outcome::Suspend;
use crate::dispatch::request::{Request, Task};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_commands::Lane;
use weft_keyspace::{SlowLaneThread, Waiter};
use weft_process::log_warning;
use weft_resp::{Blob, Reply};
use weft_state::args::ArgBuf;
use weft_state::attempt::Attempt;
use weft_state::command_table::Need;
use weft_state::command_table::Run;
use weft_state::conn::Kept;
use weft_state::later::Later;
use weft_state::mailbox::Message;
use weft_state::server::Server;
use weft_state::slow_lane::{Job, LONG, OUTSIDE, THREADS};
use weft_transfer as transfer;

/// Whether a job may wait for another server.
fn waits_outside(job: &Job) -> bool {
    transfer::waits_outside(job.cmd.spec.name) || needs::waits_outside(&job.session)
}

/// Starts the threads. They end with the process.
pub fn start(srv: &'static Server) -> std::io::Result<()> {
    (0..LONG).try_for_each(|n| start_one(srv, n, &format!("weft-slow-{n}")))
}

fn start_one(srv: &'static Server, n: usize, name: &str) -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name(name.into());
    let handle = thread.spawn(move || run(srv, n))?;
    let _ = srv.slow.threads[n].set(handle.thread().clone());
    Ok(())
}

/// Whether there are threads for what waits outside, which are started if need be.
fn has_outside(srv: &'static Server) -> bool {
    let start = |n: usize| start_one(srv, n, &format!("weft-far-{}", n - LONG));
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
    let queue = if waits_outside(&job) && has_outside(srv) {
        &srv.slow.outside
    } else if waits_for_outside(srv, &job) {
        &srv.slow.world
    } else {
        &srv.slow.long
    };
    queue.put(job);
}

/// Whether a job is to stop the world, and may have to wait for a job that waits outside: where many wait for
/// that, long commands must have their threads still.
fn waits_for_outside(srv: &Server, job: &Job) -> bool {
    let args = || job.args.iter().map(ArgBuf::bytes).collect::<Vec<_>>();
    srv.slow.has_outside.get() == Some(&true)
        && needs_world(&srv.ks, job.cmd, &args(), &job.session)
}

fn run(srv: &'static Server, n: usize) {
    let _stack = weft_process::crash::second_stack();
    weft_scheduler::placement::bind_to(&srv.placement().slow);
    let mut core = Core::slow(n, srv);
    let waiter = Waiter { thread: core.waiter(), token: 0 };
    let clock: &'static _ = Box::leak(Box::new(move || srv.now_ms()));
    let mut hand = SlowLaneThread::new(&srv.ks, waiter, &std::thread::park, clock);
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
        } else if let Some(waiting) = &job.attempt.retry {
            blocking::abandon(srv, waiting);
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

fn run_job(core: &mut Core, hand: &mut SlowLaneThread<'static>, job: Job) {
    let Job { cmd, args, mut session, attempt, cancel, charge } = job;
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
    let request = Request { attempt: &attempt, ..Request::new(Some(cmd), &slices, &blobs) };
    let mut reply = Reply::new(session.proto);
    let mark = reply.mark();
    // What has looked at its keys has touched them, too.
    let no_touch = session.options.no_touch;
    session.options.no_touch |= attempt.has_run;
    // A transaction, once begun, runs to its end, whether its client is there or not.
    core.context.cancel = (!cmd.takes_session()).then_some(cancel);
    let task = Task {
        core: &mut *core,
        session: &mut session,
        request: &request,
        cmd,
        reply: &mut reply,
        mark,
        lane: Lane::Slow,
    };
    let before = task.core.context.last_unit();
    let flow = hold_slow(task, hand);
    let unit = Some(core.context.last_unit()).filter(|unit| *unit != before).unwrap_or(0);
    core.context.cancel = None;
    if attempt.has_run {
        session.options.no_touch = no_touch;
    }
    // Before the reply: a client that has it finds the command, and its hits and misses, in INFO.
    core.stats().load.requests.add(1);
    core.publish();
    let (client, thread) = (session.shared.id, session.shared.thread());
    let session = cmd.takes_session().then(|| Box::new(session));
    let message = match flow {
        Ok(()) => Message::SlowDone { client, reply, session, unit },
        Err(Suspend::Paused) => {
            let attempt = Attempt { tries: 0, ..attempt };
            let kept = Kept { attempt, ..Kept::new(Later::of(Arc::unwrap_or_clone(args))) };
            Message::SlowPaused { client, kept, session }
        }
        // The client's thread was notified under the shards.
        Err(Suspend::Blocked(_)) => return,
        Err(Suspend::Busy(_) | Suspend::MailboxFull(_) | Suspend::Slow { .. }) => {
            unreachable!("a thread of the slow lane waits for shards, and completes its commands")
        }
    };
    // Before the client is answered: what it asks next finds nothing of this.
    charge.release();
    core.srv.threads[thread].mailbox.send(message);
}
