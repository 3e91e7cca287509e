//! The stream of our primary, applied unit by unit.
//!
//! A unit is one command, or all between MULTI and EXEC. It is applied as one: the shards of all its keys are
//! held from its first command to its last, and it is committed as one group, so nobody sees half of it and
//! everybody who listens to changes hears of them as of a client's.
//!
//! The thread has a gate of its own, the spare one. Inside of it nobody can change the role, so it is asked once
//! for many units whether they may be applied ([`Node::begin_apply`](weft_replication::Node::begin_apply)), and
//! told once that they are, before the gate is left. What needs the world, has much to do or can't have its
//! shards at once is applied outside of the gate, as commands of the slow lane are; asked and told with
//! the shards in hand.
//!
//! A command runs as it ran at the primary, whatever the time is now: nothing has expired that was not said to
//! have.

use super::command::{Work, work_of};
use crate::dispatch::hold::{Need, of_data};
use crate::dispatch::request::Request;
use crate::dispatch::run::{DataFn, Who, call, log_words};
use crate::dispatch::{Cmd, Core, commit, reply};
use crate::pubsub;
use crate::server::Server;
use smallvec::SmallVec;
use std::ops::Range;
use weft_commands::spec::Lock;
use weft_commands::{Lane, Pause};
use weft_keyspace::{Busy, Expired, Guard, Import, Inside, Keyspace, Outside, ShardSet, SlowHand};
use weft_process::log_warning;
use weft_replication::Position;
use weft_replication::action::LinkId;
use weft_replication::apply::{Kind, Splitter, Unit};
use weft_resp::{Proto, Reply};

/// Units and bytes of them that are applied before others may stop the world.
const UNITS: usize = 512;
const BYTES: usize = 256 << 10;

/// A unit of more commands or bytes than this is applied outside of the gate: it may take long.
const LONG_UNIT: usize = 128;
const LONG_BYTES: usize = 256 << 10;

/// Words of a command.
type Args<'a> = SmallVec<[&'a [u8]; 16]>;

pub struct Applier {
    srv: &'static Server,
    pub core: Core,
    pub hand: SlowHand<'static>,
    outside: Option<Outside<'static>>,
    splitter: Splitter,
    reply: Reply,
}

/// How far a batch has come.
struct Told {
    /// What of the splitter's bytes was applied, and is not told.
    done: Range<usize>,
    /// The database that is selected behind it.
    db: u32,
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
        let gate = srv.ks.gates().use_spare();
        Applier {
            srv,
            core: Core::replica(srv),
            hand: srv.hand(),
            outside: Some(Outside::new(&srv.ks, gate)),
            splitter: Splitter::new(0),
            reply: Reply::new(Proto::Resp2),
        }
    }

    /// The stream begins, with a database selected.
    pub fn begin(&mut self, at: Position) {
        self.splitter = Splitter::new(at.db);
    }

    /// The data are others now: the append-only file, if there is one, begins anew.
    pub fn begin_files_anew(&mut self) {
        if !self.srv.aof.is_on() {
            return;
        }
        let guard = self.hand.world(&mut self.core.turn);
        if let Err(why) = crate::aof::start::again(self.srv, &guard) {
            log_warning!("The append-only file does not begin anew: {why}");
        }
    }

    /// Applies all units that are complete with these bytes; those of a link that was given up go no
    /// further.
    pub fn apply(&mut self, link: LinkId, bytes: &[u8]) {
        self.splitter.push(bytes);
        while self.batch(link) {}
    }

    /// Applies some units; whether there may be more, and the link is what it was.
    fn batch(&mut self, link: LinkId) -> bool {
        let srv = self.srv;
        let hub = &srv.replication;
        let Applier { core, splitter, reply, outside, hand, .. } = self;
        let mut inside = outside.take().expect("this thread is outside").enter();
        core.begin();
        let mut left = None;
        let mut goes_on = hub.lock().node.begin_apply(link);
        if goes_on {
            let mut told = Told { done: 0..0, db: splitter.db() };
            let mut units = 0;
            loop {
                let unit = match splitter.next_unit() {
                    Ok(Some(unit)) => unit,
                    Ok(None) => {
                        goes_on = false;
                        break;
                    }
                    Err(broken) => {
                        goes_on = false;
                        left = Some(Left::Broken(broken.to_string()));
                        break;
                    }
                };
                if told.done.is_empty() {
                    told.done = unit.place().start..unit.place().start;
                }
                match unit.kind() {
                    Kind::Nothing => {}
                    Kind::GetAck => left = Some(Left::GetAck),
                    Kind::Write => match inside_gate(core, &mut inside, reply, &unit) {
                        Outcome::Done => {}
                        Outcome::Busy(busy) => left = Some(Left::Unit(Some(busy))),
                        Outcome::Outside => left = Some(Left::Unit(None)),
                    },
                }
                if let Some(Left::Unit(_)) = left {
                    break;
                }
                told = Told { done: told.done.start..unit.place().end, db: unit.db() };
                units += 1;
                if left.is_some() || units == UNITS || told.done.len() >= BYTES {
                    break;
                }
            }
            hub.step(srv, |node, now, out| {
                node.applied(now, link, splitter.bytes(told.done.clone()), told.db, out);
                match &left {
                    Some(Left::GetAck) => node.get_ack(now, link, out),
                    Some(Left::Broken(why)) => node.broken(now, link, why, out),
                    Some(Left::Unit(_)) | None => {}
                }
            });
        }
        *outside = Some(inside.leave());
        core.publish();
        weft_table::epoch::collect();
        if let Some(Left::Unit(busy)) = left {
            if let Some(busy) = busy {
                hand.wait_for(busy);
            }
            goes_on = self.outside_gate(link);
        }
        goes_on
    }

    /// Applies the unit that was handed out last, with whatever it needs in hand; whether the link is what it
    /// was.
    fn outside_gate(&mut self, link: LinkId) -> bool {
        let Applier { srv, core, splitter, reply, hand, .. } = self;
        let hub = &srv.replication;
        let Some(unit) = splitter.current() else { return true };
        core.begin();
        let commands = commands_of(srv, &unit);
        let need = need_of(&srv.ks, &commands);
        let mut guard = match need {
            Some(shards) => hand.hold(&mut core.turn, &shards),
            None => hand.world(&mut core.turn),
        };
        core.begin_command();
        let may_apply = hub.lock().node.begin_apply(link);
        if may_apply {
            run_all(core, &mut guard, reply, &commands);
            hub.step(*srv, |node, now, out| {
                node.applied(now, link, unit.bytes(), unit.db(), out);
            });
        }
        drop(guard);
        core.free_trash();
        core.publish();
        may_apply
    }
}

