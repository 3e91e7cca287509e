//! What this server is for its clients: a primary, a replica, or one whose writes wait.

use super::State;
use crate::pause::PauseMode;
use crate::server::{Server, attention};
use std::sync::Arc;
use weft_keyspace::Guard;
use weft_process::log_warning;

/// The stream is written from here on.
pub fn keep_writes(srv: &'static Server, state: &mut State, guard: Option<&Guard<'_>>) {
    let Some(guard) = guard else { return };
    if state.log.is_some() {
        return;
    }
    state.log = guard.begin_log(Arc::new(move || srv.replication.wake(srv)));
    if state.log.is_none() {
        log_warning!("The log of effects is in use: replicas get no writes");
    }
}

/// Nobody needs what is written here.
pub fn drop_writes(_srv: &'static Server, state: &mut State, guard: Option<&Guard<'_>>) {
    let Some(guard) = guard else { return };
    if state.log.take().is_some() {
        guard.end_log();
    }
}

/// Writes wait, and nothing expires or is evicted, until they are let go.
pub fn pause_writes(srv: &'static Server, state: &mut State) {
    srv.pause(PauseMode::Write, i64::MAX);
    state.tells_paused = true;
}

pub fn resume_writes(srv: &'static Server) {
    srv.unpause();
}

/// A replica from here on.
pub fn demoted(srv: &'static Server, _state: &mut State) {
    srv.set_attention(attention::REPLICA, true);
}

/// A primary from here on.
pub fn promoted(srv: &'static Server, _state: &mut State) {
    srv.set_attention(attention::REPLICA, false);
}
