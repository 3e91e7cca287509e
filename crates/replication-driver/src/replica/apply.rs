//! Applies the primary's stream unit by unit.
//!
//! A unit is one command, or all commands between MULTI and EXEC. It is applied atomically: the
//! shards of all its keys are held from its first command to its last, and it is committed as one
//! group. So no client sees half of it, and subscribers to changes are notified as for a client's
//! command.
//!
//! The thread uses the spare safepoint. Inside it the role can't change. So the thread asks the
//! machine once for many units whether they may be applied
//! ([`Node::may_apply`](weft_replication::Node::may_apply)), and reports them once before it leaves
//! the safepoint. A unit is applied outside of the safepoint, like commands of the slow lane, if it
//! must stop the world, runs long or can't get its shards at once. It is then checked and reported
//! while the shards are held.
//!
//! A command runs as it ran at the primary, regardless of the current time: a key counts as expired
//! only if the primary says so.

use crate::hub;
use crate::replica::client;
use crate::replica::command::{Work, work_of};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use weft_command_spec::Flags;
use weft_commands::{Lane, Lock, Pause};
use weft_durability::aof::CROWDED;
use weft_durability::aof::aof;
use weft_executor::dispatch::call::{Caller, DataFn, call, log_words};
use weft_executor::dispatch::core::Core;
use weft_executor::dispatch::needs::{data_need, union_need};
use weft_executor::dispatch::refusals::is_paused;
use weft_executor::dispatch::request::Request;
use weft_executor::dispatch::snapshot::{must_wait, waits_on};
use weft_executor::dispatch::take::{self, Refused, Try, take_shards};
use weft_executor::dispatch::{commit, reply};
use weft_executor::script::functions;
use weft_executor::{monitor, pubsub};
use weft_keyspace::hold::PATIENCE;
use weft_keyspace::{
    Busy, Expired, Guard, Import, Inside, Key, Keyspace, Outside, SlowLaneThread, shard_of,
};
use weft_process::log_warning;
use weft_replication::Position;
use weft_replication::action::LinkId;
use weft_replication::apply::{Kind, Splitter, Unit};
use weft_resp::{Proto, Reply};
use weft_state::attempt::FIRST;
use weft_state::attention;
use weft_state::clients::ClientShared;
use weft_state::command_table::Cmd;
use weft_state::command_table::Need;
use weft_state::command_table::Run;
use weft_state::server::Server;
use weft_state::snapshot_waits::Wait;

/// Maximum units, and bytes of them, that are applied before other threads may stop the world.
const UNITS: usize = 128;
const BYTES: usize = 256 << 10;

/// A unit of more commands or bytes than this is applied outside of the safepoint, because it may
/// run long.
const LONG_UNIT: usize = 128;
const LONG_BYTES: usize = 256 << 10;

/// Prefetch distance: before a unit is applied, the record of the unit this far ahead is fetched,
/// and the bucket of the one twice as far.
const AHEAD: usize = 8;

/// Interval of checks whether a pause has ended, or the disk has caught up.
const PAUSED_STEP: Duration = Duration::from_millis(5);

/// Most commands have at most this many words.
const FEW: usize = 6;

/// The words of a command.
type Args<'a> = SmallVec<[&'a [u8]; 16]>;

pub struct Applier {
    srv: &'static Server,
    pub core: Core,
    pub hand: SlowLaneThread<'static>,
    outside: Option<Outside<'static>>,
    splitter: Splitter,
    /// Plans of the taken units.
    plan: Vec<Planned>,
    reply: Reply,
    /// The client that represents the primary.
    client: Option<Arc<ClientShared>>,
    /// The next unit waits for a full snapshot.
    snapshot_wait: Option<Wait>,
}

/// The outcome of a unit inside the safepoint.
enum Outcome {
    Done,
    Busy(Busy),
    /// It must stop the world, or runs long.
    Outside,
}

