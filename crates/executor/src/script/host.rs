//! The commands that a script calls.

use super::calls::Calls;
use super::resolve::{Call, refusal_of_disk};
use crate::access;
use crate::cluster;
use crate::dispatch::core::Core;
use crate::dispatch::needs::{command_need, data_need};
use crate::dispatch::refusals::{OOM, READ_ONLY, is_refused_write, unknown_subcommand};
use crate::dispatch::reply::{finish_called, finish_one};
use crate::dispatch::request::Request;
use crate::dispatch::under::{Ran, call_under};
use std::sync::atomic::Ordering;
use weft_command_spec::{Flags, Group};
use weft_commands::{CmdResult, Error, Lane};
use weft_keyspace::{Busy, Db, Guard, Key, ShardSet, is_long_to_copy};
use weft_process::log_warning;
use weft_pubsub::registry::Kind;
use weft_resp::Reply;
use weft_script::Scope;
use weft_script::engine::{self, Level, Stop};
use weft_script::{busy, running};
use weft_state::attention;
use weft_state::command_table::{Cmd, Need, Run};
use weft_state::session::Session;

const UNKNOWN: Error = Error::new("ERR Unknown command called from script");
const WRONG_ARITY: Error = Error::new("ERR Wrong number of args calling command from script");
const NOT_ALLOWED: Error = Error::new("ERR This Weft command is not allowed from script");
const ONLY_READS: Error = Error::new("ERR Write commands are not allowed from read-only scripts.");
const FEW_REPLICAS: Error = Error::new("NOREPLICAS Not enough good replicas to write.");
const STALE: Error = Error::new("ERR Can not execute the command on a stale replica");

/// The error of a script that SCRIPT KILL has ended.
pub(super) const KILLED: Error = Error::new(
    "ERR Error running script (call to user_script): Script killed by user with SCRIPT KILL...",
);

/// The error of a function that FUNCTION KILL has ended.
pub(super) const FUNCTION_KILLED: Error =
    Error::new("ERR Script killed by user with FUNCTION KILL.");

/// Flags of commands that a script which only reads must not call.
const NOT_READ_ONLY: Flags = Flags::WRITE.or(Flags::MAY_REPLICATE).or(Flags::REPLICATES_UNFLAGGED);

/// Flags of commands whose effects are not kept back until a script has ended.
const PUBLISHES: Flags = Flags::PUBSUB.or(Flags::MAY_REPLICATE).or(Flags::REPLICATES_UNFLAGGED);

/// How a run has ended.
pub(super) enum End {
    Done(CmdResult),
    /// It must be undone, and run again with more.
    StartOver(More),
}

/// The reason for which a script must start over.
#[derive(Clone, Copy, Debug)]
pub(super) enum More {
    /// A busy shard.
    Shard(Busy),
    Scope(Scope),
    /// More time than an I/O thread has for it.
    Time,
    /// It shows or logs more than is kept back.
    Shown,
}

/// The shards that the script holds.
pub(super) enum Shards<'g, 'k> {
    /// It may take more if they are free, and start over.
    Growing(&'g mut Guard<'k>),
    /// All; it may stop the I/O threads in addition.
    All(&'g mut Guard<'k>),
}

impl<'k> Shards<'_, 'k> {
    fn guard(&self) -> &Guard<'k> {
        match self {
            Shards::Growing(guard) | Shards::All(guard) => guard,
        }
    }
}

/// The server as a running script sees it.
pub(super) struct Host<'h, 'g, 'k> {
    core: &'h mut Core,
    session: &'h mut Session,
    call: &'h Call<'h>,
    shards: Shards<'g, 'k>,
    lane: Lane,
    run: Option<&'h running::Run>,
    /// The tick at which it began.
    began: u64,
    /// Set once it has run for longer than `busy-reply-threshold`.
    busy: Option<busy::Entry<'static>>,
    /// Its run time at which a busy script wakes those that wait for its shards.
    wakes_ns: u64,
    has_written: bool,
    more: Option<More>,
    calls: Calls,
    /// Messages that it has published, which are kept back until it has ended.
    published: Vec<(&'static Cmd, Vec<Box<[u8]>>)>,
}

/// How long a script may run on an I/O thread, in nanoseconds.
const FAST_NS: u64 = 2_000_000;

