//! Who has asked the server to end, and how far its preparation is.

use crate::waiting::Waiting;
use std::sync::{Arc, Mutex, MutexGuard};

/// How a server is to be stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stop {
    /// `None`: if there are save points.
    pub save: Option<bool>,
    /// It stops even if the data can't be saved.
    pub force: bool,
    /// Replicas that are behind are not waited for.
    pub now: bool,
}

/// How far the preparation of the end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The first base of the append-only file is waited for.
    Log,
    /// Replicas are waited for, up to this monotonic time in milliseconds. Writes are to wait.
    Replicas { until_ms: i64 },
    /// The data are saved. Writes are to wait.
    Saving,
}

/// Who has asked the server to end, and how far that is: see [`weft_admin::stopping`].
#[derive(Debug, Default)]
pub struct Stopping(Mutex<State>);

/// What a signal has asked for, and the attempt that is under way.
#[derive(Debug, Default)]
pub struct State {
    /// What a signal has asked for, until the first thread sees to it.
    pub requested: Option<Stop>,
    pub attempt: Option<Attempt>,
    /// How many there were.
    pub attempts: u64,
}

/// One attempt to end the server.
#[derive(Debug)]
pub struct Attempt {
    pub number: u64,
    pub phase: Phase,
    /// Clients that have asked.
    pub waiting: Vec<Arc<Waiting>>,
}

impl Stopping {
    /// Held while an attempt begins, goes on or ends.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Whether the end is being prepared.
    pub fn is_under_way(&self) -> bool {
        self.state().attempt.is_some()
    }

    /// Monotonic milliseconds at which replicas are not waited for any longer, while they are.
    pub fn waits_until(&self) -> Option<i64> {
        match self.state().attempt.as_ref()?.phase {
            Phase::Replicas { until_ms } => Some(until_ms),
            Phase::Log | Phase::Saving => None,
        }
    }
}