/// What a batch has left.
enum Left {
    /// A unit that was not applied.
    Unit(Option<Busy>),
    GetAck,
    Broken(String),
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
) -> Outcome {
    let srv = core.srv;
    if unit.len() > LONG_UNIT || unit.bytes().len() > LONG_BYTES {
        return Outcome::Outside;
    }
    let commands = commands_of(srv, unit);
    // Most units are one command on one key.
    if let [Command { db, args, work: Ok(Work::Data(cmd, lock, run)) }] = &commands[..] {
        let request = request_of(&srv.ks, cmd, args);
        if let Need::One(shard) = of_data(&srv.ks, cmd, *lock, &request, *db) {
            return match inside.guard_one(&mut core.turn, shard) {
                Ok(guard) => run_one(core, guard, reply, *db, cmd, *run, &request),
                Err(busy) => Outcome::Busy(busy),
            };
        }
    }
    let Some(shards) = need_of(&srv.ks, &commands) else { return Outcome::Outside };
    let guard = match inside.guard(&mut core.turn, shards) {
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

/// For the commands of a primary nothing has expired that it has not removed.
fn see_as_primary(core: &mut Core) {
    core.turn.set_import(Import::Source);
    core.turn.expired = Expired::Keep;
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
    let who = Who { db, no_touch: false };
    let (result, pause) = call(core, who, cmd, run, request, reply, &guard, Lane::Fast);
    reply.clear();
    if let Some(Pause::Slow) = pause {
        core.turn.effects.forget_misses();
        return Outcome::Outside;
    }
    if !core.turn.effects.is_empty() {
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
        let (cmd, result) = match work {
            Ok(Work::Data(cmd, _, run)) => {
                let request = request_of(&core.srv.ks, cmd, args);
                let who = Who { db: *db, no_touch: false };
                let (result, _) = call(core, who, cmd, *run, &request, reply, guard, lane);
                reply.clear();
                if !core.turn.effects.is_empty() {
                    log_words(core, guard, *db, &request);
                }
                (*cmd, result)
            }
            Ok(Work::Publish(cmd, kind)) => {
                // What was done before it is told before it.
                weft_keyspace::stale::invalidate(guard, &mut core.turn);
                weft_keyspace::commit::hand_over(guard, &mut core.turn);
                let patience = pubsub::registry::Patience::None;
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
    if !core.turn.effects.is_empty() {
        tell(core, guard);
    }
}

/// Tells everybody who wants to know, and serves those who wait: for them, what has expired is not there.
fn tell(core: &mut Core, guard: &mut Guard<'_>) {
    core.turn.set_import(Import::Bystander);
    commit::tell(core, guard, Vec::new());
}

fn account(core: &Core, cmd: &'static Cmd, failed: bool) {
    reply::count(core, cmd, failed);
}

/// A command of the primary can't be done here: the data differ, or the versions do.
#[cold]
fn complain(core: &Core, why: &[u8], name: &str) {
    core.stats().unexpected_errors.add(1);
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
