//! The stream of our primary, applied unit by unit.
//!
//! A unit is one command, or all between MULTI and EXEC. It is applied as one: the shards of all its keys are
//! held from its first command to its last, and it is committed as one group, so nobody sees half of it and
//! everybody who listens to changes hears of them as of a client's.
//!
//! The thread has a gate of its own, the spare one. Inside of it nobody can change the role, so it is asked once
//! for many units whether they may be applied ([`Node::may_apply`](weft_replication::Node::may_apply)), and
//! told once that they are, before the gate is left. What needs the world, has much to do or can't have its
//! shards at once is applied outside of the gate, as commands of the slow lane are; asked and told with
//! the shards in hand.
//!
//! A command runs as it ran at the primary, whatever the time is now: nothing has expired that was not said to
//! have.

use crate::hub;
use crate::replica::client;
use crate::replica::command::{Work, work_of};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use weft_commands::spec::Lock;
use weft_commands::{Flags, Lane, Pause};
use weft_durability::aof::CROWDED;
use weft_durability::aof::aof;
use weft_executor::dispatch::call::{Caller, DataFn, call, log_words};
use weft_executor::dispatch::core::Core;
use weft_executor::dispatch::needs::of_data;
use weft_executor::dispatch::refusals::is_held_back;
use weft_executor::dispatch::request::Request;
use weft_executor::dispatch::snapshot::{must_wait, waits_on};
use weft_executor::dispatch::{commit, reply};
use weft_executor::{monitor, pubsub};
use weft_keyspace::hold::PATIENCE;
use weft_keyspace::{
    Busy, Expired, Guard, Import, Inside, Key, Keyspace, Outside, ShardSet, SlowLaneThread,
};
use weft_process::log_warning;
use weft_replication::Position;
use weft_replication::action::LinkId;
use weft_replication::apply::{Kind, Splitter, Unit};
use weft_resp::{Proto, Reply};
use weft_state::attention;
use weft_state::clients::ClientShared;
use weft_state::command_table::Cmd;
use weft_state::command_table::Need;
use weft_state::command_table::Run;
use weft_state::server::Server;
use weft_state::snapshot_waits::Wait;

/// Units, and bytes of them, that are applied before others may stop the world.
const UNITS: usize = 128;
const BYTES: usize = 256 << 10;

/// A unit of more commands or bytes than this is applied outside of the gate: it may take long.
const LONG_UNIT: usize = 128;
const LONG_BYTES: usize = 256 << 10;

/// Before a unit is applied, the record of the one so many places behind it is fetched, and the bucket of the
/// one twice as far.
const AHEAD: usize = 8;

/// Between two looks whether a pause has ended, or the disk has caught up.
const PAUSED_STEP: Duration = Duration::from_millis(5);

/// Most commands have no more words.
const FEW: usize = 6;

/// Words of a command.
type Args<'a> = SmallVec<[&'a [u8]; 16]>;

pub struct Applier {
    srv: &'static Server,
    pub core: Core,
    pub hand: SlowLaneThread<'static>,
    outside: Option<Outside<'static>>,
    splitter: Splitter,
    /// Of the units that were taken out.
    plan: Vec<Planned>,
    reply: Reply,
    /// As whom the primary is seen.
    client: Option<Arc<ClientShared>>,
    /// The next unit waits for a snapshot that is full.
    snapshot_wait: Option<Wait>,
}

/// What came of a unit inside of the gate.
enum Outcome {
    Done,
    Busy(Busy),
    /// It needs the world, or its time.
    Outside,
}

impl Applier {
    /// To be made on the thread that applies; once for a server.
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

    /// The stream begins, with a database selected.
    pub fn begin(&mut self, at: Position, client: Option<Arc<ClientShared>>) {
        self.client = client;
        self.splitter = Splitter::new(at.db);
    }

    /// Applies all units that are complete with these bytes; those of a link that was given up go no
    /// further.
    pub fn apply(&mut self, link: LinkId, bytes: &[u8]) {
        self.splitter.push(bytes);
        while self.batch(link) {}
        // The link may have gone while a unit waited.
        self.snapshot_wait = None;
    }

