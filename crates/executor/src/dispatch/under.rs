//! Runs a command for a caller that holds the shards of several commands: EXEC.

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
    let lane = Lane::Transaction;
    core.begin_import(session.options.import_source, cmd.spec.flags);
    // A later request of the transaction may turn NOLOOP on, which applies to this one.
    core.context.client = session.shared.id;
    let result = match cmd.run {
        Run::Data { run, .. } => {
            feed_monitors(core, session, cmd, request.args);
            let caller =
                Caller { db: session.db, no_touch: session.options.no_touch, is_source: false };
            let (result, _) = call(core, caller, cmd, run, request, reply, guard, lane);
            if !core.context.effects.is_empty() {
                log_words(core, guard, caller.db, request);
            }
            result
        }
        Run::Server(number) => {
            // The command may publish, or change which clients get invalidations: earlier effects go out first.
            invalidate(guard, &mut core.context);
            hand_over(guard, &mut core.context);
            let held = Held::Guard(guard);
            call_server(core, session, request, cmd, number, reply, held, lane).0
        }
        Run::Exec | Run::Watch => unreachable!("never queued"),
    };
    if session.pushes.tracks.is_some() {
        commit::record_reader(core, session, cmd, request.args, guard);
    }
    result
}
