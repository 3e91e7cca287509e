//! WAITAOF: waits until what was written is safe on disk.
//!
//! Its client stands in no line: [`crate::aof::Aof`] knows it, with the last unit of the log of effects
//! at that moment, which may be another client's. There are no replicas to wait for.

use crate::aof::{OFF, answer_wait as answer};
use crate::blocking::Waiting;
use crate::commands::shape::{command, spec};
use crate::dispatch::request::Request;
use crate::dispatch::{ConnCx, ServerCommand};
use std::sync::Arc;
use weft_commands::{CmdResult, Error, Flags, Group, Spec, error};

const LOCAL_RANGE: Error = Error::new("ERR value is out of range, value must between 0 and 1");
const NEGATIVE: Error = Error::new("ERR value is out of range, must be positive");
const NO_TIMEOUT: Error = Error::new("ERR timeout is not an integer or out of range");
const NEGATIVE_TIMEOUT: Error = Error::new("ERR timeout is negative");
const IS_OFF: Error = Error::new(OFF);

pub const WAITAOF: ServerCommand = command(
    Spec {
        group: Group::Generic,
        acl: &["@connection"],
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        ..spec(
            "waitaof",
            4,
            Flags::BLOCKING,
            "7.2.0",
            "Waits until what was written before is safe on the disks of the server and of replicas.",
            "numlocal:integer numreplicas:integer timeout:integer",
        )
    },
    run,
);

fn run(cx: &mut ConnCx<'_>) -> CmdResult {
    let local = cx.int(1)?;
    if !(0..=1).contains(&local) {
        return Err(LOCAL_RANGE);
    }
    // As the reference says it, whether it is a number or not.
    let replicas = weft_base::num::parse_i64(cx.args[2]).filter(|n| *n >= 0).ok_or(NEGATIVE)?;
    let timeout_ms = weft_base::num::parse_i64(cx.args[3]).ok_or(NO_TIMEOUT)?;
    if timeout_ms < 0 {
        return Err(NEGATIVE_TIMEOUT);
    }
    let srv = cx.srv();
    if local == 1 && !srv.aof.is_on() {
        return Err(IS_OFF);
    }
    let unit = srv.ks.log().last();
    let done = i64::from(srv.aof.is_on() && srv.aof.durable() >= unit);
    if (done >= local && replicas == 0) || cx.in_transaction {
        answer(cx.reply, done);
        return Ok(());
    }
    let Some(cmd) = srv.table.find(b"waitaof") else { return Err(error::SYNTAX) };
    let request = Request::new(Some(cmd), cx.args, &[]);
    let mut timeout_reply = weft_resp::Reply::new(cx.session.proto);
    let from = timeout_reply.mark();
    answer(&mut timeout_reply, done);
    let deadline = (timeout_ms > 0).then(|| srv.mono_ms().saturating_add(timeout_ms));
    let timeout_reply = timeout_reply.bytes_since(from).to_vec();
    let waiting = Waiting::new(&srv.ks, cx.session, cmd, &request, &[], timeout_reply, 0, deadline);
    let waiting = Arc::new(waiting);
    // There is no replica that could come: who wants one waits for the end of its time, or of the log.
    let upto = if replicas > 0 { u64::MAX } else { unit };
    if local == 1 && !srv.aof.has_wait(upto, &waiting) {
        answer(cx.reply, 1);
        return Ok(());
    }
    // Who ends the log looks for those who wait afterwards.
    if local == 1 && !srv.aof.is_on() && waiting.state.give_up() {
        return Err(IS_OFF);
    }
    cx.blocked = Some(waiting);
    Ok(())
}