    /// Applies some units; whether there may be more, and the link is what it was.
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
            let (to, left) = self.some(link, done..units);
            tries = if to > done { 0 } else { tries + 1 };
            done = to;
            match left {
                Left::Nothing => {}
                Left::Gone => return false,
                Left::Paused => std::thread::sleep(PAUSED_STEP),
                Left::Unit(Some(busy)) if tries < PATIENCE => self.hand.wait_for(busy),
                Left::Unit(_) => match self.outside_gate(link, done) {
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

    /// All units that were taken out are applied.
    fn count(&self, units: usize) {
        self.core.stats().load.requests.add(units as u64);
        let Some(last) = units.checked_sub(1) else { return };
        if let Some(own) = &self.client {
            let commands = (0..units).map(|n| client::commands_in(&self.splitter.unit(n))).sum();
            client::executed(own, &self.srv.table, commands, &self.splitter.unit(last));
        }
    }

    /// Applies units from inside of the gate, until it is time to leave it: up to which, and why no further.
    fn some(&mut self, link: LinkId, units: Range<usize>) -> (usize, Left) {
        let Applier { srv, core, splitter, reply, outside, plan, snapshot_wait, .. } = self;
        let machine = hub(srv);
        let mut inside = outside.take().expect("this thread is outside").enter();
        core.begin();
        let (mut at, mut left) = (units.start, Left::Gone);
        if machine.lock().node.may_apply(link) {
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
                    Kind::Write if core.srv.is_paused() && is_held_back(core, Flags::WRITE) => {
                        left = Left::Paused;
                        break;
                    }
                    Kind::Write if waits_for_snapshot(core, snapshot_wait, &unit) => {
                        left = Left::Paused;
                        break;
                    }
                    Kind::Nothing => Outcome::Done,
                    Kind::GetAck => {
                        asked = true;
                        Outcome::Done
                    }
                    Kind::Write => inside_gate(core, &mut inside, reply, &unit, &plan[at]),
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
                if asked {
                    node.get_ack(now, link, out);
                }
            });
            machine.note_applied(srv, core.settings.replica.is_read_only);
        }
        *outside = Some(inside.leave());
        core.publish();
        (at, left)
    }

    /// Applies a unit with whatever it needs in hand, unless the link is another by then or a pause has come
    /// meanwhile.
    fn outside_gate(&mut self, link: LinkId, at: usize) -> Left {
        let Applier { srv, core, splitter, reply, hand, .. } = self;
        let machine = hub(srv);
        let unit = splitter.unit(at);
        core.begin();
        let commands = commands_of(srv, &unit);
        let need = need_of(&srv.ks, &commands);
        let mut guard = match need {
            Some(shards) => hand.hold(&mut core.context, &shards),
            None => hand.world(&mut core.context),
        };
        // Said before the look: a pause that this look does not see, sees this.
        let _writing = srv.slow.writing();
        if is_held_back(core, Flags::WRITE) {
            return Left::Paused;
        }
        core.begin_command();
        let may_apply = machine.lock().node.may_apply(link);
        if may_apply {
            let (srv, bytes, db) = (*srv, unit.bytes().to_vec(), unit.db());
            // No snapshot begins between the unit and its being told: it would have it and not say so.
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
        core.free_trash();
        core.publish();
        if may_apply { Left::Nothing } else { Left::Gone }
    }
}

/// Whether a unit must wait, as it would make a snapshot that is full hold more: as a client's write does.
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

/// Waits until the append-only file has caught up, as clients of a primary do: what is not taken from its
/// socket waits there. Whether the link is what it was.
#[cold]
fn wait_for_disk(srv: &'static Server, link: LinkId) -> bool {
    // Less than where it begins, so that it is not for each batch anew.
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
    /// The link is another, or there is none.
    Gone,
    /// CLIENT PAUSE holds writes back, those of the primary, too.
    Paused,
    /// The next one can't be applied inside of the gate, or not now.
    Unit(Option<Busy>),
}

/// What is known of a unit before it is applied, if it is one command on one key.
#[derive(Clone, Copy)]
struct Planned(Option<One>);

#[derive(Clone, Copy)]
struct One {
    cmd: &'static Cmd,
    run: DataFn,
    db: usize,
    hash: u64,
    shard: u16,
}

impl Planned {
    fn of(core: &Core, unit: &Unit<'_>) -> Planned {
        Planned(One::of(core, unit))
    }

    /// Fetches the bucket of its key.
    fn bucket(&self, core: &Core, pin: &weft_table::epoch::Guard) {
        if let Some(One { db, hash, shard, .. }) = self.0 {
            core.srv.ks.plan_bucket(&Key { bytes: &[], hash, shard }, db, pin);
        }
    }

    /// Fetches the record of its key, whose bucket was fetched before.
    fn record(&self, core: &Core, pin: &weft_table::epoch::Guard) {
        if let Some(One { cmd, db, hash, shard, .. }) = self.0 {
            let key = Key { bytes: &[], hash, shard };
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
        let cmd = srv.table.find(unit.arg(0, 0))?;
        let Run::Data { lock: Lock::Keys, run } = cmd.run else { return None };
        let has_key = cmd.first_key != 0 && cmd.first_key < count && cmd.has_one_key(count);
        let is_good = cmd.subcommands.is_empty() && cmd.spec.fits(count);
        let db = usize::try_from(db).ok().filter(|db| *db < srv.ks.databases())?;
        (has_key && is_good).then(|| {
            let Key { hash, shard, .. } = srv.ks.key(unit.arg(0, cmd.first_key));
            One { cmd, run, db, hash, shard }
        })
    }
}

/// A command of a unit.
struct Command<'a> {
    db: usize,
    args: Args<'a>,
    work: Result<Work, (String, &'static str)>,
}

/// All commands of a unit. Those in databases that are not there are errors.
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

/// The shards of a unit; `None`: the world.
fn need_of(ks: &Keyspace, commands: &[Command<'_>]) -> Option<ShardSet> {
    let mut shards = SmallVec::<[u16; 16]>::new();
    for command in commands {
        let Ok(Work::Data(cmd, lock, _)) = command.work else { continue };
        match need_of_data(ks, cmd, lock, &command.args, command.db) {
            Need::Nothing => {}
            Need::One(shard) => shards.push(shard),
            Need::Shards(set) => shards.extend(set.iter()),
            Need::Stop | Need::World | Need::Rest | Need::Names | Need::Aside => return None,
        }
    }
    Some(ShardSet::of(shards))
}

fn need_of_data(ks: &Keyspace, cmd: &'static Cmd, lock: Lock, args: &[&[u8]], db: usize) -> Need {
    of_data(ks, cmd, lock, &request_of(ks, cmd, args), db)
}

fn request_of<'a>(ks: &Keyspace, cmd: &'static Cmd, args: &'a [&'a [u8]]) -> Request<'a> {
    let has_key = cmd.first_key != 0 && cmd.first_key < args.len();
    let key = has_key.then(|| ks.key(args[cmd.first_key]));
    Request { key, ..Request::new(Some(cmd), args, &[]) }
}