impl<'h, 'g, 'k> Host<'h, 'g, 'k> {
    pub(super) fn new(
        core: &'h mut Core,
        session: &'h mut Session,
        call: &'h Call<'h>,
        shards: Shards<'g, 'k>,
        lane: Lane,
        run: Option<&'h running::Run>,
    ) -> Self {
        let began = core.srv.process.time.clock.raw();
        Host {
            core,
            session,
            call,
            shards,
            lane,
            run,
            began,
            busy: None,
            wakes_ns: 0,
            has_written: false,
            more: None,
            calls: Calls::default(),
            published: Vec::new(),
        }
    }

    /// Ends the run. Returns what it needs to start over.
    pub(super) fn finish(mut self) -> Option<More> {
        match self.more {
            None => self.calls.finish(self.core),
            Some(_) => self.calls.take_back(self.core),
        }
        if self.more.is_none() && !self.published.is_empty() {
            self.publish();
        }
        self.core.trace.end(self.core.srv, self.more.is_some());
        // Clients that the script's effects serve are not part of it.
        self.core.context.effects.direct(true, true);
        if self.lane != Lane::Script && self.more.is_none() {
            let clock = &self.core.srv.process.time.clock;
            let is_long = clock.delta_as_nanos(self.began, clock.raw()) > FAST_NS / 2;
            self.call.code.history().set_long(is_long);
        }
        self.more
    }

    /// Keeps a message back. Returns the number of its receivers at present. `None`: the message must be published now,
    /// because monitors or notifications show the order of commands.
    fn keep_back(&mut self, cmd: &'static Cmd, args: &[&[u8]]) -> Option<usize> {
        let Run::Server(_) = cmd.run else { return None };
        let srv = self.core.srv;
        let is_shown = srv.attention.load(Ordering::Relaxed) & attention::MONITOR != 0
            || !self.core.context.effects.wanted().is_none();
        let kind = match cmd.run {
            Run::Server(_) if !cmd.spec.flags.has(Flags::REPLICATES_UNFLAGGED) || is_shown => {
                return None;
            }
            Run::Server(_) if cmd.spec.group == Group::PubSub && cmd.spec.keys.is_empty() => {
                Kind::Channel
            }
            Run::Server(_) => Kind::Shard,
            Run::Data { .. } | Run::Exec | Run::Watch | Run::Script(_) => return None,
        };
        let Shards::Growing(_) = self.shards else { return None };
        self.published.push((cmd, args.iter().map(|arg| (*arg).into()).collect()));
        Some(srv.clients.pubsub.receivers(kind, args[1]))
    }

    /// Publishes the messages that were kept back.
    fn publish(&mut self) {
        let mut reply = Reply::new(self.session.proto);
        for (cmd, args) in std::mem::take(&mut self.published) {
            let args: Vec<&[u8]> = args.iter().map(|arg| &**arg).collect();
            let request = Request::new(Some(cmd), &args, &[]);
            let mark = reply.mark();
            let Host { core, session, shards, .. } = self;
            let lane = Lane::Transaction;
            let ran = call_under(core, session, &request, cmd, &mut reply, shards.guard(), lane);
            if let Ran::Ended(result) = ran {
                finish_one(core, session, cmd, &request, &mut reply, (mark, mark), &result);
            }
        }
    }

    fn start_over(&mut self, more: More) -> Stop {
        self.more = Some(more);
        Stop
    }

