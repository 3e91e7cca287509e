//! PERSIST: removes a key's expiry.

use crate::ctx::Ctx;
use crate::error::CmdResult;
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, Spec, Special, keys};
use weft_keyspace::Classes;

pub const PERSIST: Command = Command {
    spec: Spec {
        name: "persist",
        arity: 2,
        flags: Flags::WRITE.or(Flags::FAST),
        keys: &keys::one(&["RW", "UPDATE"]),
        acl: &[],
        group: Group::Generic,
        since: "2.2.0",
        summary: "Removes the expiry of a key.",
        complexity: "O(1)",
        syntax: "key",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: persist,
    subcommands: &[],
};

fn persist(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let expires = ctx.db.for_write(&key).is_some_and(|record| record.has_expiry());
    if expires {
        ctx.db.set_expiry(&key, None);
        ctx.notify(Classes::GENERIC, "persist", &key);
        ctx.dirty();
    }
    ctx.reply.int(i64::from(expires));
    Ok(())
}
