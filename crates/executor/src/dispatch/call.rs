//! Calls the function of a command on keys, on behalf of a client, of our primary or of a file.

use crate::dispatch::core::Core;
use crate::dispatch::request::Request;
use weft_commands::{CmdResult, Ctx, Lane, Pause};
use weft_keyspace::log::unit::{Arg, SHARE_FROM};
use weft_keyspace::{Db, Guard};
use weft_resp::Reply;
use weft_state::command_table::Cmd;

/// A function of a command on keys.
pub type DataFn = fn(&mut Ctx<'_>) -> CmdResult;

/// On whose behalf a command runs.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    pub db: usize,
    pub no_touch: bool,
    /// It is what another server, or this one, has accepted before: what it may do was decided there.
    pub is_decided: bool,
}

impl Who {
    /// Our primary, or a file of what was accepted, in that database.
    pub fn source(db: usize) -> Who {
        Who { db, no_touch: false, is_decided: true }
    }
}

/// Calls the function of a command on keys.
#[allow(clippy::too_many_arguments, reason = "the parts of one execution")]
#[inline]
pub fn call(
    core: &mut Core,
    who: Who,
    cmd: &'static Cmd,
    run: DataFn,
    request: &Request<'_>,
    reply: &mut Reply,
    guard: &Guard<'_>,
    lane: Lane,
) -> (CmdResult, Option<Pause>) {
    let Core { turn, settings, .. } = core;
    turn.no_touch = who.no_touch;
    let dirty = turn.tally.dirty;
    let settings = if who.is_decided { &settings.decided } else { &settings.commands };
    let mut ctx = Ctx {
        args: request.args,
        db: Db::new(guard, turn, who.db),
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

/// After [`call`]: has a command that has changed something, in database `db`, logged in its own
/// words, unless it has said others. Whoever calls asks first whether there are any effects.
#[cold]
pub fn log_words(core: &mut Core, guard: &Guard<'_>, db: usize, request: &Request<'_>) {
    let mut db = Db::new(guard, &mut core.turn, db);
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
