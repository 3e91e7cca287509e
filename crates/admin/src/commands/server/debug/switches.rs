//! DEBUG subcommands with which test suites of other servers switch mechanisms that do not exist
//! here: reply buffers of a fixed size, tables that are resized at once, links of a cluster.
//!
//! A suite switches a mechanism off, tests, and switches it on again. The replies are those of the
//! reference, so that its tests run. The help says that there is no effect, and why.

use crate::commands::shape::unknown_subcommand;
use weft_base::num::parse_i64;
use weft_commands::{CmdResult, Error, error};
use weft_executor::dispatch::core::ConnCx;

const BAD_THRESHOLD: Error =
    Error::new("ERR argument must be a memory value bigger than 1 and smaller than 4gb");
const NO_CLUSTER: Error =
    Error::new("ERR Debug option only available for cluster mode enabled setup!");

/// A switch whose value has no effect.
pub fn any(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.reply.ok();
    Ok(())
}

/// A switch that takes an integer.
pub fn number(cx: &mut ConnCx<'_>) -> CmdResult {
    parse_i64(cx.args[2]).ok_or(error::NOT_AN_INTEGER)?;
    any(cx)
}

/// QUICKLIST-PACKED-THRESHOLD has no effect: elements of any size are packed.
pub fn packed_threshold(cx: &mut ConnCx<'_>) -> CmdResult {
    const MOST: u64 = 4 << 30;
    match weft_config::memory(cx.args[2]) {
        Some(bytes) if bytes <= MOST => any(cx),
        Some(_) | None => Err(BAD_THRESHOLD),
    }
}

pub fn reply_buffer(cx: &mut ConnCx<'_>) -> CmdResult {
    if cx.is(2, "peak-reset-time") {
        let word = cx.is(3, "never") || cx.is(3, "reset");
        if !word {
            parse_i64(cx.args[3]).ok_or(error::NOT_AN_INTEGER)?;
        }
        any(cx)
    } else if cx.is(2, "resizing") {
        any(cx)
    } else {
        Err(unknown_subcommand(cx, "DEBUG"))
    }
}

/// PROTECT-CLIENT has no effect: a client is freed after the last thread has stopped using it.
pub fn protect_client(cx: &mut ConnCx<'_>) -> CmdResult {
    let id = parse_i64(cx.args[2]).ok_or(Error::new("ERR Invalid client id"))?;
    let client = u64::try_from(id).ok().and_then(|id| cx.srv().clients.registry.get(id));
    if client.is_none() {
        return Err(Error::new("ERR No such client"));
    }
    any(cx)
}

pub fn slot_migration(cx: &mut ConnCx<'_>) -> CmdResult {
    match cx.is(2, "prevent-pause") || cx.is(2, "prevent-failover") {
        true => any(cx),
        false => Err(unknown_subcommand(cx, "DEBUG")),
    }
}

pub fn cluster_link(_: &mut ConnCx<'_>) -> CmdResult {
    Err(NO_CLUSTER)
}
