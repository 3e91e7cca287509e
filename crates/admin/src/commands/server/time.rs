//! TIME and LASTSAVE.

use crate::commands::shape::{ANYTIME, command, spec};
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};
use weft_command_spec::{Flags, Spec};
use weft_commands::CmdResult;
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;

const QUICK: Flags = ANYTIME.or(Flags::FAST);

pub const TIME: ServerCommand = command(
    Spec {
        tips: &["nondeterministic_output"],
        ..spec("time", 1, QUICK, "2.6.0", "Returns the server's clock.", "")
    },
    time,
);

pub const LASTSAVE: ServerCommand = command(
    Spec {
        acl: &["@admin", "@dangerous"],
        tips: &["nondeterministic_output"],
        ..spec("lastsave", 1, QUICK, "1.0.0", "Returns the time of the last save.", "")
    },
    last_save,
);

/// Unix seconds, and the microseconds beyond them.
fn time(cx: &mut ConnCx<'_>) -> CmdResult {
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = match &mut cx.session.fixed_time {
        Some(fixed) => *fixed.time.get_or_insert_with(clock),
        None => clock(),
    };
    cx.reply.array(2);
    cx.reply.bulk(now.as_secs().to_string().as_bytes());
    cx.reply.bulk(now.subsec_micros().to_string().as_bytes());
    Ok(())
}

/// Unix seconds of the last save, or of the start if there was none.
fn last_save(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.reply.int(cx.srv().statistics.totals.last_save_s.load(Ordering::Relaxed));
    Ok(())
}
