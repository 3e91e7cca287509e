//! Third stage: call the command's function, with what it needs in hand.
//!
//! The function answers, fails, or says that it can't end here: that it has too much to do, or that
//! the client must wait for keys. Next, still with everything in hand: [`crate::dispatch::commit`].

use crate::dispatch::call::{DataFn, Who, call, log_words};
use crate::dispatch::core::Held;
use crate::dispatch::core::{ConnCx, Core};
use crate::dispatch::request::{Flow, Outcome, Request, Task};
use crate::dispatch::{commit, reply};
use crate::pubsub;
use crate::tracking;
use crate::transaction;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_commands::{Block, CmdResult, Flags, Lane, Pause};
use weft_keyspace::commit::hand_over;
use weft_keyspace::stale::{NOBODY, invalidate};
use weft_keyspace::{Db, Guard, Inside};
use weft_resp::Blob;
use weft_state::args::ArgBuf;
use weft_state::attention;
use weft_state::command_table::{Cmd, Run};
use weft_state::mailbox::Message;
use weft_state::queued::{Queued, Transaction, Watched};
use weft_state::session::Session;
use weft_state::waiting::Waiting;
use weft_types::Kind;

/// What was published for the client before this moment comes in front of the reply.
#[inline]
pub fn catch_up(task: &mut Task<'_>) {
    if task.session.pushes.listens {
        begin(task);
        catch_up_mail(task);
    }
}

/// The command of a client that listens begins.
#[cold]
pub fn begin(task: &mut Task<'_>) {
    let in_transaction = task.session.transaction.is_some();
    // What runs again has begun before.
    if let Some(own) = &mut task.session.pushes.tracks
        && !task.request.looked
        && task.request.retry.is_none()
    {
        own.begin(task.cmd.full_name.starts_with("client|"), in_transaction);
    }
}

/// The second half of [`catch_up`].
#[inline]
fn catch_up_mail(task: &mut Task<'_>) {
    if task.session.pushes.listens {
        pubsub::catch_up(task.core, task.session, task.reply);
        task.mark = task.reply.mark();
    }
}

/// Runs a command on keys.
#[inline]
pub fn data(task: Task<'_>, run: DataFn, guard: Guard<'_>) -> Flow {
    // Apart, so that the task of all others is never changed and stays where it is.
    if task.session.pushes.listens {
        return data_of_listener(task, run, guard);
    }
    data_behind(task, run, guard, false)
}

#[cold]
fn data_of_listener(mut task: Task<'_>, run: DataFn, guard: Guard<'_>) -> Flow {
    catch_up(&mut task);
    let Task { core, session, request, cmd, reply, mark, lane } = task;
    let tracks = session.pushes.tracks.is_some();
    core.turn.client = session.own_changes();
    let task = Task { core: &mut *core, session, request, cmd, reply, mark, lane };
    let flow = data_behind(task, run, guard, tracks);
    core.turn.client = NOBODY;
    flow
}

/// As [`data`], behind what was published; `tracks`: for a client that keeps what it reads.
#[inline(always)]
fn data_behind(task: Task<'_>, run: DataFn, guard: Guard<'_>, tracks: bool) -> Flow {
    let Task { core, session, request, cmd, reply, mark, lane } = task;
    weft_process::crash::set_current_command(&cmd.full_name);
    // While the shards are held, so that two commands on one key are shown in their order. A
    // command that was shown before it had to wait is not shown again.
    match request.retry {
        None if !request.looked => feed_monitors(core, session, cmd, request.args),
        None => {}
        Some(waiting) if is_there(core, &guard, waiting) => {}
        Some(waiting) => {
            let task = Task { core, session, request, cmd, reply, mark, lane };
            return wait_on(task, guard, waiting);
        }
    }
    let seen = (core.turn.tally.hits, core.turn.tally.misses);
    let who = Who { db: session.db, no_touch: session.options.no_touch, is_decided: false };
    let (result, pause) = call(core, who, cmd, run, request, reply, &guard, lane);
    let task = Task { core, session, request, cmd, reply, mark, lane };
    match pause {
        None if tracks => commit::commit_read(task, guard, Outcome::Ended(result)),
        None => commit::commit(task, guard, Outcome::Ended(result)),
        Some(pause) => paused(task, guard, pause, seen),
    }
}

