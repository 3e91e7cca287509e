//! Work that each active I/O thread does `hz` times a second: its share of active expiry, a sample
//! of its load, and on the first thread the periodic work of the server.

use crate::look::Polling;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weft_admin::active_threads as control;
use weft_executor::dispatch::core::Core;
use weft_executor::pubsub;
use weft_keyspace::expiry::{self, SweepState};
use weft_keyspace::{Expired, Inside, SHARDS};
use weft_scheduler::balance::Balance;
use weft_scheduler::load::Load;
use weft_state::attention;

/// Percentage of its time that a thread may spend on active expiry, at effort 1.
const EXPIRE_PERCENT: u64 = 25;

/// Minimum length of a load period, in milliseconds.
const PERIOD_MS: i64 = 90;

pub struct Cron {
    sweep: SweepState,
    /// The shards of this thread's share while `active` threads are active.
    shards: Vec<u16>,
    active: usize,
    load: Load,
    sampled_ms: i64,
    /// The thread was at rest at its last tick.
    resting: bool,
    balance: Balance,
    /// This thread also does the periodic work of the server.
    first: bool,
}

/// Time that active expiry may take in one tick.
fn expire_budget(core: &Core) -> Duration {
    let effort = core.settings.upkeep.expire_effort.clamp(1, 10);
    let hz = core.settings.upkeep.hz.max(1) as u64;
    let percent = EXPIRE_PERCENT + 2 * u64::from(effort - 1);
    Duration::from_micros(1_000_000 / hz * percent / 100)
}

impl Cron {
    /// Must be called on the thread itself.
    pub fn new(thread: usize) -> Self {
        Cron {
            sweep: SweepState::default(),
            shards: Vec::new(),
            active: 0,
            load: Load::of_this_thread(),
            sampled_ms: 0,
            resting: false,
            balance: Balance::default(),
            first: thread == 0,
        }
    }

    /// One tick of an active thread, or of one that still has connections. `busy_connections`
    /// counts the connections with requests in this load period. Returns whether the period has
    /// ended.
    pub fn tick(
        &mut self,
        core: &mut Core,
        now_ms: i64,
        busy_connections: u64,
        looks: &mut Polling,
    ) -> bool {
        let ended = self.sample(core, now_ms, busy_connections, looks);
        if core.srv.statistics.info.cron_paused.load(Ordering::Relaxed) {
            return ended;
        }
        weft_table::epoch::collect();
        if self.first {
            weft_admin::stopping::stop_if_requested(core.srv);
            weft_durability::persistence::points::tick(core.srv);
            core.srv.watch_log();
            weft_admin::tls::tick(core.srv);
            core.srv.process.time.adjust_to_wall_clock();
            core.srv.end_expired_pause();
            weft_executor::snapshot_waits::wake(core.srv);
            core.srv.memory.peak(core.srv.now_ms() / 1000);
        }
        core.publish();
        weft_admin::info::tick(core, self.first);
        ended
    }

    /// Whether this thread should run active expiry now.
    pub fn expires(&mut self, core: &Core) -> bool {
        self.renew_shards(core);
        let paused = core.srv.statistics.info.cron_paused.load(Ordering::Relaxed);
        core.srv.active_expire() && !paused && !self.shards.is_empty()
    }

    /// Called before the thread sleeps for long: resets its load.
    pub fn rest(&mut self, core: &mut Core) {
        if std::mem::replace(&mut self.resting, true) {
            return;
        }
        let stats = core.stats();
        [&stats.load.busy, &stats.load.pressure, &stats.load.busy_connections]
            .into_iter()
            .for_each(|c| c.set(0));
        weft_table::epoch::collect();
        core.publish();
        weft_admin::info::tick(core, false);
    }

