//! Sums of all counters over the threads, and their reset by CONFIG RESETSTAT.
//!
//! A counter has one writer, its thread (see [`crate::stats`]), so a reset can't set it to zero.
//! The reset stores the sums instead, and each report subtracts them. If a thread is in the middle
//! of a command at the reset or the report, the result is off by that command.

use super::base::{Base, CommandTotals, Totals};
use crate::aof::aof;
use crate::replication::hub;
use crate::server::Server;
use crate::stats::{Counter, Distribution, ThreadStats};
use std::sync::atomic::Ordering;

impl Totals {
    /// Everything since the start. O(threads), and O(commands) for each thread that has executed
    /// some since the last call. `own`: the calling thread, which may be in the middle of a batch.
    fn since_start(srv: &Server, own: &ThreadStats) -> Totals {
        let mut totals = Totals {
            net_repl_out: srv.replication.sent.load(Ordering::Relaxed),
            syncs: hub(srv).lock().node.primary().counts(),
            ..Totals::default()
        };
        for thread in srv.all_stats() {
            totals.add(thread);
        }
        let (calls, ns) = srv.info.calls().sum(srv.all_stats(), Some(own));
        (totals.calls, totals.command_ns) = (calls, ns);
        totals
    }

    fn add(&mut self, thread: &ThreadStats) {
        let add = |sum: &mut u64, counter: &Counter| *sum = sum.wrapping_add(counter.get());
        add(&mut self.hits, &thread.hits);
        add(&mut self.misses, &thread.misses);
        add(&mut self.expired, &thread.expired);
        add(&mut self.expired_fields, &thread.expired_fields);
        add(&mut self.evicted, &thread.evicted);
        add(&mut self.net_in, &thread.net_in);
        add(&mut self.net_out, &thread.net_out);
        add(&mut self.reads, &thread.reads);
        add(&mut self.writes, &thread.writes);
        add(&mut self.turns, &thread.turns);
        add(&mut self.prefetch_batches, &thread.prefetch_batches);
        add(&mut self.prefetched, &thread.prefetched);
        add(&mut self.busy_us, &thread.cpu_user_us);
        add(&mut self.busy_us, &thread.cpu_system_us);
        add(&mut self.error_replies, &thread.error_replies);
        add(&mut self.unexpected_errors, &thread.unexpected_errors);
    }

    /// Everything since the last reset, like [`Totals::since_start`].
    pub fn since_reset(srv: &Server, own: &ThreadStats) -> Totals {
        let mut totals = Totals::since_start(srv, own);
        totals.subtract(&srv.info.base().totals);
        totals
    }

    fn subtract(&mut self, base: &Totals) {
        take(&mut self.calls, base.calls);
        take(&mut self.command_ns, base.command_ns);
        take(&mut self.hits, base.hits);
        take(&mut self.misses, base.misses);
        take(&mut self.expired, base.expired);
        take(&mut self.expired_fields, base.expired_fields);
        take(&mut self.evicted, base.evicted);
        take(&mut self.net_in, base.net_in);
        take(&mut self.net_out, base.net_out);
        take(&mut self.reads, base.reads);
        take(&mut self.writes, base.writes);
        take(&mut self.turns, base.turns);
        take(&mut self.prefetch_batches, base.prefetch_batches);
        take(&mut self.prefetched, base.prefetched);
        take(&mut self.busy_us, base.busy_us);
        take(&mut self.error_replies, base.error_replies);
        take(&mut self.unexpected_errors, base.unexpected_errors);
        take(&mut self.net_repl_out, base.net_repl_out);
        let (syncs, before) = (&mut self.syncs, &base.syncs);
        take(&mut syncs.sync_full, before.sync_full);
        take(&mut syncs.sync_partial_ok, before.sync_partial_ok);
        take(&mut syncs.sync_partial_err, before.sync_partial_err);
        take(&mut syncs.over_limit, before.over_limit);
    }
}

fn take(now: &mut u64, then: u64) {
    *now = now.saturating_sub(then);
}

/// The counters of every command since the last reset, by its number. O(threads x commands).
pub fn commands_since_reset(srv: &Server) -> Vec<CommandTotals> {
    let mut all = commands_since_start(srv);
    for (now, then) in all.iter_mut().zip(&srv.info.base().commands) {
        take(&mut now.calls, then.calls);
        take(&mut now.ns, then.ns);
        take(&mut now.rejected, then.rejected);
        take(&mut now.failed, then.failed);
    }
    all
}

/// Iterates thread by thread, because a thread's counters are adjacent in memory.
fn commands_since_start(srv: &Server) -> Vec<CommandTotals> {
    let mut all = vec![CommandTotals::default(); srv.table.all().len()];
    for thread in srv.all_stats() {
        for (sum, stats) in all.iter_mut().zip(&thread.commands) {
            sum.calls += stats.calls.get();
            sum.ns += stats.ns.get();
            sum.rejected += stats.rejected.get();
            sum.failed += stats.failed.get();
        }
    }
    all
}

/// The latencies of a command since the last reset; empty where nothing was recorded. O(threads),
/// and O(buckets) for each thread that has executed it.
pub fn latency_since_reset(srv: &Server, number: usize) -> Distribution {
    let mut sum = latency_since_start(srv, number);
    if !sum.is_empty()
        && let Some(base) = srv.info.base().latency.get(number)
    {
        sum.subtract(base);
    }
    sum
}

fn latency_since_start(srv: &Server, number: usize) -> Distribution {
    let mut sum = Distribution::default();
    let threads = srv.all_stats().map(|thread| &thread.commands[number]);
    threads.filter_map(|s| s.latency.get()).for_each(|h| h.add_to(&mut sum));
    sum
}

/// CONFIG RESETSTAT: makes INFO count from here.
pub fn reset(srv: &Server, own: &ThreadStats) {
    let base = Base {
        totals: Totals::since_start(srv, own),
        commands: commands_since_start(srv),
        latency: (0..srv.table.all().len()).map(|n| latency_since_start(srv, n)).collect(),
    };
    *srv.info.base() = base;
    srv.info.rates().clear();
    srv.bio.reset_stats();
    srv.errors.lock().unwrap_or_else(|p| p.into_inner()).clear();
    // These counters have several writers, so any thread may reset them.
    let totals = &srv.totals;
    for counter in [
        &totals.connections,
        &totals.rejected_connections,
        &totals.evicted_clients,
        &totals.query_limit_disconnections,
        &totals.output_limit_disconnections,
        &totals.acl_denied_auth,
        &totals.expire_cycles_capped,
        &totals.expire_us,
    ] {
        counter.store(0, Ordering::Relaxed);
    }
    aof(srv).status.reset();
    srv.persistence.saves().count = 0;
    totals.stale_keys.reset();
    totals.stale_fields.reset();
}