impl Applier {
    /// Must be called on the applying thread, once per server.
    pub fn new(srv: &'static Server) -> Applier {
        let safepoint = srv.ks.safepoints().use_spare();
        Applier {
            srv,
            core: Core::replica(srv),
            hand: srv.hand(),
            outside: Some(Outside::new(&srv.ks, safepoint)),
            splitter: Splitter::new(0),
            plan: Vec::with_capacity(UNITS),
            reply: Reply::new(Proto::Resp2),
            client: None,
            snapshot_wait: None,
        }
    }

    /// The stream begins, with a selected database.
    pub fn begin(&mut self, at: Position, client: Option<Arc<ClientShared>>) {
        self.client = client;
        self.splitter = Splitter::new(at.db);
    }

    /// Applies all units that are complete with these bytes. Stops if the link was closed.
    pub fn apply(&mut self, link: LinkId, bytes: &[u8]) {
        self.splitter.push(bytes);
        while self.batch(link) {}
        // The link may have been closed while a unit waited.
        self.snapshot_wait = None;
    }

    /// Applies some units. Returns whether there may be more and the link is unchanged.
    fn batch(&mut self, link: LinkId) -> bool {
        let Applier { core, splitter, plan, .. } = self;
        let (units, broken) = match splitter.take(UNITS) {
            Ok(units) => (units, None),
            Err(broken) => (0, Some(broken.to_string())),
        };
        if units == 0 && broken.is_none() {
            return false;
        }
        if aof(core.srv).is_crowded(core.srv) && !wait_for_disk(core.srv, link) {
            return false;
        }
        plan.clear();
        plan.extend((0..units).map(|n| Planned::of(core, &splitter.unit(n))));
        let (mut done, mut tries) = (0, 0);
        while done < units {
            let (to, left) = self.apply_inside(link, done..units);
            tries = if to > done { 0 } else { tries + 1 };
            done = to;
            match left {
                Left::Nothing => {}
                Left::Gone => return false,
                Left::Paused => std::thread::sleep(PAUSED_STEP),
                Left::Unit(Some(busy)) if tries < PATIENCE => self.hand.wait_for(busy),
                Left::Unit(_) => match self.run_outside(link, done) {
                    Left::Gone => return false,
                    Left::Paused => std::thread::sleep(PAUSED_STEP),
                    Left::Nothing | Left::Unit(_) => done += 1,
                },
            }
        }
        self.count(units);
        if let Some(why) = broken {
            let machine = hub(self.srv);
            machine.step(self.srv, |node, now, out| node.broken(now, link, &why, out));
            return false;
        }
        weft_table::epoch::collect();
        true
    }

    /// Counts the applied units.
    fn count(&self, units: usize) {
        self.core.stats().load.requests.add(units as u64);
        let Some(last) = units.checked_sub(1) else { return };
        if let Some(own) = &self.client {
            let commands = (0..units).map(|n| client::commands_in(&self.splitter.unit(n))).sum();
            client::executed(own, &self.srv.table, commands, &self.splitter.unit(last));
        }
    }

