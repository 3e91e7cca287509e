//! Limits the part of the log that is not read into the stream yet.
//!
//! weft-repl may get no CPU, or wait for the world while a long command runs, or be slower than the
//! writers. The unread part of the log has no other bound, so:
//!
//! * A thread that logs checks the unread size each time it has logged another [`STEP`]. Beyond
//!   [`CROWDED`], replies to commands with unread effects are withheld: the writing clients wait,
//!   outside of their shards.
//! * That thread also reads a part for weft-repl, if the machine is free. So writers wait for each
//!   other's work, and not for a thread without CPU.
//!
//! A slow replica doesn't matter here: its unsent bytes are in the backlog, which has separate
//! limits, and the log is read regardless of replicas.

use crate::{Hub, State, thread};
use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use weft_keyspace::LogReader;
use weft_state::answers::{Bound, NONE, STEP};
use weft_state::server::Server;

/// Unread bytes of commands beyond which writers wait. Smaller than for the file, because a thread
/// that stops the world for a cut reads the rest while the world is stopped.
pub const CROWDED: u64 = 16 << 20;

const _: () = assert!(STEP < CROWDED / 2, "waiting clients are released before everything is read");

impl Hub {
    /// See the module documentation. The caller holds nothing.
    pub fn watch_pressure(&'static self, srv: &'static Server) {
        let reader = *self.reader();
        let unread = reader.map_or(0, |reader| srv.ks.log().pending_bytes_of(&reader));
        if unread > CROWDED {
            self.published.is_crowded.store(true, Ordering::SeqCst);
            srv.links.answers.restrict(Bound::Stream, self.published.unit.load(Ordering::SeqCst));
        } else if !self.published.is_crowded.load(Ordering::SeqCst) {
            return;
        }
        // Also if little is unread: a thread that didn't see the withheld replies may have read the
        // log since.
        let mut state = match self.state.get().map(|state| state.try_lock()) {
            Some(Ok(state)) => state,
            Some(Err(TryLockError::Poisoned(p))) => p.into_inner(),
            Some(Err(TryLockError::WouldBlock)) | None => return,
        };
        thread::drain(srv, &mut state, STEP as usize);
        self.finish(srv, state);
    }

    /// Releases the withheld replies whose effects were read.
    pub(super) fn relieve(&self, srv: &Server, state: &State) {
        if !self.published.is_crowded.load(Ordering::SeqCst) {
            return;
        }
        let unread = state.log.as_ref().map_or(0, LogReader::pending_bytes);
        match &state.log {
            Some(log) if unread > CROWDED / 2 => {
                srv.links.answers.set(&srv.threads, Bound::Stream, log.position());
            }
            Some(_) | None => {
                self.published.is_crowded.store(false, Ordering::SeqCst);
                srv.links.answers.set(&srv.threads, Bound::Stream, NONE);
            }
        }
    }
}
