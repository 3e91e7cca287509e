//! Requests to stop the server, and the progress of the attempt.
//!
//! ```text
//!  SIGTERM ─► requested ─► the first thread's tick ─┐          ┌─► may end: shut_down
//!  SHUTDOWN ────────────────────────────────────────┴► weft-stop ─► fails or is aborted: waiting
//!                                                     (prepare)     clients get an error, writes resume
//! ```
//!
//! There is one attempt at a time. As in Valkey, requests during an attempt wait for the same end,
//! whatever their options. Their clients block like clients that wait for a key. So they occupy
//! neither an I/O thread nor the slow lane, and a long command in the slow lane delays only
//! commands on the same shards.
//!
//! A busy script can hold an attempt up without end. Then its clients get BUSY, and only an attempt of a signal continues.
//! SHUTDOWN NOSAVE, the command that BUSY names, replaces an attempt that it has joined.
//!
//! SHUTDOWN ABORT detaches the attempt from its thread: the thread's further steps have no effect,
//! and it ends by itself.

use crate::stop::{Questions, has_to_wait, prepare};
use std::cell::Cell;
use std::sync::Arc;
use weft_commands::Error;
use weft_durability::persistence::background;
use weft_executor::blocking;
use weft_executor::dispatch::busy;
use weft_process::log_warning;
use weft_state::mailbox::{Message, ThreadMessage};
use weft_state::server::Server;
use weft_state::stop_state::Attempt;
use weft_state::stop_state::{Phase, Stop};
use weft_state::waiting::Waiting;

/// The error for a client whose SHUTDOWN fails.
pub const FAILED: Error = Error::new("ERR Errors trying to SHUTDOWN. Check logs.");

/// Asks the first thread to stop the server at its next tick. That is now, unless DEBUG PAUSE-CRON
/// has stopped the ticks. SHUTDOWN ABORT can cancel the request until preparation has ended.
pub fn request_stop(srv: &Server, stop: Stop) {
    srv.process.ending.attempts.state().requested = Some(stop);
    srv.threads[0].mailbox.send(Message::Thread(ThreadMessage::Wake));
}

/// Stops the server if a signal has requested it, or if a client's SHUTDOWN NOSAVE joined an attempt
/// that a busy script holds up.
pub fn stop_if_requested(srv: &'static Server) {
    replace_held_up_attempt(srv);
    let Some(stop) = srv.process.ending.attempts.state().requested.take() else { return };
    if let Some(attempt) = &mut srv.process.ending.attempts.state().attempt {
        attempt.is_by_signal = true;
        return;
    }
    log_warning!("User requested shutdown...");
    if !has_to_wait(stop, srv) {
        return srv.shut_down(0);
    }
    if let Err(e) = begin_attempt(srv, stop, &[]) {
        weft_process::signals::forget();
        log_warning!("Can't save before the exit, not shutting down: {e}");
    }
}

/// Stops the server for a client, which blocks meanwhile. Calls `says` if no attempt is running
/// yet.
///
/// # Errors
/// The thread can't be started. The client does not block.
pub fn stop_for_client(
    srv: &'static Server,
    stop: Stop,
    waiting: Arc<Waiting>,
    says: impl FnOnce(),
) -> std::io::Result<()> {
    if let Some(attempt) = &mut srv.process.ending.attempts.state().attempt {
        attempt.waiting.push(waiting);
        if stop.save == Some(false) {
            attempt.unsaved = Some(stop);
            srv.threads[0].mailbox.send(Message::Thread(ThreadMessage::Wake));
        }
        return Ok(());
    }
    says();
    begin_attempt(srv, stop, &[waiting])
}

/// Replaces the attempt by that of a SHUTDOWN NOSAVE that has joined it, if there is a busy script.
fn replace_held_up_attempt(srv: &'static Server) {
    if !srv.scripts.busy.is_any() {
        return;
    }
    let mut state = srv.process.ending.attempts.state();
    let Some(earlier) = state.attempt.take_if(|attempt| attempt.unsaved.is_some()) else { return };
    drop(state);
    let stop = earlier.unsaved.unwrap_or_default();
    if !has_to_wait(stop, srv) {
        return srv.shut_down(0);
    }
    if let Err(e) = begin_attempt(srv, stop, &earlier.waiting) {
        srv.pause_for_shutdown(false);
        log_warning!("Can't prepare the exit, not shutting down: {e}");
        refuse_stop(srv, &earlier.waiting, &FAILED);
    }
}

