//! Access control: may the user of a session run this command?
//!
//! A session that may do everything in the present generation of users ([`weft_state::access`]) never gets here: the
//! caller compares one number. For the others, the user's rights are checked before a command is queued in a transaction,
//! before it runs, and again before it continues after any wait:
//!
//! | where | caller |
//! |---|---|
//! | before a command is queued or takes its shards | `dispatch/admit.rs` |
//! | under its shards, after it has waited for them outside of the safepoint, or in the slow lane | `dispatch/hold.rs` |
//! | a command of EXEC | `dispatch/run.rs` |
//! | a command of a script | `script/host.rs` |
//! | the command of a blocked client, before it is served | `blocking/serve.rs` |
//!
//! Commands from our primary and from files have no session, and are not checked.
//!
//! * [`change`] - putting other users into force
//!
//! See `docs/design/acl-threads.md`.

pub mod change;

use crate::dispatch::core::{ConnCx, Core};
use std::sync::atomic::Ordering;
use weft_acl::{Access, Context, Denied, Event, LogReason, Reason, Request};
use weft_command_spec::{Begin, CommandRole, Flags};
use weft_commands::{Error, sort};
use weft_state::access::Identity;
use weft_state::client_line::{Shown, describe};
use weft_state::clients::ClientShared;
use weft_state::command_table::Cmd;
use weft_state::server::Server;
use weft_state::session::Session;

/// The error of a client that has not logged in.
pub const NO_AUTH: Error = Error::new("NOAUTH Authentication required.");

/// Whether the session may do everything, so that none of its commands has to be checked.
#[inline]
pub fn is_free(core: &Core, session: &Session) -> bool {
    session.identity.is_free_in(core.access_generation)
}

/// Checks whether the client has logged in, if it must. Comes before all other checks, whose errors would give a stranger
/// information about commands.
///
/// # Errors
/// It has not.
#[cold]
pub fn check_login(core: &Core, session: &mut Session, flags: Flags) -> Result<(), Error> {
    session.identity.renew(&core.srv.access);
    match session.identity.must_log_in && !flags.has(Flags::NO_AUTH) {
        true => Err(NO_AUTH),
        false => Ok(()),
    }
}

/// Checks the rights of the session's user before a request is queued or takes its shards.
///
/// # Errors
/// NOPERM. The log has an entry.
#[cold]
pub fn check(core: &Core, session: &mut Session, cmd: &Cmd, args: &[&[u8]]) -> Result<(), Error> {
    let (db, context) = match &session.transaction {
        Some(transaction) => (transaction.db, Context::Multi),
        None => (session.db, Context::TopLevel),
    };
    let identity = &mut session.identity;
    let Err(denied) = verdict(core, identity, cmd, args, db) else {
        // In a transaction, the patterns of SORT are checked when it runs.
        return match context {
            Context::Multi | Context::Script => Ok(()),
            // A subscriber gets another error.
            Context::TopLevel if session.is_restricted() => Ok(()),
            Context::TopLevel => check_patterns(core, session, cmd, args),
        };
    };
    show_command(&session.shared, cmd);
    note_denied(core, &session.shared, identity, context, cmd, args, &denied);
    Err(no_permission(identity, cmd, &denied))
}

/// As [`check`], for a command that has waited, of a client that may no longer be the same user, or may have to log in.
///
/// # Errors
/// NOAUTH or NOPERM.
#[cold]
pub fn check_again(
    core: &Core,
    session: &mut Session,
    cmd: &Cmd,
    args: &[&[u8]],
) -> Result<(), Error> {
    check_login(core, session, cmd.spec.flags)?;
    check(core, session, cmd, args)
}

