//! Commands are held back for a while: CLIENT PAUSE, and writes while FAILOVER hands over or the server prepares
//! its end.
//!
//! Who wants a pause for one of these reasons ends that and no other. What is in force is both together.

use std::sync::{Mutex, MutexGuard};

/// Which commands are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PauseMode {
    Write,
    All,
}

/// Why, in the words of INFO.
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

/// The pauses that are wanted, by reason.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pauses {
    /// CLIENT PAUSE: what is held back, and until when (monotonic milliseconds).
    pub client: Option<(PauseMode, i64)>,
    /// The server prepares its end.
    pub end: bool,
    /// FAILOVER hands over.
    pub failover: bool,
}

/// The pauses in force, if any.
#[derive(Debug, Default)]
pub struct ClientPause(Mutex<Pauses>);

impl ClientPause {
    /// Held while pauses and the attention for them change.
    pub fn state(&self) -> MutexGuard<'_, Pauses> {
        self.0.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// What is paused at the monotonic time `now_ms`, and until when.
    pub fn in_force(&self, now_ms: i64) -> Option<(PauseMode, i64)> {
        self.reason(now_ms).map(|(mode, until, _)| (mode, until))
    }

    /// The same, and why: of two reasons the one that lasts longer.
    pub fn reason(&self, now_ms: i64) -> Option<(PauseMode, i64, Reason)> {
        let Pauses { client, end, failover } = *self.state();
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
    fn each_reason_ends_by_itself() {
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
