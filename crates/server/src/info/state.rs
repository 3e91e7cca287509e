//! What INFO, CONFIG and DEBUG need to know of the server and nothing else does.

use super::peaks::Peaks;
use super::rates::Rates;
use super::totals::Totals;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, OnceLock};
use weft_process::memory_policy::OomScore;
use weft_process::title::Title;

/// Facts of the start, the marks of the last CONFIG RESETSTAT, and what CONFIG SET acts on.
#[derive(Debug, Default)]
pub struct State {
    /// What INFO counts from.
    base: Mutex<Totals>,
    rates: Mutex<Rates>,
    peaks: Mutex<Peaks>,
    oom_score: Mutex<OomScore>,
    title: Mutex<Option<Title>>,
    /// `no`, `systemd` or `upstart`.
    pub supervisor: OnceLock<&'static str>,
    /// DEBUG PAUSE-CRON.
    pub cron_paused: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|p| p.into_inner())
}

impl State {
    /// What all counters were at the last reset.
    pub fn base(&self) -> MutexGuard<'_, Totals> {
        lock(&self.base)
    }

    pub fn rates(&self) -> MutexGuard<'_, Rates> {
        lock(&self.rates)
    }

    /// The largest buffers of clients.
    pub fn peaks(&self) -> MutexGuard<'_, Peaks> {
        lock(&self.peaks)
    }

    pub fn oom_score(&self) -> MutexGuard<'_, OomScore> {
        lock(&self.oom_score)
    }

    /// The process's title, when the configuration lets it be set.
    pub fn title(&self) -> MutexGuard<'_, Option<Title>> {
        lock(&self.title)
    }
}
