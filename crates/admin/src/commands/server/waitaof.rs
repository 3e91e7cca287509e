//! WAITAOF: blocks until writes are safe on disk.
//!
//! The client is in no wait queue. [`weft_durability::aof::Aof`] keeps it, with the last unit of the effect
//! log at that moment, which may be another client's. If the caller asks for replicas' disks, the
//! code of WAIT unblocks it.

use crate::commands::replication::wait::{timeout, wait, waiting};
use crate::commands::shape::{command, spec};
use weft_command_spec::{Flags, Group, Spec};
use weft_commands::{CmdResult, Error};
use weft_durability::aof::aof;
use weft_durability::aof::{OFF, answer_wait as answer};
use weft_executor::blocking;
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_executor::dispatch::outcome::Suspend;
use weft_replication::primary::Goal;
use weft_replication_driver::hub;

const LOCAL_RANGE: Error = Error::new("ERR value is out of range, value must between 0 and 1");
const NEGATIVE: Error = Error::new("ERR value is out of range, must be positive");
const IS_REPLICA: Error = Error::new(
    "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just \
     local and are not propagated.",
);
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
            "Waits until earlier writes are safe on the disks of the server and of replicas.",
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
    // The reference has one error for negative values and words that are not numbers.
    let replicas = weft_base::num::parse_i64(cx.args[2]).filter(|n| *n >= 0).ok_or(NEGATIVE)?;
    let timeout_ms = timeout(cx.srv(), cx.args[3])?;
    let srv = cx.srv();
    if srv.nodes.replication.is_replica() {
        return Err(IS_REPLICA);
    }
    if local == 1 && !aof(srv).is_on() {
        return Err(IS_OFF);
    }
    let replicas = usize::try_from(replicas).unwrap_or(usize::MAX);
    if replicas > 0 || local == 0 {
        wait(cx, Goal::Disk { local: local == 1, replicas }, timeout_ms)?;
        // A thread that ends the log unblocks waiting clients after it has switched the log off.
        if let Some(Suspend::Blocked(waiting)) = &cx.suspend
            && local == 1
            && !aof(srv).is_on()
            && waiting.state.give_up()
        {
            blocking::leave(srv, waiting);
            cx.suspend = None;
            return Err(IS_OFF);
        }
        return Ok(());
    }
    let unit = srv.ks.log().last();
    let done = i64::from(aof(srv).is_on() && aof(srv).durable() >= unit);
    let on_replicas = hub(srv).replicas_on_disk(srv, unit);
    if done >= local || cx.in_transaction() {
        answer(cx.reply, done, on_replicas);
        return Ok(());
    }
    let mut timeout_reply = weft_resp::Reply::new(cx.session.proto);
    let from = timeout_reply.mark();
    answer(&mut timeout_reply, done, on_replicas);
    let waiting = waiting(cx, timeout_reply.bytes_since(from).to_vec(), timeout_ms, None)?;
    srv.clients.blocked.enter(&srv.ks, &waiting);
    if !aof(srv).has_wait(unit, &waiting) {
        blocking::leave(srv, &waiting);
        answer(cx.reply, 1, hub(srv).replicas_on_disk(srv, unit));
        return Ok(());
    }
    // A thread that ends the log unblocks waiting clients after it has switched the log off.
    if !aof(srv).is_on() && waiting.state.give_up() {
        blocking::leave(srv, &waiting);
        return Err(IS_OFF);
    }
    cx.suspend = Some(Suspend::Blocked(waiting));
    Ok(())
}