/// The command could not end here.
#[cold]
fn paused(task: Task<'_>, guard: Guard<'_>, pause: Pause, seen: (u64, u64)) -> Flow {
    let Task { core, session, request, cmd, reply, mark, lane } = task;
    let timeout_reply = reply.bytes_since(mark).to_vec();
    reply.truncate(mark);
    let flow = match pause {
        Pause::Slow => {
            // It looks at its keys again in the slow lane.
            (core.turn.tally.hits, core.turn.tally.misses) = seen;
            core.turn.effects.forget_misses();
            Flow::Slow { looked: true }
        }
        Pause::Block(block) => {
            if let Some(waiting) = request.retry {
                let task = Task { core, session, request, cmd, reply, mark, lane };
                return wait_on(task, guard, waiting);
            }
            let Block { keys, timeout_ms, instead } = *block;
            let now = core.srv.time.clock.raw();
            let spent_ns = core.srv.time.clock.delta_as_nanos(core.last_tick, now);
            core.last_tick = now;
            let end = (timeout_ms, timeout_reply);
            let keys = (&keys[..], instead);
            Flow::Blocked(wait(core, session, request, cmd, lane, keys, end, spent_ns))
        }
    };
    let task = Task { core, session, request, cmd, reply, mark, lane };
    commit::commit_read(task, guard, Outcome::Not(flow))
}

/// Whether there is still something of what a client waits for that is to try by itself: a key may have become one of
/// another type, which is no more than nothing to it.
#[cold]
fn is_there(core: &mut Core, guard: &Guard<'_>, waiting: &Waiting) -> bool {
    let ks = &core.srv.ks;
    let mut db = Db::new(guard, &mut core.turn, waiting.context.db);
    waiting.awaited.keys.iter().any(|(_, key)| {
        let found = db.peek(&ks.key(key)).map(|record| Kind::of(record.kind()).type_of());
        waiting.minds(found)
    })
}

/// A client that was to try has found nothing and keeps its place.
#[cold]
fn wait_on(task: Task<'_>, guard: Guard<'_>, waiting: &Arc<Waiting>) -> Flow {
    tell_owner(task.core, waiting, task.lane);
    commit::commit_read(task, guard, Outcome::Not(Flow::Blocked(waiting.clone())))
}

/// Has the client stand in line.
#[cold]
#[allow(clippy::too_many_arguments, reason = "the parts of one execution")]
fn wait(
    core: &Core,
    session: &Session,
    request: &Request<'_>,
    cmd: &'static Cmd,
    lane: Lane,
    (keys, instead): (&[usize], Vec<(usize, Vec<u8>)>),
    (timeout_ms, timeout_reply): (Option<u64>, Vec<u8>),
    spent_ns: u64,
) -> Arc<Waiting> {
    let srv = core.srv;
    let deadline = timeout_ms.map(|ms| srv.mono_ms().saturating_add_unsigned(ms));
    let (ks, end) = (&srv.ks, timeout_reply);
    let waiting =
        Waiting::new(ks, session, cmd, request.args, keys, instead, end, spent_ns, deadline);
    let waiting = Arc::new(waiting);
    tell_owner(core, &waiting, lane);
    srv.clients.blocked.enter(&srv.ks, &waiting);
    waiting
}

/// The thread of a client whose command was in the slow lane must know what the client waits for before
/// anybody can find it in a line.
fn tell_owner(core: &Core, waiting: &Arc<Waiting>, lane: Lane) {
    if lane == Lane::Slow {
        let message = Message::SlowBlocked { waiting: waiting.clone() };
        core.srv.threads[waiting.thread].mailbox.send(message);
    }
}

/// Runs a command of this crate that holds no shard.
pub fn server(mut task: Task<'_>, number: usize, held: Held<'_>) -> Flow {
    catch_up(&mut task);
    let outcome = match server_fn(&mut task, number, held) {
        (result, End::Here) => Outcome::Ended(result),
        (_, End::InSlowLane) => {
            task.reply.truncate(task.mark);
            Outcome::Not(Flow::Slow { looked: true })
        }
        (_, End::Later(thread)) => Outcome::Not(Flow::Crowded(thread)),
        (_, End::Waiting(waiting)) => Outcome::Not(Flow::Blocked(waiting)),
        (_, End::Elsewhere) => Outcome::Not(Flow::Slow { looked: false }),
    };
    reply::finish(task, outcome)
}

