//! CLUSTER subcommands that change the map.
//!
//! The new map is on the disk before it is in force, and in force before the reply.

use super::{error_of, topology};
use crate::cluster::new_id;
use crate::commands::replication::wait::waiting;
use std::cell::RefCell;
use std::sync::Arc;
use weft_cluster::node::NodeRequest;
use weft_cluster::{Facts, Map, NodeId, Plan, Request, Slot, Verb, decide, plan};
use weft_cluster_driver::{Driver, driver};
use weft_commands::{CmdResult, Error, error};
use weft_config::Id;
use weft_executor::cluster::change::{change_map, error_of_change, finish_change};
use weft_executor::dispatch::core::{ConnCx, Held};
use weft_executor::dispatch::outcome::Suspend;
use weft_keyspace::Db;
use weft_process::errors::words;
use weft_process::{log_notice, log_warning};
use weft_state::cluster::{Import, Topology};
use weft_state::session::Asking;
use weft_state::waiting::Waiting;

const NOT_READY: Error =
    Error::new("ERR This node has not joined its cluster: the store has not answered yet");

const NO_STORE: Error =
    Error::new("ERR The store of the cluster doesn't answer: nothing was changed");

const IN_TRANSACTION: Error =
    Error::new("ERR A cluster with a store can't be changed inside a transaction");

/// Runs a subcommand that replies OK.
fn run(cx: &mut ConnCx<'_>, verb: Verb) -> CmdResult {
    if let Some(driver) = driver(cx.srv()) {
        return request(cx, driver, verb);
    }
    if finish_change(cx) || change(cx, verb)? {
        cx.reply.ok();
    }
    Ok(())
}

/// Requests what a subcommand changes in the store. The client gets its reply when this node shows the change.
fn request(cx: &mut ConnCx<'_>, driver: &'static Driver, verb: Verb) -> CmdResult {
    if !driver.is_ready() {
        return Err(NOT_READY);
    }
    if cx.in_transaction() {
        return request_in_transaction(cx, driver, verb);
    }
    let topology = topology(cx)?;
    let mut plan = plan_of(cx, &topology.map, topology.me, verb)?;
    if plan == Plan::default() {
        cx.reply.ok();
        return Ok(());
    }
    keep_own(&topology, &mut plan.requests);
    // It would be executed when its client has given up.
    if driver.is_cut_off() {
        return Err(NO_STORE);
    }
    let waiting = block(cx)?;
    match plan.meet {
        Some(address) => driver.meet(address, waiting),
        None => driver.request(plan.requests, waiting),
    }
    Ok(())
}

/// Keeps the slots of other nodes out of the plan of DELSLOTS: in Valkey, a node deletes slots of others from its own view only.
fn keep_own(topology: &Topology, requests: &mut Vec<NodeRequest>) {
    let is_mine =
        |slot: &Slot| topology.map.owner(*slot).is_some_and(|node| node.id == topology.me);
    requests.retain_mut(|request| match request {
        NodeRequest::DeleteSlots(slots) => {
            **slots = slots.iter().filter(is_mine).collect();
            !slots.is_empty()
        }
        _ => true,
    });
}

/// The plan of a subcommand.
fn plan_of(cx: &mut ConnCx<'_>, map: &Map, me: NodeId, verb: Verb) -> Result<Plan, Error> {
    let request = Request { verb, args: &cx.args[2..] };
    let plan = with_facts(cx, |facts| plan(map, me, facts, request));
    plan.map_err(|refusal| error_of(cx, refusal))
}

/// A transaction can't wait for the store. It can only take slots over, as tools do that correct a cluster.
fn request_in_transaction(cx: &mut ConnCx<'_>, driver: &'static Driver, verb: Verb) -> CmdResult {
    let topology = topology(cx)?;
    let (client, me) = (cx.session.shared.id, topology.me);
    let map = driver.without_released(client, &topology.map);
    let plan = plan_of(cx, &map, me, verb)?;
    match (verb, &plan.requests[..]) {
        (Verb::DelSlots | Verb::DelSlotsRange, [NodeRequest::DeleteSlots(slots), ..]) => {
            driver.release(client, slots);
        }
        (Verb::AddSlots | Verb::AddSlotsRange, [NodeRequest::AddSlots(slots), ..]) => {
            driver.take_over(slots);
        }
        _ if plan == Plan::default() => {}
        _ => return Err(IN_TRANSACTION),
    }
    cx.reply.ok();
    Ok(())
}