    /// Applies units inside the safepoint until it must be left. Returns up to which, and why it
    /// stopped.
    fn apply_inside(&mut self, link: LinkId, units: Range<usize>) -> (usize, Left) {
        let Applier { srv, core, splitter, reply, outside, plan, snapshot_wait, .. } = self;
        let machine = hub(srv);
        let mut inside = outside.take().expect("this thread is outside").enter();
        core.begin();
        let (mut at, mut left) = (units.start, Left::Gone);
        if may_apply(srv, link) {
            left = Left::Nothing;
            let begin = splitter.unit(at).place().start;
            let mut asked = false;
            let pin = weft_table::epoch::pin();
            plan[at..].iter().take(2 * AHEAD).for_each(|planned| planned.bucket(core, &pin));
            plan[at..].iter().take(AHEAD).for_each(|planned| planned.record(core, &pin));
            while at < units.end {
                let unit = splitter.unit(at);
                if let Some(planned) = plan.get(at + 2 * AHEAD) {
                    planned.bucket(core, &pin);
                }
                if let Some(planned) = plan.get(at + AHEAD) {
                    planned.record(core, &pin);
                }
                let outcome = match unit.kind() {
                    Kind::Write if core.srv.is_paused() && is_paused(core, Flags::WRITE) => {
                        left = Left::Paused;
                        break;
                    }
                    Kind::Write if waits_for_snapshot(core, snapshot_wait, &unit) => {
                        left = Left::Paused;
                        break;
                    }
                    Kind::Nothing => Outcome::Done,
                    Kind::GetAck | Kind::AskPromise => {
                        asked = true;
                        Outcome::Done
                    }
                    Kind::Write => run_inside(core, &mut inside, reply, &unit, &plan[at]),
                };
                match outcome {
                    Outcome::Done => at += 1,
                    Outcome::Busy(busy) => {
                        left = Left::Unit(Some(busy));
                        break;
                    }
                    Outcome::Outside => {
                        left = Left::Unit(None);
                        break;
                    }
                }
                if asked || unit.place().end - begin >= BYTES {
                    break;
                }
            }
            drop(pin);
            let (end, db) = match at.checked_sub(1).filter(|last| *last >= units.start) {
                Some(last) => (splitter.unit(last).place().end, splitter.unit(last).db()),
                None => (begin, 0),
            };
            machine.step(srv, |node, now, out| {
                node.applied(now, link, splitter.bytes(begin..end), db, out);
                match asked.then(|| splitter.unit(at - 1)) {
                    Some(unit) if unit.kind() == Kind::AskPromise => {
                        node.promise_asked(link, unit.bytes());
                    }
                    Some(_) => node.get_ack(now, link, out),
                    None => {}
                }
            });
            machine.note_applied(srv, core.settings.replica.is_read_only);
        }
        *outside = Some(inside.leave());
        core.publish();
        (at, left)
    }

    /// Applies a unit while holding all shards it needs, unless the link has changed or a pause has
    /// begun meanwhile.
    fn run_outside(&mut self, link: LinkId, at: usize) -> Left {
        let Applier { srv, core, splitter, reply, hand, .. } = self;
        let machine = hub(srv);
        let unit = splitter.unit(at);
        core.begin();
        let commands = commands_of(srv, &unit);
        let need = need_of(&srv.ks, &commands);
        let Ok(mut guard) = take_shards(take::Wait::new(hand), &mut core.context, need);
        // Announced before the check: a pause that this check doesn't see will see the
        // announcement.
        let _writing = srv.slow.writing();
        if is_paused(core, Flags::WRITE) {
            return Left::Paused;
        }
        core.begin_command();
        let may_apply = may_apply(srv, link);
        if may_apply {
            let (srv, bytes, db) = (*srv, unit.bytes().to_vec(), unit.db());
            // No snapshot may begin between the unit and its report: it would have the unit, but
            // record an earlier position.
            core.at_commit = Some(Box::new(move || {
                hub(srv).step(srv, |node, now, out| node.applied(now, link, &bytes, db, out));
            }));
            run_all(core, &mut guard, reply, &commands);
            if let Some(nothing_changed) = core.at_commit.take() {
                nothing_changed();
            }
            machine.note_applied(srv, core.settings.replica.is_read_only);
        }
        drop(guard);
        core.free_deferred();
        core.publish();
        if may_apply { Left::Nothing } else { Left::Gone }
    }
}

/// Whether units of this link may be applied. If not, the link is closed: no unit may be skipped.
/// The caller is inside the safepoint, or holds shards.
fn may_apply(srv: &'static Server, link: LinkId) -> bool {
    let machine = hub(srv);
    let may_apply = machine.lock().node.may_apply(link);
    if !may_apply {
        machine.step(srv, |node, now, out| node.refuse_stream(now, link, out));
    }
    may_apply
}

