//! The periodic task of the first thread that decides, from the loads that all threads have
//! recorded, how many threads are active, and notifies them.

use weft_process::log_verbose;
use weft_scheduler::balance::{Balance, Decision, Sample};
use weft_scheduler::trial::Served;
use weft_state::conn::MoveMessage;
use weft_state::mailbox::{Message, ThreadMessage};
use weft_state::server::Server;
use weft_state::settings::Settings;

/// Reads the loads and applies the decision. Must be called on the first thread.
pub fn tick(balance: &mut Balance, srv: &Server, now_ms: i64, settings: &Settings) {
    let (configured, active) = (srv.threads.configured(), srv.threads.active());
    let fixed = if (configured == 1 && active == 1) || !settings.threads.all_read {
        Some(1)
    } else {
        settings.threads.always_active.then_some(configured)
    };
    let fixed = srv.threads.forced().map(|count| count.min(configured)).or(fixed);
    if let Some(fixed) = fixed {
        balance.reset(now_ms);
        let decision = Decision { active: fixed, shifts: Vec::new() };
        return carry_out(srv, active, &decision, || match srv.threads.forced() {
            Some(_) => "DEBUG ACTIVE-THREADS".into(),
            None => "the configuration fixes the number".into(),
        });
    }
    let samples: Vec<Sample> = srv
        .threads
        .iter()
        .take(active)
        .map(|thread| Sample {
            pressure: thread.stats.load.pressure.get() as f64 / 1000.0,
            busy_connections: thread.stats.load.busy_connections.get() as usize,
        })
        .collect();
    let requests = srv.threads.iter().map(|thread| thread.stats.load.requests.get()).sum();
    let ns: u64 = srv.threads.iter().map(|thread| thread.stats.load.running_ns.get()).sum();
    let served = Served { requests, cpu: ns as f64 / 1e9 };
    let decision = balance.decide(now_ms, configured, active, &samples, served);
    let (verdict, reason) = (balance.take_verdict(), balance.take_reason());
    if let Some(verdict) = verdict {
        log_verbose!("{verdict}");
        if decision.active == active {
            srv.statistics.thread_changes.add(srv.now_ms(), active, active, verdict.to_string());
        }
    }
    carry_out(srv, active, &decision, || match (verdict, reason) {
        (Some(verdict), _) => verdict.to_string(),
        (None, Some(reason)) => reason.to_string(),
        (None, None) => "the load decides".into(),
    });
}

/// DEBUG ACTIVE-THREADS: fixes the number of active threads until this is called with `None`. May
/// be called on any thread.
pub fn force(srv: &Server, count: Option<usize>) {
    srv.threads.set_forced(count);
    if let Some(active) = count {
        let decision = Decision { active, shifts: Vec::new() };
        carry_out(srv, srv.threads.active(), &decision, || "DEBUG ACTIVE-THREADS".into());
    }
}

fn carry_out(srv: &Server, before: usize, decision: &Decision, reason: impl Fn() -> String) {
    let after = decision.active;
    if after != before {
        log_verbose!("{after} of {} I/O threads are active", srv.threads.configured());
        srv.threads.set_active(after);
        srv.statistics.thread_changes.add(srv.now_ms(), before, after, reason());
        // Newly active threads start their crons. Threads that have become inactive pass on their
        // connections.
        (before.min(after)..before.max(after)).for_each(|thread| {
            srv.threads[thread].mailbox.send(Message::Thread(ThreadMessage::Wake))
        });
    }
    for shift in &decision.shifts {
        let message = Message::Move(MoveMessage::Shed { to: shift.to, share: shift.share });
        srv.threads[shift.from].mailbox.send(message);
    }
}
