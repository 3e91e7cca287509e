//! DBSIZE: the number of keys of the database.
//!
//! Expired keys count until a command or the expiry cycle removes them.

use crate::ctx::Ctx;
use crate::error::CmdResult;
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, Spec, Special};

pub const DBSIZE: Command = Command {
    spec: Spec {
        name: "dbsize",
        arity: 1,
        flags: Flags::READONLY.or(Flags::FAST),
        keys: &[],
        acl: &["@keyspace"],
        group: Group::Server,
        since: "1.0.0",
        summary: "Counts the keys of the database.",
        complexity: "O(1)",
        syntax: "",
        history: &[],
        tips: &["request_policy:all_shards", "response_policy:agg_sum"],
        special: Special::NONE,
    },
    lock: Lock::Rest,
    run: dbsize,
    subcommands: &[],
};

fn dbsize(ctx: &mut Ctx<'_>) -> CmdResult {
    let keys = ctx.db.len();
    ctx.reply.int(keys as i64);
    Ok(())
}
