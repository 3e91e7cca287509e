//! Writes that wait for a snapshot at its memory limit.
//!
//! Near `snapshot-memory-limit` a snapshot is full ([`weft_keyspace::snapshot`]). A command that would make
//! it hold more is then held back before it takes shards, as by CLIENT PAUSE: its client waits, and others
//! go on. The walkers say when there is room, and the first thread looks at each tick.
//!
//! A command waits for `snapshot-max-write-delay` at most. Then it goes on and the snapshot's limit is
//! raised. What can't wait goes on at once: expiry and eviction, a client that is served, a command that
//! had begun, FLUSHALL and whatever else names no keys.

use std::ops::Deref;
use std::sync::atomic::Ordering;
use weft_keyspace::snapshot::Snapshot;
use weft_state::attention;
use weft_state::mailbox::Message;
use weft_state::server::Server;
use weft_state::snapshot_waits::State;

/// A snapshot at whose limit writes wait.
pub struct Taken {
    srv: &'static Server,
    /// Dropped before those who wait look again.
    snapshot: Option<Snapshot<'static>>,
}

impl Taken {
    /// One that has just begun.
    pub fn new(srv: &'static Server, snapshot: Snapshot<'static>) -> Taken {
        let mut state = srv.persistence.waits.state();
        *state = State { is_taken: true, ..State::default() };
        srv.set_attention(attention::SNAPSHOT, true);
        Taken { srv, snapshot: Some(snapshot) }
    }
}

impl Deref for Taken {
    type Target = Snapshot<'static>;

    fn deref(&self) -> &Snapshot<'static> {
        self.snapshot.as_ref().expect("it is there until this is dropped")
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let srv = self.srv;
        let waits = &srv.persistence.waits;
        let mut state = waits.state();
        state.is_taken = false;
        srv.set_attention(attention::SNAPSHOT, waits.waiting() > 0);
        drop(state);
        // Not before: with its place free, the next one may begin and note that it is taken.
        self.snapshot = None;
        wake(srv);
    }
}

/// Has those who wait look again, if there are such.
pub fn wake(srv: &Server) {
    if srv.persistence.waits.waiting() > 0 {
        srv.broadcast(|| Message::Unpause);
    }
}

/// Whether writes wait for the snapshot that is being taken.
pub fn is_waited_for(srv: &Server) -> bool {
    srv.persistence.waits.waiting() > 0
}

/// Has those who wait look again if the snapshot has room. For walkers, often. Some loads.
pub fn look(srv: &Server) {
    if srv.ks.is_snapshot_relieved() {
        wake(srv);
    }
}

/// Stands still while DEBUG PAUSE-SNAPSHOT says so and `goes_on`.
pub fn pause(srv: &Server, goes_on: impl Fn() -> bool) {
    const LOOK: std::time::Duration = std::time::Duration::from_millis(1);
    while srv.persistence.waits.is_paused.load(Ordering::Relaxed) && goes_on() {
        std::thread::sleep(LOOK);
    }
}
