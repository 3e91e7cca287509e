//! CLUSTER subcommands on the keys of a slot.

use super::{error_of, topology};
use weft_cluster::arguments::slot;
use weft_commands::{CmdResult, Error, error};
use weft_config::Id;
use weft_executor::dispatch::core::ConnCx;
use weft_keyspace::Db;
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
