//! Commands are held back for a while: CLIENT PAUSE, and writes while FAILOVER hands over or the server prepares
//! its end.
//!
//! Who wants a pause for one of these reasons ends that and no other. What is in force is both together.

use crate::server::{Server, attention};
use std::sync::atomic::Ordering;
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

#[derive(Clone, Copy, Debug, Default)]
struct Pauses {
    client: Option<(PauseMode, i64)>,
    end: bool,
    failover: bool,
}

/// The pauses in force, if any.
#[derive(Debug, Default)]
pub struct ClientPause(Mutex<Pauses>);

impl ClientPause {
    fn state(&self) -> MutexGuard<'_, Pauses> {
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

impl Server {
    /// Starts a pause or extends the present one: the stricter mode and the later end win.
    pub fn pause(&self, mode: PauseMode, until_ms: i64) {
        let mut state = self.pause.state();
        let now = state.client.filter(|(_, until)| *until > self.mono_ms());
        state.client = Some(match now {
            Some((old, until)) => (old.max(mode), until.max(until_ms)),
            None => (mode, until_ms),
        });
        self.set_attention(attention::PAUSED, true);
    }

    /// Pauses writes for a handover, or lets them go.
    pub fn pause_for_failover(&self, on: bool) {
        self.renew_pauses(|pauses| std::mem::replace(&mut pauses.failover, on) != on);
    }

    /// Pauses writes while the server prepares its end, or lets them go.
    pub fn pause_for_end(&self, on: bool) {
        self.renew_pauses(|pauses| std::mem::replace(&mut pauses.end, on) != on);
    }

    /// Whether anything is paused, so that nothing may be removed that no command asks for.
    #[inline]
    pub fn is_paused(&self) -> bool {
        self.attention.load(Ordering::SeqCst) & attention::PAUSED != 0
    }

    /// Ends CLIENT PAUSE and lets every thread run what it held back.
    pub fn unpause(&self) {
        self.renew_pauses(|pauses| pauses.client.take().is_some());
    }

    /// Called regularly: ends a pause whose time has come.
    pub fn end_pause_in_time(&self) {
        let now = self.mono_ms();
        self.renew_pauses(|pauses| {
            let is_over = pauses.client.is_some_and(|(_, until)| until <= now);
            if is_over {
                pauses.client = None;
            }
            is_over
        });
    }

    /// State and attention change as one: another pause may begin at any time. `change` says whether
    /// it has changed anything.
    fn renew_pauses(&self, change: impl FnOnce(&mut Pauses) -> bool) {
        let mut state = self.pause.state();
        if !change(&mut state) {
            return;
        }
        let is_paused = state.client.is_some() || state.end || state.failover;
        self.set_attention(attention::PAUSED, is_paused);
        drop(state);
        // Of two pauses one may have been stricter: who is held back looks again.
        self.broadcast(|| crate::io::Message::Unpause);
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
