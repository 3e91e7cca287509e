//! State that only INFO, CONFIG and DEBUG need.

pub mod base;
pub mod peaks;
pub mod rates;

use crate::info_state::base::{Base, Expiries};
use crate::info_state::peaks::Peaks;
use crate::info_state::rates::{Calls, Rates};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Mutex, MutexGuard, OnceLock};
use weft_process::memory_policy::OomScore;
use weft_process::title::Title;

/// Facts of the start, the counters at the last CONFIG RESETSTAT, and objects that CONFIG SET
/// changes.
#[derive(Debug, Default)]
pub struct State {
    /// The counters that INFO subtracts.
    base: Mutex<Base>,
    calls: Mutex<Calls>,
    rates: Mutex<Rates>,
    peaks: Mutex<Peaks>,
    expiries: Mutex<Expiries>,
    /// The database at which the next INFO begins its estimates of expiries.
    pub next_estimate: AtomicUsize,
    oom_score: Mutex<OomScore>,
    title: Mutex<Option<Title>>,
    /// `no`, `systemd` or `upstart`.
    pub supervisor: OnceLock<&'static str>,
    /// Identifies the build. Computed by the first INFO.
    pub build: OnceLock<u64>,
    /// DEBUG PAUSE-CRON.
    pub cron_paused: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|p| p.into_inner())
}

impl State {
    /// All counters at the last reset.
    pub fn base(&self) -> MutexGuard<'_, Base> {
        lock(&self.base)
    }

    /// The calls of each thread at the last INFO.
    pub fn calls(&self) -> MutexGuard<'_, Calls> {
        lock(&self.calls)
    }

    pub fn rates(&self) -> MutexGuard<'_, Rates> {
        lock(&self.rates)
    }

    /// The largest client buffers.
    pub fn peaks(&self) -> MutexGuard<'_, Peaks> {
        lock(&self.peaks)
    }

    /// The estimates of INFO keyspace.
    pub fn expiries(&self) -> MutexGuard<'_, Expiries> {
        lock(&self.expiries)
    }

    pub fn oom_score(&self) -> MutexGuard<'_, OomScore> {
        lock(&self.oom_score)
    }

    /// The process's title, when the configuration allows changing it.
    pub fn title(&self) -> MutexGuard<'_, Option<Title>> {
        lock(&self.title)
    }
}
