//! CLUSTER subcommands that change the map.
//!
//! The new map is on the disk before it is in force, and in force before the reply.

use super::{error_of, topology};
use crate::cluster::{new_id, save};
use std::cell::RefCell;
use weft_cluster::{Facts, Request, Slot, Verb, decide};
use weft_commands::{CmdResult, Error};
use weft_config::Id;
use weft_executor::cluster::change::{change_map, error_of_change, finish_change};
use weft_executor::dispatch::core::{ConnCx, Held};
use weft_keyspace::Db;
use weft_process::errors::words;
use weft_process::{log_notice, log_warning};

/// Runs a subcommand that replies OK.
fn run(cx: &mut ConnCx<'_>, verb: Verb) -> CmdResult {
    if finish_change(cx) || change(cx, verb)? {
        cx.reply.ok();
    }
    Ok(())
}

/// Changes the map. Returns whether the command may reply now.
fn change(cx: &mut ConnCx<'_>, verb: Verb) -> Result<bool, Error> {
    let topology = topology(cx)?;
    let (srv, args) = (cx.srv(), cx.args);
    let databases = srv.ks.databases();
    let has_keys = (0..databases).any(|db| srv.ks.counts(db).0 > 0);
    let held = match &cx.held {
        Held::Guard(guard) => Some(*guard),
        Held::Nothing(_) | Held::Stop(_) | Held::Aside => None,
    };
    let context = RefCell::new(&mut cx.core.context);
    let keys_in_slot = |slot: Slot| {
        // Only SETSLOT asks, which holds all shards.
        let guard = held.expect("the command holds the shards of its slots");
        let mut context = context.borrow_mut();
        (0..databases).map(|db| Db::new(guard, &mut context, db).count_slot(slot)).sum()
    };
    let facts = Facts {
        now_ms: srv.now_ms(),
        has_keys,
        keys_in_slot: &keys_in_slot,
        new_ids: [new_id(), new_id()],
    };
    let request = Request { verb, args: &args[2..] };
    let change = decide(&topology.map, topology.me, &facts, request);
    let change = change.map_err(|refusal| error_of(cx, refusal))?;
    if change.is_empty() {
        return Ok(true);
    }
    let map = topology.map.apply(&change).expect("the map changes under a stop of the world only");
    let me = change.id_after(topology.me);
    if let Some(busy) = error_of_change(cx, &map, me) {
        return Err(busy);
    }
    if let Err(e) = save(srv, &map, me) {
        log_warning!("Can't write the cluster configuration file: {}", words(&e));
        if srv.config().word(Id::CLUSTER_CONFIG_SAVE_BEHAVIOR) == "sync" {
            return Err(not_saved(&e));
        }
    }
    if me != topology.me {
        log_notice!("Node hard reset, now I'm {me}");
    }
    change_map(cx, map, me);
    Ok(cx.suspend.is_none())
}

fn not_saved(e: &std::io::Error) -> Error {
    Error::owned(format!("ERR error saving the cluster node config: {}", words(e)))
}

pub fn add_slots(cx: &mut ConnCx<'_>) -> CmdResult {
    run(cx, Verb::AddSlots)
}

pub fn add_slots_range(cx: &mut ConnCx<'_>) -> CmdResult {
    run(cx, Verb::AddSlotsRange)
}

pub fn del_slots(cx: &mut ConnCx<'_>) -> CmdResult {
    run(cx, Verb::DelSlots)
}

pub fn del_slots_range(cx: &mut ConnCx<'_>) -> CmdResult {
    run(cx, Verb::DelSlotsRange)
}

pub fn fail_over(cx: &mut ConnCx<'_>) -> CmdResult {
    run(cx, Verb::Failover)
}

pub fn flush_slots(cx: &mut ConnCx<'_>) -> CmdResult {
    run(cx, Verb::FlushSlots)
}

pub fn forget(cx: &mut ConnCx<'_>) -> CmdResult {
    run(cx, Verb::Forget)
}

pub fn meet(cx: &mut ConnCx<'_>) -> CmdResult {
    run(cx, Verb::Meet)
}

pub fn migrate_slots(cx: &mut ConnCx<'_>) -> CmdResult {
    run(cx, Verb::MigrateSlots)
}

pub fn replicate(cx: &mut ConnCx<'_>) -> CmdResult {
    run(cx, Verb::Replicate)
}

pub fn reset(cx: &mut ConnCx<'_>) -> CmdResult {
    run(cx, Verb::Reset)
}

pub fn set_config_epoch(cx: &mut ConnCx<'_>) -> CmdResult {
    run(cx, Verb::SetConfigEpoch)
}

pub fn set_slot(cx: &mut ConnCx<'_>) -> CmdResult {
    run(cx, Verb::SetSlot)
}

/// Replies with the epoch: BUMPED if it is new.
pub fn bump_epoch(cx: &mut ConnCx<'_>) -> CmdResult {
    let before = topology(cx)?.map.version;
    change(cx, Verb::BumpEpoch)?;
    let topology = topology(cx)?;
    let epoch = topology.map.node(topology.me).map_or(0, |node| node.config_epoch);
    let word = if topology.map.version == before { "STILL" } else { "BUMPED" };
    cx.reply.simple(&format!("{word} {epoch}"));
    Ok(())
}

pub fn save_config(cx: &mut ConnCx<'_>) -> CmdResult {
    let topology = topology(cx)?;
    save(cx.srv(), &topology.map, topology.me).map_err(|e| not_saved(&e))?;
    cx.reply.ok();
    Ok(())
}