/// Where a command of this crate ends.
enum End {
    Here,
    InSlowLane,
    /// It has not begun: that thread is behind with what was published.
    Later(usize),
    /// The client waits.
    Waiting(Arc<Waiting>),
    /// It has not begun: it is much to do.
    Elsewhere,
}

/// Runs a command of this crate that needs shards, or the world.
pub fn server_with(mut task: Task<'_>, number: usize, guard: Guard<'_>) -> Flow {
    catch_up(&mut task);
    let (result, _) = server_fn(&mut task, number, Held::Guard(&guard));
    commit::commit_read(task, guard, Outcome::Ended(result))
}

/// Calls the function; also answers where it has to end.
fn server_fn(task: &mut Task<'_>, number: usize, held: Held<'_>) -> (CmdResult, End) {
    let Task { core, session, request, cmd, reply, lane, .. } = task;
    let run = core.function(number);
    weft_process::crash::set_current_command(&cmd.full_name);
    let (args, name) = (request.args, cmd.full_name);
    let shown = session.transaction.is_some() || session.watched.is_some();
    let (core, session) = (&mut **core, &mut **session);
    let looked = request.looked;
    let mut cx = ConnCx {
        core,
        session,
        args,
        reply,
        name,
        held,
        crowded: None,
        blocked: None,
        in_transaction: false,
        lane: *lane,
        is_much: false,
        end_in_slow_lane: looked,
    };
    let result = run(&mut cx);
    let ConnCx { core, session, end_in_slow_lane, crowded, blocked, is_much, .. } = cx;
    core.turn.effects.end_unlogged();
    if is_much {
        return (result, End::Elsewhere);
    }
    if let Some(thread) = crowded {
        return (result, End::Later(thread));
    }
    // Afterwards, as the line tells the database that SELECT has chosen.
    feed_monitors(core, session, cmd, args);
    // CONFIG SET and CLIENT PAUSE are in force for what follows in the same pipeline.
    core.renew_settings();
    core.begin_command();
    if shown || session.transaction.is_some() {
        transaction::renew_shared(session);
    }
    if let Some(waiting) = blocked {
        return (result, End::Waiting(waiting));
    }
    (result, if end_in_slow_lane { End::InSlowLane } else { End::Here })
}

/// Whether MONITOR shows the command.
pub fn is_monitored(cmd: &Cmd) -> bool {
    !cmd.spec.flags.has(Flags::SKIP_MONITOR.or(Flags::ADMIN))
}

/// Shows monitors a command that was refused, if that is EXEC: of others they see only what is run.
#[cold]
pub fn show_refused(task: &Task<'_>) {
    if let Run::Exec = task.cmd.run {
        feed_monitors(task.core, task.session, task.cmd, task.request.args);
    }
}

#[inline]
fn feed_monitors(core: &Core, session: &Session, cmd: &Cmd, args: &[&[u8]]) {
    if core.srv.attention.load(Ordering::Relaxed) & attention::MONITOR != 0 && is_monitored(cmd) {
        crate::monitor::feed(core.srv, session, args);
    }
}

/// WATCH: remembers the keys while their shards are held.
pub fn watch(mut task: Task<'_>, guard: Guard<'_>) -> Flow {
    catch_up(&mut task);
    if task.session.watched.is_none() {
        task.session.watched = Some(Box::new(Watched::new(
            &task.core.srv.ks,
            &task.core.srv.background.bio,
            &task.session.shared.memory.holdings,
        )));
    }
    let mut db = Db::new(&guard, &mut task.core.turn, task.session.db);
    if let Some(watched) = &mut task.session.watched {
        watched.add(&mut db, &task.request.args[1..]);
    }
    transaction::renew_shared(task.session);
    task.reply.ok();
    feed_monitors(task.core, task.session, task.cmd, task.request.args);
    commit::commit(task, guard, Outcome::Ended(Ok(())))
}

