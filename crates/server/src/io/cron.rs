//! What each I/O thread does `hz` times a second: its share of the active expiry, and on the
//! first thread the house-keeping of the server.

use crate::dispatch::Core;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weft_keyspace::SHARDS;
use weft_keyspace::expiry::{self, SweepState};

/// Share of its time that a thread may spend on active expiry, at effort 1.
const EXPIRE_PERCENT: u64 = 25;

pub struct Cron {
    sweep: SweepState,
    /// The shards that this thread looks after.
    shards: Vec<u16>,
    /// This thread also keeps the server's house.
    first: bool,
}

impl Cron {
    /// The cron of one of `threads` threads.
    pub fn new(thread: usize, threads: usize) -> Self {
        let shards = (thread as u16..SHARDS as u16).step_by(threads).collect();
        Cron { sweep: SweepState::default(), shards, first: thread == 0 }
    }

    pub fn tick(&mut self, core: &mut Core, now_ms: i64) {
        if core.srv.info.cron_paused.load(Ordering::Relaxed) {
            return;
        }
        core.turn.set_time(now_ms);
        self.expire(core);
        weft_table::epoch::collect();
        if self.first {
            core.srv.end_pause_in_time();
            core.srv.memory.peak(now_ms / 1000);
        }
        core.publish();
        crate::info::tick(core, self.first);
    }

    fn expire(&mut self, core: &mut Core) {
        if !core.srv.active_expire() {
            return;
        }
        let srv = core.srv;
        let effort = core.settings.expire_effort.clamp(1, 10);
        let hz = core.settings.hz.max(1) as u64;
        let percent = EXPIRE_PERCENT + 2 * u64::from(effort - 1);
        let budget = Duration::from_micros(1_000_000 / hz * percent / 100);
        let started = Instant::now();
        let gates = srv.ks.gates();
        let id = core.id;
        core.gate(|core| {
            let mut keep_going = || {
                // Between two steps whoever wants to stop the world may do so.
                gates.leave(id);
                gates.enter(id);
                started.elapsed() < budget
            };
            let (state, shards) = (&mut self.sweep, &self.shards);
            expiry::sweep(&srv.ks, &mut core.turn, state, shards, effort, &mut keep_going);
        });
        core.free_trash();
    }
}
