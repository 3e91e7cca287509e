//! All counters added up over the threads, and what CONFIG RESETSTAT does to them.
//!
//! A counter has one writer, its thread (see [`crate::stats`]), so a reset can't set it to zero.
//! It remembers the sums instead, and whoever reports subtracts them. Between a reset and a
//! report a thread may be in the middle of a command; then the report is off by that one.

use crate::server::Server;
use crate::stats::{CommandStats, Counter, Distribution, ThreadStats};
use std::sync::atomic::Ordering;
use weft_replication::primary::Counts;

/// Counters of one command.
#[derive(Clone, Debug, Default)]
pub struct CommandTotals {
    pub calls: u64,
    /// Nanoseconds.
    pub ns: u64,
    pub rejected: u64,
    pub failed: u64,
}

/// Every counter, over all threads.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// By the command's number.
    pub commands: Vec<CommandTotals>,
    /// By the command's number; empty where nothing was recorded.
    pub latency: Vec<Distribution>,
    pub hits: u64,
    pub misses: u64,
    pub expired: u64,
    pub expired_fields: u64,
    pub evicted: u64,
    pub net_in: u64,
    pub net_out: u64,
    pub reads: u64,
    pub writes: u64,
    pub turns: u64,
    /// Batches with a request whose key was prefetched, and such requests.
    pub prefetch_batches: u64,
    pub prefetched: u64,
    /// CPU time of the I/O threads in microseconds.
    pub busy_us: u64,
    pub error_replies: u64,
    pub unexpected_errors: u64,
    pub net_repl_out: u64,
    /// Of replicas of ours.
    pub syncs: Counts,
}

impl Totals {
    /// Everything since the start. O(threads x commands), and histograms are large.
    pub fn since_start(srv: &Server) -> Totals {
        let sum = |of: fn(&ThreadStats) -> &Counter| {
            srv.all_stats().fold(0u64, |sum, thread| sum.wrapping_add(of(thread).get()))
        };
        Totals {
            commands: (0..srv.table.all().len()).map(|n| command(srv, n)).collect(),
            latency: (0..srv.table.all().len()).map(|n| latency(srv, n)).collect(),
            hits: sum(|t| &t.hits),
            misses: sum(|t| &t.misses),
            expired: sum(|t| &t.expired),
            expired_fields: sum(|t| &t.expired_fields),
            evicted: sum(|t| &t.evicted),
            net_in: sum(|t| &t.net_in),
            net_out: sum(|t| &t.net_out),
            reads: sum(|t| &t.reads),
            writes: sum(|t| &t.writes),
            turns: sum(|t| &t.turns),
            prefetch_batches: sum(|t| &t.prefetch_batches),
            prefetched: sum(|t| &t.prefetched),
            busy_us: sum(|t| &t.cpu_user_us) + sum(|t| &t.cpu_system_us),
            error_replies: sum(|t| &t.error_replies),
            unexpected_errors: sum(|t| &t.unexpected_errors),
            net_repl_out: srv.replication.published.sent.load(Ordering::Relaxed),
            syncs: srv.replication.lock().node.primary().counts(),
        }
    }

    /// Everything since the last reset.
    pub fn since_reset(srv: &Server) -> Totals {
        let mut totals = Totals::since_start(srv);
        totals.subtract(&srv.info.base());
        totals
    }

    /// Commands executed.
    pub fn calls(&self) -> u64 {
        self.commands.iter().map(|c| c.calls).sum()
    }

    /// Nanoseconds spent in commands.
    pub fn command_ns(&self) -> u64 {
        self.commands.iter().map(|c| c.ns).sum()
    }

    fn subtract(&mut self, base: &Totals) {
        for (now, then) in self.commands.iter_mut().zip(&base.commands) {
            take(&mut now.calls, then.calls);
            take(&mut now.ns, then.ns);
            take(&mut now.rejected, then.rejected);
            take(&mut now.failed, then.failed);
        }
        for (now, then) in self.latency.iter_mut().zip(&base.latency) {
            now.subtract(then);
        }
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

fn of_threads(srv: &Server, number: usize) -> impl Iterator<Item = &CommandStats> {
    srv.all_stats().map(move |thread| &thread.commands[number])
}

fn command(srv: &Server, number: usize) -> CommandTotals {
    of_threads(srv, number).fold(CommandTotals::default(), |mut sum, stats| {
        sum.calls += stats.calls.get();
        sum.ns += stats.ns.get();
        sum.rejected += stats.rejected.get();
        sum.failed += stats.failed.get();
        sum
    })
}

fn latency(srv: &Server, number: usize) -> Distribution {
    let mut sum = Distribution::default();
    of_threads(srv, number).filter_map(|s| s.latency.get()).for_each(|h| h.add_to(&mut sum));
    sum
}

/// CONFIG RESETSTAT: INFO counts from here.
pub fn reset(srv: &Server) {
    *srv.info.base() = Totals::since_start(srv);
    srv.info.rates().clear();
    srv.bio.reset_stats();
    srv.errors.lock().unwrap_or_else(|p| p.into_inner()).clear();
    // These have several writers, so that anybody may set them.
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
    srv.aof.status.reset();
    srv.persistence.saves().count = 0;
    totals.stale_keys.reset();
    totals.stale_fields.reset();
}
