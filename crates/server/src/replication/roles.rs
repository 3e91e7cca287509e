//! What this server is for its clients: a primary, a replica, or one whose writes wait.

use super::State;
use crate::io::Message;
use crate::server::{Server, attention};
use std::sync::Arc;
use weft_keyspace::Guard;
use weft_keyspace::log::Target;
use weft_process::log_warning;

/// The stream is written from here on.
pub fn keep_writes(srv: &'static Server, state: &mut State, guard: Option<&Guard<'_>>) {
    let Some(guard) = guard else { return };
    if state.log.is_some() {
        return;
    }
    state.log = guard.begin_log(Target::REPLICAS, Arc::new(move || srv.replication.wake(srv)));
    match &state.log {
        Some(log) => state.replicas.waiters.marks.begin(log.position()),
        None => log_warning!("The log of effects has too many readers: replicas get no writes"),
    }
}

/// Nobody needs what is written here.
pub fn drop_writes(_srv: &'static Server, state: &mut State, guard: Option<&Guard<'_>>) {
    let Some(guard) = guard else { return };
    if let Some(log) = state.log.take() {
        guard.end_log(&log.id());
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
    srv.set_attention(attention::REPLICA, true);
    srv.broadcast(|| Message::Demoted);
}

/// A primary from here on.
pub fn promoted(srv: &'static Server, _state: &mut State) {
    srv.set_attention(attention::REPLICA, false);
}
