//! Cluster mode: does this node serve a request?
//!
//! | when | function |
//! |---|---|
//! | before a command is queued or takes its shards | [`is_served`], else [`check`] |
//! | under its shards, if its slot is in transit, or it has waited | [`check_held`] |
//! | a command of a script | [`script::check`] |
//! | the command of a blocked client, before it is served | [`check_blocked`] |
//!
//! Commands from our primary and from files are not checked.
//!
//! * [`asked`] - the slot of a request
//! * [`known`] - the topology that a thread uses; [`errors`]
//! * [`change`] - putting another topology into force
//! * [`slot_stats`] - CPU time and traffic by slot
//!
//! See `docs/design/cluster-routes.md`.

pub mod asked;
pub mod change;
pub mod errors;
pub mod known;
pub mod script;
pub mod slot_stats;

use crate::dispatch::core::Core;
use crate::dispatch::request::{Request, Task};
use asked::{AskedSlot, asker, find_keys, find_slot, is_readonly};
use errors::{CROSS_SLOT, DOWN, DOWN_READS_ONLY, IMPORT_ENDED, TRY_AGAIN, UNBOUND};
use known::KnownTopology;
use std::net::SocketAddr;
use weft_cluster::{Asker, Family, KeysFound, Routes, Slot, Verdict, Via};
use weft_command_spec::Flags;
use weft_commands::Error;
use weft_keyspace::Guard;
use weft_state::clients::ClientShared;
use weft_state::command_table::{Cmd, Run};
use weft_state::server::Server;
use weft_state::session::{Asking, Session};
use weft_state::waiting::Waiting;

/// Where a request that may be served is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    Here,
    /// Its slot is in transit: [`check_held`] must look for its keys.
    IfKeysAreHere,
    /// Its slot is about to come here: the request waits.
    Soon,
}

/// Whether this node serves the request of a command with one key for certain.
#[inline]
pub fn is_served(core: &Core, session: &Session, request: &Request<'_>, cmd: &Cmd) -> bool {
    match &request.key {
        Some(key) if cmd.has_one_key(request.args.len()) => {
            session.options.asking == Asking::No
                && core.topology.serves(&core.srv.nodes.cluster, key.slot)
        }
        _ => false,
    }
}

/// Checks whether this node serves a request of a client.
///
/// # Errors
/// A redirect, or the reason for which no node serves it.
#[cold]
pub fn check(
    core: &mut Core,
    session: &mut Session,
    request: &Request<'_>,
    cmd: &Cmd,
) -> Result<Served, Error> {
    if session.options.asking == Asking::Import {
        return check_import(core, session, request, cmd).map(|()| Served::Here);
    }
    let asking = take_asking(session, request);
    let slot = match find_slot(session, cmd, request.args) {
        AskedSlot::None => return Ok(Served::Here),
        AskedSlot::One(slot) => slot,
        AskedSlot::Several => return Err(CROSS_SLOT),
    };
    let srv = core.srv;
    let asker = asker(core, session, cmd, request.args, asking);
    let Some(topology) = core.topology.renew(&srv.nodes.cluster) else { return Ok(Served::Here) };
    let routes = &topology.routes;
    let is_queued = session.transaction.is_some() && !matches!(cmd.run, Run::Exec);
    let verdict = match routes.verdict(slot, asker) {
        // EXEC looks for the keys of a queued command. MIGRATE works on the keys that are left.
        Verdict::LookAtKeys if is_queued || asker.migrates => {
            let crosses_databases = asked::crosses_databases(cmd, request.args, session.db);
            let keys = KeysFound { crosses_databases, ..KeysFound::default() };
            routes.verdict_of_keys(slot, asker, keys)
        }
        Verdict::LookAtKeys => return Ok(Served::IfKeysAreHere),
        // The owner may redirect clients before this node has seen that it is the owner.
        Verdict::Moved(_) if topology.is_coming(slot) => return Ok(Served::Soon),
        verdict => verdict,
    };
    refusal(routes, &session.shared, slot, verdict).map_or(Ok(Served::Here), Err)
}

/// Checks a request of the connection that copies keys to this node, which doesn't own their slots: once it does, clients may
/// have changed them.
fn check_import(
    core: &mut Core,
    session: &Session,
    request: &Request<'_>,
    cmd: &Cmd,
) -> Result<(), Error> {
    match find_slot(session, cmd, request.args) {
        AskedSlot::None => Ok(()),
        AskedSlot::One(slot) => {
            let topology = core.topology.renew(&core.srv.nodes.cluster);
            let is_owned = topology.is_some_and(|topology| topology.routes.serves(slot));
            let accepts = session.importing.as_ref().is_some_and(|import| import.accepts(slot));
            if accepts && !is_owned { Ok(()) } else { Err(IMPORT_ENDED) }
        }
        AskedSlot::Several => Err(CROSS_SLOT),
    }
}