/// Calls `decide` with the facts outside of the map.
fn with_facts<T>(cx: &mut ConnCx<'_>, decide: impl FnOnce(&Facts<'_>) -> T) -> T {
    let srv = cx.srv();
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
        was_known: &|node| driver(srv).is_some_and(|driver| driver.was_known(node)),
        new_ids: [new_id(), new_id()],
    };
    decide(&facts)
}

/// Changes the map. Returns whether the command may reply now.
fn change(cx: &mut ConnCx<'_>, verb: Verb) -> Result<bool, Error> {
    let topology = topology(cx)?;
    let (srv, args) = (cx.srv(), cx.args);
    let change = with_facts(cx, |facts| {
        decide(&topology.map, topology.me, facts, Request { verb, args: &args[2..] })
    });
    let change = change.map_err(|refusal| error_of(cx, refusal))?;
    if change.is_empty() {
        return Ok(true);
    }
    let map = topology.map.apply(&change).expect("the map changes under a stop of the world only");
    let me = change.id_after(topology.me);
    if let Some(busy) = error_of_change(cx, &map, me) {
        return Err(busy);
    }
    if let Err(e) = srv.nodes.cluster.save(&map, me) {
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

const NO_MIGRATIONS: Error = Error::new("ERR No migrations ongoing");

pub fn cancel_slot_migrations(cx: &mut ConnCx<'_>) -> CmdResult {
    topology(cx)?;
    let Some(driver) = driver(cx.srv()).filter(|driver| driver.has_exports()) else {
        return Err(NO_MIGRATIONS);
    };
    if cx.in_transaction() {
        return Err(IN_TRANSACTION);
    }
    let waiting = block(cx)?;
    driver.request(vec![NodeRequest::CancelMoves], waiting);
    Ok(())
}

/// CLUSTER SYNCSLOTS, which the source of a move sends to its target.
pub fn sync_slots(cx: &mut ConnCx<'_>) -> CmdResult {
    topology(cx)?;
    let (true, Some(driver)) = (cx.args.len() == 4, driver(cx.srv())) else {
        return Err(error::SYNTAX);
    };
    let id = NodeId::parse(cx.args[3]).ok_or(error::SYNTAX)?;
    if cx.in_transaction() {
        return Err(IN_TRANSACTION);
    }
    if cx.is(2, "import") {
        let import = Arc::new(Import::default());
        cx.session.importing = Some(import.clone());
        cx.session.options.asking = Asking::Import;
        driver.begin_import(id, import, block(cx)?);
    } else if cx.is(2, "prepare") {
        driver.prepare_import(id, block(cx)?);
    } else {
        return Err(error::SYNTAX);
    }
    Ok(())
}

/// Blocks the client until the driver replies.
fn block(cx: &mut ConnCx<'_>) -> Result<Arc<Waiting>, Error> {
    let waiting = waiting(cx, Vec::new(), 0, None)?;
    cx.srv().clients.blocked.enter(&cx.srv().ks, &waiting);
    cx.suspend = Some(Suspend::Blocked(waiting.clone()));
    Ok(waiting)
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
    if driver(cx.srv()).is_none() {
        change(cx, Verb::BumpEpoch)?;
    }
    let topology = topology(cx)?;
    let epoch = topology.map.node(topology.me).map_or(0, |node| node.config_epoch);
    let word = if topology.map.version == before { "STILL" } else { "BUMPED" };
    cx.reply.simple(&format!("{word} {epoch}"));
    Ok(())
}

pub fn save_config(cx: &mut ConnCx<'_>) -> CmdResult {
    let topology = topology(cx)?;
    cx.srv().nodes.cluster.save(&topology.map, topology.me).map_err(|e| not_saved(&e))?;
    cx.reply.ok();
    Ok(())
}
