//! CLUSTER subcommands on the keys of a slot.

use super::{error_of, topology};
use std::cmp::Reverse;
use weft_base::limits::SLOTS;
use weft_base::num::parse_i64;
use weft_cluster::arguments::{range, slot};
use weft_cluster::{Map, NodeId, Slot};
use weft_commands::{CmdResult, Error, error};
use weft_config::Id;
use weft_executor::dispatch::core::ConnCx;
use weft_keyspace::{Db, Keyspace};
use weft_state::command_table::Needs;

/// The shard of the slot in argument 2. Nothing, where the command fails anyway.
pub fn shard_of_slot(args: &[&[u8]]) -> Needs {
    let slot = args.get(2).and_then(|arg| slot(arg).ok());
    slot.map_or(Needs::Nothing, |slot| Needs::Shard(weft_keyspace::shard_of(slot)))
}

pub fn count_keys_in_slot(cx: &mut ConnCx<'_>) -> CmdResult {
    topology(cx)?;
    cx.int(2)?;
    let slot = slot(cx.args[2]).map_err(|_| Error::new("ERR Invalid slot"))?;
    let db = cx.session.db;
    let count = Db::new(cx.guard(), &mut cx.core.context, db).count_slot(slot);
    cx.reply.int(count as i64);
    Ok(())
}

pub fn get_keys_in_slot(cx: &mut ConnCx<'_>) -> CmdResult {
    topology(cx)?;
    cx.int(2)?;
    let most = cx.int(3)?;
    let invalid = Error::new("ERR Invalid slot or number of keys");
    let slot = slot(cx.args[2]).map_err(|_| invalid.clone())?;
    let most = usize::try_from(most).map_err(|_| invalid)?;
    let db = cx.session.db;
    let names = Db::new(cx.guard(), &mut cx.core.context, db).slot_names(slot, most);
    cx.reply.array(names.len());
    names.iter().for_each(|name| cx.reply.bulk(name));
    Ok(())
}

pub fn flush_slot(cx: &mut ConnCx<'_>) -> CmdResult {
    topology(cx)?;
    if cx.args.len() > 4 {
        return Err(crate::commands::shape::unknown_subcommand(cx, "CLUSTER"));
    }
    let slot = slot(cx.args[2]).map_err(|refusal| error_of(cx, refusal))?;
    let in_background = match cx.args.len() {
        3 => cx.srv().config().bool(Id::LAZYFREE_LAZY_USER_FLUSH),
        4 if cx.is(3, "async") => true,
        4 if cx.is(3, "sync") => false,
        _ => return Err(error::SYNTAX),
    };
    let command: &[u8] = if in_background { b"UNLINK" } else { b"DEL" };
    for db in 0..cx.srv().ks.databases() {
        Db::new(cx.guard(), &mut cx.core.context, db).delete_slot(slot, command);
    }
    cx.reply.ok();
    Ok(())
}

/// The slots that CLUSTER SLOT-STATS shows.
enum Filter {
    Range(std::ops::RangeInclusive<Slot>),
    ByKeys { limit: usize, descending: bool },
}

const LIMIT: Error =
    Error::new("ERR Limit has to lie in between 1 and 16384 (maximum number of slots).");
const TWICE: Error = Error::new("ERR Multiple filters of the same type are disallowed.");

pub fn slot_stats(cx: &mut ConnCx<'_>) -> CmdResult {
    let topology = topology(cx)?;
    let filter = parse_filter(cx)?;
    let owned = owned_slots(&topology.map, topology.me);
    let counts = count_all(&cx.srv().ks);
    let keys = |slot: &Slot| counts[usize::from(*slot)];
    let mut slots: Vec<Slot> = match &filter {
        Filter::Range(range) => owned.into_iter().filter(|slot| range.contains(slot)).collect(),
        Filter::ByKeys { .. } => owned,
    };
    if let Filter::ByKeys { limit, descending } = filter {
        match descending {
            true => slots.sort_by_key(|slot| (Reverse(keys(slot)), *slot)),
            false => slots.sort_by_key(|slot| (keys(slot), *slot)),
        }
        slots.truncate(limit);
    }
    cx.reply.array(slots.len());
    for slot in slots {
        cx.reply.array(2);
        cx.reply.int(i64::from(slot));
        cx.reply.map(1);
        cx.reply.bulk(b"key-count");
        cx.reply.int(keys(&slot) as i64);
    }
    Ok(())
}

/// The slots of this node's shard.
fn owned_slots(map: &Map, me: NodeId) -> Vec<Slot> {
    let primary = map.node(me).map_or(me, |node| node.primary());
    map.slots_of(primary).iter().collect()
}

/// The keys of each slot in all databases. O(slots * databases that have had keys).
fn count_all(ks: &Keyspace) -> Vec<usize> {
    let mut counts = vec![0; SLOTS];
    for db in ks.occupied_databases() {
        for (slot, count) in counts.iter_mut().enumerate() {
            *count += ks.slot_len(slot as Slot, db);
        }
    }
    counts
}

fn parse_filter(cx: &ConnCx<'_>) -> Result<Filter, Error> {
    let args = &cx.args[2..];
    if args.len() == 3 && args[0].eq_ignore_ascii_case(b"slotsrange") {
        let range = range(args[1], args[2], "Start").map_err(|refusal| error_of(cx, refusal))?;
        return Ok(Filter::Range(range.first..=range.last));
    }
    if !args[0].eq_ignore_ascii_case(b"orderby") {
        return Err(crate::commands::shape::unknown_subcommand(cx, "CLUSTER"));
    }
    if !args[1].eq_ignore_ascii_case(b"key-count") {
        return Err(Error::new("ERR Unrecognized sort metric for ORDERBY."));
    }
    let (mut limit, mut order, mut rest) = (None, None, &args[2..]);
    while let Some((word, after)) = rest.split_first() {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let twice = match after.split_first() {
            Some((number, after)) if is("limit") => {
                let number = parse_i64(number).filter(|n| (1..=SLOTS as i64).contains(n));
                let number = number.ok_or(LIMIT)?;
                rest = after;
                limit.replace(number as usize).is_some()
            }
            _ if is("asc") || is("desc") => {
                rest = after;
                order.replace(is("desc")).is_some()
            }
            _ => return Err(error::SYNTAX),
        };
        if twice {
            return Err(TWICE);
        }
    }
    Ok(Filter::ByKeys { limit: limit.unwrap_or(SLOTS), descending: order.unwrap_or(true) })
}