/// Whether a unit must wait, as a client's write would, because a full snapshot would grow further.
#[inline]
fn waits_for_snapshot(core: &Core, wait: &mut Option<Wait>, unit: &Unit<'_>) -> bool {
    let is_taken = core.srv.attention.load(Ordering::Relaxed) & attention::SNAPSHOT != 0;
    is_taken && {
        let must = core.srv.ks.is_snapshot_full()
            && commands_of(core.srv, unit).iter().any(|command| match command.work {
                Ok(Work::Data(cmd, ..)) => must_wait(core.srv, command.db, cmd, &command.args),
                Ok(_) | Err(_) => false,
            });
        waits_on(core, wait, must)
    }
}

/// Waits until the append-only file has caught up, as clients of a primary do. The unread bytes
/// stay in the socket. Returns whether the link is unchanged.
#[cold]
fn wait_for_disk(srv: &'static Server, link: LinkId) -> bool {
    // Below the threshold at which waiting begins, so that not every batch waits.
    while aof(srv).pending_bytes(srv) > CROWDED / 2 {
        if hub(srv).lock().link.of(link).is_none() {
            return false;
        }
        std::thread::sleep(PAUSED_STEP);
    }
    true
}

/// Why units are left.
enum Left {
    Nothing,
    /// The link was replaced or closed.
    Gone,
    /// CLIENT PAUSE blocks writes, including the primary's.
    Paused,
    /// The next unit can't be applied inside the safepoint, or not now.
    Unit(Option<Busy>),
}

/// The plan of a unit of one command on one key, made before it is applied.
#[derive(Clone, Copy)]
struct Planned(Option<One>);

#[derive(Clone, Copy)]
struct One {
    cmd: &'static Cmd,
    run: DataFn,
    db: usize,
    hash: u64,
    slot: u16,
}

impl Planned {
    fn of(core: &Core, unit: &Unit<'_>) -> Planned {
        Planned(One::of(core, unit))
    }

    /// Prefetches the bucket of its key.
    fn bucket(&self, core: &Core, pin: &weft_table::epoch::Guard) {
        if let Some(One { db, hash, slot, .. }) = self.0 {
            core.srv.ks.plan_bucket(&Key { bytes: &[], hash, slot }, db, pin);
        }
    }

    /// Prefetches the record of its key, whose bucket was prefetched before.
    fn record(&self, core: &Core, pin: &weft_table::epoch::Guard) {
        if let Some(One { cmd, db, hash, slot, .. }) = self.0 {
            let key = Key { bytes: &[], hash, slot };
            core.srv.ks.plan_record(&key, db, usize::from(cmd.lines), pin);
        }
    }
}

impl One {
    fn of(core: &Core, unit: &Unit<'_>) -> Option<One> {
        if unit.kind() != Kind::Write || unit.len() != 1 || unit.bytes().len() > LONG_BYTES {
            return None;
        }
        let srv = core.srv;
        let (db, count) = unit.command(0);
        let cmd = srv.table.find_logged(unit.arg(0, 0))?;
        let Run::Data { lock: Lock::Keys, run } = cmd.run else { return None };
        let has_key = cmd.first_key != 0 && cmd.first_key < count && cmd.has_one_key(count);
        let is_good = cmd.subcommands.is_empty() && cmd.spec.fits(count);
        let db = usize::try_from(db).ok().filter(|db| *db < srv.ks.databases())?;
        (has_key && is_good).then(|| {
            let Key { hash, slot, .. } = srv.ks.key(unit.arg(0, cmd.first_key));
            One { cmd, run, db, hash, slot }
        })
    }
}

/// A command of a unit.
struct Command<'a> {
    db: usize,
    args: Args<'a>,
    work: Result<Work, (String, &'static str)>,
}

