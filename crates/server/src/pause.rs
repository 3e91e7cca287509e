//! CLIENT PAUSE: commands are held back for a while.

use crate::server::{Server, attention};
use std::sync::Mutex;

/// Which commands are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PauseMode {
    Write,
    All,
}

/// The pause in force, if any.
#[derive(Debug, Default)]
pub struct Pause(Mutex<Option<(PauseMode, i64)>>);

impl Pause {
    fn state(&self) -> std::sync::MutexGuard<'_, Option<(PauseMode, i64)>> {
        self.0.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// What is paused at `now_ms`, and until when.
    pub fn in_force(&self, now_ms: i64) -> Option<(PauseMode, i64)> {
        self.state().filter(|(_, until)| *until > now_ms)
    }
}

impl Server {
    /// Starts a pause or extends the present one: the stricter mode and the later end win.
    pub fn pause(&self, mode: PauseMode, until_ms: i64) {
        let mut state = self.pause.state();
        let now = state.filter(|(_, until)| *until > self.now_ms());
        *state = Some(match now {
            Some((old, until)) => (old.max(mode), until.max(until_ms)),
            None => (mode, until_ms),
        });
        self.set_attention(attention::PAUSED, true);
    }

    /// Ends the pause and lets every thread run what it held back.
    pub fn unpause(&self) {
        *self.pause.state() = None;
        self.set_attention(attention::PAUSED, false);
        self.broadcast(|| crate::io::Message::Unpause);
    }

    /// Called regularly: ends a pause whose time has come.
    pub fn end_pause_in_time(&self) {
        let over = self.pause.state().is_some_and(|(_, until)| until <= self.now_ms());
        if over {
            self.unpause();
        }
    }
}
