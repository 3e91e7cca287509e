//! Pauses hold commands back: CLIENT PAUSE, and a pause of writes during FAILOVER or before a shutdown.
//!
//! Each reason begins and ends its own pause. The pause in force is the union of all.

use std::sync::{Mutex, MutexGuard};

/// The commands that a pause holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PauseMode {
    Write,
    All,
}

/// The reason of a pause, as INFO names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Client,
    Shutdown,
    Failover,
}

impl Reason {
    pub fn name(self) -> &'static str {
        match self {
            Reason::Client => "client_pause",
            Reason::Shutdown => "shutdown_in_progress",
            Reason::Failover => "failover_in_progress",
        }
    }
}

/// The pauses by reason.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pauses {
    /// CLIENT PAUSE: the commands held back, and the end (monotonic milliseconds).
    pub client: Option<(PauseMode, i64)>,
    /// The server prepares to shut down.
    pub end: bool,
    /// A FAILOVER is in progress, or a node of a cluster hands its role over.
    pub failover: bool,
    /// Slots are suspended: see [`crate::cluster::Topology::suspended`].
    pub slots: bool,
}

/// The pauses, under a mutex.
#[derive(Debug, Default)]
pub struct ClientPause(Mutex<Pauses>);

impl ClientPause {
    /// Locked while the pauses and their attention bit change.
    pub fn state(&self) -> MutexGuard<'_, Pauses> {
        self.0.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// The pause in force at the monotonic time `now_ms`, and its end.
    pub fn in_force(&self, now_ms: i64) -> Option<(PauseMode, i64)> {
        self.reason(now_ms).map(|(mode, until, _)| (mode, until))
    }

    /// The same with the reason; of two reasons, the one that lasts longer.
    pub fn reason(&self, now_ms: i64) -> Option<(PauseMode, i64, Reason)> {
        let Pauses { client, end, failover, slots: _ } = *self.state();
        let client = client.filter(|(_, until)| *until > now_ms);
        let endless = match (end, failover) {
            (true, _) => Some(Reason::Shutdown),
            (false, true) => Some(Reason::Failover),
            (false, false) => None,
        };
        match (client, endless) {
            (None, None) => None,
            (Some((mode, until)), None) => Some((mode, until, Reason::Client)),
            (None, Some(reason)) => Some((PauseMode::Write, i64::MAX, reason)),
            (Some((mode, _)), Some(reason)) => Some((mode, i64::MAX, reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_end_independently() {
        let pause = ClientPause::default();
        assert_eq!(pause.reason(0), None);
        pause.state().client = Some((PauseMode::All, 10));
        assert_eq!(pause.reason(9), Some((PauseMode::All, 10, Reason::Client)));
        pause.state().failover = true;
        assert_eq!(pause.reason(9), Some((PauseMode::All, i64::MAX, Reason::Failover)));
        assert_eq!(pause.reason(10), Some((PauseMode::Write, i64::MAX, Reason::Failover)));
        pause.state().end = true;
        assert_eq!(pause.reason(10), Some((PauseMode::Write, i64::MAX, Reason::Shutdown)));
        pause.state().failover = false;
        assert_eq!(pause.reason(9), Some((PauseMode::All, i64::MAX, Reason::Shutdown)));
        pause.state().end = false;
        assert_eq!(pause.in_force(10), None);
    }
}
