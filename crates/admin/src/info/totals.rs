//! Sums of all counters over the threads, and their reset by CONFIG RESETSTAT.
//!
//! A counter has one writer, its thread (see [`weft_state::stats`]), so a reset can't set it to zero.
//! The reset stores the sums instead, and each report subtracts them. If a thread is in the middle
//! of a command at the reset or the report, the result is off by that command.

use std::sync::atomic::Ordering;
use weft_base::limits::SLOTS;
use weft_durability::aof::aof;
use weft_replication_driver::hub;
use weft_state::info_state::base::{Base, CommandTotals, Totals, take};
use weft_state::server::Server;
use weft_state::stats::{Distribution, ThreadStats};

/// Everything since the start. O(threads), and O(commands) for each thread that has executed
/// some since the last call. `own`: the calling thread, which may be in the middle of a batch.
fn totals_since_start(srv: &Server, own: &ThreadStats) -> Totals {
    let mut totals = Totals {
        net_repl_out: srv.nodes.replication.sent.load(Ordering::Relaxed),
        syncs: hub(srv).lock().node.primary().counts(),
        ..Totals::default()
    };
    for thread in srv.all_stats() {
        totals.add(thread);
    }
    let (calls, ns) = srv.statistics.info.calls().sum(srv.all_stats(), Some(own));
    (totals.calls, totals.command_ns) = (calls, ns);
    totals
}

/// Everything since the last reset, as [`totals_since_start`].
pub fn totals_since_reset(srv: &Server, own: &ThreadStats) -> Totals {
    let mut totals = totals_since_start(srv, own);
    totals.subtract(&srv.statistics.info.base().totals);
    totals
}

/// The counters of every command since the last reset, by its number. O(threads x commands).
pub fn commands_since_reset(srv: &Server) -> Vec<CommandTotals> {
    let mut all = commands_since_start(srv);
    for (now, then) in all.iter_mut().zip(&srv.statistics.info.base().commands) {
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
        && let Some(base) = srv.statistics.info.base().latency.get(number)
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
        totals: totals_since_start(srv, own),
        commands: commands_since_start(srv),
        latency: (0..srv.table.all().len()).map(|n| latency_since_start(srv, n)).collect(),
    };
    *srv.statistics.info.base() = base;
    let slots = srv.all_stats().map(|thread| &thread.slots);
    srv.statistics.slots.reset(slots, 0..SLOTS as u16);
    srv.statistics.info.rates().clear();
    srv.process.background.bio.reset_stats();
    srv.statistics.errors().clear();
    // These counters have several writers, so any thread may reset them.
    let totals = &srv.statistics.totals;
    for counter in [
        &totals.connections,
        &totals.rejected_connections,
        &totals.evicted_clients,
        &totals.query_limit_disconnections,
        &totals.output_limit_disconnections,
        &totals.acl_denied_auth,
        &totals.acl_denied_tls_cert,
        &totals.acl_denied_commands,
        &totals.acl_denied_keys,
        &totals.acl_denied_channels,
        &totals.acl_denied_databases,
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
