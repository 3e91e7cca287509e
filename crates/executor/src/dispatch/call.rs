//! Calls the function of a command, for a client, for the primary of this server or for a file.
//!
//! Callers that hold the shards of several commands use [`crate::dispatch::under`].

use crate::dispatch::core::{ConnCx, Core, Held};
use crate::dispatch::outcome::Suspend;
use crate::dispatch::request::Request;
use std::sync::atomic::Ordering;
use weft_command_spec::Flags;
use weft_commands::{CmdResult, Ctx, Lane, Pause};
use weft_keyspace::log::unit::{Arg, SHARE_FROM};
use weft_keyspace::{Db, Guard};
use weft_resp::Reply;
use weft_state::attention;
use weft_state::command_table::Cmd;
use weft_state::session::Session;

/// A function of a command on keys.
pub type DataFn = fn(&mut Ctx<'_>) -> CmdResult;

/// The caller of a command on keys.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pub db: usize,
    pub no_touch: bool,
    /// The command comes from the primary or from a file. The limits for clients don't apply: they were checked when
    /// the command was accepted.
    pub is_source: bool,
}

impl Caller {
    /// The primary of this server, or a file of accepted commands, in database `db`.
    pub fn source(db: usize) -> Caller {
        Caller { db, no_touch: false, is_source: true }
    }
}

/// Calls the function of a command on the connection or the server. Returns its result, and the reason if it must be
/// suspended.
#[allow(clippy::too_many_arguments, reason = "the parts of one execution")]
pub fn call_server(
    core: &mut Core,
    session: &mut Session,
    request: &Request<'_>,
    cmd: &'static Cmd,
    number: usize,
    reply: &mut Reply,
    held: Held<'_>,
    lane: Lane,
) -> (CmdResult, Option<Suspend>) {
    let run = core.function(number);
    let (args, name, has_run) = (request.args, cmd.full_name, request.attempt.has_run);
    let mut cx = ConnCx { core, session, args, reply, name, held, has_run, suspend: None, lane };
    let result = run(&mut cx);
    let ConnCx { core, session, suspend, .. } = cx;
    core.context.effects.end_unlogged();
    if suspend.as_ref().is_some_and(Suspend::is_before_start) {
        return (result, suspend);
    }
    // After the command: the line shows the database that SELECT has chosen.
    feed_monitors(core, session, cmd, args);
    // CONFIG SET, ACL SETUSER and CLIENT PAUSE apply to the next request of the same pipeline.
    core.renew_settings();
    core.renew_access();
    core.begin_command();
    (result, suspend)
}

/// Calls the function of a command on keys.
#[allow(clippy::too_many_arguments, reason = "the parts of one execution")]
#[inline]
pub fn call(
    core: &mut Core,
    caller: Caller,
    cmd: &'static Cmd,
    run: DataFn,
    request: &Request<'_>,
    reply: &mut Reply,
    guard: &Guard<'_>,
    lane: Lane,
) -> (CmdResult, Option<Pause>) {
    let Core { context, settings, .. } = core;
    context.no_touch = caller.no_touch;
    let dirty = context.tally.dirty;
    let settings = if caller.is_source { &settings.decided } else { &settings.commands };
    let mut ctx = Ctx {
        args: request.args,
        db: Db::new(guard, context, caller.db),
        reply,
        settings,
        blobs: request.blobs,
        first_key: request.key.filter(|_| cmd.first_key == 1),
        lane,
        pause: None,
    };
    let result = run(&mut ctx);
    ctx.db.check_logged(dirty);
    (result, ctx.pause)
}

/// After [`call`], if there are effects: logs the arguments of a command that has changed data in database `db`,
/// unless it has logged others.
#[cold]
pub fn log_words(core: &mut Core, guard: &Guard<'_>, db: usize, request: &Request<'_>) {
    let mut db = Db::new(guard, &mut core.context, db);
    if request.blobs.is_empty() {
        db.log_copied_words(request.args);
        return;
    }
    db.log_words(&mut request.args.iter().enumerate().map(|(at, word)| {
        match request.blobs.iter().find(|(of, _)| *of == at) {
            Some((_, blob)) if blob.len() >= SHARE_FROM => Arg::Shared(blob),
            Some(_) | None => Arg::Bytes(word),
        }
    }));
}

/// Whether MONITOR shows the command.
pub fn is_monitored(cmd: &Cmd) -> bool {
    !cmd.spec.flags.has(Flags::SKIP_MONITOR.or(Flags::ADMIN))
}

/// Shows the command to monitors, if there are any.
#[inline]
pub fn feed_monitors(core: &Core, session: &Session, cmd: &Cmd, args: &[&[u8]]) {
    if core.srv.attention.load(Ordering::Relaxed) & attention::MONITOR != 0 && is_monitored(cmd) {
        crate::monitor::feed(core, session, args);
    }
}
