//! CLIENT PAUSE: commands are held back for a while.

use crate::server::{Server, attention};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// Which commands are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PauseMode {
    Write,
    All,
}

/// The pause in force, if any.
#[derive(Debug, Default)]
pub struct ClientPause(Mutex<Option<(PauseMode, i64)>>);

impl ClientPause {
    fn state(&self) -> std::sync::MutexGuard<'_, Option<(PauseMode, i64)>> {
        self.0.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// What is paused at the monotonic time `now_ms`, and until when.
    pub fn in_force(&self, now_ms: i64) -> Option<(PauseMode, i64)> {
        self.state().filter(|(_, until)| *until > now_ms)
    }
}

impl Server {
    /// Starts a pause or extends the present one: the stricter mode and the later end win.
    pub fn pause(&self, mode: PauseMode, until_ms: i64) {
        let mut state = self.pause.state();
        let now = state.filter(|(_, until)| *until > self.mono_ms());
        *state = Some(match now {
            Some((old, until)) => (old.max(mode), until.max(until_ms)),
            None => (mode, until_ms),
        });
        self.set_attention(attention::PAUSED, true);
    }

    /// Whether anything is paused, so that nothing may be removed that no command asks for.
    #[inline]
    pub fn is_paused(&self) -> bool {
        self.attention.load(Ordering::SeqCst) & attention::PAUSED != 0
    }

    /// Ends the pause and lets every thread run what it held back.
    pub fn unpause(&self) {
        self.end_pause(|_| true);
    }

    /// Called regularly: ends a pause whose time has come.
    pub fn end_pause_in_time(&self) {
        let now = self.mono_ms();
        self.end_pause(|until| until <= now);
    }

    /// State and attention change as one: another pause may begin at any time.
    fn end_pause(&self, is_over: impl Fn(i64) -> bool) {
        let mut state = self.pause.state();
        if state.is_none_or(|(_, until)| !is_over(until)) {
            return;
        }
        *state = None;
        self.set_attention(attention::PAUSED, false);
        drop(state);
        self.broadcast(|| crate::io::Message::Unpause);
    }
}
