//! The slow lane: threads that run long commands, so that they don't block other clients.
//!
//! A command that finds that it has too much work (see [`Ctx::weigh`](weft_commands::Ctx::weigh))
//! returns before it has any effect. It runs again here, with copied arguments. Its connection is
//! suspended meanwhile, so the order of replies is kept. It holds its shards until it ends, as any
//! command does: only clients that need one of them wait.
//!
//! These threads have no safepoint, and may sleep until a shard is free: see
//! [`weft_keyspace::hold::SlowLaneThread`]. A command that must stop the world while a long command
//! runs comes here, too: an I/O thread never waits for a long command.
//!
//! Commands that wait for another server (MIGRATE) have separate threads, started with the first such
//! command: the other server may never reply, and must not delay long commands. From then on,
//! commands that stop the world have a separate thread, too: they may have to wait for MIGRATE.

use crate::blocking;
use crate::dispatch::core::Core;
use crate::dispatch::hold::hold_slow;
use crate::dispatch::needs;
use crate::dispatch::needs::needs_world;
use crate::dispatch::outcome::Suspend;
use crate::dispatch::request::{Request, Task};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_command_spec::Flags;
use weft_commands::Lane;
use weft_keyspace::{SlowLaneThread, Waiter};
use weft_process::log_warning;
use weft_resp::{Blob, Reply};
use weft_state::args::ArgBuf;
use weft_state::attempt::Attempt;
use weft_state::command_table::Need;
use weft_state::command_table::Run;
use weft_state::conn::DeferredRequest;
use weft_state::mailbox::Message;
use weft_state::packed_requests::PackedRequests;
use weft_state::server::Server;
use weft_state::slow_lane::{Job, LONG, OUTSIDE, SlowMessage, THREADS};

/// Whether a job may wait for another server.
fn waits_outside(job: &Job) -> bool {
    job.cmd.spec.flags.has(Flags::WAITS_FOR_SERVER) || needs::waits_outside(&job.session)
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

/// Starts the threads for commands that wait for another server, if they don't run yet. Returns whether they run.
fn ensure_outside_threads(srv: &'static Server) -> bool {
    let start = |n: usize| start_one(srv, n, &format!("weft-far-{}", n - LONG));
    *srv.slow.has_outside.get_or_init(|| match (LONG..THREADS).try_for_each(start) {
        Ok(()) => true,
        Err(e) => {
            log_warning!(
                "Can't start threads for MIGRATE, which runs on those for long commands: {e}"
            );
            false
        }
    })
}

/// Queues a job. The client's thread gets its result as a message.
pub fn send(srv: &'static Server, job: Job) {
    srv.slow.jobs.fetch_add(1, Ordering::Relaxed);
    if let Some(pending) = &job.session.replies.pending {
        return srv.slow.put_after(pending.commands.clone(), job);
    }
    let queue = if waits_outside(&job) && ensure_outside_threads(srv) {
        &srv.slow.outside
    } else if waits_for_outside(srv, &job) {
        &srv.slow.world
    } else {
        &srv.slow.long
    };
    queue.put(job);
}

/// Whether a job must stop the world, and may have to wait for a job that waits for another server. Many such jobs
/// must not occupy the threads for long commands.
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
    let mut holder = SlowLaneThread::new(&srv.ks, waiter, &std::thread::park, clock);
    let queue = match n {
        _ if n < LONG => &srv.slow.long,
        _ if n < LONG + OUTSIDE => &srv.slow.outside,
        _ => &srv.slow.world,
    };
    loop {
        let job = queue.next();
        if n < LONG {
            srv.slow.pause.wait();
        }
        if !job.cancel.load(Ordering::Relaxed) || runs_without_client(srv, &job) {
            run_job(&mut core, &mut holder, job);
        } else if let Some(waiting) = &job.attempt.retry {
            blocking::abandon(srv, waiting);
        }
        srv.slow.jobs.fetch_sub(1, Ordering::Relaxed);
        core.publish();
        weft_table::epoch::collect();
    }
}

/// Whether a job runs although its client has disconnected: its effect matters, not its reply. Example: a script
/// that sends BGSAVE and disconnects.
fn runs_without_client(srv: &Server, job: &Job) -> bool {
    let args: Vec<&[u8]> = job.args.iter().map(ArgBuf::bytes).collect();
    matches!(job.cmd.run, Run::Server(_)) && matches!(job.cmd.need(&srv.ks, &args), Need::Aside)
}

fn run_job(core: &mut Core, holder: &mut SlowLaneThread<'static>, job: Job) {
    let Job { cmd, args, mut session, attempt, cancel, charge, queued_ms } = job;
    core.begin();
    core.stats().load.queued_ms.add((core.mono_ms - queued_ms).max(0) as u64);
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
    // The first run has already updated the access times of its keys.
    let no_touch = session.options.no_touch;
    session.options.no_touch |= attempt.has_run;
    // A transaction that has begun runs to its end, even if its client disconnects.
    core.context.cancel = (!cmd.takes_session()).then_some(cancel);
    let before = core.context.last_unit();
    let flow = loop {
        let task = Task {
            core: &mut *core,
            session: &mut session,
            request: &request,
            cmd,
            reply: &mut reply,
            mark,
            lane: Lane::Slow,
        };
        match hold_slow(task, holder) {
            // A script starts over with what it has found that it needs.
            Err(Suspend::Busy(_) | Suspend::Slow { .. }) if session.script.is_some() => {}
            flow => break flow,
        }
    };
    let unit = Some(core.context.last_unit()).filter(|unit| *unit != before).unwrap_or(0);
    core.context.cancel = None;
    if attempt.has_run {
        session.options.no_touch = no_touch;
    }
    // Before the reply: afterwards, the client finds the command and its hits and misses in INFO.
    core.stats().load.requests.add(1);
    core.publish();
    let (client, thread) = (session.shared.id, session.shared.thread());
    let session = cmd.takes_session().then(|| Box::new(session));
    let message = match flow {
        Ok(()) => Message::Slow(SlowMessage::Done { client, reply, session, unit }),
        Err(Suspend::Paused) => {
            let attempt = Attempt { tries: 0, ..attempt };
            let kept = DeferredRequest {
                attempt,
                ..DeferredRequest::new(PackedRequests::of(Arc::unwrap_or_clone(args)))
            };
            Message::Slow(SlowMessage::Paused { client, kept, session })
        }
        // The client's thread was notified under the shards.
        Err(Suspend::Blocked(_)) => return,
        Err(
            Suspend::Busy(_) | Suspend::MailboxFull(_) | Suspend::InTransit | Suspend::Slow { .. },
        ) => {
            unreachable!("a thread of the slow lane waits for shards, and completes its commands")
        }
    };
    // Before the reply: the client's next command must not find this memory counted.
    charge.release();
    core.srv.threads[thread].mailbox.send(message);
}
