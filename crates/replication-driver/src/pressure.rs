//! What is done where the log grows faster than it is read into the stream.
//!
//! weft-repl may have no CPU, or wait for the world behind a command that takes long, and a writer may be
//! faster than it. What it has not read has no bound of its own, so:
//!
//! * whoever logs looks, each time it has logged another [`STEP`], how much waits. Beyond [`CROWDED`] answers to
//!   what has not been read are withheld: those who write wait, outside of their shards;
//! * and the thread that looks reads a part for weft-repl, if nobody else has the machine. So they wait for
//!   one another's work, and not for a thread that does not come.
//!
//! A replica that takes nothing is no reason: what it has not got is in the backlog, which has limits of its
//! own, and the log is read whether anybody takes it or not.

use crate::{Hub, State, thread};
use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use weft_keyspace::LogReader;
use weft_state::answers::{Bound, NONE, STEP};
use weft_state::server::Server;

/// Bytes of commands that may wait to be read before those who write wait, too. Less than for the file: who
/// stops the world for a cut reads what is left while it is stopped.
pub const CROWDED: u64 = 16 << 20;

const _: () = assert!(STEP < CROWDED / 2, "who waits is let go before all is read");

impl Hub {
    /// See the module. Nothing is held.
    pub fn watch_pressure(&'static self, srv: &'static Server) {
        let reader = *self.reader();
        let unread = reader.map_or(0, |reader| srv.ks.log().pending_bytes_of(&reader));
        if unread > CROWDED {
            self.published.is_crowded.store(true, Ordering::SeqCst);
            srv.links.answers.restrict(Bound::Stream, self.published.unit.load(Ordering::SeqCst));
        } else if !self.published.is_crowded.load(Ordering::SeqCst) {
            return;
        }
        // Also where little is left: it may have been read since, by one who did not see that answers wait.
        let mut state = match self.state.get().map(|state| state.try_lock()) {
            Some(Ok(state)) => state,
            Some(Err(TryLockError::Poisoned(p))) => p.into_inner(),
            Some(Err(TryLockError::WouldBlock)) | None => return,
        };
        thread::drain(srv, &mut state, STEP as usize);
        self.finish(srv, state);
    }

    /// After the log was read: lets answers go that need not wait for it any longer.
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