/// Applies a unit from inside of the gate, if nothing speaks against it.
fn inside_gate(
    core: &mut Core,
    inside: &mut Inside<'static>,
    reply: &mut Reply,
    unit: &Unit<'_>,
    planned: &Planned,
) -> Outcome {
    let srv = core.srv;
    if let Planned(Some(One { cmd, run, db, hash, shard })) = *planned {
        let guard = match inside.guard_one(&mut core.context, shard) {
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
        let key = Some(Key { bytes: args[cmd.first_key], hash, shard });
        let request = Request { key, ..Request::new(Some(cmd), args, &[]) };
        return run_one(core, guard, reply, db, cmd, run, &request);
    }
    if unit.len() > LONG_UNIT || unit.bytes().len() > LONG_BYTES {
        return Outcome::Outside;
    }
    let commands = commands_of(srv, unit);
    let Some(shards) = need_of(&srv.ks, &commands) else { return Outcome::Outside };
    let guard = match inside.guard(&mut core.context, shards) {
        Ok(guard) => guard,
        Err(busy) => return Outcome::Busy(busy),
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
            core.free_trash();
            Outcome::Done
        }
    }
}

/// Shows a command to those who see all.
fn show(core: &Core, db: usize, args: &[&[u8]]) {
    if core.srv.attention.load(Ordering::Relaxed) & attention::MONITOR != 0 {
        let state = hub(core.srv).lock();
        let primary = state.node.follower().map(|follower| follower.primary());
        let primary = primary.map(|(host, port)| format!("{host}:{port}")).unwrap_or_default();
        drop(state);
        monitor::feed_of_primary(core.srv, &primary, db, args);
    }
}

/// For the commands of a primary nothing has expired that it has not removed.
fn see_as_primary(core: &mut Core) {
    core.context.set_import(Import::Source);
    core.context.expired = Expired::Keep;
}

/// Runs the one command of a unit, unless it finds that it has much to do.
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
    // Not before: one that has much to do is run again, and shown then.
    show(core, db, request.args);
    if !core.context.effects.is_empty() {
        log_words(core, &guard, db, request);
        tell(core, &mut guard);
    }
    guard.release();
    let failed = result.is_err();
    account(core, cmd, failed);
    if let Err(e) = result {
        complain(core, &e.0, cmd.full_name);
    }
    core.free_trash();
    Outcome::Done
}

/// Runs all commands of a unit, however long that takes, and commits them as one.
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
                // What was done before it is told before it.
                weft_keyspace::invalidation::invalidate(guard, &mut core.context);
                weft_keyspace::commit::hand_over(guard, &mut core.context);
                let patience = weft_pubsub::registry::CanWait::None;
                let told = pubsub::publish_patiently(
                    core.srv,
                    *kind,
                    args[1],
                    args[2],
                    patience,
                    &mut || {},
                );
                // Without patience nobody is told to wait.
                let _ = told;
                (*cmd, Ok(()))
            }
            Ok(Work::Nothing) => continue,
            Err((why, name)) => {
                complain(core, why.as_bytes(), name);
                continue;
            }
        };
        let failed = result.is_err();
        account(core, cmd, failed);
        if let Err(e) = result {
            complain(core, &e.0, cmd.full_name);
        }
    }
    if !core.context.effects.is_empty() {
        tell(core, guard);
    }
}

/// Tells everybody who wants to know, and serves those who wait: for them, what has expired is not there.
fn tell(core: &mut Core, guard: &mut Guard<'_>) {
    core.context.set_import(Import::Bystander);
    commit::tell(core, guard, Vec::new());
}

fn account(core: &Core, cmd: &'static Cmd, failed: bool) {
    reply::count(core, cmd, failed);
}

/// A command of the primary can't be done here: the data differ, or the versions do.
#[cold]
fn complain(core: &Core, why: &[u8], name: &str) {
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
