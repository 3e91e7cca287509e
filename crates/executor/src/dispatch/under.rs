//! Runs a command for a caller that holds the shards of several commands: EXEC, and scripts.

use crate::dispatch::call::{Caller, call, call_server, feed_monitors, log_words};
use crate::dispatch::commit;
use crate::dispatch::core::{Core, Held};
use crate::dispatch::request::Request;
use weft_commands::{CmdResult, Lane};
use weft_keyspace::Guard;
use weft_keyspace::commit::hand_over;
use weft_keyspace::invalidation::invalidate;
use weft_resp::Reply;
use weft_state::command_table::{Cmd, Run};
use weft_state::session::Session;

/// Runs a request of `session` in a transaction, under shards that the caller holds for all its requests.
/// The command can't be suspended. The reply of a failed command may be partial.
///
/// # Errors
/// Those of the command.
pub fn execute_under(
    core: &mut Core,
    session: &mut Session,
    request: &Request<'_>,
    cmd: &'static Cmd,
    reply: &mut Reply,
    guard: &Guard<'_>,
) -> CmdResult {
    match call_under(core, session, request, cmd, reply, guard, Lane::Transaction) {
        Ran::Ended(result) => result,
        Ran::IsLong => unreachable!("a transaction runs long commands"),
    }
}

/// How a command under the shards of several commands has ended.
#[derive(Debug)]
pub enum Ran {
    Ended(CmdResult),
    /// Only in [`Lane::Script`]: it is too long for this thread, and has changed nothing.
    IsLong,
}

/// As [`execute_under`], in `lane`.
pub fn call_under(
    core: &mut Core,
    session: &mut Session,
    request: &Request<'_>,
    cmd: &'static Cmd,
    reply: &mut Reply,
    guard: &Guard<'_>,
    lane: Lane,
) -> Ran {
    core.begin_import(session.options.import_source, cmd.spec.flags);
    // A later request of the transaction may turn NOLOOP on, which applies to this one.
    core.context.client = session.shared.id;
    let result = match cmd.run {
        Run::Data { run, .. } => {
            let caller =
                Caller { db: session.db, no_touch: session.options.no_touch, is_source: false };
            feed_monitors(core, session, cmd, request.args);
            let (result, pause) = call(core, caller, cmd, run, request, reply, guard, lane);
            if lane == Lane::Script && pause.is_some() {
                return Ran::IsLong;
            }
            if !core.context.effects.is_empty() {
                log_words(core, guard, caller.db, request);
            }
            result
        }
        Run::Server(number) => {
            if lane != Lane::Script {
                // The command may publish, or change which clients get invalidations: earlier effects go out first. The
                // effects of a script that may start over are kept back, and it calls no such command.
                invalidate(guard, &mut core.context);
                hand_over(guard, &mut core.context);
            }
            let held = Held::Guard(guard);
            let (result, suspend) =
                call_server(core, session, request, cmd, number, reply, held, lane);
            if lane == Lane::Script && suspend.is_some() {
                return Ran::IsLong;
            }
            result
        }
        Run::Exec | Run::Watch | Run::Script(_) => unreachable!("the caller runs scripts"),
    };
    if session.pushes.tracks.is_some() {
        commit::record_reader(core, session, cmd, request.args, guard);
    }
    Ran::Ended(result)
}
