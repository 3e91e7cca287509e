//! What this server is for its clients: a primary, a replica, or one whose writes wait.

use crate::State;
use crate::hub;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_durability::aof::aof;
use weft_keyspace::Guard;
use weft_keyspace::log::{MAX_READERS, Target};
use weft_process::log_warning;
use weft_state::attention;
use weft_state::mailbox::Message;
use weft_state::server::Server;

/// The stream is written from here on; whether that is so.
///
/// It is not where the log has no room for a reader, which does not come to pass: this is the only one for
/// replicas, the append-only file has one, which has gone when the next one comes, and so has DEBUG EFFECTS.
pub fn keep_writes(srv: &'static Server, state: &mut State, guard: Option<&Guard<'_>>) -> bool {
    const OWNERS: usize = 3;
    const _: () = assert!(OWNERS <= MAX_READERS);
    let Some(guard) = guard else { return false };
    if state.log.is_some() {
        return true;
    }
    state.log = guard.begin_log(Target::REPLICAS, Arc::new(move || hub(srv).wake(srv)));
    match &state.log {
        Some(log) => {
            *hub(srv).reader() = Some(log.id());
            srv.replication.unit.store(log.position(), Ordering::SeqCst);
            let offset = state.node.stream().offset();
            state.replicas.waiters.marks.begin(log.position(), offset);
        }
        None => log_warning!("The log of effects has too many readers: replicas must wait"),
    }
    state.log.is_some()
}

/// Nobody needs what is written here.
pub fn drop_writes(srv: &'static Server, state: &mut State, guard: Option<&Guard<'_>>) {
    let Some(guard) = guard else { return };
    if let Some(log) = state.log.take() {
        *hub(srv).reader() = None;
        guard.end_log(&log.id());
        hub(srv).relieve(srv, state);
    }
}

/// Writes wait, and nothing expires or is evicted, until they are let go.
pub fn pause_writes(srv: &'static Server, state: &mut State) {
    srv.pause_for_failover(true);
    state.tells_paused = true;
}

/// Clients may write again.
pub fn resume_writes(srv: &'static Server, state: &mut State) {
    state.tells_paused = false;
    srv.pause_for_failover(false);
}

/// A replica from here on: what waits for keys or replicas would wait for what does not come.
pub fn demoted(srv: &'static Server, _state: &mut State) {
    note_expiry(srv, true);
    srv.set_attention(attention::REPLICA, true);
    srv.broadcast(|| Message::Demoted);
}

/// A primary from here on. What there is now are the data, though it be nothing.
pub fn promoted(srv: &'static Server, _state: &mut State) {
    srv.set_attention(attention::REPLICA, false);
    note_expiry(srv, false);
    if aof(srv).is_of_gone_data() {
        weft_durability::aof::start::again_soon(srv);
    }
}

/// Has keys be noted that clients give an expiry to, where this server is a replica that they may write to. As a
/// primary it removes all expired keys, whoever wrote them. Takes no lock of the configuration, whose holders may
/// wait for the state.
pub fn note_expiry(srv: &Server, is_replica: bool) {
    srv.ks.note_replica_expiry(is_replica && !srv.settings().replica.is_read_only);
    if !is_replica {
        srv.ks.forget_replica_expiry();
    }
}