/// Whether the slot of a request is suspended, because it is about to go to another node. While any slot is, so are writes without
/// keys, such as FLUSHALL: this node may have keys of slots that are about to come.
#[cold]
pub fn is_suspended(core: &mut Core, session: &Session, request: &Request<'_>, cmd: &Cmd) -> bool {
    let srv = core.srv;
    // The copy of keys continues while clients wait.
    if !srv.nodes.cluster.has_store() || session.options.asking == Asking::Import {
        return false;
    }
    let Some(topology) = core.topology.renew(&srv.nodes.cluster) else { return false };
    if topology.suspended.is_empty() {
        return false;
    }
    let is_queued = session.transaction.is_some() && !matches!(cmd.run, Run::Exec);
    if is_queued {
        return false;
    }
    asked::writes_without_keys(session, cmd, request.args)
        || find_slot(session, cmd, request.args)
            .one()
            .is_some_and(|slot| topology.suspended.contains(slot))
}

/// Checks again whether this node serves a request, which holds its shards, or has waited for something else. Without a guard,
/// its keys are not looked for.
///
/// # Errors
/// Those of [`check`].
#[cold]
pub fn check_held(task: &mut Task<'_>, guard: Option<&Guard<'_>>) -> Result<(), Error> {
    let Task { core, session, request, cmd, .. } = task;
    if session.options.asking == Asking::Import {
        return check_import(core, session, request, cmd);
    }
    let asking = session.options.asking != Asking::No;
    let slot = match find_slot(session, cmd, request.args) {
        AskedSlot::None => return Ok(()),
        AskedSlot::One(slot) => slot,
        AskedSlot::Several => return Err(CROSS_SLOT),
    };
    let asker = asker(core, session, cmd, request.args, asking);
    let Core { srv, topology, context, .. } = &mut **core;
    let Some(topology) = topology.renew(&srv.nodes.cluster) else { return Ok(()) };
    let routes = &topology.routes;
    let verdict = match (routes.verdict(slot, asker), guard) {
        (Verdict::LookAtKeys, Some(guard)) if !asker.migrates => {
            let keys = find_keys(context, guard, session, cmd, request.args);
            routes.verdict_of_keys(slot, asker, keys)
        }
        (Verdict::LookAtKeys, _) => routes.verdict_of_keys(slot, asker, KeysFound::default()),
        (verdict, _) => verdict,
    };
    refusal(routes, &session.shared, slot, verdict).map_or(Ok(()), Err)
}

/// Checks whether a blocked client may continue to wait, or be served.
///
/// # Errors
/// The error that ends its wait.
#[cold]
pub fn check_blocked(
    srv: &Server,
    topology: &mut KnownTopology,
    waiting: &Waiting,
) -> Result<(), Error> {
    let Some(topology) = topology.renew(&srv.nodes.cluster) else { return Ok(()) };
    let Some((_, key)) = waiting.awaited.keys.first() else { return Ok(()) };
    let slot = weft_base::slot::key_slot(key);
    let asker = Asker {
        writes: waiting.cmd.spec.flags.has(Flags::WRITE),
        readonly: is_readonly(&waiting.shared),
        ..Asker::default()
    };
    let verdict = topology.routes.verdict_of_blocked(slot, asker);
    refusal(&topology.routes, &waiting.shared, slot, verdict).map_or(Ok(()), Err)
}

/// Whether ASKING applies to the request. It applies to one command, or to a transaction and its EXEC.
fn take_asking(session: &mut Session, request: &Request<'_>) -> bool {
    let in_transaction = session.transaction.is_some();
    let attempt = request.attempt;
    let is_retry = attempt.tries > 0 || attempt.has_run || attempt.retry.is_some();
    let asking = &mut session.options.asking;
    match *asking {
        Asking::No | Asking::Import => false,
        Asking::Next => {
            *asking = Asking::Now;
            true
        }
        Asking::Now if in_transaction || is_retry => true,
        Asking::Now => {
            *asking = Asking::No;
            false
        }
    }
}

/// Ends ASKING after a refused request, which was the one that it applied to.
pub fn end_asking(session: &mut Session) {
    if session.transaction.is_none() && session.options.asking != Asking::Import {
        session.options.asking = Asking::No;
    }
}

/// Makes ASKING apply to a request again that is put off without a trace.
pub fn keep_asking(session: &mut Session) {
    if session.options.asking == Asking::Now {
        session.options.asking = Asking::Next;
    }
}

/// The error of a request that is not served here.
fn refusal(
    routes: &Routes,
    client: &ClientShared,
    slot: Slot,
    verdict: Verdict<'_>,
) -> Option<Error> {
    let redirect = |code, addresses| {
        let (endpoint, port) = routes.endpoint(addresses, via(client));
        Some(Error::owned(format!("{code} {slot} {endpoint}:{port}")))
    };
    match verdict {
        Verdict::Here => None,
        Verdict::LookAtKeys => unreachable!("the caller has looked at the keys"),
        Verdict::Moved(addresses) => redirect("MOVED", addresses),
        Verdict::Ask(addresses) => redirect("ASK", addresses),
        Verdict::TryAgain => Some(TRY_AGAIN),
        Verdict::Unbound => Some(UNBOUND),
        Verdict::Down => Some(DOWN),
        Verdict::DownReadsOnly => Some(DOWN_READS_ONLY),
    }
}

/// The facts of a client's connection that decide which addresses it gets.
pub fn via(client: &ClientShared) -> Via {
    let family = match client.origin.peer.parse::<SocketAddr>() {
        Ok(SocketAddr::V4(_)) => Family::V4,
        Ok(SocketAddr::V6(_)) => Family::V6,
        Err(_) => Family::Other,
    };
    Via { tls: client.origin.tls, family }
}
