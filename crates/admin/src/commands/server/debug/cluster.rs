//! DEBUG subcommands that act in place of the cluster's store, so that tests need none.

use super::switch;
use weft_base::num::parse_i64;
use weft_commands::{CmdResult, error};
use weft_executor::dispatch::core::ConnCx;
use weft_replication_driver::hub;
use weft_state::attention;
use weft_state::authority::NO_BOUND;

/// DEBUG CLUSTER-LEASE: milliseconds from now.
pub fn lease(cx: &mut ConnCx<'_>) -> CmdResult {
    let srv = cx.srv();
    let until = match cx.is(2, "none") {
        true => NO_BOUND,
        false => match parse_i64(cx.args[2]).and_then(|ms| u64::try_from(ms).ok()) {
            Some(0) => 0,
            Some(ms) => (srv.mono_ms() as u64).saturating_add(ms),
            None => return Err(error::NOT_AN_INTEGER),
        },
    };
    srv.acknowledge_until(until);
    srv.set_attention(attention::LEASE, true);
    cx.reply.ok();
    Ok(())
}

pub fn quorum(cx: &mut ConnCx<'_>) -> CmdResult {
    hub(cx.srv()).set_quorum(cx.srv(), switch(cx.args[2]));
    cx.reply.ok();
    Ok(())
}

pub fn confirm(cx: &mut ConnCx<'_>) -> CmdResult {
    let srv = cx.srv();
    let through = match cx.is(2, "end") {
        true => hub(srv).up_to_date(srv).node.stream().offset(),
        false => parse_i64(cx.args[2])
            .and_then(|offset| u64::try_from(offset).ok())
            .ok_or(error::NOT_AN_INTEGER)?,
    };
    hub(srv).confirm(srv, through);
    cx.reply.int(through as i64);
    Ok(())
}

pub fn abandon(cx: &mut ConnCx<'_>) -> CmdResult {
    hub(cx.srv()).abandon_unconfirmed(cx.srv());
    cx.reply.ok();
    Ok(())
}
