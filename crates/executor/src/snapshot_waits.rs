//! Writes that wait for a snapshot at its memory limit.
//!
//! Near `snapshot-memory-limit`, a snapshot is full ([`weft_keyspace::snapshot`]). A command that
//! would make it keep more is delayed before it takes shards, as by CLIENT PAUSE: its client waits,
//! and other clients continue. The walkers notify waiting clients when there is room, and the first
//! thread checks at each tick.
//!
//! A command waits for `snapshot-max-write-delay` at most. Then it runs, and the snapshot's limit
//! is raised. Work that can't wait runs at once: expiry and eviction, serving a blocked client, a
//! command that has begun, FLUSHALL and other commands that name no keys.

use std::ops::Deref;
use std::sync::atomic::Ordering;
use weft_keyspace::snapshot::Snapshot;
use weft_state::attention;
use weft_state::conn::ResumeMessage;
use weft_state::mailbox::Message;
use weft_state::server::Server;
use weft_state::snapshot_waits::State;

/// A snapshot that makes writes wait at its limit.
pub struct Taken {
    srv: &'static Server,
    /// Dropped before waiting clients retry.
    snapshot: Option<Snapshot<'static>>,
}

impl Taken {
    /// Makes writes wait for a snapshot that has just begun.
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
        self.snapshot.as_ref().expect("the snapshot is kept until the drop")
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
        // Must come after the drop: once the slot is free, the next snapshot may begin and set its
        // mark.
        self.snapshot = None;
        wake(srv);
    }
}

/// Makes waiting clients retry, if there are any.
pub fn wake(srv: &Server) {
    if srv.persistence.waits.waiting() > 0 {
        srv.broadcast(|| Message::Resume(ResumeMessage::Unpause));
    }
}

/// Whether writes wait for the running snapshot.
pub fn is_waited_for(srv: &Server) -> bool {
    srv.persistence.waits.waiting() > 0
}

/// Makes waiting clients retry if the snapshot has room. Walkers call it often; it costs a few
/// loads.
pub fn look(srv: &Server) {
    if srv.ks.is_snapshot_relieved() {
        wake(srv);
    }
}

/// Blocks while DEBUG PAUSE-SNAPSHOT is on and `continues` returns true.
pub fn pause(srv: &Server, continues: impl Fn() -> bool) {
    const POLL: std::time::Duration = std::time::Duration::from_millis(1);
    while srv.persistence.waits.is_paused.load(Ordering::Relaxed) && continues() {
        std::thread::sleep(POLL);
    }
}
