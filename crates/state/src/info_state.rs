//! What INFO, CONFIG and DEBUG need to know of the server and nothing else does.

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

/// Facts of the start, the marks of the last CONFIG RESETSTAT, and what CONFIG SET acts on.
#[derive(Debug, Default)]
pub struct State {
    /// What INFO counts from.
    base: Mutex<Base>,
    calls: Mutex<Calls>,
    rates: Mutex<Rates>,
    peaks: Mutex<Peaks>,
    expiries: Mutex<Expiries>,
    /// The database at which the next INFO begins to look at expiries.
    pub next_estimate: AtomicUsize,
    oom_score: Mutex<OomScore>,
    title: Mutex<Option<Title>>,
    /// `no`, `systemd` or `upstart`.
    pub supervisor: OnceLock<&'static str>,
    /// Tells one build from another: found at the first INFO.
    pub build: OnceLock<u64>,
    /// DEBUG PAUSE-CRON.
    pub cron_paused: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|p| p.into_inner())
}

impl State {
    /// What all counters were at the last reset.
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

    /// The largest buffers of clients.
    pub fn peaks(&self) -> MutexGuard<'_, Peaks> {
        lock(&self.peaks)
    }

    /// What INFO keyspace knows of expiries.
    pub fn expiries(&self) -> MutexGuard<'_, Expiries> {
        lock(&self.expiries)
    }

    pub fn oom_score(&self) -> MutexGuard<'_, OomScore> {
        lock(&self.oom_score)
    }

    /// The process's title, when the configuration lets it be set.
    pub fn title(&self) -> MutexGuard<'_, Option<Title>> {
        lock(&self.title)
    }
}
