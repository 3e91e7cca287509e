//! CLIENT CAPA, IMPORT-SOURCE, NO-EVICT, NO-TOUCH, REPLY, UNBLOCK: how the server treats a
//! client.

use std::sync::atomic::Ordering;
use weft_commands::{CmdResult, Error, error};
use weft_config::Id;
use weft_executor::dispatch::core::ConnCx;
use weft_state::mailbox::Message;
use weft_state::session::ReplyMode;
use weft_state::waiting::WaitMessage;

const NO_IMPORT_MODE: Error = Error::new("ERR Server is not in import mode");
const BAD_REASON: Error = Error::new("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");

/// Parses argument 2 as ON or OFF.
fn on_off(cx: &ConnCx<'_>) -> Result<bool, Error> {
    match () {
        () if cx.is(2, "on") => Ok(true),
        () if cx.is(2, "off") => Ok(false),
        () => Err(error::SYNTAX),
    }
}

/// Unknown words are ignored, so that newer clients can send theirs.
pub fn capa(cx: &mut ConnCx<'_>) -> CmdResult {
    if cx.args[2..].iter().any(|word| word.eq_ignore_ascii_case(b"redirect")) {
        cx.session.options.redirect_capable = true;
        cx.session.shared.options.redirect_capable.store(true, Ordering::Relaxed);
    }
    cx.reply.ok();
    Ok(())
}

pub fn import_source(cx: &mut ConnCx<'_>) -> CmdResult {
    // OFF is always allowed: the mode may have ended in the meantime.
    if !cx.is(2, "off") && !cx.srv().config().bool(Id::IMPORT_MODE) {
        return Err(NO_IMPORT_MODE);
    }
    let on = on_off(cx)?;
    cx.session.options.import_source = on;
    cx.session.shared.options.import_source.store(on, Ordering::Relaxed);
    cx.reply.ok();
    Ok(())
}

pub fn no_evict(cx: &mut ConnCx<'_>) -> CmdResult {
    let on = on_off(cx)?;
    cx.session.shared.options.no_evict.store(on, Ordering::Relaxed);
    cx.reply.ok();
    Ok(())
}

pub fn no_touch(cx: &mut ConnCx<'_>) -> CmdResult {
    let on = on_off(cx)?;
    cx.session.options.no_touch = on;
    cx.session.shared.options.no_touch.store(on, Ordering::Relaxed);
    cx.reply.ok();
    Ok(())
}

pub fn reply(cx: &mut ConnCx<'_>) -> CmdResult {
    let session = &mut *cx.session;
    let word = cx.args[2];
    if word.eq_ignore_ascii_case(b"on") {
        session.replies.mode = ReplyMode::On;
        cx.reply.ok();
    } else if word.eq_ignore_ascii_case(b"off") {
        session.replies.mode = ReplyMode::Off;
    } else if word.eq_ignore_ascii_case(b"skip") {
        if session.replies.mode != ReplyMode::Off {
            session.replies.mode = ReplyMode::SkipNext;
        }
    } else {
        return Err(error::SYNTAX);
    }
    let off = session.replies.mode == ReplyMode::Off;
    session.shared.options.reply_off.store(off, Ordering::Relaxed);
    Ok(())
}

/// CLIENT UNBLOCK: ends a client's wait for a key, either as if it had timed out or with an error.
pub fn unblock(cx: &mut ConnCx<'_>) -> CmdResult {
    // The reference checks the reason only when it is the last argument.
    if cx.args.len() == 4 && !cx.is(3, "timeout") && !cx.is(3, "error") {
        return Err(BAD_REASON);
    }
    let id = cx.int(2)?;
    let error = cx.args.len() == 4 && cx.is(3, "error");
    let srv = cx.srv();
    let waiting = u64::try_from(id).ok().and_then(|id| srv.clients.blocked.of_client(id));
    let gave_up = waiting.filter(|w| w.state.give_up());
    if let Some(waiting) = &gave_up {
        let message = Message::Wait(WaitMessage::Unblocked { waiting: waiting.clone(), error });
        srv.threads[waiting.thread].mailbox.send(message);
    }
    cx.reply.int(i64::from(gave_up.is_some()));
    Ok(())
}