    /// The command that these words name.
    fn named(&self, args: &[&[u8]]) -> Result<&'static Cmd, Error> {
        let cmd = self.core.srv.table.find(args[0]).ok_or(UNKNOWN)?;
        match args.get(1) {
            Some(sub) if !cmd.subcommands.is_empty() => {
                let unknown = || unknown_subcommand(self.core.srv, self.session, cmd, args);
                cmd.subcommand(sub).ok_or_else(unknown)
            }
            _ => Ok(cmd),
        }
    }

    /// The command of these words, if a script may call it.
    fn command(&self, args: &[&[u8]]) -> Result<&'static Cmd, Error> {
        let cmd = self.named(args)?;
        if !cmd.spec.fits(args.len()) {
            return Err(WRONG_ARITY);
        }
        match cmd.spec.flags.has(Flags::NOSCRIPT) {
            true => Err(NOT_ALLOWED),
            false => Ok(cmd),
        }
    }

    /// Hashes a key, unless it is the script's first one: most commands of most scripts have that key.
    fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        match self.call.first_key {
            Some(first) if first.bytes == bytes => Key { bytes, ..first },
            Some(_) | None => self.core.srv.ks.key(bytes),
        }
    }

    /// Checks the rights of the client's user, which may change while the script runs.
    fn check_access(&mut self, cmd: &Cmd, args: &[&[u8]]) -> Result<(), Error> {
        self.core.renew_access();
        match access::is_free(self.core, self.session) {
            true => Ok(()),
            false => access::check_in_script(self.core, self.session, cmd, args),
        }
    }

    /// Whether the script may run the command now.
    fn check(&self, cmd: &Cmd) -> Result<(), Error> {
        let flags = cmd.spec.flags;
        let attention = self.core.srv.attention.load(Ordering::Relaxed);
        if attention & attention::REPLICA != 0
            && !flags.has(Flags::STALE)
            && !self.core.settings.replica.serves_stale
            && !self.core.srv.nodes.replication.is_linked.load(Ordering::Relaxed)
        {
            return Err(STALE);
        }
        // A script that has written may continue.
        if self.call.is_out_of_memory && !self.has_written && flags.has(Flags::DENYOOM) {
            return Err(OOM);
        }
        if self.call.only_reads && flags.has(NOT_READ_ONLY) {
            return Err(ONLY_READS);
        }
        if flags.has(Flags::WRITE) {
            if is_refused_write(self.core, flags) {
                return Err(READ_ONLY);
            }
            // A script that has written may continue: other threads change the server's state meanwhile.
            if !self.has_written
                && let Some(e) = refusal_of_disk(self.core)
            {
                return Err(e);
            }
            if !self.has_written && attention & attention::FEW_REPLICAS != 0 {
                return Err(FEW_REPLICAS);
            }
        }
        Ok(())
    }

    /// Checks in cluster mode whether this node serves the command. Returns the slot if it is in transit.
    fn check_slot(&mut self, cmd: &Cmd, args: &[&[u8]]) -> Result<Option<u16>, Error> {
        let srv = self.core.srv;
        if srv.attention.load(Ordering::Relaxed) & attention::CLUSTER == 0 {
            return Ok(None);
        }
        let (state, topology) = (&srv.nodes.cluster, &mut self.core.topology);
        let crosses_slots = self.call.crosses_slots;
        cluster::script::check(state, topology, self.session, (cmd, args), crosses_slots)
    }

    /// Looks for the keys of a command in a slot in transit, under its shards.
    fn check_keys(&mut self, cmd: &Cmd, args: &[&[u8]], slot: u16) -> Result<(), Error> {
        let Core { topology, context, .. } = &mut *self.core;
        let place = (context, self.shards.guard());
        cluster::script::check_keys(topology, place, self.session, (cmd, args), slot)
    }

    /// Makes sure that the script holds what the command needs.
    fn hold(&mut self, cmd: &'static Cmd, request: &Request<'_>) -> Result<(), Stop> {
        let set = match command_need(&self.core.srv.ks, cmd, request, self.session.db) {
            // BGSAVE and similar commands behave differently in a script: they need no shards.
            Need::Nothing | Need::Aside => return Ok(()),
            Need::One(shard) if self.shards.guard().holds(shard) && !self.has_late() => {
                self.shards.guard().fix_time(&mut self.core.context);
                return Ok(());
            }
            Need::One(shard) => ShardSet::one(shard),
            Need::Shards(set) => set,
            Need::Stop | Need::World | Need::Rest | Need::Names | Need::AllShards => {
                return self.stop_world();
            }
        };
        let Shards::Growing(guard) = &mut self.shards else { return Ok(()) };
        match guard.try_extend(&mut self.core.context, &set) {
            Ok(()) => {
                if let Some(busy) = &self.busy {
                    busy.add(set.iter());
                }
                self.check_time(cmd, request, &set)
            }
            Err(busy) => Err(self.start_over(More::Shard(busy))),
        }
    }

    /// Counts as busy once it has run for longer than `busy-reply-threshold`, and lets those that wait for its shards know.
    fn check_busy(&mut self) {
        let clock = &self.core.srv.process.time.clock;
        let Some(after_ns) = self.core.settings.scripts.busy_after_ns else { return };
        let ran_ns = clock.delta_as_nanos(self.began, clock.raw());
        if ran_ns <= after_ns.max(self.wakes_ns) {
            return;
        }
        // More than once: a client may begin to wait without having seen that the script is busy.
        self.wakes_ns = 2 * ran_ns;
        let guard = self.shards.guard();
        if self.busy.is_none() {
            let killer = self.call.code.killer();
            let (client, shards) = (self.session.shared.id, guard.shards());
            self.busy = Some(self.core.srv.scripts.busy.begin(client, shards, killer));
            log_warning!(
                "Slow script detected: still in execution after {} milliseconds. You can try killing the script using \
                 the {killer} command.",
                after_ns / 1_000_000
            );
        }
        guard.wake_waiters();
    }

    fn has_late(&self) -> bool {
        self.shards.guard().has_late(&self.core.context)
    }

    /// Starts over with a shard of `set` that has run a command at a later time than the script's, if that may matter.
    fn check_time(&mut self, cmd: &Cmd, request: &Request<'_>, set: &ShardSet) -> Result<(), Stop> {
        let guard = self.shards.guard();
        let context = &mut self.core.context;
        let Some(shard) = guard.first_late(context, set) else {
            guard.fix_time(context);
            return Ok(());
        };
        let (mut has_keys, mut matters) = (false, false);
        let _ = cmd.spec.key_positions(request.args, |at| {
            let key = guard.keyspace().key(request.args[at]);
            has_keys = true;
            matters |= guard.may_have_expired(context, self.session.db, &key);
        });
        match matters || !has_keys {
            true => Err(self.start_over(More::Shard(Busy { shard }))),
            false => Ok(()),
        }
    }

    fn stop_world(&mut self) -> Result<(), Stop> {
        match &mut self.shards {
            Shards::Growing(_) => Err(self.start_over(More::Scope(Scope::AllShards))),
            Shards::All(guard) => {
                guard.stop_io_threads();
                Ok(())
            }
        }
    }

    /// Before a command that can't be undone, or only at a high price: the script must not have to start over.
    fn settle(&mut self, cmd: &'static Cmd, request: &Request<'_>) -> Result<(), Stop> {
        let flags = cmd.spec.flags;
        if !matches!(self.shards, Shards::Growing(_)) {
            return Ok(());
        }
        let is_published =
            matches!(cmd.run, Run::Server(_)) && flags.has(PUBLISHES.or(Flags::WRITE));
        let attention = self.core.srv.attention.load(Ordering::Relaxed);
        let on_replica = flags.has(Flags::WRITE) && attention & attention::REPLICA != 0;
        if is_published || on_replica || self.changes_large_value(cmd, request) {
            return Err(self.start_over(More::Scope(Scope::AllShards)));
        }
        Ok(())
    }

    /// Whether the command may change a value that is long to copy.
    fn changes_large_value(&mut self, cmd: &Cmd, request: &Request<'_>) -> bool {
        if !cmd.spec.flags.has(Flags::WRITE) {
            return false;
        }
        let index = self.session.db;
        let mut db = Db::new(self.shards.guard(), &mut self.core.context, index);
        let mut is_large = |key: &Key<'_>| {
            !db.is_kept_for_undo(key) && db.peek(key).is_some_and(|record| is_long_to_copy(&record))
        };
        if let Some(key) = request.key.filter(|_| cmd.has_one_key(request.args.len())) {
            return is_large(&key);
        }
        let mut has_large = false;
        let ks = &self.core.srv.ks;
        let _ = cmd.spec.key_positions(request.args, |at| {
            has_large |= is_large(&ks.key(request.args[at]));
        });
        has_large
    }

    fn begin_write(&mut self, cmd: &Cmd) -> Result<(), Stop> {
        if cmd.spec.flags.has(Flags::WRITE) {
            if self.run.is_some_and(|run| !run.begin_write()) {
                return Err(Stop);
            }
            self.has_written = true;
        }
        Ok(())
    }

    /// The planted faults: other clients use shards of the command before the script has ended.
    fn let_others_in(&self, cmd: &'static Cmd, request: &Request<'_>) {
        let ks = &self.core.srv.ks;
        let Run::Data { lock, .. } = cmd.run else { return };
        let used = match data_need(ks, cmd, lock, request, self.session.db) {
            Need::One(shard) => ShardSet::one(shard),
            Need::Shards(set) => set,
            _ => return,
        };
        let may_restart = matches!(self.shards, Shards::Growing(_));
        for shard in used.iter() {
            let is_declared = self.call.keys.iter().any(|key| ks.shard(key) == shard);
            self.shards.guard().let_others_in(shard, is_declared, may_restart);
        }
    }

    /// Replies with the error of a command that must not run.
    fn reject(&mut self, cmd: Option<&'static Cmd>, e: &Error, reply: &mut Reply) {
        reply.error(&e.0);
        self.calls.note_rejected(cmd, e);
    }

    /// Calls a command with all that it needs. The I/O threads may be stopped afterwards. `in_transit`: its slot, if its keys
    /// must be looked for.
    fn call_holding(
        &mut self,
        cmd: &'static Cmd,
        request: &Request<'_>,
        in_transit: Option<u16>,
        reply: &mut Reply,
    ) -> Result<(), Stop> {
        self.hold(cmd, request)?;
        if let Some(slot) = in_transit
            && let Err(e) = self.check_keys(cmd, request.args, slot)
        {
            self.reject(Some(cmd), &e, reply);
            return Ok(());
        }
        self.settle(cmd, request)?;
        self.begin_write(cmd)?;
        self.execute(cmd, request, reply)
    }

    /// Calls a command that may run, and completes its reply.
    fn execute(
        &mut self,
        cmd: &'static Cmd,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Result<(), Stop> {
        let mark = reply.mark();
        let Host { core, session, shards, lane, calls, .. } = self;
        let ran = call_under(core, session, request, cmd, reply, shards.guard(), *lane);
        match ran {
            Ran::Ended(result) => {
                let ns = finish_called(core, session, cmd, request, reply, mark, &result);
                if let Shards::Growing(_) = shards {
                    calls.note(cmd, ns, result.is_err(), core.settings.log.latency_tracking);
                }
                if let Err(e) = &result {
                    calls.note_error(e);
                }
                Ok(())
            }
            Ran::IsLong => Err(self.start_over(More::Time)),
        }
    }
}

