//! The effects of this server's role on clients.

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
use weft_state::waiting::WaitMessage;

/// Creates the reader of the log, so that the stream is written from here on. Returns whether it
/// exists.
///
/// Fails if the log has no slot for another reader, which can't happen. Replicas have this one. The
/// append-only file has one, which ends before the next begins, and so does DEBUG EFFECTS.
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
            srv.nodes.replication.unit.store(log.position(), Ordering::SeqCst);
            let offset = state.node.stream().offset();
            state.replicas.waiters.marks.begin(log.position(), offset);
        }
        None => log_warning!("The log of effects has too many readers: replicas must wait"),
    }
    state.log.is_some()
}

/// Removes the reader of the log.
pub fn drop_writes(srv: &'static Server, state: &mut State, guard: Option<&Guard<'_>>) {
    let Some(guard) = guard else { return };
    if let Some(log) = state.log.take() {
        *hub(srv).reader() = None;
        guard.end_log(&log.id());
        hub(srv).relieve(srv, state);
    }
}

/// Pauses clients' writes, expiration and eviction until they are resumed.
pub fn pause_writes(srv: &'static Server, state: &mut State) {
    srv.pause_for_failover(true);
    state.pause_requested = true;
}

/// Resumes clients' writes.
pub fn resume_writes(srv: &'static Server, state: &mut State) {
    state.pause_requested = false;
    srv.pause_for_failover(false);
}

/// This server is a replica from here on: clients blocked on keys or replicas would wait without
/// end.
pub fn demoted(srv: &'static Server, _state: &mut State) {
    note_expiry(srv, true);
    srv.set_attention(attention::REPLICA, true);
    srv.broadcast(|| Message::Wait(WaitMessage::Demoted));
}

/// This server is a primary from here on. The current data are valid, even if empty.
pub fn promoted(srv: &'static Server, _state: &mut State) {
    srv.set_attention(attention::REPLICA, false);
    note_expiry(srv, false);
    if aof(srv).is_of_gone_data() {
        weft_durability::aof::start::again_soon(srv);
    }
}

/// Records keys to which clients give an expiry, if this server is a writable replica. A primary
/// removes all expired keys, regardless of their writer. Takes no lock of the configuration,
/// because its holders may wait for the state.
pub fn note_expiry(srv: &Server, is_replica: bool) {
    srv.ks.note_replica_expiry(is_replica && !srv.settings().replica.is_read_only);
    if !is_replica {
        srv.ks.forget_replica_expiry();
    }
}
