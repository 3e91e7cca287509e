//! The latency monitor: for each kind of event, the latest spikes above the threshold.
//!
//! As in Valkey, an event keeps its last 160 samples, at most one per second (the largest), and its all-time
//! maximum. Nothing is stored while `latency-monitor-threshold` is 0.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// Samples kept for one event.
pub const SAMPLES: usize = 160;

/// One event's history.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Unix seconds and milliseconds of latency, oldest first.
    pub samples: VecDeque<(i64, i64)>,
    pub max_ms: i64,
    /// The sum of all samples, including those no longer kept.
    pub sum_ms: i64,
    pub count: i64,
}

/// All events.
#[derive(Debug, Default)]
pub struct LatencyMonitor {
    threshold_ms: AtomicI64,
    events: Mutex<BTreeMap<String, Series>>,
}

impl LatencyMonitor {
    pub fn set_threshold(&self, ms: i64) {
        self.threshold_ms.store(ms, Ordering::Relaxed);
    }

    /// 0: monitoring is off.
    #[inline]
    pub fn threshold_ms(&self) -> i64 {
        self.threshold_ms.load(Ordering::Relaxed)
    }

    /// Every event with its history, by name.
    pub fn events(&self) -> MutexGuard<'_, BTreeMap<String, Series>> {
        self.events.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Whether a sample reaches the threshold.
    pub fn keeps(&self, ms: i64) -> bool {
        let threshold = self.threshold_ms();
        threshold > 0 && ms >= threshold
    }

    /// Stores a sample when it reaches the threshold.
    pub fn sample(&self, event: &str, ms: i64, now_s: i64) {
        if !self.keeps(ms) {
            return;
        }
        let mut events = self.events();
        let series = events.entry(event.to_string()).or_default();
        series.max_ms = series.max_ms.max(ms);
        series.sum_ms += ms;
        series.count += 1;
        match series.samples.back_mut() {
            Some((at, worst)) if *at == now_s => *worst = (*worst).max(ms),
            _ => series.samples.push_back((now_s, ms)),
        }
        if series.samples.len() > SAMPLES {
            series.samples.pop_front();
        }
    }

    /// The present time if the monitor is on.
    #[inline]
    pub fn begin(&self) -> Option<Instant> {
        (self.threshold_ms() > 0).then(Instant::now)
    }

    /// Records the time since [`LatencyMonitor::begin`] as a latency of `event`; does nothing if `began` is
    /// `None`.
    pub fn sample_since(&self, event: &str, began: Option<Instant>, now_s: i64) {
        if let Some(began) = began {
            self.sample(event, began.elapsed().as_millis() as i64, now_s);
        }
    }
}