    /// Records the thread's load. On the first thread, adjusts the number of active threads to the
    /// load of all.
    fn sample(
        &mut self,
        core: &mut Core,
        now_ms: i64,
        busy_connections: u64,
        looks: &mut Polling,
    ) -> bool {
        if std::mem::take(&mut self.resting) {
            self.load.forget();
        }
        if (0..PERIOD_MS).contains(&(now_ms - self.sampled_ms)) {
            return false;
        }
        self.sampled_ms = now_ms;
        self.load.sample(looks.take_seconds());
        let stats = core.stats();
        stats.load.busy.set((self.load.busy * 1000.0).round() as u64);
        stats.load.pressure.set((self.load.pressure() * 1000.0).round() as u64);
        stats.load.busy_connections.set(busy_connections);
        stats.load.running_ns.set((self.load.worked * 1e9) as u64);
        if self.first {
            let now_ms = core.srv.process.started.elapsed().as_millis() as i64;
            control::tick(&mut self.balance, core.srv, now_ms, &core.settings);
        }
        true
    }

    /// Recomputes this thread's shards when the number of active threads has changed.
    fn renew_shards(&mut self, core: &Core) {
        let active = core.srv.threads.active();
        if self.active != active {
            self.active = active;
            let own = |shard: &u16| usize::from(*shard) % active == core.id;
            self.shards = (0..SHARDS as u16).filter(own).collect();
        }
    }

    /// The shards of this thread's share.
    pub fn shards(&mut self, core: &Core) -> &[u16] {
        self.renew_shards(core);
        &self.shards
    }

    /// On a replica: removes expired keys written by its own clients, of which the primary does not
    /// know.
    fn expire_noted(&mut self, core: &mut Core, inside: &mut Inside<'_>) {
        let srv = core.srv;
        let may_expire = || {
            let attention = srv.attention.load(Ordering::SeqCst);
            attention & attention::REPLICA != 0
                && attention & (attention::PAUSED | attention::IMPORT | attention::LOADING) == 0
        };
        if srv.ks.replica_expiry_count() == 0 || !may_expire() {
            return;
        }
        let budget = expire_budget(core);
        let started = Instant::now();
        let mut keep_going = || may_expire() && started.elapsed() < budget;
        expiry::expire_noted(inside, &mut core.context, &self.shards, &mut keep_going);
        core.free_deferred();
        srv.sample_latency("expire-cycle", Some(started));
    }

    /// Runs this thread's share of active expiry.
    pub fn expire(&mut self, core: &mut Core, inside: &mut Inside<'_>) {
        core.begin();
        if core.context.expired == Expired::Keep {
            self.expire_noted(core, inside);
            return;
        }
        // Expiry sends notifications, so it waits while a mailbox is full.
        let attention = core.srv.attention.load(Ordering::Relaxed);
        if attention & attention::CROWDED != 0
            && !core.context.effects.wanted().is_none()
            && pubsub::crowded_thread(core.srv).is_some()
        {
            return;
        }
        let srv = core.srv;
        let effort = core.settings.upkeep.expire_effort.clamp(1, 10);
        let budget = expire_budget(core);
        let started = Instant::now();
        let mut capped = false;
        let mut keep_going = || {
            capped = started.elapsed() >= budget;
            // Between two steps, a pause may have begun or this server may have become a replica.
            let others = attention::PAUSED | attention::REPLICA;
            !capped && srv.attention.load(Ordering::SeqCst) & others == 0
        };
        let (state, shards) = (&mut self.sweep, &self.shards);
        let swept =
            expiry::sweep(inside, &mut core.context, state, shards, effort, &mut keep_going);
        srv.statistics.totals.stale_keys.note(swept.keys.examined, swept.keys.expired);
        srv.statistics.totals.stale_fields.note(swept.fields.examined, swept.fields.expired);
        core.free_deferred();
        srv.sample_latency("expire-cycle", Some(started));
        let totals = &srv.statistics.totals;
        totals.expire_us.fetch_add(started.elapsed().as_micros() as u64, Ordering::Relaxed);
        totals.expire_cycles_capped.fetch_add(u64::from(capped), Ordering::Relaxed);
    }
}
