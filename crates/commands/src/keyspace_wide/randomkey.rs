//! RANDOMKEY: a random key of the database.

use crate::ctx::{Ctx, Pause};
use crate::error::CmdResult;
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, Spec, Special};

pub const RANDOMKEY: Command = Command {
    spec: Spec {
        name: "randomkey",
        arity: 1,
        flags: Flags::READONLY,
        keys: &[],
        acl: &[],
        group: Group::Generic,
        since: "1.0.0",
        summary: "Returns a random key of the database.",
        complexity: "O(1)",
        syntax: "",
        history: &[],
        tips: &["request_policy:all_shards", "response_policy:special", "nondeterministic_output"],
        special: Special::NONE,
    },
    lock: Lock::Rest,
    run: randomkey,
    subcommands: &[],
};

fn randomkey(ctx: &mut Ctx<'_>) -> CmdResult {
    match ctx.db.random_key() {
        Ok(Some(key)) => ctx.reply.bulk(&key),
        Ok(None) => ctx.reply.null(),
        // A long command holds all shards that have keys. Only the slow lane may wait for it.
        Err(_) => ctx.pause = Some(Pause::Slow),
    }
    Ok(())
}