/// All commands of a unit. A command in a missing database is an error.
fn commands_of<'a>(srv: &Server, unit: &Unit<'a>) -> SmallVec<[Command<'a>; 1]> {
    unit.commands()
        .map(|(db, args)| {
            let (db, args): (usize, Args<'a>) = (db as usize, args.collect());
            let work = match db < srv.ks.databases() {
                true => work_of(srv, &args),
                false => Err(("ERR DB index is out of range".into(), "select")),
            };
            Command { db, args, work }
        })
        .collect()
}

/// The locks that a unit needs.
fn need_of(ks: &Keyspace, commands: &[Command<'_>]) -> Need {
    let needs = commands.iter().filter_map(|command| match command.work {
        Ok(Work::Data(cmd, lock, _)) => {
            Some(data_need(ks, cmd, lock, &request_of(ks, cmd, &command.args), command.db))
        }
        // It has one place in the order of all effects.
        Ok(Work::Functions(_)) => Some(Need::World),
        Ok(_) | Err(_) => None,
    });
    union_need(needs, [])
}

fn request_of<'a>(ks: &Keyspace, cmd: &'static Cmd, args: &'a [&'a [u8]]) -> Request<'a> {
    let has_key = cmd.first_key != 0 && cmd.first_key < args.len();
    let key = has_key.then(|| ks.key(args[cmd.first_key]));
    Request { key, ..Request::new(Some(cmd), args, &[]) }
}

/// Applies a unit inside the safepoint, if possible.
fn run_inside(
    core: &mut Core,
    inside: &mut Inside<'static>,
    reply: &mut Reply,
    unit: &Unit<'_>,
    planned: &Planned,
) -> Outcome {
    let srv = core.srv;
    if let Planned(Some(One { cmd, run, db, hash, slot })) = *planned {
        let guard = match inside.guard_one(&mut core.context, shard_of(slot)) {
            Ok(guard) => guard,
            Err(busy) => return Outcome::Busy(busy),
        };
        let (_, count) = unit.command(0);
        let mut few: [&[u8]; FEW] = [&[]; FEW];
        let many: Args<'_>;
        let args = match few.get_mut(..count) {
            Some(few) => {
                few.iter_mut().enumerate().for_each(|(at, arg)| *arg = unit.arg(0, at));
                &*few
            }
            None => {
                many = (0..count).map(|at| unit.arg(0, at)).collect();
                &many[..]
            }
        };
        let key = Some(Key { bytes: args[cmd.first_key], hash, slot });
        let request = Request { key, ..Request::new(Some(cmd), args, &[]) };
        return run_one(core, guard, reply, db, cmd, run, &request);
    }
    if unit.len() > LONG_UNIT || unit.bytes().len() > LONG_BYTES {
        return Outcome::Outside;
    }
    let commands = commands_of(srv, unit);
    let need @ Need::Shards(_) = need_of(&srv.ks, &commands) else { return Outcome::Outside };
    let taker = Try::new(inside, &FIRST);
    let guard = match take_shards(taker, &mut core.context, need) {
        Ok(guard) => guard,
        Err(Refused::Busy(busy)) => return Outcome::Busy(busy),
        Err(Refused::SlowLane) => return Outcome::Outside,
    };
    match &commands[..] {
        [Command { db, args, work: Ok(Work::Data(cmd, _, run)) }] => {
            let request = request_of(&srv.ks, cmd, args);
            run_one(core, guard, reply, *db, cmd, *run, &request)
        }
        _ => {
            let mut guard = guard;
            run_all(core, &mut guard, reply, &commands);
            guard.release();
            core.free_deferred();
            Outcome::Done
        }
    }
}

/// Shows a command to MONITOR clients.
fn show(core: &Core, db: usize, args: &[&[u8]]) {
    if core.srv.attention.load(Ordering::Relaxed) & attention::MONITOR != 0 {
        let state = hub(core.srv).lock();
        let primary = state.node.follower().map(|follower| follower.primary());
        let primary = primary.map(|(host, port)| format!("{host}:{port}")).unwrap_or_default();
        drop(state);
        monitor::feed_of_primary(core.srv, &primary, db, args);
    }
}

/// For the primary's commands, a key has expired only if the primary has removed it.
fn see_as_primary(core: &mut Core) {
    core.context.set_import(Import::Source);
    core.context.expired = Expired::Keep;
}

