//! BUSY: the answer to a command that would have to wait for a script that has run for longer than
//! `busy-reply-threshold`.
//!
//! Clients of other keys don't notice such a script. When it becomes busy, its thread wakes all that wait for its
//! shards; they try again, find the shard in [`weft_script::busy`], and answer. So do commands that come later.

use crate::dispatch::needs::request_need;
use crate::dispatch::request::{Request, Task};
use crate::script;
use weft_command_spec::Flags;
use weft_commands::Error;
use weft_state::acting::ActionId;
use weft_state::command_table::{Cmd, Need, Run};
use weft_state::server::Server;
use weft_state::slow_lane::LONG;

/// The error for a command that needs a shard that satisfies `needs`, if a busy script holds it.
pub fn error(srv: &Server, needs: impl Fn(u16) -> bool) -> Option<Error> {
    srv.scripts.busy.killer(needs).map(error_of)
}

/// The error for a command that would wait for the end of these commands, if one of them is a busy script. To be called
/// before the command has any effect.
pub fn error_of_commands(srv: &Server, commands: &[ActionId]) -> Option<Error> {
    if !srv.scripts.busy.is_any() {
        return None;
    }
    let is_waited_for = |client| commands.iter().any(|command| command.client == client);
    srv.scripts.busy.killer_of_client(is_waited_for).map(error_of)
}

/// `killer`: the command that ends the script.
fn error_of(killer: &str) -> Error {
    Error::owned(format!(
        "BUSY Weft is busy running a script. You can only call {killer} or SHUTDOWN NOSAVE."
    ))
}

/// Whether the command may get the error. A command that has taken effect, and a retry of a blocked client, wait. A command
/// on keys that has run has only read.
pub fn may_refuse(cmd: &Cmd, request: &Request<'_>) -> bool {
    let has_effect = request.attempt.has_run && cmd.takes_session();
    !has_effect && !cmd.spec.flags.has(Flags::ALLOW_BUSY) && request.attempt.retry.is_none()
}

/// As [`error`], for a command that needs this.
pub fn error_of_need(task: &Task<'_>, need: &Need) -> Option<Error> {
    let srv = task.core.srv;
    if !srv.scripts.busy.is_any() || !may_refuse(task.cmd, task.request) {
        return None;
    }
    match need {
        // They don't wait for the slow lane.
        Need::Nothing | Need::Stop | Need::Aside | Need::Rest => None,
        Need::One(shard) => error(srv, |held| held == *shard),
        Need::Shards(set) => error(srv, |held| set.iter().any(|shard| shard == held)),
        Need::AllShards | Need::Names | Need::World => error(srv, |_| true),
    }
}

/// The error for a command of the slow lane while busy scripts occupy all its threads.
pub fn error_of_full_lane(task: &Task<'_>) -> Option<Error> {
    let srv = task.core.srv;
    let is_full = srv.scripts.busy.count() >= LONG;
    let has_own_threads = task.cmd.spec.flags.has(Flags::WAITS_FOR_SERVER);
    let is_refused = is_full && !has_own_threads && may_refuse(task.cmd, task.request);
    is_refused.then(|| error(srv, |_| true)).flatten()
}

/// The shards that the slow lane would take for the command.
pub fn need_of(task: &mut Task<'_>) -> Need {
    let ks = &task.core.srv.ks;
    match task.cmd.run {
        Run::Script(command) => script::need_of(task, command),
        Run::Data { .. } | Run::Server(_) | Run::Exec | Run::Watch => {
            request_need(ks, task.cmd, task.request, task.session)
        }
    }
}