impl engine::Host for Host<'_, '_, '_> {
    fn call(&mut self, args: &[&[u8]], reply: &mut Reply) -> Result<(), Stop> {
        if self.core.trace.is_full() {
            return Err(self.start_over(More::Shown));
        }
        let found = self.command(args).and_then(|cmd| {
            self.check_access(cmd, args)?;
            self.check(cmd)?;
            self.check_slot(cmd, args).map(|in_transit| (cmd, in_transit))
        });
        let (cmd, in_transit) = match found {
            Ok(found) => found,
            Err(e) => {
                self.reject(self.named(args).ok(), &e, reply);
                return Ok(());
            }
        };
        if let Some(receivers) = self.keep_back(cmd, args) {
            reply.int(receivers as i64);
            return Ok(());
        }
        /// At most so many bytes precede and follow an argument.
        const AROUND: usize = 32;
        let bytes_at_most = args.iter().map(|arg| arg.len() + AROUND).sum::<usize>() + AROUND;
        let mut request = Request { bytes_at_most, ..Request::new(Some(cmd), args, &[]) };
        if cmd.first_key > 0 && cmd.first_key < args.len() {
            request.key = Some(self.key(args[cmd.first_key]));
        }
        let ran = self.call_holding(cmd, &request, in_transit, reply);
        // Also after an error, and not only at the script's end: they answer SCRIPT KILL.
        if let Shards::All(guard) = &mut self.shards {
            guard.resume_io_threads();
        }
        if cfg!(feature = "planted") && ran.is_ok() {
            self.let_others_in(cmd, &request);
        }
        ran
    }

    fn interrupt(&mut self) -> Result<(), Stop> {
        if self.run.is_some_and(running::Run::is_killed) {
            return Err(Stop);
        }
        if self.run.is_some() {
            self.check_busy();
        }
        if self.lane == Lane::Script && matches!(self.shards, Shards::Growing(_)) {
            let clock = &self.core.srv.process.time.clock;
            if clock.delta_as_nanos(self.began, clock.raw()) > FAST_NS {
                return Err(self.start_over(More::Time));
            }
        }
        Ok(())
    }

    fn log(&mut self, level: Level, message: &[u8]) {
        super::functions::log(level, message);
    }

    fn may_call(&mut self, args: &[&[u8]]) -> Option<bool> {
        let cmd = self.core.srv.table.find(args[0])?;
        let cmd = match args.get(1) {
            Some(sub) if !cmd.subcommands.is_empty() => cmd.subcommand(sub)?,
            _ => cmd,
        };
        self.core.renew_access();
        let is_free = access::is_free(self.core, self.session);
        Some(is_free || access::allows_in_script(self.core, self.session, cmd, args))
    }

    fn set_repl(&mut self, to_log: bool, to_replicas: bool) {
        self.core.context.effects.direct(to_log, to_replicas);
    }
}