/// Runs the only command of a unit, unless it turns out to run long.
fn run_one(
    core: &mut Core,
    mut guard: Guard<'_>,
    reply: &mut Reply,
    db: usize,
    cmd: &'static Cmd,
    run: DataFn,
    request: &Request<'_>,
) -> Outcome {
    see_as_primary(core);
    let who = Caller::source(db);
    let (result, pause) = call(core, who, cmd, run, request, reply, &guard, Lane::Fast);
    reply.clear();
    if let Some(Pause::Slow) = pause {
        core.context.effects.forget_misses();
        return Outcome::Outside;
    }
    // Not earlier, because a long command is run again, and shown then.
    show(core, db, request.args);
    if !core.context.effects.is_empty() {
        log_words(core, &guard, db, request);
        notify_changes(core, &mut guard);
    }
    guard.release();
    let failed = result.is_err();
    account(core, cmd, failed);
    if let Err(e) = result {
        log_error(core, &e.0, cmd.full_name);
    }
    core.free_deferred();
    Outcome::Done
}

/// Runs all commands of a unit, however long, and commits them as one group.
fn run_all(core: &mut Core, guard: &mut Guard<'_>, reply: &mut Reply, commands: &[Command<'_>]) {
    let lane = if commands.len() == 1 { Lane::Slow } else { Lane::Transaction };
    for Command { db, args, work } in commands {
        see_as_primary(core);
        show(core, *db, args);
        let (cmd, result) = match work {
            Ok(Work::Data(cmd, _, run)) => {
                let request = request_of(&core.srv.ks, cmd, args);
                let who = Caller::source(*db);
                let (result, _) = call(core, who, cmd, *run, &request, reply, guard, lane);
                reply.clear();
                if !core.context.effects.is_empty() {
                    log_words(core, guard, *db, &request);
                }
                (*cmd, result)
            }
            Ok(Work::Publish(cmd, kind)) => {
                // Notifications of earlier changes precede the message.
                weft_keyspace::invalidation::invalidate(guard, &mut core.context);
                weft_keyspace::commit::hand_over(guard, &mut core.context);
                let patience = weft_pubsub::registry::CanWait::None;
                let result = pubsub::publish_patiently(
                    core.srv,
                    *kind,
                    args[1],
                    args[2],
                    patience,
                    &mut || {},
                );
                // Without patience, no client has to wait.
                let _ = result;
                (*cmd, Ok(()))
            }
            Ok(Work::Functions(cmd)) => {
                let caller = functions::Caller { db: *db, is_source: true };
                let result = functions::change(core, guard, caller, args, reply);
                reply.clear();
                (*cmd, result)
            }
            Ok(Work::Nothing) => continue,
            Err((why, name)) => {
                log_error(core, why.as_bytes(), name);
                continue;
            }
        };
        let failed = result.is_err();
        account(core, cmd, failed);
        if let Err(e) = result {
            log_error(core, &e.0, cmd.full_name);
        }
    }
    if !core.context.effects.is_empty() {
        notify_changes(core, guard);
    }
}

/// Notifies subscribers of the changes and serves blocked clients, for which expired keys don't
/// exist.
fn notify_changes(core: &mut Core, guard: &mut Guard<'_>) {
    core.context.set_import(Import::Bystander);
    commit::commit_pending(core, guard, Vec::new());
}

fn account(core: &Core, cmd: &'static Cmd, failed: bool) {
    reply::count(core, cmd, failed);
}

/// A command of the primary fails here: the data differ, or the versions do.
#[cold]
fn log_error(core: &Core, why: &[u8], name: &str) {
    core.stats().errors.unexpected.add(1);
    core.srv.count_error(why);
    let why = String::from_utf8_lossy(&why[..why.len().min(4096)]).into_owned();
    log_warning!(
        "== CRITICAL == This replica is sending an error to its primary: '-{why}' after processing \
         the command '{name}'"
    );
    if core.settings.replica.panics {
        panic!(
            "This replica panicked sending an error to its primary after processing the command '{name}'"
        );
    }
}
