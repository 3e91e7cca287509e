//! WAIT, and the code that it shares with WAITAOF.

use crate::commands::shape::{command, spec};
use std::sync::Arc;
use weft_base::num::parse_i64;
use weft_command_spec::{Flags, Group, Spec};
use weft_commands::{CmdResult, Error, error};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_executor::dispatch::outcome::Suspend;
use weft_replication::primary::Goal;
use weft_replication_driver::hub;
use weft_replication_driver::primary::waits;
use weft_state::server::Server;
use weft_state::waiting::Waiting;

const NO_TIMEOUT: Error = Error::new("ERR timeout is not an integer or out of range");
const NEGATIVE_TIMEOUT: Error = Error::new("ERR timeout is negative");
const LONG_TIMEOUT: Error = Error::new("ERR timeout is out of range");
const IS_REPLICA: Error = Error::new(
    "ERR WAIT cannot be used with replica instances. Please also note that if a replica is configured \
     to be writable (which is not the default) writes to replicas are just local and are not propagated.",
);

pub const WAIT: ServerCommand = command(
    Spec {
        group: Group::Generic,
        acl: &["@connection"],
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        ..spec(
            "wait",
            3,
            Flags::BLOCKING,
            "3.0.0",
            "Waits until replicas have acknowledged the client's writes.",
            "numreplicas:integer timeout:integer",
        )
    },
    run,
);

fn run(cx: &mut ConnCx<'_>) -> CmdResult {
    if cx.srv().nodes.replication.is_replica() {
        return Err(IS_REPLICA);
    }
    let replicas = cx.int(1)?;
    let timeout_ms = timeout(cx.srv(), cx.args[2])?;
    wait(cx, Goal::Replicas(usize::try_from(replicas).unwrap_or(0)), timeout_ms)
}

/// Milliseconds, 0 for no timeout. A timeout past the end of the clock's range is an error.
pub fn timeout(srv: &Server, text: &[u8]) -> Result<i64, Error> {
    let timeout_ms = parse_i64(text).ok_or(NO_TIMEOUT)?;
    if timeout_ms < 0 {
        return Err(NEGATIVE_TIMEOUT);
    }
    match srv.now_ms().checked_add(timeout_ms) {
        Some(_) => Ok(timeout_ms),
        None => Err(LONG_TIMEOUT),
    }
}

/// Builds the entry for the blocked client, with the replicas that it waits for.
pub fn waiting(
    cx: &ConnCx<'_>,
    timeout_reply: Vec<u8>,
    timeout_ms: i64,
    replicas: Option<(u64, Goal)>,
) -> Result<Arc<Waiting>, Error> {
    let srv = cx.srv();
    let Some(cmd) = srv.table.find(cx.args[0]) else { return Err(error::SYNTAX) };
    let deadline = (timeout_ms > 0).then(|| srv.mono_ms().saturating_add(timeout_ms));
    let (ks, session) = (&srv.ks, &*cx.session);
    let waiting =
        Waiting::new(ks, session, cmd, cx.args, &[], Vec::new(), timeout_reply, 0, deadline);
    Ok(Arc::new(Waiting { replicas, ..waiting }))
}

/// Replies with the state of the client's writes. If the goal is not reached, the client blocks.
pub fn wait(cx: &mut ConnCx<'_>, goal: Goal, timeout_ms: i64) -> CmdResult {
    let srv = cx.srv();
    let unit = cx.session.last_unit;
    // A transaction can't block.
    let waiting = match cx.in_transaction() {
        true => None,
        // A client that times out queries the state at that time.
        false => Some(waiting(cx, Vec::new(), timeout_ms, Some((unit, goal)))?),
    };
    // The role may have changed since the first check.
    match hub(srv).wait(srv, unit, goal, || waiting).ok_or(IS_REPLICA)? {
        (_, Some(waiting)) => cx.suspend = Some(Suspend::Blocked(waiting)),
        (done, None) => waits::answer(cx.reply, done),
    }
    Ok(())
}
