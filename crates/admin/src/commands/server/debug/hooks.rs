//! DEBUG subcommands with which tests hold the server in a state, or choose a rare path.

use super::switch;
use std::sync::atomic::Ordering;
use weft_base::num::parse_i64;
use weft_commands::{CmdResult, error};
use weft_executor::dispatch::core::ConnCx;

pub fn pause_cron(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.srv().statistics.info.cron_paused.store(switch(cx.args[2]), Ordering::Relaxed);
    cx.reply.ok();
    Ok(())
}

pub fn pause_slow_lane(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.srv().slow.pause(switch(cx.args[2]));
    cx.reply.ok();
    Ok(())
}

pub fn pause_snapshot(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.srv().persistence.waits.is_paused.store(switch(cx.args[2]), Ordering::Relaxed);
    cx.reply.ok();
    Ok(())
}

pub fn script_restarts(cx: &mut ConnCx<'_>) -> CmdResult {
    let count = parse_i64(cx.args[2]).and_then(|count| u32::try_from(count).ok());
    let count = count.ok_or(error::NOT_AN_INTEGER)?;
    cx.srv().scripts.most_restarts.store(count, Ordering::Relaxed);
    cx.reply.ok();
    Ok(())
}
