//! Requests to shut the server down, and the progress of the shutdown.

use crate::waiting::Waiting;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// How to shut down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stop {
    /// `None`: save if there are save points.
    pub save: Option<bool>,
    /// Shut down even if the data can't be saved.
    pub force: bool,
    /// Don't wait for replicas that lag.
    pub now: bool,
}

/// The progress of a shutdown's preparation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It waits for the first base of the append-only file.
    Log,
    /// It waits for replicas, up to this monotonic time in milliseconds. Writes are paused.
    Replicas { until_ms: i64 },
    /// It saves the data. Writes are paused.
    Saving,
}

/// Requests to shut down, and the present attempt: see `weft_admin::stopping`.
#[derive(Debug, Default)]
pub struct Stopping {
    state: Mutex<State>,
    is_under_way: AtomicBool,
}

/// The locked state.
pub struct Locked<'a> {
    state: MutexGuard<'a, State>,
    is_under_way: &'a AtomicBool,
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let is_under_way = self.state.attempt.is_some() || self.state.requested.is_some();
        self.is_under_way.store(is_under_way, Ordering::SeqCst);
    }
}

/// The request of a signal, and the present attempt.
#[derive(Debug, Default)]
pub struct State {
    /// A signal's request, until the first thread handles it.
    pub requested: Option<Stop>,
    pub attempt: Option<Attempt>,
    /// The number of attempts so far.
    pub attempts: u64,
}

/// One attempt to shut down.
#[derive(Debug)]
pub struct Attempt {
    pub number: u64,
    pub phase: Phase,
    /// Clients that sent SHUTDOWN.
    pub waiting: Vec<Arc<Waiting>>,
    /// The SHUTDOWN NOSAVE that joined it last.
    pub unsaved: Option<Stop>,
    /// A signal has requested it, or has joined it. It outlasts the refusal of its clients.
    pub is_by_signal: bool,
}

impl Stopping {
    /// Locked while an attempt begins, progresses or ends.
    pub fn state(&self) -> Locked<'_> {
        let state = self.state.lock().unwrap_or_else(|p| p.into_inner());
        Locked { state, is_under_way: &self.is_under_way }
    }

    /// Whether a shutdown is being prepared.
    pub fn is_under_way(&self) -> bool {
        self.state().attempt.is_some()
    }

    /// As [`Stopping::is_under_way`], or requested by a signal. Takes no lock.
    pub fn has_begun(&self) -> bool {
        self.is_under_way.load(Ordering::SeqCst)
    }

    /// Whether clients wait for this attempt, of which none drops the data.
    pub fn has_saving_clients(&self, number: u64) -> bool {
        let state = self.state();
        let attempt = state.attempt.as_ref().filter(|attempt| attempt.number == number);
        attempt.is_some_and(|attempt| !attempt.waiting.is_empty() && attempt.unsaved.is_none())
    }

    /// While the attempt waits for replicas: when that wait ends, in monotonic milliseconds.
    pub fn waits_until(&self) -> Option<i64> {
        match self.state().attempt.as_ref()?.phase {
            Phase::Replicas { until_ms } => Some(until_ms),
            Phase::Log | Phase::Saving => None,
        }
    }
}
