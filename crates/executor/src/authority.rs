//! Which replies need the authority of this node's lease, and the refusal of requests that come too late.
//!
//! | when | function |
//! |---|---|
//! | before a command with one key, on a primary | [`begin_fast`] |
//! | before any other command | [`check`], [`begin`] |
//! | a message on a shard channel is appended before a reply | [`note_message`] |
//! | before its reply leaves | [`Server::may_acknowledge`](weft_state::server::Server::may_acknowledge), in `io/worker/authority.rs` |
//!
//! See [`weft_state::authority`], and `docs/design/cluster-lease.md`.

use crate::cluster::asked::{AskedSlot, find_slot, is_readonly};
use crate::cluster::errors::DOWN;
use crate::dispatch::core::Core;
use crate::dispatch::request::Request;
use crate::transaction;
use std::sync::atomic::Ordering;
use weft_command_spec::Flags;
use weft_commands::Error;
use weft_pubsub::registry::Kind;
use weft_state::attention;
use weft_state::authority::NO_TERM;
use weft_state::command_table::{Cmd, Run};
use weft_state::server::Server;
use weft_state::session::Session;

/// Records the term in which a command on keys executes. Returns whether it lasts, as far as the clock was read.
#[inline]
pub fn begin_fast(core: &Core, session: &mut Session) -> bool {
    // The reply of an earlier command in this batch needs the same term.
    session.replies.term != NO_TERM || begin_term(core, session)
}

fn begin_term(core: &Core, session: &mut Session) -> bool {
    let authority = &core.srv.nodes.cluster.authority;
    let term = authority.term();
    let lasts = authority.lasts(core.srv.mono_ms_at(core.last_tick));
    if lasts && session.replies.term == NO_TERM {
        session.replies.term = term;
    }
    lasts
}

/// Records the term in which a request executes, if its reply needs one.
///
/// # Errors
/// The deadline has passed: the request is not executed.
#[cold]
pub fn begin(
    core: &Core,
    session: &mut Session,
    request: &Request<'_>,
    cmd: &Cmd,
) -> Result<(), Error> {
    if !needs_authority(core.srv, session, request, cmd) || begin_term(core, session) {
        return Ok(());
    }
    Err(DOWN)
}

/// Whether this node may acknowledge nothing, since it is no primary: not even until a deadline that has passed.
pub fn has_no_role(srv: &Server) -> bool {
    srv.nodes.cluster.authority.bounded_until() == 0
}

/// Whether the reply depends on keys, channels or a transaction, and is not that of a replica, which promises nothing.
fn needs_authority(srv: &Server, session: &Session, request: &Request<'_>, cmd: &Cmd) -> bool {
    // PUBLISH, FLUSHALL, SSUBSCRIBE, WAIT ...
    const FLAGS: Flags = Flags::WRITE
        .or(Flags::READONLY)
        .or(Flags::MAY_REPLICATE)
        .or(Flags::REPLICATES_UNFLAGGED)
        .or(Flags::BLOCKING);
    let flags = transaction::flags_of(session, cmd);
    let depends = match cmd.run {
        Run::Data { .. } | Run::Watch | Run::Script(_) => true,
        // Otherwise it fails with an error of its own.
        Run::Exec => session.transaction.as_ref().is_some_and(|transaction| !transaction.failed),
        Run::Server(_) => flags.has(FLAGS) || !cmd.spec.keys.is_empty(),
    };
    depends && !is_of_replica(srv, session, request, cmd, flags)
}

/// Whether the command reads a replica's data, or publishes there. A read of keys needs READONLY: without it, the client
/// wants an answer of the primary. A write without keys is refused by the command itself.
fn is_of_replica(
    srv: &Server,
    session: &Session,
    request: &Request<'_>,
    cmd: &Cmd,
    flags: Flags,
) -> bool {
    is_replica(srv)
        && (is_readonly(&session.shared) && !flags.has(Flags::WRITE)
            || flags.has(Flags::PUBSUB)
            || find_slot(session, cmd, request.args) == AskedSlot::None)
}

/// Whether this node follows a primary. A primary that has restarted replicates none, and serves nothing until it leads again.
fn is_replica(srv: &Server) -> bool {
    let is_primary_by_map =
        || srv.nodes.cluster.current().0.is_some_and(|topology| topology.routes.is_primary());
    let follows = srv.attention.load(Ordering::Relaxed) & attention::REPLICA != 0;
    (follows || srv.nodes.cluster.authority.changes_role()) && !is_primary_by_map()
}

/// Refuses a request that needs authority which this node doesn't have. It comes before the errors of a replica: those would be
/// wrong on a primary that has restarted.
///
/// # Errors
/// CLUSTERDOWN
#[cold]
pub fn check(
    core: &Core,
    session: &Session,
    request: &Request<'_>,
    cmd: &Cmd,
) -> Result<(), Error> {
    let authority = &core.srv.nodes.cluster.authority;
    match needs_authority(core.srv, session, request, cmd)
        && !authority.lasts(core.srv.mono_ms_at(core.last_tick))
    {
        true => Err(DOWN),
        false => Ok(()),
    }
}

/// Whether this server may acknowledge only as long as it holds a lease.
#[inline]
pub fn is_required(srv: &Server) -> bool {
    srv.attention.load(Ordering::Relaxed) & attention::LEASE != 0
}

/// Whether messages on shard channels need authority here.
#[inline]
pub fn binds_messages(srv: &Server) -> bool {
    let attention = srv.attention.load(Ordering::Relaxed);
    attention & (attention::LEASE | attention::REPLICA) == attention::LEASE
}

/// Whether a message that is published here at this moment needs authority when it is delivered. A message of a replica needs none,
/// nor does one of another node.
pub fn binds_published(srv: &Server, kind: Kind) -> bool {
    kind == Kind::Shard && is_required(srv) && !is_replica(srv)
}

/// A message on a shard channel is sent with the next reply: both need the present term.
pub fn note_message(srv: &Server, session: &mut Session) {
    if session.replies.term == NO_TERM {
        session.replies.term = srv.nodes.cluster.authority.term();
    }
}
