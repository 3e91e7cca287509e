//! What one thread brings along to execute commands, and what a server command gets.

use crate::dispatch::outcome::Suspend;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_commands::{CmdResult, Error, Flags, Lane};
use weft_keyspace::context::Free;
use weft_keyspace::{ExecContext, Expired, Guard, Import, Inside, Stop, evict::Evictor};
use weft_memory::ThreadMemory;
use weft_pubsub::mail::Mail;
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

/// The functions of the commands on the server, by their numbers in the command table.
#[derive(Debug)]
pub struct Functions(pub Vec<ServerFn>);

/// The executing half of an I/O thread.
pub struct Core {
    pub id: usize,
    pub srv: &'static Server,
    pub context: ExecContext,
    pub settings: Arc<Settings>,
    pub evictor: Evictor,
    pub memory: ThreadMemory,
    /// Raw clock at the end of the last command: the next one is measured from here.
    pub last_tick: u64,
    /// What runs now removes nothing, not even what has expired. So it is with what only reads in
    /// the slow lane: a pause of writes does not wait for it, and may begin at any time.
    pub only_reads: bool,
    /// What has come for this thread, as far as somebody had to look ahead.
    pub mail: Mail<Message>,
    /// What is to be done when the next effects have got their place in the order of all, and before anybody
    /// may look at all keys: a snapshot that has them must know of it.
    pub at_commit: Option<Box<dyn FnOnce() + Send>>,
    /// Monotonic milliseconds at the beginning of the batch.
    pub mono_ms: i64,
    /// Bytes that this thread had logged when it looked last whether those who read the log can follow.
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

    /// For who executes what was logged, at the start.
    pub fn loading(srv: &'static Server) -> Self {
        Core::slow(weft_state::slow_lane::THREADS, srv)
    }

    /// For who applies what our primary sends.
    pub fn replica(srv: &'static Server) -> Self {
        Core::slow(weft_state::slow_lane::THREADS + 1, srv)
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
            evictor: Evictor::default(),
            memory: ThreadMemory::new(),
            last_tick: 0,
            only_reads: false,
            mail: Mail::default(),
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

    /// The number of this thread among those that can wait for a shard.
    pub fn waiter(&self) -> u32 {
        self.id as u32
    }

    /// Takes the settings that are in force now.
    #[inline]
    pub fn renew_settings(&mut self) {
        if self.srv.configuration.version() != self.settings.version {
            self.settings = self.srv.settings();
            self.context.access = self.settings.access(self.context.now_ms);
            self.context.effects.want(self.settings.changes.notices);
            self.context.deletions = self.settings.changes.deletions;
        }
    }

    /// Reads clock and settings for the commands to come; to be called inside the gate, so that no
    /// command that has stopped the world meanwhile was later.
    pub fn begin(&mut self) {
        self.renew_settings();
        self.last_tick = self.srv.time.clock.raw();
        self.mono_ms = self.srv.mono_ms_at(self.last_tick);
        self.context.set_time(self.srv.unix_ms_at(self.last_tick));
        self.begin_command();
    }

    /// What may have been changed by the command before.
    #[inline]
    pub fn begin_command(&mut self) {
        let attention = self.srv.attention.load(Ordering::SeqCst);
        // On a replica it is the primary that removes.
        let by_others = attention::PAUSED | attention::IMPORT | attention::REPLICA;
        let keeps = self.only_reads || attention & by_others != 0;
        self.context.expired = if keeps { Expired::Keep } else { Expired::Remove };
        if attention & attention::IMPORT == 0 {
            self.context.set_import(Import::No);
        }
    }

    /// In import mode: what a command of these flags does about keys that have expired. The server
    /// that brings the data sees them as if they had not; for others they are not there, and only
    /// who writes removes what is in the way.
    ///
    /// On a replica that clients may write to, it is in the same way that what has expired is in the way of
    /// a write.
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

    /// Makes this thread's tallies visible to others, and wakes who reads the log of effects, if that
    /// is to be: the end of a batch, with nothing held.
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

    /// Frees what died under the locks: large things in the background.
    #[inline]
    pub fn free_trash(&mut self) {
        if self.context.has_deferred_frees() {
            self.free_dead();
        }
    }

    #[inline(never)]
    fn free_dead(&mut self) {
        let lost = self.context.take_lost();
        if !lost.is_empty() {
            crate::blocking::rouse(self.srv, &lost);
        }
        self.context.free_removed();
        if let Some(records) = self.context.take_removed() {
            self.srv.background.bio.free_long(records);
        }
        for emptied in self.context.take_detached() {
            match emptied.free {
                Free::Here => drop(emptied.contents),
                Free::Background => self.srv.background.bio.free_tables(emptied.contents),
            }
        }
    }
}

/// What is held while a command of this crate runs.
pub enum Held<'a> {
    /// Nothing: it may look at single keys by itself.
    Nothing(&'a mut Inside<'static>),
    Stop(#[allow(dead_code, reason = "held, not read")] Stop<'a>),
    /// Nothing, on a thread of the slow lane.
    Aside,
    /// What it needs, and possibly more: that of a whole transaction.
    Guard(&'a Guard<'a>),
}

/// What a command that works on the connection or the server gets.
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
    /// What its [`Needs`](weft_state::command_table::Needs) have asked for.
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

    /// The shards that the command's needs have named.
    ///
    /// # Panics
    /// If they have named none.
    pub fn guard(&self) -> &'a Guard<'a> {
        match self.held {
            Held::Guard(guard) => guard,
            Held::Nothing(_) | Held::Stop(_) | Held::Aside => {
                unreachable!("{} needs no shards", self.name)
            }
        }
    }
}
