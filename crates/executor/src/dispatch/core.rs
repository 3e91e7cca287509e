//! The state with which a thread executes commands, and the context of a server command.

use crate::cluster::known::KnownTopology;
use crate::dispatch::outcome::Suspend;
use crate::dispatch::trace::Trace;
use crate::script::thread::ThreadScripts;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_command_spec::Flags;
use weft_commands::{CmdResult, Error, Lane};
use weft_keyspace::context::Free;
use weft_keyspace::{ExecContext, Expired, Guard, Import, Inside, Stop, evict::Evictor};
use weft_memory::ThreadMemory;
use weft_pubsub::inbox::Inbox;
use weft_resp::Reply;
use weft_state::answers;
use weft_state::attention;
use weft_state::mailbox::Message;
use weft_state::server::Server;
use weft_state::session::Session;
use weft_state::settings::Settings;
use weft_state::stats::ThreadStats;
use weft_state::threads::pool::MAX_IO_THREADS;

/// A command on the connection or the server.
pub type ServerFn = fn(&mut ConnCx<'_>) -> CmdResult;

/// The functions of server commands, indexed by their numbers in the command table.
#[derive(Debug)]
pub struct Functions(pub Vec<ServerFn>);

/// The state with which one thread executes commands.
pub struct Core {
    pub id: usize,
    pub srv: &'static Server,
    pub context: ExecContext,
    pub settings: Arc<Settings>,
    /// The generation of users in force. It can't change while an I/O thread is inside its safepoint, except by its own
    /// commands. Other threads read it again before each command.
    pub access_generation: u64,
    /// The topology of the cluster: renewed where it is used, since its number is compared each time.
    pub topology: KnownTopology,
    pub evictor: Evictor,
    pub memory: ThreadMemory,
    /// Raw clock at the end of the last command, from which the duration of the next one is measured.
    pub last_tick: u64,
    /// The running command removes no keys, not even expired ones. Set for reads in the slow lane: a pause of writes
    /// doesn't wait for them, and may begin while they run.
    pub only_reads: bool,
    /// The interpreter of this thread, once it has run a script.
    pub scripts: Option<Box<ThreadScripts>>,
    /// Where commands are shown and logged.
    pub trace: Trace,
    /// Messages taken from this thread's mailbox early, because some must precede a reply.
    pub inbox: Inbox<Message>,
    /// Called once, after the next effects have their position in the effect log and before another thread may
    /// stop the world: a snapshot that includes the effects must see what this call changes.
    pub at_commit: Option<Box<dyn FnOnce() + Send>>,
    /// Monotonic milliseconds at the beginning of the batch.
    pub mono_ms: i64,
    /// Bytes that this thread had logged when it last checked whether the readers of the log keep up.
    logged: u64,
    stats: &'static ThreadStats,
    functions: &'static Functions,
}

impl Core {
    pub fn new(id: usize, srv: &'static Server) -> Self {
        Core::with_stats(id, srv, &srv.threads[id].stats)
    }

    /// For thread `n` of the slow lane.
    pub fn slow(n: usize, srv: &'static Server) -> Self {
        Core::with_stats(MAX_IO_THREADS + n, srv, &srv.statistics.slow_threads[n])
    }

    /// For the thread that loads the append-only file at startup.
    pub fn loading(srv: &'static Server) -> Self {
        Core::slow(weft_state::slow_lane::THREADS, srv)
    }

    /// For the thread that applies the primary's replication stream.
    pub fn replica(srv: &'static Server) -> Self {
        Core::slow(weft_state::slow_lane::THREADS + 1, srv)
    }

    /// For the thread that serves metrics. It executes no commands.
    pub fn metrics(srv: &'static Server) -> Self {
        Core::slow(weft_state::slow_lane::THREADS + 2, srv)
    }

    fn with_stats(id: usize, srv: &'static Server, stats: &'static ThreadStats) -> Self {
        let settings = srv.settings();
        let now_ms = srv.now_ms();
        let mut context = ExecContext::new(now_ms, srv.seed(id));
        context.access = settings.access(now_ms);
        context.effects.want(settings.changes.notices);
        context.deletions = settings.changes.deletions;
        Core {
            id,
            context,
            settings,
            access_generation: srv.access.generation(),
            topology: KnownTopology::default(),
            evictor: Evictor::default(),
            memory: ThreadMemory::new(),
            last_tick: 0,
            only_reads: false,
            scripts: None,
            trace: Trace::default(),
            inbox: Inbox::default(),
            at_commit: None,
            mono_ms: srv.mono_ms(),
            logged: 0,
            stats,
            functions: srv.links.functions.downcast_ref().expect("the list of functions"),
            srv,
        }
    }

    /// The function of this number: see [`Run::Server`](weft_state::command_table::Run::Server).
    pub fn function(&self, number: usize) -> ServerFn {
        self.functions.0[number]
    }

    pub fn stats(&self) -> &'static ThreadStats {
        self.stats
    }

    /// This thread's number among the threads that can wait for a shard.
    pub fn waiter(&self) -> u32 {
        self.id as u32
    }

    /// Takes the current settings, if they have changed.
    #[inline]
    pub fn renew_settings(&mut self) {
        if self.srv.configuration.version() != self.settings.version {
            self.settings = self.srv.settings();
            self.context.access = self.settings.access(self.context.now_ms);
            self.context.effects.want(self.settings.changes.notices);
            self.context.deletions = self.settings.changes.deletions;
        }
    }

    /// Takes the generation of users in force.
    #[inline]
    pub fn renew_access(&mut self) {
        self.access_generation = self.srv.access.generation();
    }

    /// Reads the clock, the settings and the generation of users for the next commands. Call it inside the safepoint, so that the time is not
    /// before that of a command that has stopped the world.
    pub fn begin(&mut self) {
        self.renew_settings();
        self.renew_access();
        self.last_tick = self.srv.process.time.clock.raw();
        self.mono_ms = self.srv.mono_ms_at(self.last_tick);
        self.context.set_time(self.srv.unix_ms_at(self.last_tick));
        self.begin_command();
    }

    /// Reads the server state that the previous command may have changed.
    #[inline]
    pub fn begin_command(&mut self) {
        let attention = self.srv.attention.load(Ordering::SeqCst);
        // A replica leaves removal to its primary.
        let by_others = attention::PAUSED | attention::IMPORT | attention::REPLICA;
        let keeps = self.only_reads || attention & by_others != 0;
        self.context.expired = if keeps { Expired::Keep } else { Expired::Remove };
        if attention & attention::IMPORT == 0 {
            self.context.set_import(Import::No);
        }
    }

    /// Sets how a command with these flags treats expired keys in import mode. The client that imports data sees
    /// them as if they had not expired. For other clients they are missing, and only a write removes those that it
    /// accesses.
    ///
    /// On a writable replica, a write also removes the expired keys that it accesses.
    #[inline]
    pub fn begin_import(&mut self, is_source: bool, flags: Flags) {
        let attention = self.srv.attention.load(Ordering::Relaxed);
        if attention & (attention::IMPORT | attention::REPLICA) == 0 {
            return;
        }
        if attention & attention::IMPORT != 0 {
            self.context.set_import(if is_source { Import::Source } else { Import::Bystander });
        }
        let writes = flags.has(Flags::WRITE) && attention & attention::PAUSED == 0;
        self.context.expired = if writes { Expired::KeepFromReads } else { Expired::Keep };
    }

    /// Publishes this thread's counters, and wakes sleeping readers of the effect log. Call it at the end of a
    /// batch, without holding shards.
    pub fn publish(&mut self) {
        let tally = std::mem::take(&mut self.context.tally);
        let stats = self.stats;
        stats.keys.hits.add(tally.hits);
        stats.keys.misses.add(tally.misses);
        stats.keys.expired.add(tally.expired);
        stats.keys.expired_fields.add(tally.expired_fields);
        stats.keys.evicted.add(tally.evicted);
        stats.keys.dirty.add(tally.dirty);
        if tally.flushes > 0 {
            self.srv.note_flush();
        }
        self.context.ring(self.srv.ks.log());
        let logged = self.context.logged_bytes();
        if logged.wrapping_sub(self.logged) >= answers::STEP {
            self.logged = logged;
            self.srv.watch_log();
        }
        stats.memory.set(self.memory.publish(&self.srv.memory) as u64);
    }

    /// Frees the objects that were removed under the shard locks, large ones in the background.
    #[inline]
    pub fn free_deferred(&mut self) {
        if self.context.has_deferred_frees() {
            self.drain_deferred_frees();
        }
    }

    #[inline(never)]
    fn drain_deferred_frees(&mut self) {
        let lost = self.context.take_lost();
        if !lost.is_empty() {
            crate::blocking::retry_after_removal(self.srv, &lost);
        }
        self.context.free_removed();
        if let Some(records) = self.context.take_removed() {
            self.srv.process.background.bio.free_long(records);
        }
        for emptied in self.context.take_detached() {
            match emptied.free {
                Free::Here => drop(emptied.contents),
                Free::Background => self.srv.process.background.bio.free_tables(emptied.contents),
            }
        }
    }
}

