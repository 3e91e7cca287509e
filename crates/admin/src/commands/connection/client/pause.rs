//! CLIENT PAUSE and UNPAUSE. After the reply of PAUSE, no forbidden command runs.

use weft_base::num::parse_i64;
use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::busy;
use weft_executor::dispatch::core::ConnCx;
use weft_executor::dispatch::outcome::Suspend;
use weft_state::pause::PauseMode;

const BAD_MODE: Error = Error::new("ERR CLIENT PAUSE mode must be WRITE or ALL");
const NOT_A_TIMEOUT: Error = Error::new("ERR timeout is not an integer or out of range");
const NEGATIVE: Error = Error::new("ERR timeout is negative");
const TOO_LONG: Error = Error::new("ERR timeout is out of range");

pub fn pause(cx: &mut ConnCx<'_>) -> CmdResult {
    let mode = match cx.args.len() {
        3 => PauseMode::All,
        _ if cx.is(3, "write") => PauseMode::Write,
        _ if cx.is(3, "all") => PauseMode::All,
        _ => return Err(BAD_MODE),
    };
    let timeout = parse_i64(cx.args[2]).ok_or(NOT_A_TIMEOUT)?;
    if timeout < 0 {
        return Err(NEGATIVE);
    }
    // Valkey adds the timeout to the Unix time, and refuses a timeout that overflows.
    timeout.checked_add(cx.srv().now_ms()).ok_or(TOO_LONG)?;
    let until = timeout.saturating_add(cx.srv().mono_ms());
    if cx.has_run {
        // The pause is in force since the first run.
        cx.reply.ok();
        return Ok(());
    }
    // Every I/O thread is between two commands, and checks the pause before the next one. Commands
    // in the slow lane continue: if one of them writes, the reply must wait for it.
    let srv = cx.srv();
    if srv.slow.writes() > 0
        && let Some(e) = busy::error(srv, |_| true)
    {
        return Err(e);
    }
    srv.pause(mode, until);
    if srv.slow.writes() > 0 {
        cx.suspend = Some(Suspend::Slow { has_run: true });
    }
    cx.reply.ok();
    Ok(())
}

pub fn unpause(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.srv().unpause();
    cx.reply.ok();
    Ok(())
}