/// EXEC: runs the queue with everything in hand, unless a watched key `is_broken`.
pub fn exec(
    mut task: Task<'_>,
    transaction: &Transaction,
    is_broken: bool,
    mut guard: Guard<'_>,
) -> Flow {
    catch_up_mail(&mut task);
    let from = task.core.last_tick;
    task.session.watched = None;
    if is_broken {
        task.reply.null_array();
    } else {
        // Of a reply that is dropped the pushes are left.
        if !task.session.replies.mode.drops() {
            task.reply.array(transaction.queue.len());
        }
        for queued in &transaction.queue {
            run_one(&mut task, queued, &guard);
        }
    }
    feed_monitors(task.core, task.session, task.cmd, task.request.args);
    if let Some(own) = &mut task.session.pushes.tracks {
        // CLIENT CACHING in a transaction is for what is behind it there.
        own.spend();
        tracking::enforce(task.core, &mut guard);
    }
    task.core.turn.client = NOBODY;
    commit::commit(task, guard, Outcome::EndedInParts { from })
}

/// EXEC with a fault: others come in between its commands. Compiled into a server that nobody
/// uses but the test that the checker of histories finds such faults.
pub fn exec_one_by_one(
    mut task: Task<'_>,
    transaction: &Transaction,
    inside: &mut Inside<'static>,
) -> Flow {
    let from = task.core.last_tick;
    task.session.watched = None;
    task.reply.array(transaction.queue.len());
    for queued in &transaction.queue {
        if let Some(mut guard) = inside.world(&mut task.core.turn) {
            run_one(&mut task, queued, &guard);
            commit::tell(task.core, &mut guard, Vec::new());
        }
        std::thread::yield_now();
    }
    reply::finish(task, Outcome::EndedInParts { from })
}

fn run_one(task: &mut Task<'_>, queued: &Queued, guard: &Guard<'_>) {
    let Task { core, session, request, reply, mark: begin, .. } = task;
    let cmd = queued.cmd;
    let args: SmallVec<[&[u8]; 16]> = queued.args.iter().map(ArgBuf::bytes).collect();
    let mut blobs: SmallVec<[(usize, Blob); 1]> = SmallVec::new();
    for (at, arg) in queued.args.iter().enumerate() {
        if let ArgBuf::Blob(blob) = arg {
            blobs.push((at, blob.clone()));
        }
    }
    // What is read of a command of a transaction is EXEC, as the reference sees it.
    let bytes_at_most = request.bytes();
    let request = Request { bytes_at_most, ..Request::new(Some(cmd), &args, &blobs) };
    let mark = reply.mark();
    core.begin_import(session.options.import_source, cmd.spec.flags);
    // A later command of the transaction may ask not to be told of it.
    core.turn.client = session.shared.id;
    let result: CmdResult = match cmd.run {
        Run::Data { run, .. } => {
            feed_monitors(core, session, cmd, &args);
            let who = Who { db: session.db, no_touch: session.options.no_touch, is_decided: false };
            let (result, _) = call(core, who, cmd, run, &request, reply, guard, Lane::Transaction);
            if !core.turn.effects.is_empty() {
                log_words(core, guard, who.db, &request);
            }
            result
        }
        Run::Server(number) => {
            let run = core.function(number);
            let (name, held) = (cmd.full_name, Held::Guard(guard));
            // It may publish, too, or change who is told what: what was done before it is told before it.
            invalidate(guard, &mut core.turn);
            hand_over(guard, &mut core.turn);
            let result = run(&mut ConnCx {
                core,
                session,
                args: &args,
                reply,
                name,
                held,
                crowded: None,
                blocked: None,
                in_transaction: true,
                lane: Lane::Transaction,
                is_much: false,
                end_in_slow_lane: false,
            });
            feed_monitors(core, session, cmd, &args);
            core.turn.effects.end_unlogged();
            core.renew_settings();
            core.begin_command();
            result
        }
        Run::Exec | Run::Watch => unreachable!("never queued"),
    };
    if session.pushes.tracks.is_some() {
        commit::remember(core, session, cmd, &args, guard);
    }
    // HELLO may have changed it.
    reply.proto = session.proto;
    reply::finish_one(core, session, cmd, &request, reply, (*begin, mark), &result);
    let pushes = cmd.spec.flags.has(Flags::PUBSUB) && cmd.spec.flags.has(Flags::NOSCRIPT);
    if session.replies.mode.drops() && !pushes {
        reply.truncate(mark);
    }
}
