//! DEBUG RESTART, after an orderly shutdown, and DEBUG CRASH-AND-RECOVER, at any point.

use crate::restart;
use crate::stop::{self, Questions};
use std::cell::Cell;
use std::time::Duration;
use weft_base::num::parse_i64;
use weft_commands::{CmdResult, Error, error};
use weft_executor::dispatch::busy;
use weft_executor::dispatch::core::ConnCx;
use weft_process::log_warning;
use weft_state::stop_state::{Phase, Stop};

const FAILED: Error = Error::new("ERR failed to restart the server. Check server logs.");

/// Milliseconds to wait before the restart; negative values count as 0.
fn delay(cx: &ConnCx<'_>) -> Result<Duration, Error> {
    let Some(word) = cx.args.get(2) else { return Ok(Duration::ZERO) };
    let ms = parse_i64(word).ok_or(error::NOT_AN_INTEGER)?;
    Ok(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
}

/// Rewrites the configuration file, if there is one, saves as SHUTDOWN does, and stops the server.
pub fn in_order(cx: &mut ConnCx<'_>) -> CmdResult {
    let delay = delay(cx)?;
    if cx.in_transaction() {
        log_warning!("Can't restart: the transaction would wait for its own end");
        return Err(FAILED);
    }
    if !restart::is_possible() {
        return Err(FAILED);
    }
    let srv = cx.srv();
    let rewritten = srv.rewrite_config(|config| config.file().map_or(Ok(()), |_| config.rewrite()));
    if let Err(e) = rewritten {
        log_warning!("Can't restart: configuration rewrite process failed: {e}");
        return Err(FAILED);
    }
    let goes_on = |phase| {
        srv.pause_for_shutdown(phase != Phase::Log);
        true
    };
    let refusal = Cell::new(None);
    let ask = Questions {
        goes_on: &goes_on,
        is_held_up: &|| srv.scripts.busy.is_any(),
        outlasts: &|| {
            let busy = busy::error(srv, |_| true);
            let is_over = busy.is_none();
            refusal.set(busy);
            is_over
        },
    };
    if !stop::prepare(srv, Stop::default(), ask) {
        srv.pause_for_shutdown(false);
        if let Some(busy) = refusal.take() {
            return Err(busy);
        }
        log_warning!("Can't restart: error preparing for shutdown");
        return Err(FAILED);
    }
    restart::want(delay);
    // As with SHUTDOWN, the client sees its connection close.
    cx.session.close = true;
    srv.shut_down(0);
    Ok(())
}

/// As if the process were killed and started again: data that is not on the disk is lost.
pub fn at_once(cx: &mut ConnCx<'_>) -> CmdResult {
    let delay = delay(cx)?;
    if restart::is_possible() {
        restart::again(delay);
    }
    Err(FAILED)
}
