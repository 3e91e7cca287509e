//! `watchdog-period`: if an event loop makes no progress for this time, the stacks of all threads
//! are logged. This finds the cause of stalls on a production server.
//!
//! Each active I/O thread counts its ticks, `hz` a second. The watchdog thread checks that all
//! counters advance. It is created when the directive is first set, and sleeps while the period is
//! 0.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weft_config::Config;
use weft_process::{crash, log_warning};
use weft_state::server::Server;

/// The minimum number of ticks in a period.
const LEAST_TICKS: i64 = 2;

/// Raises the configured period to the minimum that the ticks allow. Both are in milliseconds.
pub fn possible_period(wished: i64, config: &Config) -> i64 {
    match wished {
        0 => 0,
        _ => wished.max(LEAST_TICKS * 1000 / config.int(weft_config::Id::HZ).max(1)),
    }
}

/// Sets the period of the watchdog in milliseconds; 0 stops it.
///
/// # Errors
/// The thread can't be created.
pub fn set_watchdog(srv: &'static Server, period_ms: i64) -> std::io::Result<()> {
    let dog = &srv.process.background.watchdog;
    if period_ms > 0 && !dog.exists.swap(true, Ordering::SeqCst) {
        let thread = std::thread::Builder::new().name("weft-watchdog".into());
        let spawned = thread.spawn(move || watch(srv));
        if let Err(e) = spawned {
            dog.exists.store(false, Ordering::SeqCst);
            return Err(e);
        }
    }
    let _lock = dog.changed.0.lock().unwrap_or_else(|p| p.into_inner());
    dog.period_ms.store(period_ms.max(0) as u64, Ordering::Relaxed);
    dog.changed.1.notify_all();
    Ok(())
}

fn watch(srv: &'static Server) {
    let mut seen: HashMap<usize, (u64, Instant)> = HashMap::new();
    loop {
        let period = Duration::from_millis(
            srv.process.background.watchdog.period_ms.load(Ordering::Relaxed),
        );
        sleep(srv, period / 2);
        if period.is_zero() {
            seen.clear();
            continue;
        }
        let now = Instant::now();
        let mut stuck = Vec::new();
        let active = srv.threads.active();
        for (id, thread) in srv.threads.iter().enumerate() {
            let ticks = thread.stats.event_loop.ticks.get();
            let (last, since) = seen.entry(id).or_insert((ticks, now));
            if *last != ticks || id >= active {
                (*last, *since) = (ticks, now);
            } else if now - *since >= period {
                *since = now;
                stuck.push(id);
            }
        }
        if !stuck.is_empty() {
            log_warning!("--- WATCHDOG TIMER EXPIRED --- (I/O threads {stuck:?} make no progress)");
            if let Err(e) = crash::log_stacks() {
                log_warning!("Can't log the stacks: {e}");
            }
        }
    }
}

/// Sleeps for `time`. If that is zero, sleeps until the watchdog is switched on.
fn sleep(srv: &Server, time: Duration) {
    let (lock, changed) = &srv.process.background.watchdog.changed;
    let guard = lock.lock().unwrap_or_else(|p| p.into_inner());
    if !time.is_zero() {
        let _ = changed.wait_timeout(guard, time);
    } else if srv.process.background.watchdog.period_ms.load(Ordering::Relaxed) == 0 {
        drop(changed.wait(guard));
    }
}
