//! KEYS: all keys that match a pattern.

use crate::ctx::Ctx;
use crate::error::CmdResult;
use crate::registry::Command;
use crate::spec::{Flags, Group, Lock, Spec};
use weft_base::glob;

pub const KEYS: Command = Command {
    spec: Spec {
        name: "keys",
        arity: 2,
        flags: Flags::READONLY,
        keys: &[],
        acl: &["@dangerous"],
        group: Group::Generic,
        since: "1.0.0",
        summary: "Lists all keys that match a pattern.",
        complexity: "O(N) for N keys in the database, with patterns and keys of ordinary length.",
        syntax: "pattern",
        history: &[],
        tips: &["request_policy:all_shards", "nondeterministic_output_order"],
    },
    lock: Lock::World,
    run: keys,
    subcommands: &[],
};

fn keys(ctx: &mut Ctx<'_>) -> CmdResult {
    let pattern = ctx.args[1];
    // A lone star also matches the empty key, which the language itself does not.
    let every = pattern == b"*";
    let list = ctx.reply.array_deferred();
    let mut found = 0;
    ctx.db.for_each(|record| {
        if every || glob::matches(pattern, record.key(), false) {
            ctx.reply.bulk(record.key());
            found += 1;
        }
    });
    ctx.reply.finish(list, found);
    Ok(())
}
