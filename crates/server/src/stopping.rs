//! Who has asked the server to end, and how far that is.
//!
//! ```text
//!  SIGTERM ─► requested ─► the first thread's tick ─┐          ┌─► may end: shut_down
//!  SHUTDOWN ────────────────────────────────────────┴► weft-stop ─► may not, or is told to stop: all who
//!                                                     (prepare)     asked are told, and writes go on
//! ```
//!
//! There is one attempt at a time. Who asks during it waits for the same end, whatever words were used, as in
//! the reference. Clients that ask wait as others wait for a key, so that neither an I/O thread nor the slow
//! lane is occupied, and long commands there hold nothing up that does not need their shards.
//!
//! SHUTDOWN ABORT takes the attempt away from its thread: from then on nothing that the thread still does
//! has an effect, and it ends by itself.

use crate::blocking::{Waiting, serve};
use crate::persistence::background;
use crate::persistence::stop::{Phase, Stop, prepare};
use crate::server::Server;
use std::sync::{Arc, Mutex, MutexGuard};
use weft_process::log_warning;

/// What a client is told whose SHUTDOWN does not end the server.
pub const FAILED: &str = "ERR Errors trying to SHUTDOWN. Check logs.";

/// See the module.
#[derive(Debug, Default)]
pub struct Stopping(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// What a signal has asked for, until the first thread sees to it.
    requested: Option<Stop>,
    attempt: Option<Attempt>,
    /// How many there were.
    attempts: u64,
}

#[derive(Debug)]
struct Attempt {
    number: u64,
    phase: Phase,
    /// Clients that have asked.
    waiting: Vec<Arc<Waiting>>,
}

impl Stopping {
    fn state(&self) -> MutexGuard<'_, State> {
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

impl Server {
    /// Asks the first thread to end the server at its next tick, which is now unless DEBUG PAUSE-CRON
    /// has stopped them. Until then, and while the end is prepared, SHUTDOWN ABORT can take it back.
    pub fn request_stop(&self, stop: Stop) {
        self.stopping.state().requested = Some(stop);
        self.threads[0].mailbox.send(crate::io::Message::Wake);
    }

    /// Ends the server if a signal has asked for that.
    pub fn stop_if_requested(&'static self) {
        let Some(stop) = self.stopping.state().requested.take() else { return };
        if self.stopping.state().attempt.is_some() {
            return;
        }
        log_warning!("User requested shutdown...");
        if !stop.has_to_wait(self) {
            return self.shut_down(0);
        }
        if let Err(e) = self.begin_attempt(stop, None) {
            weft_process::signals::forget();
            log_warning!("Can't save before the exit, not shutting down: {e}");
        }
    }

    /// Ends the server for a client, which waits for that; `says` is said if it is the first to ask.
    ///
    /// # Errors
    /// Those of starting a thread. The client does not wait.
    pub fn stop_for(
        &'static self,
        stop: Stop,
        waiting: Arc<Waiting>,
        says: impl FnOnce(),
    ) -> std::io::Result<()> {
        if let Some(attempt) = &mut self.stopping.state().attempt {
            attempt.waiting.push(waiting);
            return Ok(());
        }
        says();
        self.begin_attempt(stop, Some(waiting))
    }

    /// Has a thread prepare the end and make it, unless one is at it already.
    fn begin_attempt(
        &'static self,
        stop: Stop,
        waiting: Option<Arc<Waiting>>,
    ) -> std::io::Result<()> {
        let mut state = self.stopping.state();
        if let Some(attempt) = &mut state.attempt {
            attempt.waiting.extend(waiting);
            return Ok(());
        }
        state.attempts += 1;
        let number = state.attempts;
        let waiting = waiting.into_iter().collect();
        state.attempt = Some(Attempt { number, phase: Phase::Log, waiting });
        let thread = std::thread::Builder::new().name("weft-stop".into());
        let spawned = thread.spawn(move || {
            let _stack = weft_process::crash::second_stack();
            let may_end = prepare(self, stop, &|phase| self.goes_on(number, phase));
            self.conclude(number, may_end);
        });
        if spawned.is_err() {
            state.attempt = None;
        }
        spawned.map(drop)
    }

    /// The thread of an attempt says how far it is, and is told whether to go on.
    fn goes_on(&self, number: u64, phase: Phase) -> bool {
        let mut state = self.stopping.state();
        let Some(attempt) = state.attempt.as_mut().filter(|own| own.number == number) else {
            return false;
        };
        attempt.phase = phase;
        // Under the mutex: who takes the attempt away ends the pause.
        self.pause_for_end(phase != Phase::Log);
        true
    }

    /// An attempt has come to its end, unless it was taken away.
    fn conclude(&'static self, number: u64, may_end: bool) {
        let mut state = self.stopping.state();
        let Some(attempt) = state.attempt.take_if(|own| own.number == number) else { return };
        if may_end {
            // From here on it can't be taken back.
            return self.shut_down(0);
        }
        self.pause_for_end(false);
        weft_process::signals::forget();
        drop(state);
        log_warning!("Errors trying to shut down the server. Check the logs for more information.");
        self.refuse_stop(&attempt.waiting);
    }

    /// Takes back what a signal or SHUTDOWN has asked for; whether there was anything.
    pub fn abort_stop(&'static self) -> bool {
        let mut state = self.stopping.state();
        let (requested, attempt) = (state.requested.take(), state.attempt.take());
        if requested.is_none() && attempt.is_none() {
            return false;
        }
        self.pause_for_end(false);
        weft_process::signals::forget();
        drop(state);
        if let Some(attempt) = attempt {
            if attempt.phase == Phase::Saving {
                background::cancel_last(self);
            }
            self.refuse_stop(&attempt.waiting);
        }
        true
    }

    fn refuse_stop(&'static self, waiting: &[Arc<Waiting>]) {
        for waiting in waiting.iter().filter(|waiting| waiting.state.give_up()) {
            self.count_error(FAILED.as_bytes());
            serve::answer(self, waiting, |reply| reply.error(FAILED.as_bytes()));
        }
    }
}