/// Starts a thread that prepares and performs the stop, unless an attempt is running.
fn begin_attempt(
    srv: &'static Server,
    stop: Stop,
    waiting: &[Arc<Waiting>],
) -> std::io::Result<()> {
    let mut state = srv.process.ending.attempts.state();
    if let Some(attempt) = &mut state.attempt {
        attempt.waiting.extend_from_slice(waiting);
        return Ok(());
    }
    state.attempts += 1;
    let number = state.attempts;
    let waiting = waiting.to_vec();
    let is_by_signal = waiting.is_empty();
    state.attempt =
        Some(Attempt { number, phase: Phase::Log, waiting, unsaved: None, is_by_signal });
    let thread = std::thread::Builder::new().name("weft-stop".into());
    let spawned = thread.spawn(move || {
        let _stack = weft_process::crash::second_stack();
        let refusal = Cell::new(None);
        let may_end = prepare(
            srv,
            stop,
            Questions {
                goes_on: &|phase| goes_on(srv, number, phase),
                is_held_up: &|| is_held_up(srv, number),
                outlasts: &|| outlasts_script(srv, number, &refusal),
            },
        );
        conclude(srv, number, may_end, refusal.take());
    });
    if spawned.is_err() {
        state.attempt = None;
    }
    spawned.map(drop)
}

/// Records the phase of an attempt. Returns whether the attempt may continue.
fn goes_on(srv: &Server, number: u64, phase: Phase) -> bool {
    let mut state = srv.process.ending.attempts.state();
    let Some(attempt) = state.attempt.as_mut().filter(|own| own.number == number) else {
        return false;
    };
    attempt.phase = phase;
    // Under the mutex, because a cancellation of the attempt ends the pause.
    srv.pause_for_shutdown(phase != Phase::Log);
    true
}

/// Whether a busy script holds up clients of the attempt.
fn is_held_up(srv: &Server, number: u64) -> bool {
    srv.scripts.busy.is_any() && srv.process.ending.attempts.has_saving_clients(number)
}

/// Whether the attempt waits for a busy script. If a signal has requested it, only its clients are refused. Otherwise it
/// ends with `refusal`.
fn outlasts_script(srv: &'static Server, number: u64, refusal: &Cell<Option<Error>>) -> bool {
    let Some(busy) = busy::error(srv, |_| true) else { return true };
    let mut state = srv.process.ending.attempts.state();
    let Some(attempt) = state.attempt.as_mut().filter(|own| own.number == number) else {
        return false;
    };
    if !attempt.is_by_signal {
        refusal.set(Some(busy));
        return false;
    }
    let waiting = std::mem::take(&mut attempt.waiting);
    drop(state);
    refuse_stop(srv, &waiting, &busy);
    true
}

/// Ends an attempt, unless it was cancelled. `refusal`: why its clients are refused.
fn conclude(srv: &'static Server, number: u64, may_end: bool, refusal: Option<Error>) {
    let mut state = srv.process.ending.attempts.state();
    let Some(attempt) = state.attempt.take_if(|own| own.number == number) else { return };
    if may_end {
        // From here on the stop can't be cancelled.
        return srv.shut_down(0);
    }
    srv.pause_for_shutdown(false);
    weft_process::signals::forget();
    drop(state);
    match &refusal {
        Some(_) => log_warning!("A script is busy, not shutting down."),
        None => log_warning!(
            "Errors trying to shut down the server. Check the logs for more information."
        ),
    }
    refuse_stop(srv, &attempt.waiting, &refusal.unwrap_or(FAILED));
}

/// Cancels the stop that a signal or SHUTDOWN has requested. Returns whether there was one.
pub fn abort_stop(srv: &'static Server) -> bool {
    let mut state = srv.process.ending.attempts.state();
    let (requested, attempt) = (state.requested.take(), state.attempt.take());
    if requested.is_none() && attempt.is_none() {
        return false;
    }
    srv.pause_for_shutdown(false);
    weft_process::signals::forget();
    drop(state);
    if let Some(attempt) = attempt {
        if attempt.phase == Phase::Saving {
            background::cancel_last(srv);
        }
        refuse_stop(srv, &attempt.waiting, &FAILED);
    }
    true
}

fn refuse_stop(srv: &'static Server, waiting: &[Arc<Waiting>], error: &Error) {
    for waiting in waiting.iter().filter(|waiting| waiting.state.give_up()) {
        srv.count_error(&error.0);
        blocking::answer(srv, waiting, |reply| reply.error(&error.0));
    }
}