/// As [`check`], for the command of a blocked client.
///
/// # Errors
/// NOPERM.
#[cold]
pub fn check_blocked(
    core: &Core,
    (shared, identity): (&ClientShared, &mut Identity),
    cmd: &Cmd,
    args: &[&[u8]],
    db: usize,
) -> Result<(), Error> {
    identity.renew(&core.srv.access);
    if identity.must_log_in {
        return Err(NO_AUTH);
    }
    let Err(denied) = verdict(core, identity, cmd, args, db) else { return Ok(()) };
    // Its thread will find the same when it gets the reply.
    shared.activity.blocked.store(false, Ordering::Relaxed);
    note_denied(core, shared, identity, Context::TopLevel, cmd, args, &denied);
    Err(no_permission(identity, cmd, &denied))
}

/// As [`check`], for a command of EXEC that runs now. The client may have to log in, since its user was deleted.
///
/// # Errors
/// NOAUTH, NOPERM with the reason in other words, or the error of SORT.
#[cold]
pub fn check_queued(
    core: &Core,
    session: &mut Session,
    cmd: &Cmd,
    args: &[&[u8]],
) -> Result<(), Error> {
    check_login(core, session, cmd.spec.flags)?;
    let identity = &mut session.identity;
    let Err(denied) = verdict(core, identity, cmd, args, session.db) else {
        return check_patterns(core, session, cmd, args);
    };
    note_denied(core, &session.shared, identity, Context::Multi, cmd, args, &denied);
    let why = match denied.reason {
        Reason::Command => "no permission to execute the command or subcommand",
        Reason::Key => "no permission to touch the specified keys",
        Reason::Channel => "no permission to access one of the channels used as arguments",
        Reason::Database => "no permission",
    };
    Err(Error::owned(format!(
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC \
         call. This command is no longer allowed for the following reason: {why}"
    )))
}

/// As [`check_queued`], for a command that a script calls.
///
/// # Errors
/// The error of the call.
#[cold]
pub fn check_in_script(
    core: &Core,
    session: &mut Session,
    cmd: &Cmd,
    args: &[&[u8]],
) -> Result<(), Error> {
    check_login(core, session, cmd.spec.flags)?;
    let identity = &mut session.identity;
    let Err(denied) = verdict(core, identity, cmd, args, session.db) else {
        return check_patterns(core, session, cmd, args);
    };
    note_denied(core, &session.shared, identity, Context::Script, cmd, args, &denied);
    let text = [b"ERR ACL failure in script: ", &*reason_text(identity, cmd, &denied)].concat();
    Err(Error::owned(text))
}

/// Whether the session's user may run a command of a script. Nothing is logged.
#[cold]
pub fn allows_in_script(core: &Core, session: &mut Session, cmd: &Cmd, args: &[&[u8]]) -> bool {
    check_login(core, session, cmd.spec.flags).is_ok()
        && verdict(core, &session.identity, cmd, args, session.db).is_ok()
}

/// Checks the patterns of SORT, which name keys that its arguments don't. They need the right to read all keys.
///
/// # Errors
/// SORT would read keys that the user may not read.
#[cold]
pub fn check_patterns(
    core: &Core,
    session: &Session,
    cmd: &Cmd,
    args: &[&[u8]],
) -> Result<(), Error> {
    // Few commands have such keys, and the comparison takes longer.
    let has_unknown = cmd.spec.keys.iter().any(|key| key.begin == Begin::Unknown);
    if !has_unknown || !sort::has_patterns(cmd.spec) {
        return Ok(());
    }
    let (catalog, request) = (&core.srv.access.catalog, request(cmd, args, session.db));
    match session.identity.user.check_with_every_key(catalog, &request, Access::READ) {
        true => Ok(()),
        false => sort::check_patterns(args),
    }
}

