//! The requests that CLIENT PAUSE delays, and those on slots that are about to go to another node.

use crate::cluster;
use crate::dispatch::core::Core;
use crate::dispatch::refusals;
use crate::dispatch::request::Request;
use crate::script::resolve;
use crate::transaction;
use weft_state::command_table::{Cmd, Run};
use weft_state::session::Session;

/// Whether a request is delayed. A script that declares that it only reads runs during a pause of writes.
#[inline]
pub fn is_request_paused(
    core: &mut Core,
    session: &Session,
    request: &Request<'_>,
    cmd: &Cmd,
) -> bool {
    core.srv.is_paused() && delays(core, session, request, cmd)
}

#[cold]
fn delays(core: &mut Core, session: &Session, request: &Request<'_>, cmd: &Cmd) -> bool {
    let flags = match cmd.run {
        Run::Script(script) if resolve::only_reads(core, request.args, script) => cmd.spec.flags,
        _ => transaction::flags_of(session, cmd),
    };
    refusals::is_paused(core, flags) || cluster::is_suspended(core, session, request, cmd)
}
