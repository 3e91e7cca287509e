//! What one thread brings along to execute commands, and what a server command gets.

use crate::io::Session;
use crate::memory::ThreadMemory;
use crate::server::Server;
use crate::settings::Settings;
use crate::stats::ThreadStats;
use crate::threads::MAX_IO_THREADS;
use std::sync::Arc;
use weft_commands::Error;
use weft_keyspace::turn::Free;
use weft_keyspace::{Guard, Turn, evict::Evictor};
use weft_resp::Reply;

/// The executing half of an I/O thread.
pub struct Core {
    pub id: usize,
    pub srv: &'static Server,
    pub turn: Turn,
    pub settings: Arc<Settings>,
    pub evictor: Evictor,
    pub memory: ThreadMemory,
    /// Raw clock at the end of the last command: the next one is measured from here.
    pub last_tick: u64,
    stats: &'static ThreadStats,
    /// Whether this thread is inside its gate. One of the slow lane has none.
    inside: bool,
}

impl Core {
    pub fn new(id: usize, srv: &'static Server) -> Self {
        Core::with_stats(id, srv, &srv.threads[id].stats)
    }

    /// For thread `n` of the slow lane.
    pub fn slow(n: usize, srv: &'static Server) -> Self {
        Core::with_stats(MAX_IO_THREADS + n, srv, &srv.slow_stats[n])
    }

    fn with_stats(id: usize, srv: &'static Server, stats: &'static ThreadStats) -> Self {
        let settings = srv.settings();
        let now_ms = srv.now_ms();
        let mut turn = Turn::new(now_ms, srv.seed(id));
        turn.access = settings.access(now_ms);
        Core {
            id,
            turn,
            settings,
            evictor: Evictor::default(),
            memory: ThreadMemory::new(),
            last_tick: 0,
            stats,
            inside: false,
            srv,
        }
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
        if self.srv.settings_version() != self.settings.version {
            self.settings = self.srv.settings();
            self.turn.access = self.settings.access(self.turn.now_ms);
        }
    }

    /// Starts a batch: goes inside the gate and reads the clock.
    pub fn enter(&mut self) {
        self.begin();
        self.gate_in();
    }

    /// Reads clock and settings for the commands to come.
    pub fn begin(&mut self) {
        self.renew_settings();
        self.turn.set_time(self.srv.now_ms());
        self.last_tick = self.srv.clock.raw();
    }

    /// Ends a batch.
    pub fn leave(&mut self) {
        self.gate_out();
        self.publish();
    }

    fn gate_in(&mut self) {
        self.srv.ks.gates().enter(self.id);
        self.inside = true;
    }

    fn gate_out(&mut self) {
        if std::mem::take(&mut self.inside) {
            self.srv.ks.gates().leave(self.id);
        }
    }

    /// Runs `f` inside the gate, as a batch does; the caller is outside.
    pub fn gate<T>(&mut self, f: impl FnOnce(&mut Core) -> T) -> T {
        self.gate_in();
        let answer = f(self);
        self.gate_out();
        answer
    }

    /// Makes this thread's tallies visible to others.
    pub fn publish(&mut self) {
        let tally = std::mem::take(&mut self.turn.tally);
        let stats = self.stats;
        stats.hits.add(tally.hits);
        stats.misses.add(tally.misses);
        stats.expired.add(tally.expired);
        stats.expired_fields.add(tally.expired_fields);
        stats.evicted.add(tally.evicted);
        stats.dirty.add(tally.dirty);
        stats.memory.set(self.memory.publish(&self.srv.memory) as u64);
    }

    /// Runs `f` while no other thread executes anything, with the whole keyspace in hand.
    pub fn world<T>(&mut self, f: impl FnOnce(&mut Core, &mut Guard<'_>) -> T) -> T {
        let was_inside = self.inside;
        self.gate_out();
        let srv = self.srv;
        let mut guard = srv.ks.world();
        let answer = f(self, &mut guard);
        drop(guard);
        if was_inside {
            self.gate_in();
        }
        self.free_trash();
        answer
    }

    /// Runs `f` while no other I/O thread is in the middle of a batch. What the slow lane is doing
    /// goes on.
    pub fn between_batches<T>(&mut self, f: impl FnOnce(&mut Core) -> T) -> T {
        let was_inside = self.inside;
        self.gate_out();
        let srv = self.srv;
        let closed = srv.ks.gates().close();
        let answer = f(self);
        drop(closed);
        if was_inside {
            self.gate_in();
        }
        answer
    }

    /// Frees what died under the locks: large things in the background.
    #[inline]
    pub fn free_trash(&mut self) {
        if let Some(trash) = self.turn.take_trash() {
            self.srv.bio.free_records(trash);
        }
        for emptied in self.turn.take_detached() {
            match emptied.free {
                Free::Here => drop(emptied.contents),
                Free::Background => self.srv.bio.free_tables(emptied.contents),
            }
        }
    }
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
    /// What EXEC holds, when the command is part of a transaction.
    pub guard: Option<&'a Guard<'a>>,
}

impl ConnCx<'_> {
    pub fn srv(&self) -> &'static Server {
        self.core.srv
    }

    /// The argument `i` as an integer.
    pub fn int(&self, i: usize) -> Result<i64, Error> {
        weft_base::num::parse_i64(self.args[i]).ok_or(weft_commands::error::NOT_AN_INTEGER)
    }

    /// Whether argument `i` is `word`, in any case.
    pub fn is(&self, i: usize, word: &str) -> bool {
        self.args[i].eq_ignore_ascii_case(word.as_bytes())
    }

    /// Runs `f` while the world is stopped.
    pub fn world<T>(&mut self, f: impl FnOnce(&mut Core, &Guard<'_>) -> T) -> T {
        match self.guard {
            Some(guard) => {
                assert!(guard.is_world(), "EXEC stops the world for commands that need it");
                f(self.core, guard)
            }
            None => self.core.world(|core, guard| f(core, guard)),
        }
    }
}
