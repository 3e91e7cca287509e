//! Executes the actions of the machines, in order.
//!
//! Nothing here blocks: separate threads write sockets, take snapshots and load copies.

use crate::{State, primary, replica, roles};
use weft_keyspace::Guard;
use weft_process::{log_notice, log_warning};
use weft_replication::Action;
use weft_replication::action::Level;
use weft_state::server::Server;

/// Executes the pending actions. Without `guard`, which holds the world, it stops before the first
/// action that needs the world.
pub fn execute_pending(srv: &'static Server, state: &mut State, guard: Option<&Guard<'_>>) {
    while let Some(action) = state.pending.pop_front() {
        if guard.is_none() && needs_world(&action) {
            return state.pending.push_front(action);
        }
        if !execute_one(srv, state, guard, action) {
            return;
        }
    }
}

/// The effect log and the role may only change between commands.
fn needs_world(action: &Action) -> bool {
    match action {
        Action::KeepWrites | Action::DropWrites | Action::Swap { .. } => true,
        Action::Reply { .. }
        | Action::Snapshot { .. }
        | Action::AbandonSnapshot { .. }
        | Action::SendBulk { .. }
        | Action::SendStream { .. }
        | Action::Close { .. }
        | Action::Acknowledged
        | Action::PauseWrites
        | Action::ResumeWrites
        | Action::Demoted
        | Action::Promoted
        | Action::Connect { .. }
        | Action::Send { .. }
        | Action::Disconnect { .. }
        | Action::BeginLoad { .. }
        | Action::Payload { .. }
        | Action::EndLoad { .. }
        | Action::AbandonLoad { .. }
        | Action::BeginStream { .. }
        | Action::Stream { .. }
        | Action::Read { .. }
        | Action::Log { .. } => false,
    }
}

/// Executes an action. Returns `false` if it, and so all later ones, must stay pending.
fn execute_one(
    srv: &'static Server,
    state: &mut State,
    guard: Option<&Guard<'_>>,
    action: Action,
) -> bool {
    if replaces_data(&action) {
        state.forget_positions(srv);
    }
    match action {
        Action::Reply { conn, bytes } => primary::reply(srv, state, conn, bytes),
        Action::Snapshot { snapshot, target, form } => {
            primary::take_snapshot(srv, state, snapshot, target, form);
        }
        Action::AbandonSnapshot { snapshot } => primary::abandon_snapshot(srv, state, snapshot),
        Action::SendBulk { conn, snapshot, head, mark } => {
            primary::send_bulk(srv, state, conn, snapshot, head, mark);
        }
        Action::SendStream { conn, from } => primary::send_stream(srv, state, conn, from),
        Action::Close { conn, flush } => primary::close(srv, state, conn, flush),
        Action::Acknowledged => primary::confirmed(srv, state),

        // Later actions are for replicas that get a copy, and their writes would be missing from
        // the stream.
        Action::KeepWrites if !roles::keep_writes(srv, state, guard) => {
            state.pending.push_front(Action::KeepWrites);
            return false;
        }
        Action::KeepWrites => {}
        Action::DropWrites => roles::drop_writes(srv, state, guard),
        Action::PauseWrites => roles::pause_writes(srv, state),
        Action::ResumeWrites => roles::resume_writes(srv, state),
        Action::Demoted => roles::demoted(srv, state),
        Action::Promoted => roles::promoted(srv, state),

        Action::Connect { link, host, port } => replica::connect(srv, state, link, host, port),
        Action::Disconnect { link } => replica::disconnect(srv, state, link),
        Action::Send { .. }
        | Action::BeginLoad { .. }
        | Action::Payload { .. }
        | Action::EndLoad { .. }
        | Action::Swap { .. }
        | Action::AbandonLoad { .. }
        | Action::BeginStream { .. }
        | Action::Stream { .. }
        | Action::Read { .. } => replica::queue_command(srv, state, guard, action),

        Action::Log { level, text } => match level {
            Level::Notice => log_notice!("{text}"),
            Level::Warning => log_warning!("{text}"),
        },
    }
    true
}

/// Whether the data from here on differ from the data that units were applied to.
fn replaces_data(action: &Action) -> bool {
    matches!(
        action,
        Action::BeginLoad { .. }
            | Action::EndLoad { .. }
            | Action::Swap { .. }
            | Action::AbandonLoad { .. }
    )
}

/// Notifies the threads that send the stream that it has grown.
pub fn notify_growth(srv: &'static Server, state: &mut State) {
    primary::notify_growth(srv, state);
}