/// The locks that are held while a server command runs.
pub enum Held<'a> {
    /// No shards. The command may access single keys with the safepoint.
    Nothing(&'a mut Inside<'static>),
    Stop(#[allow(dead_code, reason = "held, not read")] Stop<'a>),
    /// No shards, on a thread of the slow lane.
    Aside,
    /// At least the shards that the command needs; in a transaction, those of all its commands.
    Guard(&'a Guard<'a>),
}

/// The context of a command on the connection or the server.
pub struct ConnCx<'a> {
    pub core: &'a mut Core,
    pub session: &'a mut Session,
    /// Name and arguments; for a subcommand, the container's name comes first.
    pub args: &'a [&'a [u8]],
    pub reply: &'a mut Reply,
    /// `client|list`
    pub name: &'static str,
    /// The command has taken effect in an earlier run, and only its reply is missing.
    pub has_run: bool,
    /// Set by a command that can't reply now. A command that is suspended after it has taken effect runs again in
    /// the slow lane, and finds `has_run` set.
    pub suspend: Option<Suspend>,
    /// Where the command runs.
    pub lane: Lane,
    /// As its [`Needs`](weft_state::command_table::Needs) have requested.
    pub held: Held<'a>,
}

impl<'a> ConnCx<'a> {
    pub fn srv(&self) -> &'static Server {
        self.core.srv
    }

    /// The argument `i` as an integer.
    pub fn int(&self, i: usize) -> Result<i64, Error> {
        weft_base::num::parse_i64(self.args[i]).ok_or(weft_commands::error::NOT_AN_INTEGER)
    }

    /// Whether EXEC runs the command.
    pub fn in_transaction(&self) -> bool {
        self.lane == Lane::Transaction
    }

    /// As [`Ctx::weigh`](weft_commands::Ctx::weigh), for a command that holds no shards. Call it before the command
    /// has any effect.
    ///
    /// # Errors
    /// The slow lane must run the command.
    pub fn weigh(&mut self, elements: usize) -> CmdResult {
        let weighed = self.lane.weigh(elements, &mut None);
        if weighed.is_err() {
            self.suspend = Some(Suspend::SLOW);
        }
        weighed
    }

    /// As [`ConnCx::weigh`], for a command with work for each of its arguments.
    pub fn weigh_args(&mut self) -> CmdResult {
        self.weigh(self.args.len())
    }

    /// Whether argument `i` is `word`, in any case.
    pub fn is(&self, i: usize, word: &str) -> bool {
        self.args[i].eq_ignore_ascii_case(word.as_bytes())
    }

    /// The shards that the command's needs have requested.
    ///
    /// # Panics
    /// If they requested no shards.
    pub fn guard(&self) -> &'a Guard<'a> {
        match self.held {
            Held::Guard(guard) => guard,
            Held::Nothing(_) | Held::Stop(_) | Held::Aside => {
                unreachable!("{} needs no shards", self.name)
            }
        }
    }
}