#[inline]
fn request<'a>(cmd: &Cmd, args: &'a [&'a [u8]], db: usize) -> Request<'a> {
    Request { command: cmd.number, args, database: db }
}

#[inline]
fn verdict(
    core: &Core,
    identity: &Identity,
    cmd: &Cmd,
    args: &[&[u8]],
    db: usize,
) -> Result<(), Denied> {
    identity.user.check(&core.srv.access.catalog, &request(cmd, args, db))
}

/// The database that commands after a queued SELECT would work on. `databases`: their number.
pub fn note_queued(session: &mut Session, cmd: &Cmd, args: &[&[u8]], databases: usize) {
    if cmd.spec.special.role == CommandRole::Select
        && let Some(transaction) = &mut session.transaction
        && let Some(db) = args.get(1).and_then(|db| weft_base::num::parse_i64(db))
        && let Ok(db) = usize::try_from(db)
        && db < databases
    {
        transaction.db = db;
    }
}

fn no_permission(identity: &Identity, cmd: &Cmd, denied: &Denied) -> Error {
    Error::owned([b"NOPERM ", &*reason_text(identity, cmd, denied)].concat())
}

/// The reason of a refusal.
fn reason_text(identity: &Identity, cmd: &Cmd, denied: &Denied) -> Vec<u8> {
    match denied.reason {
        Reason::Command => denied.text(&identity.user.name, cmd.full_name, &[]),
        Reason::Key => b"No permissions to access a key".to_vec(),
        Reason::Channel => b"No permissions to access a channel".to_vec(),
        Reason::Database => b"No permissions to access database".to_vec(),
    }
}

/// Counts a refused command, and adds it to ACL LOG.
fn note_denied(
    core: &Core,
    shared: &ClientShared,
    identity: &Identity,
    context: Context,
    cmd: &Cmd,
    args: &[&[u8]],
    denied: &Denied,
) {
    let reason = match denied.reason {
        Reason::Command => LogReason::Command,
        Reason::Key => LogReason::Key,
        Reason::Channel => LogReason::Channel,
        Reason::Database => LogReason::Database,
    };
    let object = match (denied.reason, denied.at) {
        (Reason::Command, _) | (Reason::Database, 0) => cmd.full_name.as_bytes(),
        (_, at) => args[at],
    };
    let (srv, most) = log_of(core);
    let event = event(srv, shared, (reason, context), object, &identity.user.name);
    core.trace.deny(srv, event, most);
}

/// Adds a failed login as `user` to ACL LOG.
pub fn note_failed_login(cx: &ConnCx<'_>, user: &[u8]) {
    let (core, session, args) = (&*cx.core, &*cx.session, cx.args);
    core.srv.statistics.totals.acl_denied_auth.fetch_add(1, Ordering::Relaxed);
    let context = if cx.in_transaction() { Context::Multi } else { Context::TopLevel };
    if let Some(cmd) = core.srv.table.find(args[0]) {
        show_command(&session.shared, cmd);
    }
    note(log_of(core), &session.shared, (LogReason::Auth, context), args[0], user);
}

/// Adds a refused certificate to ACL LOG: it names `user`, which doesn't exist or is disabled.
pub fn note_refused_certificate(srv: &Server, shared: &ClientShared, user: &[u8]) {
    srv.statistics.totals.acl_denied_tls_cert.fetch_add(1, Ordering::Relaxed);
    let most = srv.settings().auth.log_len;
    note((srv, most), shared, (LogReason::Certificate, Context::TopLevel), b"", user);
}

/// Makes the client's line show the command that it has sent: the owner thread does so only after each batch.
pub fn show_command(shared: &ClientShared, cmd: &Cmd) {
    shared.activity.last_command.store(cmd.number as u32 + 1, Ordering::Relaxed);
}

/// The server, and the most entries of its log.
fn log_of(core: &Core) -> (&Server, usize) {
    (core.srv, core.settings.auth.log_len)
}

fn note(
    (srv, most): (&Server, usize),
    shared: &ClientShared,
    why: (LogReason, Context),
    object: &[u8],
    user: &[u8],
) {
    srv.access.log().add(event(srv, shared, why, object, user), most);
}

/// An entry of ACL LOG.
fn event(
    srv: &Server,
    shared: &ClientShared,
    (reason, context): (LogReason, Context),
    object: &[u8],
    user: &[u8],
) -> Event {
    let mut client = Vec::new();
    describe(shared, &srv.table, srv.mono_ms(), Shown::All, &mut client);
    client.truncate(client.trim_ascii_end().len());
    let (object, user, now) = (object.to_vec(), user.to_vec(), srv.now_ms());
    Event { reason, context, object, user, client, now }
}
